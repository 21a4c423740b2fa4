"""Copies: pairs of trials with equal trajectories are recognized, and unknown trajectories are no copies."""

import pandas as pd

from harness.analysis.trajectories import add_trajectories, count_distinct


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
