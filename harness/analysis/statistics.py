"""Statistics of counts: success rates, pairs of outcomes, the exact McNemar test, and corrections for multiple tests.

The tests compare the functions with SciPy, statsmodels and published numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, nan

import numpy as np

from harness.analysis.intervals import (
    compute_exact_rate_bounds,
    compute_sign_p,
    compute_wilson_bounds,
)
from harness.errors import UsageError
from harness.text import format_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Success rate of a number of trials with its 95 % interval."""

    successes: int
    trials: int
    share: float
    """Success rate, 0 to 1: the share of the trials, or the mean of the shares of the tasks; NaN if there is no trial."""
    low: float
    """Lower bound of the 95 % interval, 0 to 1; 0 if there is no trial."""
    high: float
    """Upper bound of the 95 % interval, 0 to 1; 1 if there is no trial."""

    def __str__(self) -> str:
        if not self.trials:
            return "0/0"
        return f"{self.successes}/{self.trials}, {format_percent(self.share)} [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@lru_cache(maxsize=10_000)
def estimate_rate(successes: int, trials: int) -> Rate:
    """Return the success rate for the given counts, with its 95 % interval by Wilson's score method.

    If all trials succeeded, or none did, the interval is the exact one of Clopper and Pearson.

    Raises:
        UsageError: There are more successes than trials, or a count is negative.
    """
    if not 0 <= successes <= trials:
        raise UsageError(f"{successes} successes of {trials} trials is impossible; required: 0 <= successes <= trials")
    if trials == 0:
        return Rate(successes=0, trials=0, share=nan, low=0.0, high=1.0)
    compute = compute_exact_rate_bounds if successes in {0, trials} else compute_wilson_bounds
    bounds = compute(successes, trials)
    return Rate(successes=successes, trials=trials, share=float(bounds.value), low=float(bounds.low), high=float(bounds.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """Numbers of pairs of trials in which both arms, only arm a, only arm b or neither arm succeeded.

    A pair is one trial of each arm on the same task and seed.
    """

    both: int = 0
    only_a: int = 0
    only_b: int = 0
    neither: int = 0

    @classmethod
    def from_outcomes(cls, a: Sequence[bool], b: Sequence[bool]) -> "PairedCounts":
        """Count the pairs of trials in which both, only one or neither of two arms succeeded.

        Args:
            a: Outcomes of arm a, one per pair, True for success.
            b: Outcomes of arm b on the same tasks and seeds, in the same order.
        """
        pairs = [(bool(x), bool(y)) for x, y in zip(a, b, strict=True)]
        return cls(
            both=pairs.count((True, True)),
            only_a=pairs.count((True, False)),
            only_b=pairs.count((False, True)),
            neither=pairs.count((False, False)),
        )

    @property
    def pairs(self) -> int:
        """Total number of pairs, each one trial of both arms on the same task and seed."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def discordant_pairs(self) -> int:
        """Number of pairs of trials in which exactly one of the two compared arms succeeded."""
        return self.only_a + self.only_b

    @property
    def discordance(self) -> float:
        """Share of pairs of trials in which exactly one of the two arms succeeded, 0 to 1; NaN without pairs."""
        return self.discordant_pairs / self.pairs if self.pairs else nan

    @property
    def difference(self) -> float:
        """Success rate of arm a minus success rate of arm b, from −1 to 1; NaN if there are no pairs of trials."""
        return (self.only_a - self.only_b) / self.pairs if self.pairs else nan


def compute_mcnemar_p(counts: PairedCounts) -> float:
    """Return the two-sided p-value of the exact McNemar test; 1 if no pair has different outcomes.

    It is a binomial test on the pairs of trials in which exactly one arm succeeded.
    """
    return compute_sign_p(counts.only_a, counts.discordant_pairs)


def estimate_pass_at_k(successes: int, replicates: int, k: int) -> float:
    """Return the unbiased estimate of pass@k: the probability that at least one of `k` repeated trials succeeds.

    Replicates run the same instance: the same configuration, task and seed. They differ only in the seed of the model. Do not
    count trials of several instances together: estimate the probability for each instance, then average.

    Args:
        successes: Number of successful replicates of the instance.
        replicates: Number of replicates of the instance.
        k: Number of attempts, from 1 to `replicates`.

    Raises:
        UsageError: There are fewer than `k` replicates, or the numbers contradict each other.
    """
    _check_replicates(successes, replicates, k)
    return 1.0 - comb(replicates - successes, k) / comb(replicates, k)


def estimate_pass_hat_k(successes: int, replicates: int, k: int) -> float:
    """Return the unbiased estimate of pass^k: the probability that all of `k` replicates succeed.

    Args:
        successes: Number of successful replicates of the instance; see `estimate_pass_at_k`.
        replicates: Number of replicates of the instance.
        k: Number of attempts, from 1 to `replicates`.

    Raises:
        UsageError: There are fewer than `k` replicates, or the numbers contradict each other.
    """
    _check_replicates(successes, replicates, k)
    return comb(successes, k) / comb(replicates, k)


def _check_replicates(successes: int, replicates: int, k: int) -> None:
    if not 0 <= successes <= replicates:
        raise UsageError(f"successes: must be between 0 and the number of replicates, {replicates} (got {successes})")
    if not 1 <= k <= replicates:
        raise UsageError(f"k: must be between 1 and the number of repeated trials (replicates), {replicates} (got {k})")


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple comparisons by Holm's method, and return them in the given order."""
    order, ordered = _sort_with_order(p_values)
    adjusted = np.maximum.accumulate(ordered * np.arange(len(p_values), 0, -1))
    return _restore_order(adjusted, order)


def adjust_benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values by the method of Benjamini and Hochberg, which bounds the share of false discoveries.

    Unknown p-values (NaN) stay unknown and do not count.
    """
    values = np.asarray(p_values, dtype=float)
    known = ~np.isnan(values)
    order, ordered = _sort_with_order(values[known].tolist())
    count = len(ordered)
    adjusted = np.minimum.accumulate((ordered * count / np.arange(1, count + 1))[::-1])[::-1]
    values[known] = _restore_order(adjusted, order)
    return [float(p_value) for p_value in values]


def _sort_with_order(p_values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values, kind="stable")
    return order, values[order]


def _restore_order(adjusted: np.ndarray, order: np.ndarray) -> list[float]:
    restored = np.empty(len(order))
    restored[order] = np.minimum(adjusted, 1.0)
    return [float(p) for p in restored]
