"""Statistics for success rates: intervals, paired differences, the exact McNemar test and detectable differences.

The functions depend on counts only. Most are thin layers over SciPy and statsmodels; Newcombe's interval for paired rates (method
10) is implemented here, because its coverage stays close to 95 % at the small samples typical of agent studies, unlike that of
the bootstrap and of Wald's interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, log2, nan, sqrt
from typing import NamedTuple

from scipy.stats import beta, norm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from harness.errors import UsageError

ALPHA = 0.05
"""Significance level of all two-sided tests, 0.05. All intervals have the confidence level 1 − ALPHA, i.e. 95 %."""
POWER = 0.8
"""Statistical power; a difference is called detectable if a test finds it with at least this probability."""
REQUIRED_DISCORDANT_PAIRS = ceil(1 - log2(ALPHA))
"""Number of pairs (6) that must differ, all in favour of one arm, before the exact McNemar test gives p <= ALPHA."""


class Interval(NamedTuple):
    """Interval around an estimate, given by its lower and upper bound."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Success rate of a number of trials with its 95 % Wilson interval."""

    successes: int
    trials: int
    low: float
    """Lower bound of the 95 % Wilson interval, 0 to 1; 0 if there is no trial."""
    high: float
    """Upper bound of the 95 % Wilson interval, 0 to 1; 1 if there is no trial."""

    @property
    def share(self) -> float:
        """Number of successes divided by the number of trials, 0 to 1; NaN if there is no trial."""
        return self.successes / self.trials if self.trials else nan

    def __str__(self) -> str:
        if not self.trials:
            return "0/0"
        return f"{self.successes}/{self.trials}, {100 * self.share:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@lru_cache(maxsize=10_000)
def estimate_rate(successes: int, trials: int) -> Rate:
    """Return the success rate for the given counts with its 95 % interval by Wilson's score method.

    Raises:
        UsageError: There are more successes than trials, or a count is negative.
    """
    if not 0 <= successes <= trials:
        raise UsageError(f"{successes} successes of {trials} trials is impossible; required: 0 <= successes <= trials")
    if trials == 0:
        return Rate(successes=0, trials=0, low=0.0, high=1.0)
    low, high = proportion_confint(successes, trials, alpha=ALPHA, method="wilson")
    share = successes / trials
    return Rate(successes=successes, trials=trials, low=min(float(low), share), high=max(float(high), share))


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
        """Return the number of pairs of trials in which both, only one or neither of two arms succeeded.

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
        """Number of pairs of trials in which exactly one of the two compared arms (configurations) succeeded."""
        return self.only_a + self.only_b

    @property
    def discordance(self) -> float:
        """Share of pairs of trials in which exactly one of the two arms succeeded, 0 to 1; NaN if there are no pairs."""
        return self.discordant_pairs / self.pairs if self.pairs else nan

    @property
    def difference(self) -> float:
        """Success rate of arm a minus success rate of arm b, from −1 to 1; NaN if there are no pairs of trials."""
        return (self.only_a - self.only_b) / self.pairs if self.pairs else nan


def compute_newcombe_interval(counts: PairedCounts) -> Interval:
    """Return Newcombe's 95 % interval for the difference of two paired success rates, arm a minus arm b.

    The distances of Wilson's bounds from both rates are combined in quadrature and reduced by the correlation of the pairs; a
    positive correlation is corrected for continuity. Without pairs the interval is −1 to 1.

    Source: Newcombe, Statistics in Medicine 17 (1998), pp. 2635–2650, method 10.
    """
    n = counts.pairs
    if n == 0:
        return Interval(-1.0, 1.0)
    a = estimate_rate(counts.both + counts.only_a, n)
    b = estimate_rate(counts.both + counts.only_b, n)
    phi = _compute_phi(counts)
    below = _compute_half_width(a.share - a.low, b.high - b.share, phi)
    above = _compute_half_width(a.high - a.share, b.share - b.low, phi)
    return Interval(max(-1.0, counts.difference - below), min(1.0, counts.difference + above))


def _compute_phi(counts: PairedCounts) -> float:
    a, b, n = counts.both + counts.only_a, counts.both + counts.only_b, counts.pairs
    margins = a * (n - a) * b * (n - b)
    if margins == 0:
        return 0.0
    excess = counts.both * counts.neither - counts.only_a * counts.only_b
    return (max(excess - n / 2, 0.0) if excess > 0 else excess) / sqrt(margins)


def _compute_half_width(x: float, y: float, phi: float) -> float:
    return sqrt(max(0.0, x * x - 2 * phi * x * y + y * y))


def compute_mcnemar_p(counts: PairedCounts) -> float:
    """Return the two-sided p of the exact McNemar test, a binomial test on the pairs in which exactly one arm succeeded.

    The p is 1 if there are no such pairs.
    """
    if counts.discordant_pairs == 0:
        return 1.0
    table = [[counts.both, counts.only_a], [counts.only_b, counts.neither]]
    return min(1.0, float(mcnemar(table, exact=True).pvalue))


def estimate_pass_at_k(successes: int, replicates: int, k: int) -> float:
    """Return the unbiased estimate of pass@k: the probability that at least one of `k` replicates of an instance succeeds.

    Replicates are trials with equal configuration, task and seed that differ in the seed of the model alone. Trials of several
    instances must not be counted together: estimate the probability for each instance, then average over instances.

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
    """Return the unbiased estimate of pass^k: the probability that all of `k` replicates of an instance succeed.

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
        raise UsageError(f"k: must be between 1 and the number of replicates of the instance, {replicates} (got {k})")


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple comparisons by Holm's method, and return them in the given order."""
    if not p_values:
        return []
    return [float(p) for p in multipletests(list(p_values), method="holm")[1]]


