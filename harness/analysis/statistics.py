"""Rates and paired differences of rates: intervals, the exact test, and what a number of pairs can show.

Apart from tables and figures because it knows only counts. Known libraries do what they do well; only Newcombe's interval
for paired rates (method 10) is written here. It is chosen because it keeps its promise at the small numbers that agent
studies have, where the bootstrap and Wald's interval do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan, sqrt
from typing import NamedTuple

from scipy.optimize import brentq
from scipy.stats import binom, norm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from harness.errors import UsageError


class Interval(NamedTuple):
    """Two bounds with the estimate between them."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Successes among trials with Wilson's interval."""

    successes: int
    trials: int
    low: float
    """Lower bound, 0–1; 0 when there is no trial."""
    high: float
    """Upper bound, 0–1; 1 when there is no trial."""

    @property
    def share(self) -> float:
        """Successes over trials, 0–1; NaN when there is no trial."""
        return self.successes / self.trials if self.trials else nan

    def __str__(self) -> str:
        if not self.trials:
            return "0/0"
        return f"{self.successes}/{self.trials}, {100 * self.share:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@lru_cache(maxsize=10_000)
def estimate_rate(successes: int, trials: int, confidence: float = 0.95) -> Rate:
    """The rate of one arm with Wilson's score interval.

    Raises:
        UsageError: more successes than trials, or a negative count.
    """
    if not 0 <= successes <= trials:
        raise UsageError(f"{successes} successes of {trials} trials cannot be; want 0 <= successes <= trials")
    if trials == 0:
        return Rate(successes=0, trials=0, low=0.0, high=1.0)
    low, high = proportion_confint(successes, trials, alpha=1 - confidence, method="wilson")
    share = successes / trials
    return Rate(successes=successes, trials=trials, low=min(float(low), share), high=max(float(high), share))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """What became of the same tasks and seeds under two arms, a and b."""

    both: int = 0
    only_a: int = 0
    only_b: int = 0
    neither: int = 0

    @classmethod
    def from_outcomes(cls, a: Sequence[bool], b: Sequence[bool]) -> "PairedCounts":
        """Count pairs; `a[i]` and `b[i]` are the successes of one task and seed."""
        pairs = [(bool(x), bool(y)) for x, y in zip(a, b, strict=True)]
        return cls(
            both=pairs.count((True, True)),
            only_a=pairs.count((True, False)),
            only_b=pairs.count((False, True)),
            neither=pairs.count((False, False)),
        )

    @property
    def pairs(self) -> int:
        """All pairs."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def discordant_pairs(self) -> int:
        """Pairs in which exactly one arm succeeded: the only ones that tell the arms apart."""
        return self.only_a + self.only_b

    @property
    def discordance(self) -> float:
        """Discordant pairs over all pairs, 0–1; NaN without pairs."""
        return self.discordant_pairs / self.pairs if self.pairs else nan

    @property
    def difference(self) -> float:
        """Success rate of a less that of b, −1 to 1; NaN without pairs."""
        return (self.only_a - self.only_b) / self.pairs if self.pairs else nan


def compute_newcombe_interval(counts: PairedCounts, confidence: float = 0.95) -> Interval:
    """Interval for the difference of two paired rates, a less b.

    Wilson's bounds of either rate are combined by Pythagoras, less what the correlation of the pairs explains; a positive
    correlation is corrected for continuity. Without pairs everything from −1 to 1 is possible.

    Source: Newcombe, Statistics in Medicine 17 (1998), pp. 2635–2650, method 10.
    """
    n = counts.pairs
    if n == 0:
        return Interval(-1.0, 1.0)
    a = estimate_rate(counts.both + counts.only_a, n, confidence)
    b = estimate_rate(counts.both + counts.only_b, n, confidence)
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
    """Two-sided p of the exact McNemar test: are the discordant pairs split as a fair coin would? 1 when there is none."""
    if counts.discordant_pairs == 0:
        return 1.0
    table = [[counts.both, counts.only_a], [counts.only_b, counts.neither]]
    return min(1.0, float(mcnemar(table, exact=True).pvalue))


def adjust_holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm for looking at all of them; in the order given."""
    if not p_values:
        return []
    return [float(p) for p in multipletests(list(p_values), method="holm")[1]]


