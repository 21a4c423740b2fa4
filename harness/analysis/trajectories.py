"""Trajectories of paired trials: which pairs are copies of each other, and how many distinct ones there are.

The trajectory of a trial is the sequence of its tool calls with the shapes of their arguments, and what its checks said. Trials
whose trajectories coincide say the same thing twice, so reports show the number of distinct ones, the effective n, beside n.
"""

import pandas as pd


def add_trajectories(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of trials with a column `trajectory`, which is equal for pairs with equal trajectories in both arms.

    Pairs with an unknown trajectory differ from all others.

    Args:
        pairs: One row per pair with the columns `replicate`, `trajectory_a`, `trajectory_b` and success and score of both arms.
    """
    names = [f"{name}_{side}" for side in "ab" for name in ("trajectory", "success", "score")]
    known = (pairs["trajectory_a"].fillna("") != "") & (pairs["trajectory_b"].fillna("") != "")
    texts = pairs[names].astype(str).agg("|".join, axis=1) if len(pairs) else pd.Series(dtype=object)
    return pairs.assign(trajectory=texts.where(known, "replicate " + pairs["replicate"].astype(str)), is_trajectory_known=known)


def count_distinct(pairs: pd.DataFrame) -> int | None:
    """Return the number of distinct trajectories of pairs within tasks, the effective n; None if a trajectory is unknown.

    Args:
        pairs: One row per pair, as returned by `add_trajectories`.
    """
    if not len(pairs) or not pairs["is_trajectory_known"].all():
        return None
    return len(pairs[["task", "trajectory"]].drop_duplicates())
