"""Selections of results; the results of the store are valid input of the analysis."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis import tables
from harness.analysis.tables import iterate_trials, require_single_level, select, split_by_level
from tests.analysis.selections import grid, results


def test_a_selection_keeps_only_what_belongs_to_its_trials():
    whole = grid(seeds=(0,))
    part = select(whole, whole.trials.query("policy == 'none'"))
    assert set(part.steps["trial_id"]) == set(part.trials["trial_id"]) == {"no compaction/0"}
    assert part.compactions.empty


def test_results_are_split_by_fidelity_level():
    parts = split_by_level(results([{"level": "L3"}, {"seed": 1}]))
    assert [require_single_level(part.trials) for part in parts] == ["L0", "L3"]


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 3), st.floats(0, 1))), st.integers(1, 4))
def test_trials_are_read_in_parts_in_the_order_of_ids_and_steps(values, at_once):
    rows = pd.DataFrame(values, columns=["trial_id", "step", "seconds"]).astype({"trial_id": object, "step": "int64"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "TRIALS_AT_ONCE", at_once)
        parts = list(iterate_trials(rows, ("seconds",), "step"))
    assert all(1 <= part["trial_id"].nunique() <= at_once for part in parts)
    expected = rows.dropna(subset="trial_id").sort_values(["trial_id", "step"], kind="stable")[["trial_id", "seconds"]]
    assert len(parts) == -(-expected["trial_id"].nunique() // at_once)
    if parts:
        pd.testing.assert_frame_equal(pd.concat(parts), expected)
