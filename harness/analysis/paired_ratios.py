"""Descriptive ratios of tokens, steps and cost between paired trials: totals, medians and the share of cheaper pairs.

The typical ratio of a pair, with its interval and test, is computed in `harness.analysis.effects`. A ratio of totals depends
mostly on a few large trials, so reports show both. The bootstrap interval of a ratio of totals needs at least 60 tasks.
"""

from dataclasses import dataclass
from math import nan
from typing import TypeAlias

import numpy as np
import pandas as pd

from harness.analysis.intervals import Interval

MIN_BOOTSTRAP_TASKS = 60
"""Minimum number of tasks for a bootstrap interval; with fewer, the interval covers the truth too rarely."""

Sums: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

_UNKNOWN_INTERVAL = Interval(nan, nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """Ratio of a metric such as cost between two arms that ran on the same tasks and seeds."""

    metric: str
    pairs: int = 0
    """Number of pairs in which the values of both arms are known; 0 if all values are 0. Without pairs, all estimates are NaN."""
    excluded_pairs: int
    """Number of pairs left out because the value of an arm is unknown."""
    ratio_of_totals: float = nan
    """Sum of the metric over the trials of arm a divided by the sum over the trials of arm b; NaN if the latter is 0."""
    ratio_of_totals_interval: Interval = _UNKNOWN_INTERVAL
    """95 % bootstrap interval over tasks; NaN with fewer than 60 tasks."""
    median_a: float = nan
    median_b: float = nan
    lower_share: float = nan
    """Share of pairs in which the value of arm a is lower than the value of arm b, 0 to 1."""


def compute_paired_ratio(pairs: pd.DataFrame, metric: str, *, resamples: int = 2000) -> PairedRatio:
    """Return the ratio of a column between paired trials of two arms, a divided by b.

    Equal tables always give equal intervals.

    Args:
        pairs: One row per pair with the columns `task`, `<metric>_a` and `<metric>_b`.
        metric: Name of a column of the trials table.
        resamples: Number of samples that the bootstrap draws.
    """
    a, b = (pairs[f"{metric}_{side}"].to_numpy(dtype=float, na_value=nan) for side in "ab")
    known = ~np.isnan(a) & ~np.isnan(b)
    a, b, tasks = a[known], b[known], pairs["task"].to_numpy()[known]
    if not len(a) or not (a.any() or b.any()):  # a column of zeros was not measured
        return PairedRatio(metric=metric, excluded_pairs=len(pairs))
    places = np.unique(tasks, return_inverse=True)[1]
    sums = [np.bincount(places, weights=values).astype(np.float64) for values in (a, b)]
    return PairedRatio(
        metric=metric,
        pairs=len(a),
        excluded_pairs=len(pairs) - len(a),
        ratio_of_totals=float(a.sum() / b.sum()) if b.sum() else nan,
        ratio_of_totals_interval=_bootstrap_interval(sums[0], sums[1], resamples) if b.sum() else _UNKNOWN_INTERVAL,
        median_a=float(np.median(a)),
        median_b=float(np.median(b)),
        lower_share=float((a < b).mean()),
    )


def _bootstrap_interval(numerators: Sums, denominators: Sums, resamples: int) -> Interval:
    if len(numerators) < MIN_BOOTSTRAP_TASKS:
        return _UNKNOWN_INTERVAL
    count = len(numerators)
    drawn = np.random.default_rng(0).integers(0, count, (resamples, count))
    ratios = numerators[drawn].sum(axis=1) / denominators[drawn].sum(axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Interval(float(low), float(high))
