"""Effects of the axes: each value against the first, for the metrics that a person chose."""

from itertools import pairwise
from typing import Any

import pytest

from harness.analysis.axes import contrast_axes
from harness.analysis.figures import axis_effects
from harness.errors import UsageError
from tests.analysis.selections import grid, results


@pytest.fixture(scope="module")
def table():
    return axis_effects.table(grid())


@pytest.mark.slow
def test_the_table_holds_the_effects_that_contrast_axes_computes():
    selection = grid(seeds=(0, 1, 2))
    table = axis_effects.table(selection, metrics=["score", "cost", "retention", "steps"])
    contrasts = contrast_axes(selection.trials)
    assert table["place"].nunique() == len(contrasts) == 6
    for place, contrast in enumerate(contrasts):
        effects = {effect.metric: effect for effect in contrast.effects}
        rows = table[table["place"] == place].set_index("metric")
        assert rows.loc["score", "value"] == effects["score"].value
        assert rows.loc["cost", "value"] == effects["total_cost_usd"].value
        assert rows.loc["cost", "arm_pairs"] == 9


def test_rows_name_axis_value_and_what_it_is_compared_with(table):
    figure: Any = axis_effects.draw(table, theme="dark")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"axis", "value", "against", "threshold", "0.95", "0.5", "arms", "n"} <= set(texts)


def test_a_plan_without_a_grid_has_no_effects_of_axes():
    with pytest.raises(UsageError, match="no two arms differ in exactly one axis"):
        axis_effects.draw(axis_effects.table(results([{"arm": "a"}, {"arm": "b"}])))


@pytest.mark.slow
@pytest.mark.parametrize("width", ["notebook", "paper"])
def test_tick_labels_do_not_overlap(table, width):
    figure: Any = axis_effects.draw(table, width=width)
    figure.draw_without_rendering()
    for ax in figure.axes:
        low, high = ax.get_xlim()
        boxes = [
            label.get_window_extent()
            for place, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
            if low <= place <= high
        ]
        assert len(boxes) > 1
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
