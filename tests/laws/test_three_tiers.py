"""The workload of `experiments/three_tiers` (S3.19) at small scale: each tier has the effect that it is made for."""

import runpy
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.scaling import scale_output_limits, scale_policy
from harness.conversation.events import Compaction
from harness.conversation.tokens import Measured, Usage
from harness.experiment.grid import Grid
from harness.experiment.plan import read_plan
from harness.protocols import Policy
from harness.store.journal import Journal
from harness.task import Task, World
from harness.task_checks.simulation import Run, simulate
from harness.tasks import make_task
from tests.store.samples import ENDED, begun, compaction, finished, opening, step

FOLDER = Path(__file__).parents[2] / "experiments" / "three_tiers"
WORLD = World(steps=100, tokens_per_step=160, output_sigma=0.5, use_lag_steps=20)
TURN_STEPS = 5
FIRST_ARCHIVE_STEP = 7 * TURN_STEPS + 1


def march(seed: int = 0) -> Task:
    return make_task(f"{FOLDER / 'turns.py'}:turns", seed, WORLD)


def run(policy: Policy) -> Run:
    """Return a session in a tenth of the window, with a tenth of the constants and of the limits on outputs."""
    return simulate(march(), scale_output_limits(scale_policy(policy, 0.1), 0.1), window_tokens=20_000, max_steps=150)


def test_the_plan_is_three_tiers_and_three_arms_with_fewer_over_three_seeds() -> None:
    plan = read_plan(FOLDER)
    grid = Grid(plan.base, plan.axes, plan.arms)
    assert len(grid) == 12
    assert {cell.trial.window_tokens for cell in grid} == {200_000}
    tiers = {
        (cell.trial.policy.truncate, cell.trial.policy.prune, cell.trial.policy.auto)
        for cell in grid
        if isinstance(cell.trial.policy, ThreeTiers)
    }
    assert tiers == {(True, False, False), (True, True, False), (True, True, True)}


def test_the_user_speaks_every_five_steps_and_every_eighth_turn_is_a_long_output() -> None:
    task = march()
    assert [message.step for message in task.later_messages] == list(range(6, 100, 5))
    archives = [at for at, step in enumerate(task.script.steps, 1) for call in step.calls if "archive/" in str(call.arguments)]
    assert archives == [FIRST_ARCHIVE_STEP, FIRST_ARCHIVE_STEP + 8 * TURN_STEPS]
    other = make_task(f"{FOLDER / 'turns.py'}:turns", 1, WORLD, structure_seed=0)
    assert other.script == task.script, "the script is built from the structure"
    assert other.workspace != task.workspace
    assert march(1).script != task.script


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_first_long_output_ends_a_session_without_compaction_and_truncation() -> None:
    session = run(NoCompaction(clip_characters=10_000_000))
    assert session.outcome.reason == "overflow"
    assert len(session.steps) == 1 + FIRST_ARCHIVE_STEP, "the first request shows how far the work is"


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_truncation_prolongs_the_session_and_pruning_lets_it_finish() -> None:
    alone = run(ThreeTiers(prune=False, auto=False, summarizer="scripted/oracle"))
    pruned = run(ThreeTiers(auto=False, summarizer="scripted/oracle"))
    assert alone.outcome.reason == "overflow"
    assert FIRST_ARCHIVE_STEP < len(alone.steps) < 100
    assert pruned.outcome.reason == "replied"
    assert {event.moment for event in pruned.list_events(Compaction)} == {"turn"}
    assert max(step.usage.prompt_tokens for step in pruned.steps) < max(step.usage.prompt_tokens for step in alone.steps)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_session_with_all_three_tiers_succeeds_although_it_was_summarized() -> None:
    session = run(ThreeTiers(prune=False, max_output_tokens=80_000, summarizer="scripted/oracle"))
    assert session.outcome.reason == "replied"
    assert session.failed_checks == set()
    assert [event.moment for event in session.compactions] == ["step"] * len(session.compactions)
    assert len(session.compactions) >= 1


def test_the_costs_of_a_session_include_those_of_its_summaries(tmp_path):
    summary_usage = Usage(input_tokens=Measured(1_000_000), output_tokens=Measured(100_000))
    call_usage = Usage(input_tokens=Measured(1_000_000), output_tokens=Measured(0))
    log = [
        *opening(),
        *step(1)[:-1],
        replace(finished(1), usage=call_usage),
        replace(compaction(forget=[4, 5], before_step=2), summarizer_usage=summary_usage),
        *step(2)[:-1],
        replace(finished(2), usage=call_usage),
        ENDED,
    ]
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        begun(journal).append(log)
    trials = pd.DataFrame({"trial_id": [""], "arm": ["three-tiers"]})
    costs = runpy.run_path(str(FOLDER / "table.py"))["costs"](tmp_path / "journal.sqlite", trials).loc["three-tiers"]
    assert costs["summaries_usd"] == 3.0 + 1.5
    assert costs["uncached_usd"] == 2 * 3.0 + costs["summaries_usd"]
    assert 3.0 + 0.3 < costs["cached_usd"] - costs["summaries_usd"] <= 2 * 3.75
