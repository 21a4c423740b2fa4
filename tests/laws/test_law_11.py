"""Law 11: the instances of a task differ in score and course under the base policy, on seeds that no task was calibrated with.

Five seeds of two tasks, or with HARNESS_LAWS=full all report seeds of every task.
"""

import pytest

from harness.task_checks.instances import REPORT_SEEDS, InstanceSpread, check_instances, measure_instances
from harness.tasks import SUITE, list_parameters
from tests.laws.suite import FULL, TASKS, each, open_action_cache

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap, pytest.mark.timeout(1_800)]


def test_every_task_draws_a_structure() -> None:
    assert [task for task in TASKS if "structure_seed" not in list_parameters(SUITE[task])] == []


@pytest.mark.parametrize("task", each() if FULL else each(["changing-requirements", "long-march"]))
def test_instances_differ_and_leave_room_for_better_and_worse_policies(task: str) -> None:
    seeds = REPORT_SEEDS if FULL else REPORT_SEEDS[:5]
    spread = InstanceSpread(tuple(measure_instances(SUITE[task], seeds, action_cache=open_action_cache())))
    assert [str(finding) for finding in check_instances(spread)] == []
    assert all(result.compactions for result in spread.results)
