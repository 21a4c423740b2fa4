"""Law 15: in the cells of the tasks, some sessions under the base policy succeed and others fail, and policies differ in success.

Two tasks whose commands take little time, or with HARNESS_LAWS=full all tasks, also on the seeds with which cells were chosen.
"""

from functools import cache

import pytest

from harness.task_checks.cells import (
    CALIBRATION_SEEDS,
    MAX_SUCCESS,
    MIN_SUCCESS,
    CellResult,
    CellSuccess,
    check_cell,
    measure_cell,
)
from harness.task_checks.instances import REPORT_SEEDS
from harness.tasks import SUITE
from tests.laws.suite import FULL, TASKS, open_action_cache

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap, pytest.mark.slow, pytest.mark.timeout(3_600)]

FAST_TASKS = ("changing-requirements", "log-forensics")
MIN_LIVE_TASKS = 5
"""Smallest number of tasks of which some cell keeps the law."""


@cache
def measure(task: str, seeds: range) -> tuple[CellSuccess, ...]:
    """Return the results in each cell of a task."""
    template, cache = SUITE[task], open_action_cache()
    cells = (measure_cell(task, template, cell, seeds, action_cache=cache) for cell in template(1).cells)
    return tuple(CellSuccess(tuple[CellResult, ...](results)) for results in cells)


@pytest.mark.skipif(FULL, reason="all tasks together are checked")
@pytest.mark.parametrize("task", FAST_TASKS)
def test_success_differs_between_seeds_and_between_policies(task: str) -> None:
    assert [str(finding) for success in measure(task, REPORT_SEEDS) for finding in check_cell(success)] == []


@pytest.mark.skipif(not FULL, reason="runs every task with 40 seeds under two policies: HARNESS_LAWS=full")
def test_most_tasks_have_a_cell_in_which_success_tells_policies_apart() -> None:
    """On the seeds of the calibration, success is in the middle; on others, the same cell has no finding."""
    live, reasons = set[str](), []
    for task in [task for task in TASKS if SUITE[task](1).cells]:
        for chosen, reported in zip(measure(task, CALIBRATION_SEEDS), measure(task, REPORT_SEEDS), strict=True):
            findings = [str(finding) for finding in check_cell(reported)]
            if MIN_SUCCESS <= chosen.success <= MAX_SUCCESS and not findings:
                live.add(task)
            else:
                reasons.append((task, chosen.success, findings))
    assert len(live) >= MIN_LIVE_TASKS, reasons
