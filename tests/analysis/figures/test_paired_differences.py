"""Forest plot of paired differences: the same estimates as the comparison of two arms."""

from typing import Any

import pytest

from harness.analysis.comparison import compare
from harness.analysis.figures import paired_differences
from harness.analysis.figures.arm_rows import MARK_POINTS
from harness.errors import UsageError
from tests.analysis.selections import arms, grid, results


def test_effects_are_those_of_a_comparison():
    selection = arms([True, True, False, True], [False, True, False, False])
    (row,) = paired_differences.table(selection, metrics=["success"], baseline="b").itertuples()
    effect = compare(selection, "a", "b").find_effect("success")
    assert (row.arm, row.n, row.value, row.p_value) == ("a", 4, effect.value, effect.p_value)
    assert (row.low, row.high) == effect.interval


@pytest.mark.slow
def test_a_repeated_arm_is_paired_with_the_runs_that_it_repeats():
    table = paired_differences.table(grid(), baseline="keep_last=10 summarizer=scripted/empty threshold=0.8")
    assert len(table[table["arm"] == "A/A"]) == 2
    assert (table["n"] == 2).all()


@pytest.mark.slow
def test_fifty_arms_are_laid_out_by_their_axes_with_numbers_and_n():
    figure: Any = paired_differences.draw(paired_differences.table(grid(seeds=(0, 1, 2))))
    first, second = figure.axes
    texts = [text.get_text() for text in first.texts]
    assert {"keep_last", "summarizer", "threshold", "n"} <= set(texts)
    assert texts.count("scripted/empty") == 3  # once for each value of the first axis
    assert not any("keep_last=" in text for text in texts)
    assert sum(text.get_text().startswith("×") for text in second.texts) == 28
    assert first.get_xlabel() == "score minus baseline (share of 1), better →"
    assert second.get_xlabel() == "cost (ratio to baseline), ← better"


def test_a_chart_of_arms_without_common_tasks_and_seeds_is_refused():
    table = paired_differences.table(results([{"arm": "a", "seed": 0}, {"arm": "b", "seed": 1}]))
    with pytest.raises(UsageError, match="no arm shares tasks and seeds"):
        paired_differences.draw(table)


@pytest.mark.slow
def test_filled_marks_need_p_values_that_are_adjusted_for_all_effects_of_the_chart():
    scores = {"a": [0.5] * 7, "b": [0.6, 0.7, 0.6, 0.65, 0.6, 0.7, 0.62]}
    flat = [0.5, 0.4, 0.6, 0.5, 0.45, 0.55, 0.5]
    for others, is_filled in (("b", True), ("bcdefg", False)):
        rows = [
            {"arm": arm, "task": f"t{task}", "score": scores.get(arm, flat)[task]} for arm in f"a{others}" for task in range(7)
        ]
        table = paired_differences.table(results(rows), metrics=["score"], baseline="a")
        ax = paired_differences.draw(table).axes[0]
        effects = [line for line in ax.lines if line.get_markersize() == MARK_POINTS and line.get_transform() == ax.transData]
        filled = [line for line in effects if line.get_markerfacecolor() == line.get_color()]
        assert len(effects) == len(others)
        assert bool(filled) is is_filled