def compute_minimum_detectable_effect(pairs: int, discordance: float = 0.16) -> float | None:
    """Return the smallest true difference of success rates that the given number of pairs detects with 80 % power.

    Return None if not even the largest possible difference, which equals the discordance, is detected. The formula is the usual
    normal approximation for McNemar's test, solved for the difference.

    Args:
        pairs: Number of pairs of trials on the same task and seed.
        discordance: Expected share of pairs in which exactly one arm succeeds, 0 to 1. The default is typical of one
            configuration of a coding agent that runs twice (12 to 28 %).
    """
    z_alpha, z_power = float(norm.ppf(1 - ALPHA / 2)), float(norm.ppf(POWER))
    radicand = pairs + z_power**2 - z_alpha**2
    if radicand < 0:
        return None
    effect = sqrt(discordance) * (z_alpha * sqrt(pairs) + z_power * sqrt(radicand)) / (pairs + z_power**2)
    return effect if 0 < effect <= discordance else None


def compute_best_case_detectable_effect(pairs: int) -> float | None:
    """Return the smallest true difference of success rates that the exact McNemar test detects in the best case, or None.

    In the best case all pairs that differ favour the same arm; in other cases only larger differences are detected. None means
    that there are too few pairs to detect any difference.
    """
    if pairs < REQUIRED_DISCORDANT_PAIRS:
        return None
    return float(beta.ppf(POWER, REQUIRED_DISCORDANT_PAIRS, pairs - REQUIRED_DISCORDANT_PAIRS + 1))


def compute_smallest_p(pairs: int) -> float:
    """Return the smallest p that the exact McNemar test can give for the given number of pairs; 1 without pairs."""
    return min(1.0, 2 * 0.5**pairs) if pairs < 1000 else 0.0


def describe_detectable_effect(pairs: int) -> str:
    """Return sentences on how large a difference between two arms must be, so that this number of paired trials can show it."""
    best = compute_best_case_detectable_effect(pairs)
    if pairs == 0:
        return "No task and seed ran under both arms, so their difference is unknown."
    if best is None:
        return (
            "Too few pairs to show a difference in success at the 5 % level, whatever an interval suggests: the exact test needs "
            f"at least {REQUIRED_DISCORDANT_PAIRS} pairs that differ, all in one direction. Read the trials as examples, not as "
            "evidence."
        )
    return (
        f"A difference in success can be shown only if at least {REQUIRED_DISCORDANT_PAIRS} pairs differ in it, nearly all in "
        f"one direction; this number of pairs detects, with 80 % probability, only true differences of at least "
        f"{100 * best:.0f} points."
    )


def describe_evidence(counts: PairedCounts) -> str:
    """Return a sentence that states how strong the evidence is that the success rates of two arms differ.

    A difference is called a hint if the interval excludes 0 but the exact McNemar test is not significant.
    """
    if compute_best_case_detectable_effect(counts.pairs) is None:
        return "No difference in success is shown; see score above."
    low, high = compute_newcombe_interval(counts)
    if low <= 0 <= high:
        return "The interval contains 0, which does not show that success is equal: the data agree with any difference in it."
    if compute_mcnemar_p(counts) > ALPHA:
        return "The interval excludes 0, but the exact test does not reach 5 %: a hint to be tested on new seeds."
    return "Both the interval and the exact test exclude 0."