def compute_required_pairs(discordance: float, difference: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """Pairs that find a true difference with this power.

    Args:
        discordance: share of pairs that differ, 0–1, at least `difference`.
        difference: true difference of the rates, 0–1.
        power: chance to find it.
        alpha: level of the two-sided test.
    """
    if not 0 < difference <= discordance <= 1:
        raise UsageError(f"difference={difference!r} and discordance={discordance!r}: want 0 < difference <= discordance <= 1")
    z_alpha, z_power = float(norm.ppf(1 - alpha / 2)), float(norm.ppf(power))
    spread = z_alpha * sqrt(discordance) + z_power * sqrt(discordance - difference**2)
    return (spread / difference) ** 2


def compute_minimum_detectable_effect(
    pairs: int, discordance: float = 0.16, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """The smallest true difference (0–1) that so many pairs find with this power; None = not even the largest possible.

    A difference cannot exceed the discordance, the share of pairs that differ at all. The default is what coding agents show when
    one configuration runs twice (12 to 28 %).
    """
    if pairs < 1 or discordance <= 0 or compute_required_pairs(discordance, discordance, power, alpha) > pairs:
        return None
    smallest = 1e-6

    def compute_shortage(difference: float) -> float:
        return compute_required_pairs(discordance, difference, power, alpha) - pairs

    if compute_shortage(min(smallest, discordance)) <= 0:
        return smallest
    return float(brentq(compute_shortage, smallest, discordance))


def count_required_discordant_pairs(alpha: float = 0.05) -> int:
    """Discordant pairs, all favouring one arm, that the exact test needs for p <= alpha: 6 at 5 %."""
    count = 1
    while 2 * 0.5**count > alpha:
        count += 1
    return count


def compute_best_case_detectable_effect(pairs: int, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """The smallest true difference (0–1) that the exact test finds when no pair ever goes the other way; None = nothing.

    A bound that needs no guess of the discordance: whatever is true, fewer pairs cannot do better.
    """
    needed = count_required_discordant_pairs(alpha)
    if pairs < needed:
        return None
    return float(brentq(lambda share: float(binom.sf(needed - 1, pairs, share)) - power, 1e-9, 1 - 1e-12))


def compute_smallest_p(pairs: int) -> float:
    """The least p that the exact test can give with so many pairs; 1 without pairs."""
    return min(1.0, 2 * 0.5**pairs) if pairs < 1000 else 0.0


def describe_detectable_effect(pairs: int) -> str:
    """What so many pairs can and cannot show, whatever comes out, in words."""
    needed, best = count_required_discordant_pairs(), compute_best_case_detectable_effect(pairs)
    if pairs == 0:
        return "No task and seed ran under both arms, so nothing can be said about their difference."
    if best is None:
        return (
            f"So few cannot show a difference at the 5 % level, whatever an interval seems to say: the exact test needs at least "
            f"{needed} pairs that differ, all in one direction. Read these trials as examples, not as evidence."
        )
    return (
        f"A difference can be shown only if at least {needed} pairs differ, nearly all in one direction; even then only true "
        f"differences of {100 * best:.0f} points or more are found in 4 of 5 such studies."
    )


def describe_evidence(counts: PairedCounts) -> str:
    """What these pairs show, in words: an interval and a test that disagree are a hint and no result."""
    if compute_best_case_detectable_effect(counts.pairs) is None:
        return "Nothing is shown."
    low, high = compute_newcombe_interval(counts)
    if low <= 0 <= high:
        return "Here the interval contains 0, which is not evidence of equality: every other difference in it is as possible."
    if compute_mcnemar_p(counts) > 0.05:
        return "Here the interval leaves out 0, but the exact test does not reach 5 %: a hint to be tried on new seeds."
    return "Here both the interval and the exact test leave out 0."
