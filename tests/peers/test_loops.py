"""Agents of smolagents and mini-swe-agent with the classes of the guide: what their requests hold, and their logs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main as command_line
from harness.inspection.loading import load
from tests.peers.original import Original

pytestmark = pytest.mark.peers

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mini-swe-agent": ("run_mini", {}),
    "smolagents, code": ("run_smolagents", {"agent": "code"}),
    "smolagents, tools": ("run_smolagents", {"agent": "tools"}),
}
STEPS = 13
MASK = {"kind": "complexity-trap-mask", "keep_results": 4}
KEEP_LAST = {"kind": "keep-last", "threshold": 0.3, "keep_last": 4}


@pytest.fixture(scope="module")
def loops() -> Iterator[Original]:
    original = Original("loops")
    yield original
    original.close()


def read_texts(request: list[dict[str, Any]]) -> list[str]:
    contents = [message["content"] for message in request]
    return [text if isinstance(text, str) else "".join(block["text"] for block in text) for text in contents]


@pytest.mark.parametrize("name", AGENTS)
def test_a_policy_masks_old_observations_and_nothing_else(loops: Original, name: str) -> None:
    operation, arguments = AGENTS[name]
    whole = loops.ask(operation, policy={"kind": "none"}, **arguments)
    masked = loops.ask(operation, policy=MASK, **arguments)
    assert [len(request) for request in masked] == [2 + 2 * step for step in range(STEPS)]
    for step, (before, after) in enumerate(zip(whole, masked, strict=True)):
        changed = [at for at, pair in enumerate(zip(read_texts(before), read_texts(after), strict=True)) if pair[0] != pair[1]]
        assert changed == list(range(3, 3 + 2 * max(0, step - 4), 2))
        assert [message["role"] for message in before] == [message["role"] for message in after]


@pytest.mark.parametrize("name", AGENTS)
def test_a_summary_replaces_the_beginning_and_the_journal_opens_here(loops: Original, name: str, tmp_path: Path) -> None:
    operation, arguments = AGENTS[name]
    journal = tmp_path / "journal.sqlite"
    requests = loops.ask(operation, policy=KEEP_LAST, journal=str(journal), **arguments)
    assert max(map(len, requests)) < 2 * STEPS
    trials = load(journal).trials
    assert trials["steps"].tolist() == [STEPS - 1]  # the last answer is in no request
    assert trials["compactions"][0] > 1
    shown = CliRunner().invoke(command_line, ["inspect", str(journal)])
    assert shown.exit_code == 0, shown.output
    assert "Read every part and say what is in them." in shown.output


def test_each_run_of_one_model_of_smolagents_is_a_session(loops: Original, tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    requests = loops.ask("run_smolagents", agent="tools", policy=KEEP_LAST, journal=str(journal), runs=2)
    assert [len(request) for request in requests[:STEPS]] == [len(request) for request in requests[STEPS:]]
    assert load(journal).trials["steps"].tolist() == [STEPS - 1] * 2
