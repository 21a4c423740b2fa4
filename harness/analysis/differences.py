"""The paired difference of scores: what is left to see where every trial succeeds, or none does."""

from dataclasses import dataclass
from math import nan

import pandas as pd
from scipy.stats import ttest_1samp

from harness.analysis.statistics import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean of a less b over tasks, or over seeds when there is only one task."""

    metric: str
    pairs: int
    units: int
    """Tasks (or seeds) that were averaged."""
    unit: str
    """`task` or `seed`."""
    mean: float
    interval: Interval
    """95 % Student's t over the units; NaN with fewer than two. Of no width where all units differ by the same."""


def paired_difference(pairs: pd.DataFrame, metric: str) -> PairedDifference:
    """Compare one column between the two sides of paired trials.

    Args:
        pairs: one row per pair with `task`, `seed`, and the metric as `<metric>_a` and `<metric>_b`.
        metric: name of a column of the trials.
    """
    unit = "seed" if pairs["task"].nunique() == 1 else "task"
    differences = pairs[f"{metric}_a"].astype(float) - pairs[f"{metric}_b"].astype(float)
    means = differences.groupby(pairs[unit]).mean()
    return PairedDifference(
        metric=metric,
        pairs=len(pairs),
        units=len(means),
        unit=unit,
        mean=float(means.mean()) if len(means) else nan,
        interval=_student(means),
    )


def _student(means: pd.Series) -> Interval:
    if len(means) < 2:
        return Interval(nan, nan)
    if means.nunique() == 1:
        return Interval(float(means.iloc[0]), float(means.iloc[0]))
    low, high = ttest_1samp(means.to_numpy(), 0.0).confidence_interval(0.95)
    return Interval(float(low), float(high))
