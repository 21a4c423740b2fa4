"""Chart of compaction rounds: one row per trial, stacked by outcome, one mark per trial."""

from typing import Any

import pytest

from harness.analysis.figures import compaction_rounds
from harness.errors import UsageError
from tests.analysis.made import grid, results


def test_every_trial_that_counts_has_its_row():
    table = compaction_rounds.table(
        results([{"seed": 0, "compactions": 2}, {"seed": 1, "status": "crashed", "reason": "crashed"}])
    )
    assert table[["arm", "rounds", "success"]].to_numpy().tolist() == [["a", 2, True]]


def test_bars_add_up_to_the_trials():
    table = compaction_rounds.table(grid())
    figure: Any = compaction_rounds.draw(table)
    left, _ = figure.axes
    assert sum(bar.get_height() for bar in left.patches) == len(table)
    assert f"n = {len(table)}" in left.get_title(loc="left")


def test_every_trial_has_its_mark_beside_its_arm():
    table = compaction_rounds.table(grid())
    figure: Any = compaction_rounds.draw(table)
    _, right = figure.axes
    assert sum(len(marks.get_offsets()) for marks in right.collections) == len(table)
    assert next(label.get_text().split("  ")[0] for label in right.get_yticklabels()) == "no compaction"


def test_axes_have_units_and_the_chart_its_level():
    figure = compaction_rounds.draw(compaction_rounds.table(grid(seeds=(0,))))
    assert all("(count)" in ax.get_xlabel() for ax in figure.axes)
    assert "L0 simulated" in {text.get_text() for text in figure.texts}


def test_no_trial_is_nothing_to_draw():
    with pytest.raises(UsageError, match="no valid trial"):
        compaction_rounds.draw(compaction_rounds.table(results([])))


def test_levels_are_never_drawn_together():
    table = compaction_rounds.table(results([{"seed": 0}, {"seed": 1, "level": "L3"}]))
    with pytest.raises(UsageError, match="never pooled"):
        compaction_rounds.draw(table)
