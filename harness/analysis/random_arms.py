"""Comparison of the arms of a gateway, which draws the arm of each new session at random.

The sessions of two arms have no tasks or seeds in common, so they are compared as two samples. A permutation test is exact for
sessions that were assigned at random, whatever their distribution; Holm's method keeps the chance of any false claim at 5 %.
"""

import json
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
    """Lower end of Welch's 95 % interval of the difference."""
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
    found = []
    for name, metric in product(names[1:], METRICS):
        values, base = (trials.loc[arms == arm, metric].dropna().to_numpy(np.float64) for arm in (name, names[0]))
        found.append(_compare(name, names[0], metric, values, base, random))
    known = [difference for difference in found if not np.isnan(difference.p)]
    adjusted = iter(adjust_holm([difference.p for difference in known]))
    return [difference if np.isnan(difference.p) else difference._replace(p=next(adjusted)) for difference in found]


def _compare(
    arm: str, baseline: str, metric: str, values: np.ndarray, base: np.ndarray, random: np.random.Generator
) -> ArmDifference:
    mean, base_mean = (float(sample.mean()) if len(sample) else nan for sample in (values, base))
    low = high = p = detectable = nan
    if min(len(values), len(base)) >= LEAST_SESSIONS:
        errors = [float(sample.var(ddof=1)) / len(sample) for sample in (values, base)]
        error = sqrt(sum(errors))
        shares = [part**2 / (len(sample) - 1) for part, sample in zip(errors, (values, base), strict=True)]
        freedom = error**4 / sum(shares) if error else 1.0
        margin = float(stats.t.ppf(1 - ALPHA / 2, freedom)) * error
        low, high = mean - base_mean - margin, mean - base_mean + margin
        p = compute_permutation_p(values, base, random)
        detectable = float(stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)) * error
    return ArmDifference(arm, baseline, metric, len(values), len(base), mean, base_mean, low, high, p, detectable)


def compute_permutation_p(values: np.ndarray, base: np.ndarray, random: np.random.Generator) -> float:
    """Return the p-value of a random permutation test for equal means; 1 if all values are equal."""
    pooled = np.concatenate([values, base])
    observed = abs(values.mean() - base.mean())
    sums = random.permuted(np.tile(pooled, (PERMUTATIONS, 1)), axis=1)[:, : len(values)].sum(axis=1)
    differences = np.abs(sums / len(values) - (pooled.sum() - sums) / len(base))
    tolerance = 1e-12 * max(1.0, float(np.abs(pooled).max()))
    return float((1 + np.count_nonzero(differences >= observed - tolerance)) / (PERMUTATIONS + 1))


def describe_differences(differences: Sequence[ArmDifference]) -> list[tuple[str, ...]]:
    """Return a row of text for each difference: arm, metric, means with numbers of sessions, difference, p and detectable."""
    return [
        (
            f"{row.arm} against {row.baseline}",
            row.metric,
            f"{row.mean:.4g} ({row.sessions})",
            f"{row.baseline_mean:.4g} ({row.baseline_sessions})",
            f"{row.mean - row.baseline_mean:+.4g} [{row.low:+.4g}, {row.high:+.4g}]",
            "unknown" if np.isnan(row.p) else f"{row.p:.3f}{' *' if row.is_claimed else ''}",
            f"{row.detectable:.4g}",
        )
        for row in differences
    ]
