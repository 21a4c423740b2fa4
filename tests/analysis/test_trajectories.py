"""Copies: pairs of trials with equal trajectories are recognized, and unknown trajectories are no copies."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.trajectories import add_trajectories, average_copies, count_distinct, list_units, list_verdicts


def pairs(a, b, success=None):
    n = len(a)
    columns = {"task": ["t"] * n, "seed": [0] * n, "replicate": range(n), "trajectory_a": a, "trajectory_b": b}
    scores = {"success_a": success or [True] * n, "success_b": [True] * n, "score_a": [1.0] * n, "score_b": [1.0] * n}
    return add_trajectories(pd.DataFrame(columns | scores))


def test_pairs_are_copies_if_both_arms_did_and_reached_the_same():
    assert count_distinct(pairs(["x", "x", "x"], ["y", "y", "z"])) == 2
    assert count_distinct(pairs(["x", "x"], ["y", "y"], success=[True, False])) == 2


def test_an_unknown_trajectory_is_no_copy_and_leaves_the_number_unknown():
    table = pairs(["", ""], ["y", "y"])
    assert table["trajectory"].nunique() == 2
    assert count_distinct(table) is None


def test_trials_that_fail_different_checks_with_equal_scores_are_no_copies():
    trials = pd.DataFrame({"trial_id": ["1", "2", "3", "4"], "success": [False] * 4, "score": [0.5] * 4})
    verdicts = {"1": (True, False), "2": (False, True), "3": (True, False)}
    rows = [(trial, name, passed) for trial, both in verdicts.items() for name, passed in zip("xy", both, strict=True)]
    verdict_lists = list_verdicts(trials, [pd.DataFrame(rows, columns=["trial_id", "check", "passed"])])
    assert verdict_lists[0] == verdict_lists[2] != verdict_lists[1]
    assert verdict_lists[3] == "False|0.5"
    assert list(list_verdicts(trials, [])) == ["False|0.5"] * 4
    table = pairs(["t", "t"], ["t", "t"]).drop(columns=["trajectory", "is_trajectory_known"])
    assert (
        count_distinct(add_trajectories(table.assign(verdicts_a=verdict_lists[:2], verdicts_b=verdict_lists[:1].repeat(2).array)))
        == 2
    )
    assert count_distinct(add_trajectories(table)) == 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("abcd")), min_size=1, max_size=12))
def test_copies_are_averaged_into_a_unit_for_each_label_with_the_mean_of_all_rows(drawn):
    rows, labels = np.array([one[:2] for one in drawn], dtype=float), [one[2] for one in drawn]
    units = average_copies(rows, labels)
    assert units.shape == (len(set(labels)), 2)
    assert units.mean(axis=0) == pytest.approx(rows.mean(axis=0))
    assert units.min() >= rows.min() - 1e-12
    assert units.max() <= rows.max() + 1e-12


def test_distinct_rows_are_kept_and_equally_frequent_copies_become_their_mean():
    rows = np.array([[1.0], [0.0], [0.5], [0.5]])
    assert sorted(average_copies(rows, list("abcd"))[:, 0]) == [0.0, 0.5, 0.5, 1.0]
    assert list(average_copies(rows, list("abab"))[:, 0]) == [0.75, 0.25]
    assert list(average_copies(np.array([[1.0], [1.0], [0.0]]), list("aab"))[:, 0]) == pytest.approx([1 / 3, 1.0])


def test_units_of_a_task_are_its_seeds_or_the_distinct_runs_of_its_only_seed():
    seeds = pd.DataFrame({"task": "t", "seed": [0, 0, 1], "replicate": [0, 1, 0], "value": [1.0, 0.0, 1.0]})
    assert [list(values) for values in list_units(seeds, "value")] == [[0.5, 1.0]]
    other = seeds.assign(task="s", value=0.25)
    assert [list(values) for values in list_units(pd.concat([seeds, other]), "value")] == [[0.25, 0.25], [0.5, 1.0]]
    assert list_units(seeds[:0], "value") == []
    runs = seeds.assign(seed=0, replicate=[0, 1, 2], trajectory=["x", "y", "x"])
    assert len(list_units(runs, "value")[0]) == 2
    assert len(list_units(runs.assign(trajectory=""), "value")[0]) == 3
    assert len(list_units(runs.assign(arm=["a", "b", "c"], replicate=0), "value")[0]) == 1


def test_equal_trajectories_on_different_tasks_are_no_copies():
    known = pairs(["x", "x", "x"], ["y", "y", "y"])
    assert [count_distinct(one) for one in (known, known.assign(task=["t", "t", "u"]))] == [1, 2]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["lint", "x", "y"]), st.booleans()), unique_by=lambda row: row[:2]
    ),
    st.permutations("abcde"),
)
def test_verdicts_are_equal_if_the_same_checks_passed_and_failed_in_whatever_order(rows, trial_ids):
    checks = pd.DataFrame(rows, columns=["trial_id", "check", "passed"])
    trials = pd.DataFrame(
        {"trial_id": trial_ids, "success": [True, False, False, True, False], "score": [1.0, 0.2, 0.5, 1.0, 0.0]}
    )
    trials.index = pd.Index([7, 3, 9, 1, 0])
    verdicts = list_verdicts(trials, [checks])
    assert verdicts.index.equals(trials.index)
    own = [frozenset((name, passed) for owner, name, passed in rows if owner == trial_id) for trial_id in trial_ids]
    for trial, text, checked in zip(trials.itertuples(), verdicts, own, strict=True):
        assert checked or text == f"{trial.success}|{trial.score}"
        assert all((text == other) == (checked == others) for other, others in zip(verdicts, own, strict=True) if checked)
