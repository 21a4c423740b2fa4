"""The worlds of `experiments/reacquisition_tax` with one instance: evicted facts are looked up again, lost, or still visible."""

import runpy
from functools import cache
from pathlib import Path

import pytest

from harness.experiment.grid import Cell, Grid
from harness.experiment.plan import read_plan
from harness.experiment.trial import to_plain
from harness.metrics.session_metrics import measure_session
from harness.task_checks.simulation import Run, simulate
from harness.tasks import make_task

FOLDER = Path(__file__).parents[2] / "experiments" / "reacquisition_tax"
TABLE = runpy.run_path(str(FOLDER / "table.py"))
FULL_HISTORY = ("full history", 1)
SLIDING = ("sliding", 5)


@cache
def list_cells() -> dict[tuple[str, str, str, int], Cell]:
    """Return the trials of the plan with its first seed, by agent, world, policy and degree of compression."""
    plan = read_plan(FOLDER)
    cells = [cell for cell in Grid(plan.base, plan.axes, plan.arms) if cell.trial.seed == 0]
    return {TABLE["label_trial"](to_plain(cell.trial)): cell for cell in cells}


@cache
def run(world: str, arm: tuple[str, int]) -> tuple[Run, dict[str, int]]:
    """Return a session of the attentive agent, and its numbers of look-ups and reacquisitions."""
    trial = list_cells()["attentive", world, *arm].trial
    task = make_task(trial.task, 0, trial.world)
    assert trial.window_tokens is not None
    session = simulate(task, trial.policy, window_tokens=trial.window_tokens, max_steps=400)
    steps = measure_session(session.entries, task, trial.policy.counter).metrics.steps
    return session, {name: sum(step.counts[name] for step in steps) for name in ("retrievals", "reacquisitions")}


def test_the_plan_has_each_policy_at_each_compression_in_each_world_with_both_agents() -> None:
    policies = {(name, degree) for name in ("sliding", "fact-preserving", "oracle-restore") for degree in (2, 5, 10)}
    worlds = ("0 on pages", "0.5 on pages", "1 on pages", "always visible")
    expected = {
        (agent, world, *arm) for agent in ("attentive", "typical") for world in worlds for arm in {FULL_HISTORY, *policies}
    }
    assert set(list_cells()) == expected


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_what_can_be_read_again_costs_look_ups_and_no_completion() -> None:
    (full, first_looks), (compressed, looks) = run("1 on pages", FULL_HISTORY), run("1 on pages", SLIDING)
    assert full.failed_checks == compressed.failed_checks == set()
    assert first_looks["reacquisitions"] == 0
    assert looks["retrievals"] - looks["reacquisitions"] == first_looks["retrievals"]
    assert looks["retrievals"] > 1.3 * first_looks["retrievals"]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_what_cannot_be_read_again_costs_completion_and_no_look_up() -> None:
    session, looks = run("0 on pages", SLIDING)
    assert looks == {"retrievals": 0, "reacquisitions": 0}
    assert session.score < 0.7


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_what_stays_visible_is_not_read_again() -> None:
    session, looks = run("always visible", SLIDING)
    assert session.failed_checks == set()
    assert len(session.compactions) > 2
    assert looks["reacquisitions"] == 0
