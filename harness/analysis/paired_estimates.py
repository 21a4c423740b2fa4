"""The paired difference of scores: what is left to see where every trial succeeds, or none does."""

from dataclasses import dataclass
from math import nan
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, ttest_1samp

from harness.analysis.statistics import Interval

MIN_UNITS = 60
"""Below this many resampled units a bootstrap interval is too narrow, and the text says so."""

Sums: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

_UNKNOWN_INTERVAL = Interval(nan, nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean of a less b over tasks, or over seeds when there is only one task."""

    metric: str
    pairs: int
    unit_count: int
    """Tasks (or seeds) that were averaged."""
    unit: str
    """`task` or `seed`."""
    mean: float
    interval: Interval
    """95 % Student's t over the units; NaN with fewer than two. Of no width where all units differ by the same."""


def compute_paired_difference(pairs: pd.DataFrame, metric: str) -> PairedDifference:
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
        unit_count=len(means),
        unit=unit,
        mean=float(means.mean()) if len(means) else nan,
        interval=_compute_student_interval(means),
    )


def _compute_student_interval(means: pd.Series) -> Interval:
    if len(means) < 2:
        return _UNKNOWN_INTERVAL
    if means.nunique() == 1:
        return Interval(float(means.iloc[0]), float(means.iloc[0]))
    low, high = ttest_1samp(means.to_numpy(), 0.0).confidence_interval(0.95)
    return Interval(float(low), float(high))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """How much of something arm a takes for each unit that arm b takes, on the same tasks and seeds."""

    metric: str
    pairs: int = 0
    """Pairs in which both values are known and above 0; the others are left out. Without any, all estimates are NaN."""
    excluded_pairs: int
    unit_count: int = 0
    """Units that were resampled."""
    unit: str
    """`task`, or `seed` when there is only one task."""
    ratio_of_totals: float = nan
    """Sum over a divided by the sum over b."""
    ratio_of_totals_interval: Interval = _UNKNOWN_INTERVAL
    geometric_mean: float = nan
    """Geometric mean of the ratios of the pairs."""
    geometric_mean_interval: Interval = _UNKNOWN_INTERVAL
    median_a: float = nan
    median_b: float = nan
    lower_share: float = nan
    """Share of pairs in which a takes less than b, 0–1."""

    @property
    def warning(self) -> str:
        """Why the interval must not be trusted; empty when it may."""
        if self.pairs == 0:
            return "no pair has both values"
        if self.unit_count < 2:
            return f"one {self.unit}, so there is no interval"
        if self.unit_count < MIN_UNITS:
            only = "; one task, so it says nothing about other tasks" if self.unit == "seed" else ""
            return f"interval from {self.unit_count} {self.unit}s is too narrow, {MIN_UNITS} are needed{only}"
        return ""


def compute_paired_ratio(pairs: pd.DataFrame, metric: str, *, resamples: int = 2000, seed: int = 0) -> PairedRatio:
    """Compare one column between the two sides of paired trials.

    Args:
        pairs: one row per pair with `task`, `seed`, and the metric as `<metric>_a` and `<metric>_b`.
        metric: name of a column of the trials.
        resamples: draws of the bootstrap.
        seed: of those draws, so that the same table gives the same interval.
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
        ratio_of_totals_interval=_bootstrap_interval(sums[0], sums[1], resamples=resamples, seed=seed),
        geometric_mean=float(np.exp(logs.mean())),
        geometric_mean_interval=_exponentiate_bounds(_bootstrap_interval(sums[2], sums[3], resamples=resamples, seed=seed)),
        median_a=float(np.median(a)),
        median_b=float(np.median(b)),
        lower_share=float((a < b).mean()),
    )


def _bootstrap_interval(numerators: Sums, denominators: Sums, *, resamples: int, seed: int) -> Interval:
    """Percentile interval of the ratio of two sums over resampled units."""
    if len(numerators) < 2:
        return _UNKNOWN_INTERVAL
    bootstrap_result = bootstrap(
        (numerators, denominators),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return Interval(float(bootstrap_result.confidence_interval.low), float(bootstrap_result.confidence_interval.high))


def _exponentiate_bounds(interval: Interval) -> Interval:
    return Interval(float(np.exp(interval.low)), float(np.exp(interval.high)))
