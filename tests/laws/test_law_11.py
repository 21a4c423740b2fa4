"""Law 11: the instances of a task differ in score and course under the base policy, on seeds that no task was calibrated with.

Eight seeds of one task, or with HARNESS_LAWS=full all report seeds of every task whose template draws a structure.
"""

import pytest

from harness.tasks import SUITE, list_parameters
from harness.testing.laws.instances import REPORT_SEEDS, InstanceSpread, check_instances, measure_instances
from tests.laws.suite import FULL, each

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap, pytest.mark.timeout(1_800)]

DRAWN = sorted(task for task, template in SUITE.items() if "structure_seed" in list_parameters(template))
"""Tasks whose seeds draw a structure."""


@pytest.mark.parametrize("task", each(DRAWN if FULL else ["flashcards"]))
def test_instances_differ_and_leave_room_for_better_and_worse_policies(task: str) -> None:
    seeds = REPORT_SEEDS if FULL else REPORT_SEEDS[:8]
    spread = InstanceSpread(tuple(measure_instances(SUITE[task], seeds)))
    assert [str(finding) for finding in check_instances(spread)] == []
    assert all(result.compactions for result in spread.results)
