"""Law 15 tells cells in which success differs from those in which it does not, and names what is missing."""

from dataclasses import replace

import pytest

from harness.conversation import codec
from harness.errors import UnknownName, UsageError
from harness.task import Cell, Difficulty, Task
from harness.task_checks.cells import CellResult, CellSuccess, check_cell
from harness.tasks import SUITE, make_task
from tests.experiment.tiny_task import make_tiny_task


def results(base: str, lossy: str, compactions: str) -> CellSuccess:
    """Return the results of sessions, given whether each succeeds (`+`) or fails (`-`) and its number of compactions."""
    rows = zip(base, lossy, compactions, strict=True)
    return CellSuccess(tuple(CellResult(seed, int(n), one == "+", other == "+") for seed, (one, other, n) in enumerate(rows)))


def test_a_cell_in_which_success_differs_passes() -> None:
    cell = results("++++++----------++--", "------------------++", "2" * 20)
    assert list(check_cell(cell)) == []
    assert cell.success == pytest.approx(0.4)
    assert cell.disagreement == pytest.approx(0.5)
    assert cell.interval == pytest.approx((0.2188, 0.6134), abs=1e-4)


@pytest.mark.parametrize(
    ("base", "lossy", "compactions", "words"),
    [
        ("-" * 25, "+++++" + "-" * 20, "2" * 25, "0 % of the sessions succeed (interval 0.00 to 0.13), not near 0.15 to 0.65"),
        ("+" * 25, "-----" + "+" * 20, "2" * 25, "100 % of the sessions succeed (interval 0.87 to 1.00)"),
        ("++++------", "++++-----+", "2" * 10, "with only 10 % of the seeds"),
        ("++++------", "----------", "0000002222", "6 of 10 sessions have no compaction: choose a smaller window"),
    ],
)
def test_each_lack_is_named(base: str, lossy: str, compactions: str, words: str) -> None:
    (finding,) = check_cell(results(base, lossy, compactions))
    assert words in finding.message


def test_a_difficulty_or_a_window_that_cannot_be_is_refused() -> None:
    unknown: Difficulty = "eazy"  # type: ignore[assignment]
    with pytest.raises(UnknownName, match="did you mean 'easy'"):
        Cell(difficulty=unknown, window_tokens=32_768)
    for tokens in (0, -1):
        with pytest.raises(UsageError, match=rf"window_tokens: must be at least 1 \(got {tokens}\)"):
            Cell(difficulty="easy", window_tokens=tokens)


@pytest.mark.parametrize("name", SUITE)
def test_every_task_without_bun_has_cells_which_are_the_same_for_all_seeds(name: str) -> None:
    (cells,) = {make_task(name, seed).cells for seed in range(3)}
    assert bool(cells) is (make_task(name, 1).runtime != "bun")


def test_a_task_without_cells_is_stored_as_before() -> None:
    task = make_tiny_task(8443, "seq 1 4")
    assert "cells" not in codec.to_identity(task, codec.to_plain(task))
    with_cells = replace(task, cells=(Cell(difficulty="hard", window_tokens=9_000),))
    assert codec.from_plain(Task, codec.to_plain(with_cells)) == with_cells
