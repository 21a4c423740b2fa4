"""Chart of compaction rounds: one row per trial, and one bubble per arm, outcome and number of rounds."""

from typing import Any

import pytest

from harness.analysis.figures import compaction_rounds
from harness.errors import UsageError
from tests.analysis.selections import grid, results


def test_every_trial_that_counts_has_its_row():
    table = compaction_rounds.table(
        results([{"seed": 0, "compactions": 2}, {"seed": 1, "status": "crashed", "reason": "crashed"}])
    )
    assert table[["arm", "rounds", "success"]].to_numpy().tolist() == [["a", 2, True]]


def test_no_trial_hides_another():
    rows = [{"seed": seed, "compactions": 3, "success": seed < 2} for seed in range(5)]
    bubbles = compaction_rounds.count_bubbles(compaction_rounds.table(results(rows)))
    assert bubbles[["success", "rounds", "trials"]].to_numpy().tolist() == [[False, 3, 3], [True, 3, 2]]
    figure: Any = compaction_rounds.draw(compaction_rounds.table(results(rows)))
    assert {"3", "2"} <= {text.get_text() for text in figure.axes[0].texts}


def test_few_compactions_stand_at_their_number_beside_an_arm_with_hundreds():
    counts = {"few": (0, 1, 2, 2), "many": (290, 300, 310, 320)}
    rows = [{"arm": arm, "seed": seed, "compactions": n} for arm, numbers in counts.items() for seed, n in enumerate(numbers)]
    table = compaction_rounds.table(results(rows))
    bubbles = compaction_rounds.count_bubbles(table)
    assert bubbles.query("place == 0")[["rounds", "trials"]].to_numpy().tolist() == [[0, 1], [1, 1], [2, 2]]
    assert bubbles.query("place == 1")[["rounds", "trials"]].to_numpy().tolist() == [[305, 4]]
    ax: Any = compaction_rounds.draw(table).axes[0]
    assert [path.get_offsets()[0][0] for path in ax.collections] == [0, 1, 2, 305]
    assert {"1", "2", "300"} <= {label.get_text() for label in ax.get_xticklabels()}
    assert "logarithmic" in ax.get_xlabel()


@pytest.mark.parametrize("most", [20, 400])
def test_bubbles_add_up_to_the_trials_of_each_arm(most):
    rows = [{"arm": arm, "seed": seed, "compactions": seed * most // 60} for arm in "ab" for seed in range(61)]
    table = compaction_rounds.table(results(rows))
    bubbles = compaction_rounds.count_bubbles(table)
    assert bubbles.groupby("place")["trials"].sum().tolist() == table.groupby("place").size().tolist()


@pytest.mark.slow
def test_arms_of_a_grid_are_laid_out_by_their_axes():
    figure: Any = compaction_rounds.draw(compaction_rounds.table(grid()))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"keep_last", "summarizer", "threshold", "no compaction", "A/A"} <= set(texts)
    assert texts.count("scripted/oracle") == 3
    assert not any("keep_last=" in text for text in texts)


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
