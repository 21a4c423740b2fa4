"""Trajectories of paired trials, used to find out which trials only repeat others.

The trajectory of a trial is the sequence of its tool calls, with the shapes of their arguments, and the verdicts of its checks.
Trials with equal trajectories add no information, so reports show the number of distinct trajectories (the effective n) beside
the number of pairs.
"""

import pandas as pd


def add_trajectories(pairs: pd.DataFrame) -> pd.DataFrame:
    """Add the column `trajectory` to a table of pairs of trials; it is equal for pairs with equal trajectories in both arms.

    Pairs with an unknown trajectory differ from all others.

    Args:
        pairs: One row per pair with the columns `replicate`, `trajectory_a`, `trajectory_b` and, for both arms, `verdicts` as
            returned by `list_verdicts`, or else success and score.
    """
    outcomes = ("verdicts",) if "verdicts_a" in pairs else ("success", "score")
    names = [f"{name}_{side}" for side in "ab" for name in ("trajectory", *outcomes)]
    known = (pairs["trajectory_a"].fillna("") != "") & (pairs["trajectory_b"].fillna("") != "")
    texts = pairs[names].astype(str).agg("|".join, axis=1) if len(pairs) else pd.Series(dtype=object)
    return pairs.assign(trajectory=texts.where(known, "replicate " + pairs["replicate"].astype(str)), is_trajectory_known=known)


def list_verdicts(trials: pd.DataFrame, checks: pd.DataFrame | None) -> pd.Series:
    """Return a text with the verdict of each check of a trial, in the order of the trials, or else with success and score.

    Args:
        trials: Trials with the columns `trial_id`, `success` and `score`.
        checks: Table of checks with the columns `trial_id`, `check` and `passed`; None if the verdicts are unknown.
    """
    totals = trials["success"].astype(str) + "|" + trials["score"].astype(str)
    if checks is None or checks.empty:
        return totals
    rows = checks.sort_values(["trial_id", "check"], kind="stable")
    texts = (rows["check"].astype(str) + "=" + rows["passed"].astype(str)).groupby(rows["trial_id"]).agg("|".join)
    return trials["trial_id"].map(texts).fillna(totals)


def count_distinct(pairs: pd.DataFrame) -> int | None:
    """Return the number of pairs that differ in trajectory or task (the effective n); None if a trajectory is unknown.

    Args:
        pairs: One row per pair, as returned by `add_trajectories`.
    """
    if not len(pairs) or not pairs["is_trajectory_known"].all():
        return None
    return len(pairs[["task", "trajectory"]].drop_duplicates())
