"""Copies: pairs of trials with equal trajectories are recognized, and unknown trajectories are no copies."""

import pandas as pd

from harness.analysis.trajectories import add_trajectories, count_distinct, list_verdicts


def pairs(a, b, success=None):
    n = len(a)
    columns = {"task": ["t"] * n, "seed": [0] * n, "replicate": range(n), "trajectory_a": a, "trajectory_b": b}
    scores = {"success_a": success or [True] * n, "success_b": [True] * n, "score_a": [1.0] * n, "score_b": [1.0] * n}
    return add_trajectories(pd.DataFrame(columns | scores))


def test_pairs_are_copies_if_both_arms_did_and_reached_the_same():
    assert count_distinct(pairs(["x", "x", "x"], ["y", "y", "z"])) == 2
    assert count_distinct(pairs(["x", "x"], ["y", "y"], success=[True, False])) == 2


def test_an_unknown_trajectory_is_no_copy_and_leaves_the_number_unknown():
    found = pairs(["", ""], ["y", "y"])
    assert found["trajectory"].nunique() == 2
    assert count_distinct(found) is None


def test_trials_that_fail_different_checks_with_equal_scores_are_no_copies():
    trials = pd.DataFrame({"trial_id": ["1", "2", "3", "4"], "success": [False] * 4, "score": [0.5] * 4})
    verdicts = {"1": (True, False), "2": (False, True), "3": (True, False)}
    rows = [(trial, name, passed) for trial, both in verdicts.items() for name, passed in zip("xy", both, strict=True)]
    found = list_verdicts(trials, pd.DataFrame(rows, columns=["trial_id", "check", "passed"]))
    assert list(found) == ["x=True|y=False", "x=False|y=True", "x=True|y=False", "False|0.5"]
    assert list(list_verdicts(trials, None)) == ["False|0.5"] * 4
    table = pairs(["t", "t"], ["t", "t"]).drop(columns=["trajectory", "is_trajectory_known"])
    assert count_distinct(add_trajectories(table.assign(verdicts_a=found[:2], verdicts_b=found[:1].repeat(2).array))) == 2
    assert count_distinct(add_trajectories(table)) == 1
