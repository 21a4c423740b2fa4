"""Differences and ratios of scores, tokens and costs between paired trials of two arms, with intervals over tasks."""

from dataclasses import dataclass
from math import nan
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, ttest_1samp

from harness.analysis.statistics import Interval

MIN_UNITS = 60
"""Minimum number of tasks or seeds for a reliable bootstrap interval; with a smaller number the interval is too narrow."""

NO_WIDTH = 1e-9
"""Maximum range of differences that count as equal, because they differ by rounding errors only."""

Sums: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

_UNKNOWN_INTERVAL = Interval(nan, nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean difference of a metric, such as the score, between two arms (configurations) a and b.

    The mean is taken over tasks, or over seeds if there is only one task.
    """

    metric: str
    pairs: int
    unit_count: int
    """Number of tasks, or of seeds if there is only one task, over which the difference is averaged."""
    unit: str
    """Unit over which the difference is averaged, `task` or, if there is only one task, `seed`."""
    mean: float
    interval: Interval
    """95 % Student's t interval for the mean difference over tasks or seeds.

    The bounds are NaN with fewer than two tasks or seeds, and equal if all differences are equal.
    """

    @property
    def warning(self) -> str:
        """Warning that all tasks or seeds have the same difference, so that the interval is narrow but says little.

        Empty if they have different differences, or if there is only one task and one seed.
        """
        if self.unit_count < 2 or self.interval.low < self.interval.high:
            return ""
        return f"the difference is the same for every {self.unit}; the interval says nothing about other tasks"


def compute_paired_difference(pairs: pd.DataFrame, metric: str) -> PairedDifference:
    """Return the mean difference of a column between paired trials of two arms, a minus b, with its interval.

    Args:
        pairs: One row per pair with the columns `task`, `seed`, `<metric>_a` and `<metric>_b`.
        metric: Name of a column of the trials table.
    """
    unit = "seed" if pairs["task"].nunique() == 1 else "task"
    differences = pairs[f"{metric}_a"].astype(float) - pairs[f"{metric}_b"].astype(float)
    means = differences.groupby(pairs[unit]).mean()
    return PairedDifference(
        metric=metric,
        pairs=len(pairs),
        unit_count=len(means),
        unit=unit,
        mean=float(means.mean()) if len(means) else nan,
        interval=_compute_student_interval(means),
    )


def _compute_student_interval(means: pd.Series) -> Interval:
    if len(means) < 2:
        return _UNKNOWN_INTERVAL
    if means.max() - means.min() <= NO_WIDTH:
        return Interval(float(means.iloc[0]), float(means.iloc[0]))
    low, high = ttest_1samp(means.to_numpy(), 0.0).confidence_interval(0.95)
    return Interval(float(low), float(high))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """Ratio of a metric such as cost between arm a and arm b (configurations), which ran on the same tasks and seeds."""

    metric: str
    pairs: int = 0
    """Number of pairs in which the values of both arms are known and above 0. Without such pairs, all estimates are NaN."""
    excluded_pairs: int
    """Number of pairs left out because the value of an arm is unknown or not above 0."""
    unit_count: int = 0
    """Number of tasks, or of seeds if there is only one task, from which the bootstrap resamples."""
    unit: str
    """Unit that the bootstrap resamples, `task` or, if there is only one task, `seed`."""
    ratio_of_totals: float = nan
    """Sum of the metric over the trials of arm a divided by the sum over the trials of arm b."""
    ratio_of_totals_interval: Interval = _UNKNOWN_INTERVAL
    geometric_mean: float = nan
    """Geometric mean, over all pairs, of the value of arm a divided by the value of arm b."""
    geometric_mean_interval: Interval = _UNKNOWN_INTERVAL
    median_a: float = nan
    median_b: float = nan
    lower_share: float = nan
    """Share of pairs in which the value of arm a is lower than the value of arm b, 0 to 1."""

    @property
    def warning(self) -> str:
        """Reason why the bootstrap interval is missing or unreliable; empty if the interval is reliable."""
        if self.pairs == 0:
            return "no pair has both values"
        if self.unit_count < 2:
            return f"one {self.unit}, so there is no interval"
        if self.unit_count < MIN_UNITS:
            only = "; one task, so the interval does not apply to other tasks" if self.unit == "seed" else ""
            return f"interval from {self.unit_count} {self.unit}s is too narrow, {MIN_UNITS} are needed{only}"
        return ""


def compute_paired_ratio(pairs: pd.DataFrame, metric: str, *, resamples: int = 2000) -> PairedRatio:
    """Return the ratio of a column between paired trials of two arms, a divided by b, with bootstrap intervals.

    The same table always gives the same intervals.

    Args:
        pairs: One row per pair with the columns `task`, `seed`, `<metric>_a` and `<metric>_b`.
        metric: Name of a column of the trials table.
        resamples: Number of samples that the bootstrap draws.
    """
    unit = "seed" if pairs["task"].nunique() == 1 else "task"
    a, b = (pairs[f"{metric}_{side}"].to_numpy(dtype=float, na_value=nan) for side in "ab")
    known = (a > 0) & (b > 0)
    a, b, units = a[known], b[known], pairs[unit].to_numpy()[known]
    if not len(a):
        return PairedRatio(metric=metric, unit=unit, excluded_pairs=len(pairs))
    logs, (names, places) = np.log(a / b), np.unique(units, return_inverse=True)
    sums = [np.bincount(places, weights=values).astype(np.float64) for values in (a, b, logs, np.ones(len(a)))]
    return PairedRatio(
        metric=metric,
        pairs=len(a),
        excluded_pairs=len(pairs) - len(a),
        unit_count=len(names),
        unit=unit,
        ratio_of_totals=float(a.sum() / b.sum()),
        ratio_of_totals_interval=_bootstrap_interval(sums[0], sums[1], resamples),
        geometric_mean=float(np.exp(logs.mean())),
        geometric_mean_interval=Interval(*map(float, np.exp(_bootstrap_interval(sums[2], sums[3], resamples)))),
        median_a=float(np.median(a)),
        median_b=float(np.median(b)),
        lower_share=float((a < b).mean()),
    )


def _bootstrap_interval(numerators: Sums, denominators: Sums, resamples: int) -> Interval:
    """Return the 95 % bootstrap interval (percentile method) for the ratio of two sums over tasks or seeds."""
    if len(numerators) < 2:
        return _UNKNOWN_INTERVAL
    low, high = bootstrap(
        (numerators, denominators),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(float(low), float(high))
