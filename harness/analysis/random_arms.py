"""Comparison of the arms of a gateway, which draws the arm of each new session at random.

The sessions of two arms have no tasks or seeds in common, so they are compared as two samples. A permutation test is exact for
sessions that were assigned at random, whatever their distribution; Holm's method keeps the chance of any false claim at 5 %.
"""

import json
import warnings
from collections.abc import Sequence
from itertools import product
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from harness.analysis.statistics import adjust_holm
from harness.errors import UsageError

METRICS = ("cost_usd", "steps", "compactions", "prompt_tokens")
PERMUTATIONS = 9_999
ALPHA, POWER = 0.05, 0.8
LEAST_SESSIONS = 2
"""Smallest number of sessions of an arm with which a mean has an interval."""


class ArmDifference(NamedTuple):
    """Difference between an arm and the first arm in the mean of a metric."""

    arm: str
    baseline: str
    metric: str
    sessions: int
    """Number of sessions of the arm with a value."""
    baseline_sessions: int
    mean: float
    baseline_mean: float
    low: float
    """Lower end of Welch's 95 % interval of the difference; NaN with too few sessions, or if no two values of an arm differ."""
    high: float
    p: float
    """P-value of the permutation test, by Holm's method over all differences; NaN with too few sessions."""
    detectable: float
    """Smallest difference that so many sessions detect with a power of 80 %, without Holm's method."""

    @property
    def is_claimed(self) -> bool:
        """Whether the difference is significant at 5 %."""
        return self.p <= ALPHA


def read_arms(trials: pd.DataFrame) -> "pd.Series[str]":
    """Return the arm of each session, as the gateway logged it; missing for sessions of anything else."""
    return trials["config_json"].map(lambda text: json.loads(text or "{}").get("gateway", {}).get("arm"))


def compare_random_arms(trials: pd.DataFrame, *, seed: int = 0) -> list[ArmDifference]:
    """Return the differences of each arm from the first one in each metric.

    Args:
        trials: Table of trials with the column `config_json` and the metrics; one row for each session.
        seed: Seed of the permutations.

    Raises:
        UsageError: The table has sessions of fewer than two arms.
    """
    arms = read_arms(trials)
    names = sorted(arms.dropna().unique())
    if len(names) < 2:
        raise UsageError(
            f"the journal has sessions of {len(names)} arms of a gateway; start it with --arm twice or more, "
            "so that each new session gets one of them at random"
        )
    random = np.random.default_rng(seed)
    differences = []
    for name, metric in product(names[1:], METRICS):
        values, base = (trials.loc[arms == arm, metric].dropna().to_numpy(np.float64) for arm in (name, names[0]))
        differences.append(_compare(name, names[0], metric, values, base, random))
    known = [difference for difference in differences if not np.isnan(difference.p)]
    adjusted = iter(adjust_holm([difference.p for difference in known]))
    return [difference if np.isnan(difference.p) else difference._replace(p=next(adjusted)) for difference in differences]


def _compare(
    arm: str, baseline: str, metric: str, values: np.ndarray, base: np.ndarray, random: np.random.Generator
) -> ArmDifference:
    mean, base_mean = (float(sample.mean()) if len(sample) else nan for sample in (values, base))
    low = high = p = detectable = nan
    if min(len(values), len(base)) >= LEAST_SESSIONS:
        error = sqrt(sum(float(sample.var(ddof=1)) / len(sample) for sample in (values, base)))
        if error:  # else no value of an arm differs from another one, and there is no interval
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of scipy, if the values of one arm are all equal
                low, high = map(float, stats.ttest_ind(values, base, equal_var=False).confidence_interval(1 - ALPHA))
        p = compute_permutation_p(values, base, random)
        detectable = float(stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)) * error
    return ArmDifference(arm, baseline, metric, len(values), len(base), mean, base_mean, low, high, p, detectable)


def compute_permutation_p(values: np.ndarray, base: np.ndarray, random: np.random.Generator) -> float:
    """Return the p-value of a random permutation test for equal means; 1 if all values are equal."""

    def compare_means(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(x.mean(axis=axis) - y.mean(axis=axis))

    test = stats.permutation_test((values, base), compare_means, n_resamples=PERMUTATIONS, vectorized=True, rng=random)
    return float(test.pvalue)


def describe_differences(differences: Sequence[ArmDifference]) -> list[tuple[str, ...]]:
    """Return a row of text for each difference: arm, metric, means with numbers of sessions, difference, p and detectable."""
    return [
        (
            f"{row.arm} against {row.baseline}",
            row.metric,
            f"{row.mean:.4g} ({row.sessions})",
            f"{row.baseline_mean:.4g} ({row.baseline_sessions})",
            f"{row.mean - row.baseline_mean:+.4g} {_describe_interval(row)}",
            "unknown" if np.isnan(row.p) else f"{row.p:.3f}{' *' if row.is_claimed else ''}",
            f"{row.detectable:.4g}",
        )
        for row in differences
    ]


def _describe_interval(row: ArmDifference) -> str:
    return "(no interval)" if np.isnan(row.low) else f"[{row.low:+.4g}, {row.high:+.4g}]"
