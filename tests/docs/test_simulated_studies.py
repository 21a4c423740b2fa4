"""Table of simulated studies in the documentation: complete, good enough, equal to the stored results, and these not stale."""

import pytest

from tests.bench.studies import STUDIES, Cell, is_accepted, list_cells, simulate
from tests.bench.studies_page import build_sections, read_results, read_sections, round_result

CHEAP = (
    Cell(metric="success", tasks=1, seeds=20, arm_task_sd=2.0, base=0.3),
    Cell(metric="success", tasks=3, seeds=5, arm_task_sd=1.0, base=0.8),
    Cell(metric="success", tasks=6, seeds=1, arm_task_sd=0.0),
    Cell(metric="cost", tasks=1, seeds=1, arm_task_sd=0.0),
    Cell(metric="cost", tasks=3, seeds=5, arm_task_sd=1.0),
    Cell(metric="score", tasks=1, seeds=5, arm_task_sd=0.0, base=0.8),
    Cell(metric="score", tasks=6, seeds=5, arm_task_sd=2.0),
)


def test_the_documentation_has_the_stored_results_of_all_designs():
    results = read_results()
    assert [result.cell for result in results] == list_cells()
    assert STUDIES >= 4000
    assert all(map(is_accepted, results))
    assert read_sections() == build_sections(results)


def test_designs_with_few_tasks_and_one_seed_are_refused():
    refused = {(result.cell.tasks, result.cell.seeds) for result in read_results() if result.refusal}
    assert refused == {(1, 1), (3, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("cell", CHEAP, ids=lambda cell: f"{cell.metric}-{cell.tasks}x{cell.seeds}")
def test_a_new_simulation_gives_the_stored_results(cell):
    stored = next(result for result in read_results() if result.cell == cell)
    rounded = round_result(simulate(cell))
    assert rounded.refusal == stored.refusal
    assert rounded.half_width == pytest.approx(stored.half_width, abs=0.011)  # two digits are stored
    numbers = [(one.coverage, one.false_claims, *one.power) for one in (rounded, stored)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.0015)
