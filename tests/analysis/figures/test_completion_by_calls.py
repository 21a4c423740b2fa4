"""Completion against calls: a curve that rises at the calls with which trials finish, and stays below 1 where some never do."""

from typing import Any

import pytest

from harness.analysis.figures import completion_by_calls
from harness.errors import UsageError
from tests.analysis.selections import grid, results


def test_a_curve_rises_with_each_trial_that_finishes_and_unfinished_ones_count():
    rows = [{"seed": seed, "steps": steps, "success": steps == 10} for seed, steps in enumerate((10, 20, 30))]
    stopped = {"seed": 3, "steps": 40, "success": False, "status": "failed", "reason": "max_steps"}
    table = completion_by_calls.table(results([*rows, stopped]))
    finished = table[table["outcome"] == "finished"]
    assert finished[["calls", "share"]].to_numpy().tolist() == [[0, 0], [10, 0.25], [20, 0.5], [30, 0.75], [40, 0.75]]
    assert table.loc[table["outcome"] == "success", "share"].max() == 0.25
    end = finished.iloc[-1]
    assert 0 < end["low"] < 0.75 < end["high"] < 1


@pytest.mark.slow
def test_arms_that_share_seeds_do_not_make_an_interval_narrower():
    table = completion_by_calls.table(grid(seeds=(0, 1)))
    assert set(table["n"]) == {18}
    ends = table.dropna(subset=["low"])
    assert (ends["high"] - ends["low"] > 0.5).all()


def test_both_outcomes_are_drawn_with_units():
    figure: Any = completion_by_calls.draw(completion_by_calls.table(grid()), theme="dark")
    assert [ax.get_xlabel() for ax in figure.axes] == ["model calls (count)"] * 2
    assert figure.axes[0].get_ylabel() == "trials (%)"


def test_a_chart_without_valid_trials_is_refused():
    with pytest.raises(UsageError, match="no valid trial"):
        completion_by_calls.draw(completion_by_calls.table(results([])))
