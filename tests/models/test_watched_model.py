"""Trials whose provider dies in the middle: they end as failures of the infrastructure, and are not results of their policy.

The server is a real process that is killed with SIGKILL. Each test waits for the retries of a model call, fifteen seconds.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.arms import select_valid
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Compaction
from harness.experiment.experiment import Experiment
from harness.experiment.job import FinishedTrial, Job, collect_provenance
from harness.experiment.run_trial import run_trial
from harness.experiment.trial import Trial
from harness.sandboxes.backends import SandboxChoice
from harness.session.external_agent import ExternalAgent
from harness.store.journal import Journal

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / "tests" / "experiment"
NAME = "hosted_vllm/mortal"
UNREACHABLE = "no server answers at this address"
POLICY = KeepLast(
    threshold=0.25,
    keep_last=2,
    summarizer=NAME,
    system_reserve_tokens=100,
    output_reserve_tokens=100,
    safety_reserve_tokens=100,
)
BASE = Trial(task=f"{FOLDER / 'tiny_task.py'}:alone", policy=POLICY, window_tokens=8_192, seed=5)
LOCAL = replace(BASE, sandbox=SandboxChoice(backend="local"))
HIDDEN = f"{FOLDER / 'exploring_task.py'}:hidden"
AGENTS = FOLDER / "agents"
STUBBORN = f"until python3 {shlex.quote(str(AGENTS / 'small_agent.py'))} {{prompt}}; do sleep 0.2; done"
"""Command of an agent that tries again for as long as it may."""


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, *, answers: int) -> Iterator[None]:
    """Serve a model that dies at the request after its answers, under the name `NAME`."""
    command = [sys.executable, "-m", "tests.models.mortal_server", str(answers)]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", process.stdout.readline().strip())
        monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted")
        yield
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., FinishedTrial]:
    def run_one(trial: Trial, **changes: Any) -> FinishedTrial:
        job = Job(
            trial=trial, trial_id=trial.trial_id, experiment="e", arm="an arm", axes={}, backend="local",
            provenance=collect_provenance("prices-1"), journal=tmp_path / "trial.sqlite", unsafe_local=True,
        )  # fmt: skip
        return run_trial(replace(job, **changes))

    return run_one


def test_a_trial_whose_summarizer_dies_is_excluded_and_can_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(name="lost", base=LOCAL, axes={"seed": [5]})
    options: dict[str, Any] = {"workers": 1, "progress": "off", "unsafe_local": True}
    with serving(monkeypatch, answers=1):
        results = experiment.run(tmp_path / "grid", **options)
    (row,) = results.trials.to_dict("records")
    assert (row["status"], row["reason"]) == ("failed", "model_error"), row["error"]
    assert UNREACHABLE in row["error"]
    assert list(results.compactions["status"]) == ["applied", "failed"]
    assert select_valid(results.trials).empty
    with serving(monkeypatch, answers=99):
        again = experiment.run(tmp_path / "grid", retry_failed=True, **options)
    (row,) = again.trials.to_dict("records")
    assert row["status"] == "completed", row["error"]
    assert set(again.compactions["status"]) == {"applied"}
    assert len(select_valid(again.trials)) == 1


def test_the_compaction_that_failed_is_in_the_log_and_none_follows(
    run: Callable[..., FinishedTrial], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, answers=1):
        finished = run(BASE)
    with Journal.open(tmp_path / "trial.sqlite", read_only=True) as journal:
        events = [entry.event for entry in journal.read_entries(finished.record.session_id)]
    compactions = [event for event in events if isinstance(event, Compaction)]
    assert [event.status for event in compactions] == ["applied", "failed"]
    assert compactions[-1].failure.startswith("ProviderUnreachable: ")
    assert events[-1].kind == "session-ended"
    assert events.index(compactions[-1]) == len(events) - 2


def test_a_trial_whose_sub_agents_model_dies_ends_with_it(
    run: Callable[..., FinishedTrial], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = replace(BASE, task=HIDDEN, policy=NoCompaction(), window_tokens=32_768, explore=True, explore_model=NAME)
    with serving(monkeypatch, answers=0):
        record = run(trial).record
    assert (record.status, record.reason) == ("failed", "model_error"), record.error
    assert UNREACHABLE in record.error


@pytest.mark.bubblewrap
@pytest.mark.parametrize("dies", ["agent", "summarizer"])
def test_an_external_agent_is_stopped_when_the_model_or_the_summarizer_dies(
    dies: str, run: Callable[..., FinishedTrial], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = ExternalAgent(command=STUBBORN, paths=(str(AGENTS),))
    trial = replace(BASE, agent=agent)
    if dies == "agent":
        trial = replace(trial, model=NAME, policy=NoCompaction(), window_tokens=32_768)
    with serving(monkeypatch, answers=0):
        record = run(trial, backend="bubblewrap").record
    assert (record.status, record.reason) == ("failed", "model_error"), record.error
    assert UNREACHABLE in record.error
