"""Agents of other programs under policies of harness: requests equal to those under the programs' own compaction, and logs."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main as command_line
from harness.inspection.loading import load
from tests.peers.environments import CHECKOUT, ENVIRONMENTS
from tests.peers.original import Original

pytestmark = pytest.mark.peers

KEEP_LAST = {"kind": "keep-last", "threshold": 0.2, "keep_last": 4}


@pytest.fixture(scope="module")
def adapters() -> Iterator[Original]:
    original = Original("adapters")
    yield original
    original.close()


@pytest.mark.parametrize("keep", [0, 2, 5])
def test_langchain_sends_what_its_own_context_editing_sends(adapters: Original, keep: int) -> None:
    own = adapters.ask("run_langchain_own", trigger=3_000, keep=keep)
    policy = {"kind": "langchain-clear-tool-uses", "trigger_tokens": 3_000, "keep_results": keep}
    assert adapters.ask("run_langchain_adapter", policy=policy) == own
    assert any("[cleared]" in text for _, text in own["requests"][-1])


@pytest.mark.parametrize("strategy", ["trim", "edit"])
def test_inspect_sends_what_its_own_strategy_sends(adapters: Original, strategy: str) -> None:
    own = adapters.ask("run_inspect_own", strategy=strategy, threshold=3_000)
    assert adapters.ask("run_inspect_adapter", policy={"kind": f"inspect-{strategy}"}, threshold=3_000) == own
    whole = adapters.ask("run_inspect_own", strategy=strategy, threshold=10**6)
    assert own != whole


@pytest.mark.parametrize(
    ("strategy", "arguments", "policy"),
    [
        ("window", {"max_messages": 10, "keep_messages": 6}, {"trigger_messages": 10, "keep_messages": 6}),
        ("clear", {"max_tokens": 3_000, "keep_pairs": 2}, {"trigger_tokens": 3_000, "keep_results": 2}),
    ],
)
def test_pydantic_ai_sends_what_its_own_capability_sends(
    adapters: Original, strategy: str, arguments: dict[str, Any], policy: dict[str, Any]
) -> None:
    own = adapters.ask("run_pydantic_own", strategy=strategy, **arguments)
    assert adapters.ask("run_pydantic_adapter", policy={"kind": f"pydantic-{strategy}", **policy}) == own
    assert own != adapters.ask("run_pydantic_adapter", policy={"kind": "none"})


def test_the_agents_sdk_sends_what_its_own_trimmer_sends(adapters: Original) -> None:
    own = adapters.ask("run_openai_own", recent_turns=1, max_output_chars=400)
    policy = {"kind": "openai-trimmer", "recent_turns": 1, "max_characters": 400}
    assert adapters.ask("run_openai_adapter", policy=policy) == own


def test_openhands_keeps_the_events_that_its_own_condenser_keeps(adapters: Original) -> None:
    own = adapters.ask("run_openhands_own", steps=200, max_size=80, keep_first=4)
    assert adapters.ask("run_openhands_adapter", policy="openhands", steps=200, window_tokens=10**7) == own
    assert sum("summary" in view for view in own) > 100


def test_openhands_may_ask_for_a_compaction(adapters: Original) -> None:
    views = adapters.ask("run_openhands_adapter", policy="keep-last", steps=24, window_tokens=200_000, asks_at=20)
    assert [len(view) for view in views[18:20]] == [38, 40]
    assert len(views[20]) < 20
    assert "summary" in views[20]
    assert [len(view) - len(views[20]) for view in views[21:]] == [2, 4, 6]


def test_langchain_compacts_again_and_retries_when_the_provider_refuses_a_prompt(adapters: Original) -> None:
    ran = adapters.ask("run_langchain_adapter", policy={"kind": "keep-last", "threshold": 0.95}, limit=9_000)
    assert len(ran["requests"]) == 13
    assert max(sum(len(text) for _, text in request) for request in ran["requests"]) <= 9_000
    assert ran["history"] == 26  # the state keeps everything


JOURNALED: dict[str, tuple[dict[str, Any], int]] = {
    "run_langchain_adapter": ({"policy": KEEP_LAST}, 13),
    "run_inspect_adapter": ({"policy": {"kind": "inspect-trim"}, "threshold": 3_000}, 12),
    "run_pydantic_adapter": ({"policy": KEEP_LAST}, 12),
    "run_openai_adapter": ({"policy": KEEP_LAST}, 12),
    "run_openhands_adapter": ({"policy": "keep-last", "steps": 40, "window_tokens": 20_000}, 39),
}
"""Arguments and number of logged steps of each run; only LangChain shows the last answer."""


def test_the_agent_of_the_guide_runs(tmp_path: Path) -> None:
    guide = (CHECKOUT / "docs/guide/other-agents.md").read_text()
    ((text, printed),) = re.findall(
        r"<!-- file langchain_agent.py -->\n```python\n(.*?)```\n.*?```text\n(.*?)```", guide, re.DOTALL
    )
    script = tmp_path / "langchain_agent.py"
    script.write_text(text)
    interpreter = str(ENVIRONMENTS["adapters"].interpreter)
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    ran = subprocess.run([interpreter, script.name], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr
    assert load(tmp_path / "langchain.sqlite").trials[["status", "compactions"]].values.tolist() == [["completed", 2]]


def test_what_ran_elsewhere_opens_here_once_the_program_has_ended(tmp_path: Path) -> None:
    program = Original("adapters")
    try:
        for operation, (arguments, _) in JOURNALED.items():
            program.ask(operation, journal=str(tmp_path / f"{operation}.sqlite"), **arguments)
    finally:
        program.close()
    for operation, (_, steps) in JOURNALED.items():
        path = tmp_path / f"{operation}.sqlite"
        trials = load(path).trials
        assert trials["steps"].tolist() == [steps]
        assert trials["compactions"][0] > 1
        shown = CliRunner().invoke(command_line, ["inspect", str(path)])
        assert "Read every part and say what is in them." in shown.output
