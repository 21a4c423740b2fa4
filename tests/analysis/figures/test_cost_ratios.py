"""Cost ratios of tasks: the geometric mean over the seeds of a task."""

import math
from typing import Any

import pytest

from harness.analysis.figures import cost_ratios
from harness.errors import UsageError
from tests.analysis.selections import results


def make_selection():
    return results(
        [
            {"arm": arm, "task": task, "seed": seed, "cost_usd": cost * (2 if seed else 1) * factor, "summarizer_cost_usd": 0.0}
            | {"policy": "none" if arm == "control" else "keep-last", "steps": 10}
            for arm, factors in {"control": (1, 1), "half": (0.5, 2.0)}.items()
            for task, cost, factor in zip("xy", (1.0, 3.0), factors, strict=True)
            for seed in (0, 1)
        ]
    )


def test_a_typical_ratio_of_one_can_hide_a_half_and_a_double():
    table = cost_ratios.table(make_selection())
    assert table[["task", "n", "ratio"]].to_numpy().tolist() == [["x", 2, pytest.approx(0.5)], ["y", 2, pytest.approx(2.0)]]
    assert table["typical"].tolist() == pytest.approx([1.0, 1.0])
    assert math.isnan(table["low"].iloc[0])  # ratios without spread within the tasks


def test_trials_without_costs_have_no_ratio_and_arms_keep_their_places():
    costs_usd = {"base": (1.0, 1.0), "free": (0.0, 0.0), "mixed": (0.0, 3.0)}
    rows = [
        {"arm": arm, "task": "x", "seed": seed, "cost_usd": cost, "summarizer_cost_usd": 0.0}
        for arm, costs in costs_usd.items()
        for seed, cost in enumerate(costs)
    ]
    table = cost_ratios.table(results(rows), baseline="base")
    assert table[["arm", "place", "n", "ratio"]].to_numpy().tolist() == [["mixed", 1, 1, pytest.approx(3.0)]]


def test_every_task_is_a_dot():
    figure: Any = cost_ratios.draw(cost_ratios.table(make_selection()))
    assert sorted(x for line in figure.axes[0].lines if line.get_marker() == "s" for x in line.get_xdata()) == [0, 0.5, 2.0]
    assert figure.axes[0].get_xlabel() == "cost of the arm ÷ cost of the baseline (ratio), ← better"


def test_only_amounts_have_ratios():
    with pytest.raises(UsageError, match="choose one of cost, tokens, steps"):
        cost_ratios.table(make_selection(), metric="score")
    assert set(cost_ratios.table(make_selection(), metric="steps")["ratio"]) == {1.0}
