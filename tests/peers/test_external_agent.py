"""Real agents as the agents of trials, by the plans in the guide: the sandbox shows their software, and two runs are equal."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.compaction.description import name_policy
from harness.conversation.events import Compaction, MessageAdded
from harness.experiment.experiment import Experiment
from harness.experiment.job import Job, collect_provenance
from harness.experiment.run_trial import run_trial
from harness.store.journal import Journal
from tests.peers.environments import CHECKOUT, ENVIRONMENTS
from tests.peers.node_agents import PACKAGES, explain_absence, locate_folder

pytestmark = [pytest.mark.peers, pytest.mark.bubblewrap, pytest.mark.slow, pytest.mark.timeout(1_800)]

GUIDE = CHECKOUT / "docs" / "guide" / "gateway.md"


def read_plan(agent: str, folder: Path) -> Experiment:
    """Return the plan that the guide has for an agent, with the places of the agent's software on this machine."""
    text = GUIDE.read_text()
    (block,) = re.findall(rf"<!-- file {agent}/plan\.toml -->\n```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    python = ENVIRONMENTS["agents"].interpreter.resolve()
    for printed, place in (
        (f"~/venvs/{agent}", ENVIRONMENTS["agents"].path),
        ("~/.pyenv/versions/3.12.1", python.parent.parent),
        ("~/agents", locate_folder()),
    ):
        block = block.replace(printed, str(place))
    if python.is_relative_to("/usr"):
        block = block.replace(f', "{python.parent.parent}"', "")
    (folder / "plan.toml").write_text(block)
    return Experiment.from_toml(folder)


def run_once(job: Job) -> tuple[Any, ...]:
    """Run a trial; return its calls, the changes of its compactions, and the outcomes of its checks."""
    record, checks = run_trial(job)
    assert (record.status, record.level) == ("completed", "L0"), record.error
    with Journal.open(job.journal, read_only=True) as journal:
        events = [entry.event for entry in journal.read_entries(record.session_id)]
    calls = [event.message.calls for event in events if isinstance(event, MessageAdded)]
    patches = [event.patch for event in events if isinstance(event, Compaction)]
    return calls, patches, [(check.check, check.passed) for check in checks]


@pytest.mark.parametrize("policy", ["none", "keep-last"])
@pytest.mark.parametrize("agent", ["mini", "openhands", "langchain", *PACKAGES])
def test_an_agent_works_by_the_plan_of_the_guide_twice_alike(agent: str, policy: str, tmp_path: Path) -> None:
    if agent in PACKAGES and (reason := explain_absence(agent)) is not None:
        pytest.skip(reason)
    cell = next(cell for cell in read_plan(agent, tmp_path).grid if name_policy(cell.trial.policy) == policy)
    job = Job(
        trial=cell.trial,
        trial_id=cell.trial_id,
        experiment="peers",
        arm=agent,
        axes={},
        backend="bubblewrap",
        provenance=collect_provenance("prices-1"),
        journal=tmp_path / "first.sqlite",
    )
    first, second = (run_once(replace(job, journal=tmp_path / f"{name}.sqlite")) for name in ("first", "second"))
    assert first == second
    calls, patches, outcomes = first
    assert sum(map(len, calls)) > 50
    assert bool(patches) is (policy == "keep-last")
    assert policy != "none" or all(passed for _, passed in outcomes)
