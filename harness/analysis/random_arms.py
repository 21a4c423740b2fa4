"""Comparison of the arms of a gateway, which draws the arm of each new session at random.

The sessions of two arms have no tasks or seeds in common, so they are compared as two samples. A permutation test is exact for
sessions that were assigned at random, whatever their distribution; Holm's method keeps the chance of any false claim at 5 %.
"""

import json
import warnings
from collections.abc import Sequence
from itertools import product
from math import comb, inf, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from harness.analysis.intervals import ALPHA, NO_SPREAD, Interval, compute_independent_newcombe_bounds
from harness.analysis.planning import POWER
from harness.analysis.statistics import adjust_holm
from harness.errors import UsageError

SUCCESS = "marked_success"
METRICS = ("total_cost_usd", "steps", "compactions", "prompt_tokens", SUCCESS)
"""Columns of the table of trials that are compared; the last one only if the user marked sessions."""
PERMUTATIONS = 9_999
LEAST_SESSIONS = 2
"""Smallest number of sessions of an arm with which a mean has an interval."""
_UNKNOWN = Interval(nan, nan)


class ArmDifference(NamedTuple):
    """Difference between an arm and the first arm in the mean of a metric; for success, in the rate."""

    arm: str
    baseline: str
    metric: str
    sessions: int
    """Number of sessions of the arm with a value."""
    baseline_sessions: int
    mean: float
    baseline_mean: float
    low: float
    """Lower end of the 95 % interval of the difference; NaN with too few sessions, or if no two values of an arm differ.

    The interval is Newcombe's for success and Welch's for any other metric.
    """
    high: float
    p: float
    """P-value of the permutation test, by Holm's method over all differences; NaN with too few sessions."""
    detectable: float
    """Smallest difference that so many sessions detect with a power of 80 % after Holm's correction at its strictest.

    Infinite if no difference can be claimed, because even the smallest p-value that so few sessions can have is too large, or
    because a rate would have to change by more than 1. NaN with too few sessions for a spread, or if no two values of an arm
    differ.
    """

    @property
    def is_claimed(self) -> bool:
        """Whether the difference is significant at 5 %."""
        return self.p <= ALPHA


def read_arms(trials: pd.DataFrame) -> "pd.Series[str]":
    """Return the arm of each session, as the gateway logged it; missing for sessions of anything else."""
    return _read_assignments(trials).map(lambda assignment: assignment.get("arm"))


def read_choices(trials: pd.DataFrame) -> "pd.Series[Any]":
    """Return the arms among which each session drew, as a sorted tuple; an empty one for sessions that drew none."""
    return _read_assignments(trials).map(lambda assignment: tuple(sorted(assignment.get("arms", ()))))


def list_arms(trials: pd.DataFrame) -> list[str]:
    """Return the arms of the sessions in a table of trials, in the order in which they were named to the gateway."""
    drawn = set(read_arms(trials).dropna())
    named = [arm for assignment in _read_assignments(trials) for arm in assignment.get("arms", ())]
    return [arm for arm in dict.fromkeys((*named, *sorted(drawn))) if arm in drawn]


def _read_assignments(trials: pd.DataFrame) -> "pd.Series[Any]":
    return trials["config_json"].map(lambda text: json.loads(text or "{}").get("gateway", {}))


def compare_random_arms(trials: pd.DataFrame, *, seed: int = 0) -> list[ArmDifference]:
    """Return the differences of each arm from the first one in each metric.

    Args:
        trials: Table of trials with the column `config_json` and the metrics; one row for each session.
        seed: Seed of the permutations.

    Raises:
        UsageError: The table has sessions of fewer than two arms, or not all sessions drew among the same arms.
    """
    choices = sorted(set(read_choices(trials)) - {()})
    if len(choices) > 1:
        lists = "; ".join(", ".join(choice) for choice in choices)
        raise UsageError(f"the sessions drew among different arms ({lists}); compare those that drew among the same")
    arms, names = read_arms(trials), list_arms(trials)
    if len(names) < 2:
        raise UsageError(
            f"the journal has sessions of {len(names)} arms of a gateway; start it with --arm twice or more, "
            "so that each new session gets one of them at random"
        )
    random = np.random.default_rng(seed)
    compared = list(product(names[1:], [metric for metric in METRICS if metric != SUCCESS or trials[SUCCESS].notna().any()]))
    alpha = ALPHA / len(compared)
    differences = []
    for name, metric in compared:
        values, base = (trials.loc[arms == arm, metric].dropna().to_numpy(np.float64) for arm in (name, names[0]))
        mean, base_mean = (float(sample.mean()) if len(sample) else nan for sample in (values, base))
        is_measured = min(len(values), len(base)) >= LEAST_SESSIONS
        low, high = _compute_bounds(metric, values, base) if is_measured else _UNKNOWN
        p = compute_permutation_p(values, base, random) if is_measured else nan
        detectable = compute_detectable_difference(metric, values, base, alpha) if is_measured else nan
        counts = (len(values), len(base))
        differences.append(ArmDifference(name, names[0], metric, *counts, mean, base_mean, low, high, p, detectable))
    known = [difference for difference in differences if not np.isnan(difference.p)]
    adjusted = iter(adjust_holm([difference.p for difference in known]))
    return [difference if np.isnan(difference.p) else difference._replace(p=next(adjusted)) for difference in differences]


