"""The real mini-swe-agent as the agent of a trial: its software is visible in the sandbox, and two runs are equal."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.conversation.events import MessageAdded
from harness.experiment.job import Job, collect_provenance
from harness.experiment.run_trial import run_trial
from harness.experiment.trial import Trial
from harness.session.external_agent import ExternalAgent
from harness.store.journal import Journal
from tests.peers.environments import ENVIRONMENTS

pytestmark = [pytest.mark.peers, pytest.mark.bubblewrap, pytest.mark.slow]


def make_mini() -> ExternalAgent:
    environment = ENVIRONMENTS["agents"]
    python = environment.interpreter.resolve()
    settings = "MSWEA_COST_TRACKING=ignore_errors MSWEA_CONFIGURED=1"
    command = f"{settings} {environment.path}/bin/mini -m openai/harness -t {{prompt}} -y --exit-immediately"
    folders = (str(environment.path), *([] if python.is_relative_to("/usr") else [str(python.parent.parent)]))
    return ExternalAgent(command=command, paths=folders)


def test_mini_swe_agent_solves_a_task_in_a_trial_twice_alike(tmp_path: Path) -> None:
    trial = Trial(task="log-forensics", policy="none", model="scripted:attentive", window_tokens=65_536, agent=make_mini())
    job = Job(
        trial=trial,
        trial_id=trial.trial_id,
        experiment="peers",
        arm="mini-swe-agent",
        axes={"seed": 0},
        backend="bubblewrap",
        provenance=collect_provenance("prices-1"),
        journal=tmp_path / "first.sqlite",
    )
    runs = []
    for name in ("first", "second"):
        one = replace(job, journal=tmp_path / f"{name}.sqlite")
        record, checks = run_trial(one)
        assert (record.status, record.success, record.level) == ("completed", True, "L0"), record.error
        with Journal.open(one.journal, read_only=True) as journal:
            entries = journal.read_entries(record.session_id)
            messages = [entry.event.message for entry in entries if isinstance(entry.event, MessageAdded)]
        runs.append(([message.calls for message in messages], [(check.check, check.passed) for check in checks]))
    assert runs[0] == runs[1]
    assert sum(map(len, runs[0][0])) > 50
