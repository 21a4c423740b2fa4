"""Ratios of tokens, steps and money between two arms on the same tasks, with intervals from resampled tasks.

Cost has a long tail: a ratio of totals is ruled by the few dearest tasks and a ratio of typical tasks hides them, so both
are always given, with the medians. The unit that is resampled is the task, because runs of one task resemble each other.
"""

from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from harness.analysis.statistics import Interval, ratio_or_nan

ENOUGH_CLUSTERS = 60
"""Below this many resampled units a bootstrap interval is too narrow, and the text says so."""

_NOTHING = Interval(nan, nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """How much of something arm a takes for each unit that arm b takes, on the same tasks and seeds."""

    metric: str
    pairs: int
    """Pairs in which both values are known and above 0; the others are left out."""
    left_out: int
    clusters: int
    """Units that were resampled."""
    unit: str
    """What a unit is: `task`, or `seed` when there is only one task."""
    of_totals: float
    """Sum over a divided by the sum over b."""
    of_totals_interval: Interval
    geometric: float
    """Geometric mean of the ratios of the pairs."""
    geometric_interval: Interval
    median_a: float
    median_b: float
    share_lower: float
    """Share of pairs in which a takes less than b, 0–1."""

    @property
    def warning(self) -> str:
        """Why the interval must not be trusted; empty when it may."""
        if self.pairs == 0:
            return "no pair has both values"
        if self.clusters < 2:
            return f"one {self.unit}, so there is no interval"
        if self.clusters < ENOUGH_CLUSTERS:
            only = "; one task, so it says nothing about other tasks" if self.unit == "seed" else ""
            return f"interval from {self.clusters} {self.unit}s is too narrow, {ENOUGH_CLUSTERS} are needed{only}"
        return ""


def paired_ratio(pairs: pd.DataFrame, metric: str, *, resamples: int = 4000, seed: int = 0) -> PairedRatio:
    """Compare one column between the two sides of paired trials.

    Args:
        pairs: one row per pair with `task`, `seed`, and the metric as `<metric>_a` and `<metric>_b`.
        metric: name of a column of the trials.
        resamples: draws of the bootstrap.
        seed: of those draws, so that the same table gives the same interval.
    """
    a = pd.to_numeric(pairs[f"{metric}_a"]).astype(float)
    b = pd.to_numeric(pairs[f"{metric}_b"]).astype(float)
    known = (a > 0) & (b > 0)
    a, b, kept = a[known], b[known], pairs[known]
    unit = "seed" if pairs["task"].nunique() == 1 else "task"
    logs = np.log(a / b)
    sums = pd.DataFrame({"a": a, "b": b, "log": logs, "one": 1.0}).groupby(kept[unit]).sum()
    return PairedRatio(
        metric=metric,
        pairs=len(kept),
        left_out=len(pairs) - len(kept),
        clusters=len(sums),
        unit=unit,
        of_totals=ratio_or_nan(float(a.sum()), float(b.sum())),
        of_totals_interval=_resampled(sums["a"], sums["b"], resamples=resamples, seed=seed),
        geometric=float(np.exp(logs.mean())) if len(kept) else nan,
        geometric_interval=_exp(_resampled(sums["log"], sums["one"], resamples=resamples, seed=seed)),
        median_a=float(a.median()),
        median_b=float(b.median()),
        share_lower=float((a < b).mean()) if len(kept) else nan,
    )


def _resampled(numerators: pd.Series, denominators: pd.Series, *, resamples: int, seed: int) -> Interval:
    """Percentile interval of the ratio of two sums over resampled units."""
    if len(numerators) < 2:
        return _NOTHING
    drawn = bootstrap(
        (numerators.to_numpy(), denominators.to_numpy()),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=1000,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return Interval(float(drawn.confidence_interval.low), float(drawn.confidence_interval.high))


def _exp(interval: Interval) -> Interval:
    return Interval(float(np.exp(interval.low)), float(np.exp(interval.high)))