def _compute_bounds(metric: str, values: np.ndarray, base: np.ndarray) -> Interval:
    if metric == SUCCESS:
        bounds = compute_independent_newcombe_bounds(values.sum(), len(values), base.sum(), len(base))
        return Interval(float(bounds.low), float(bounds.high))
    if max(np.ptp(values), np.ptp(base)) <= NO_SPREAD:
        return _UNKNOWN
    from scipy import stats  # noqa: PLC0415  (slow, and few reports need it)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of scipy, if the values of one arm are all equal
        return Interval(*map(float, stats.ttest_ind(values, base, equal_var=False).confidence_interval(1 - ALPHA)))


def compute_detectable_difference(metric: str, values: np.ndarray, base: np.ndarray, alpha: float = ALPHA) -> float:
    """Return the smallest difference that so many sessions detect with a power of 80 %, by the normal approximation.

    Args:
        metric: Name of the metric. A rate of success is estimated with a success and a failure more in each sample, so that its
            spread is never zero (Agresti and Caffo, The American Statistician 54, 2000, pp. 280–288).
        values: Values of an arm, at least two.
        base: Values of the other arm, at least two.
        alpha: Significance level of the test.

    Returns:
        The difference in the unit of the metric; infinite if none is ever significant; NaN if no two values of an arm differ.
    """
    if compute_smallest_p(len(values), len(base)) > alpha:
        return inf
    if metric == SUCCESS:
        rates = [((sample.sum() + 1) / (len(sample) + 2), len(sample) + 2) for sample in (values, base)]
        error = sqrt(sum(rate * (1 - rate) / count for rate, count in rates))
    else:
        error = sqrt(sum(float(sample.var(ddof=1)) / len(sample) for sample in (values, base)))
    difference = float(ndtri(1 - alpha / 2) + ndtri(POWER)) * error or nan
    return inf if metric == SUCCESS and difference > 1 else difference


def compute_smallest_p(count: int, other_count: int) -> float:
    """Return the smallest p-value that the two-sided permutation test of two samples of these sizes can have."""
    return max(2 / comb(count + other_count, count), 1 / (PERMUTATIONS + 1))


def compute_permutation_p(values: np.ndarray, base: np.ndarray, random: np.random.Generator) -> float:
    """Return the p-value of a random permutation test for equal means; 1 if all values are equal."""
    from scipy import stats  # noqa: PLC0415  (slow, and few reports need it)

    def compare_means(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(x.mean(axis=axis) - y.mean(axis=axis))

    test = stats.permutation_test((values, base), compare_means, n_resamples=PERMUTATIONS, vectorized=True, rng=random)
    return float(test.pvalue)


def describe_differences(differences: Sequence[ArmDifference]) -> list[tuple[str, ...]]:
    """Return a row of text for each difference: arm, metric, means with numbers of sessions, difference, p and detectable."""
    return [
        (
            f"{row.arm} against {row.baseline}",
            "success" if row.metric == SUCCESS else row.metric,
            f"{_format(row.mean)} ({row.sessions})",
            f"{_format(row.baseline_mean)} ({row.baseline_sessions})",
            f"{_format(row.mean - row.baseline_mean, '+')} {_describe_interval(row)}",
            "unknown" if np.isnan(row.p) else f"{row.p:.3f}{' *' if row.is_claimed else ''}",
            "unknown" if np.isnan(row.detectable) else "none" if np.isinf(row.detectable) else _format(row.detectable),
        )
        for row in differences
    ]


def _describe_interval(row: ArmDifference) -> str:
    return "(no interval)" if np.isnan(row.low) else f"[{_format(row.low, '+')}, {_format(row.high, '+')}]"


def _format(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if abs(value) >= 1_000 else f"{value:{sign}.4g}"
