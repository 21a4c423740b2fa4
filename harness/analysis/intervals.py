"""Confidence intervals and statistical tests on numpy arrays, used by the whole analysis.

The functions reduce the last dimension of their arrays and keep the others, so that `tests/bench`, which simulates thousands of
studies at once, runs the same code as a comparison of two arms. No function returns an interval of width zero. If all values are
equal, the bounds are those for bounded variables, or NaN if the variable is not bounded.

The distributions come from `scipy.special`, because `scipy.stats` and statsmodels take several times as long to import.
"""

from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import bdtr, betaincinv, ndtri, stdtr, stdtrit

from harness.experiment.contrasts import SIGNIFICANCE_LEVEL

ALPHA = SIGNIFICANCE_LEVEL
"""Significance level of all two-sided tests, 0.05. All intervals have the confidence level 1 − ALPHA, i.e. 95 %."""
NO_SPREAD = 1e-9
"""Maximum range of values that count as equal, because they differ by rounding errors only."""
MAX_EXACT_FLIPS = 24
"""Maximum number of differences for which the sign-flip test tries all combinations of signs; with more, it draws some."""
DRAWN_FLIPS = 99_999
"""Number of combinations of signs that the sign-flip test draws, with a fixed seed, if there are too many to try them all."""
MULTIPLIED_AT_ONCE = 2**17
"""Number of signs that are drawn and multiplied with differences at a time, as numbers of 8 bytes."""
WEIGHT_DRAWS = 10_000
"""Number of random weights, drawn with a fixed seed, from which the bounds of the mean of a bounded variable are computed."""
WEIGHTS_AT_ONCE = 500
"""Number of random weights of each value that are drawn at a time, as numbers of 8 bytes; a divisor of their number."""
MAX_SHARED_VALUES = 500
"""Maximum number of values up to which drawn weights are kept for each number of values, at 40 KB for each value."""
SMALLEST_DRAWN_P = 2 / WEIGHT_DRAWS
"""Smallest p-value that the drawn weights can tell apart from 0."""

EXTREME_WEIGHT = 0.5
"""Weight of an extreme value, relative to an observed one, in the bounds of the mean of a bounded variable with spread."""

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Weights: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


Scalars: TypeAlias = Array | float
"""Numbers of one or of several studies."""


class Interval(NamedTuple):
    """Interval around an estimate, given by its lower and upper bound."""

    low: float
    high: float


class Bounds(NamedTuple):
    """Estimates with the lower and upper bounds of their intervals, as arrays of equal shape.

    Unknown bounds are NaN.
    """

    value: Array
    low: Array
    high: Array


def compute_wilson_bounds(successes: Scalars, trials: Scalars, alpha: float = ALPHA) -> Bounds:
    """Return success rates with the bounds of their intervals by Wilson's score method.

    Without trials, the bounds are 0 and 1.
    """
    successes, trials = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    known = np.maximum(trials, 1.0)
    share, square = successes / known, ndtri(alpha / 2) ** 2
    center = (share + square / (2 * known)) / (1 + square / known)
    half = np.sqrt(square * (share * (1 - share) / known + square / (4 * known**2))) / (1 + square / known)
    low, high = np.minimum(center - half, share), np.maximum(center + half, share)
    return Bounds(np.where(trials, share, np.nan), np.where(trials, low, 0.0), np.where(trials, high, 1.0))


def compute_exact_rate_bounds(successes: Scalars, trials: Scalars, alpha: float = ALPHA) -> Bounds:
    """Return success rates with the bounds of the exact intervals of Clopper and Pearson."""
    successes, trials = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    failures = trials - successes
    # both branches of `np.where` are computed, so the branch that is not used gets a valid argument too
    low = np.where(successes > 0, betaincinv(np.maximum(successes, 1.0), failures + 1, alpha / 2), 0.0)
    high = np.where(failures > 0, betaincinv(successes + 1, np.maximum(failures, 1.0), 1 - alpha / 2), 1.0)
    return Bounds(successes / trials, low, high)


def compute_newcombe_bounds(both: Scalars, only_a: Scalars, only_b: Scalars, neither: Scalars, alpha: float = ALPHA) -> Bounds:
    """Return differences of two paired success rates, a minus b, with the bounds of Newcombe's intervals.

    The distances of Wilson's bounds from both rates are combined in quadrature and reduced by the correlation of the pairs. A
    positive correlation is corrected for continuity. Without pairs, the interval is −1 to 1.

    Source: Newcombe, Statistics in Medicine 17 (1998), pp. 2635–2650, method 10.

    Args:
        both: Number of pairs in which both arms succeeded.
        only_a: Number of pairs in which only arm a succeeded.
        only_b: Number of pairs in which only arm b succeeded.
        neither: Number of pairs in which neither arm succeeded.
        alpha: 1 minus the confidence level of the interval.
    """
    both, only_a, only_b, neither = (np.asarray(counts, dtype=float) for counts in (both, only_a, only_b, neither))
    n = both + only_a + only_b + neither
    a, b = compute_wilson_bounds(both + only_a, n, alpha), compute_wilson_bounds(both + only_b, n, alpha)
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    excess = both * neither - only_a * only_b
    excess = np.where(excess > 0, np.maximum(excess - n / 2, 0.0), excess)
    phi = np.where(margins > 0, excess / np.sqrt(np.maximum(margins, 1.0)), 0.0)
    difference = (only_a - only_b) / np.maximum(n, 1.0)
    below = _combine_distances(a.value - a.low, b.high - b.value, phi)
    above = _combine_distances(a.high - a.value, b.value - b.low, phi)
    low = np.where(n, np.maximum(-1.0, difference - below), -1.0)
    return Bounds(np.where(n, difference, np.nan), low, np.where(n, np.minimum(1.0, difference + above), 1.0))


def compute_independent_newcombe_bounds(
    a_successes: Scalars, a_trials: Scalars, b_successes: Scalars, b_trials: Scalars, alpha: float = ALPHA
) -> Bounds:
    """Return differences of the success rates of independent samples, a minus b, with the bounds of Newcombe's intervals.

    The distances of Wilson's bounds from both rates are combined in quadrature. With an empty sample, the difference is unknown.

    Source: Newcombe, Statistics in Medicine 17 (1998), pp. 873–890, method 10.

    Args:
        a_successes: Number of successes of arm a.
        a_trials: Number of trials of arm a.
        b_successes: Number of successes of arm b.
        b_trials: Number of trials of arm b.
        alpha: 1 minus the confidence level of the interval.
    """
    a, b = compute_wilson_bounds(a_successes, a_trials, alpha), compute_wilson_bounds(b_successes, b_trials, alpha)
    difference = a.value - b.value
    below = _combine_distances(a.value - a.low, b.high - b.value, np.zeros(()))
    above = _combine_distances(a.high - a.value, b.value - b.low, np.zeros(()))
    return Bounds(difference, difference - below, difference + above)


def _combine_distances(x: Array, y: Array, phi: Array) -> Array:
    return np.sqrt(np.maximum(0.0, x * x - 2 * phi * x * y + y * y))


def compute_student_bounds(values: Array, alpha: float = ALPHA) -> Bounds:
    """Return the means of the values with the bounds of Student's t intervals.

    Bounds are NaN with fewer than two values or without spread.
    """
    values = np.asarray(values, dtype=float)
    n, mean = values.shape[-1], values.mean(axis=-1)
    if n < 2:
        return Bounds(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    half = float(stdtrit(n - 1, 1 - alpha / 2)) * values.std(axis=-1, ddof=1) / np.sqrt(n)
    half = np.where(np.ptp(values, axis=-1) > NO_SPREAD, half, np.nan)
    return Bounds(mean, mean - half, mean + half)


def compute_bounded_mean_bounds(values: Array, low: float, high: float, alpha: float = ALPHA) -> Bounds:
    """Return the mean of values between two limits, with the bounds of its expected value.

    The upper bound is a quantile of many randomly weighted means of the values and the largest possible value. The lower bound is
    computed likewise with the smallest possible value.

    - All values equal: the limit gets the weight of one observed value. These bounds hold for any distribution. For values
      that are all 0 or all 1, they are the exact interval of Clopper and Pearson.
    - Values that differ: the limit gets half that weight, which makes the interval about a fifth narrower. This is not guaranteed
      for every distribution, but at least 95 % of the intervals contain the truth in simulated studies, even if some trials fail
      completely. Student's t is narrower still, but contains the truth in as few as 72 % of such studies.

    Over few seeds, valid intervals are wide, since a rare failure need not occur in any of them.

    Source: Gaffke, Mathematical Methods of Statistics 14 (2005); Learned-Miller and Thomas, arXiv:1905.06208.

    Args:
        values: Values within `low` and `high`.
        low: Smallest possible value.
        high: Largest possible value.
        alpha: 1 minus the confidence level of the interval.
    """
    values = np.asarray(values, dtype=float)
    n, mean = values.shape[-1], np.asarray(values.mean(axis=-1))
    place = int(alpha / 2 * WEIGHT_DRAWS)
    if mean.ndim == 0:
        lower, upper = _sort_weighted_means(values.tobytes(), low, high)
        return _limit_bounds(mean, lower[place], upper[-1 - place], low, high)
    rows, lows, highs = values.reshape(-1, n), np.empty(mean.size), np.empty(mean.size)
    flat = np.ptp(rows, axis=-1) <= NO_SPREAD
    for chosen, share in ((flat, 1.0), (~flat, EXTREME_WEIGHT)):
        if chosen.any():
            lower, upper = _compute_weighted_means(rows[chosen], share, low, high)
            lows[chosen] = np.partition(lower, place, axis=-1)[..., place]
            highs[chosen] = np.partition(upper, -1 - place, axis=-1)[..., -1 - place]
    return _limit_bounds(mean, lows.reshape(mean.shape), highs.reshape(mean.shape), low, high)


def _limit_bounds(mean: Array, lower: Array, upper: Array, low: float, high: float) -> Bounds:
    # the weighted means have single precision, so rounding may move a bound past the mean or past a limit
    return Bounds(mean, np.clip(lower, low, mean), np.clip(upper, mean, high))


@lru_cache(maxsize=64)
def _sort_weighted_means(values: bytes, low: float, high: float) -> tuple[Weights, Weights]:
    """Return the sorted means for the lower and the upper bound of one variable; the search for a p-value reads many of them.

    Args:
        values: Bytes of the array of values, which as the key of a stored result take a quarter of the memory of a tuple.
        low: Smallest possible value.
        high: Largest possible value.
    """
    row = np.frombuffer(values)
    share = 1.0 if np.ptp(row) <= NO_SPREAD else EXTREME_WEIGHT
    lower, upper = _compute_weighted_means(row, share, low, high)
    return np.sort(lower), np.sort(upper)


def _compute_weighted_means(rows: Array, share: float, low: float, high: float) -> tuple[Weights, Weights]:
    """Return the randomly weighted means of each row, first with the smallest, then with the largest possible value added."""
    count = rows.shape[-1]
    weights = (_draw_weights if count <= MAX_SHARED_VALUES else _draw_many_weights)(count, share)
    rest, sums = weights[-1], rows.astype(np.float32) @ weights[:-1]
    return sums + rest * np.float32(low), sums + rest * np.float32(high)


def _draw_many_weights(n: int, share: float) -> Weights:
    """Return the same as `_draw_weights`; only the last result is kept, and freed first, since one of 5,000 values has 200 MB."""
    weights = _last_many_weights.get((n, share))
    if weights is None:
        _last_many_weights.clear()
        weights = _last_many_weights[n, share] = _draw_weights.__wrapped__(n, share)
    return weights


_last_many_weights: dict[tuple[int, float], Weights] = {}


@lru_cache(maxsize=64)
def _draw_weights(n: int, share: float) -> Weights:
    """Draw columns of n + 1 random weights that sum to 1; equal arguments give equal weights.

    The last weight is on average `share` times each of the others.
    """
    rng, alphas, weights = np.random.default_rng(n), [*np.ones(n), share], np.empty((n + 1, WEIGHT_DRAWS), np.float32)
    for start in range(0, WEIGHT_DRAWS, WEIGHTS_AT_ONCE):  # all at once would need three times the memory
        weights[:, start : start + WEIGHTS_AT_ONCE] = rng.dirichlet(alphas, size=WEIGHTS_AT_ONCE).T
    return weights


def combine_bounds(tasks: Bounds) -> Bounds:
    """Return the mean of independent estimates, one per task, with its lower and upper bounds.

    The distances between each estimate and its bounds are combined in quadrature, separately below and above (MOVER). If a
    task has no bounds, the mean has none.

    Source: Zou and Donner, Statistics in Medicine 27 (2008), pp. 1693–1702.
    """
    mean, count = tasks.value.mean(axis=-1), tasks.value.shape[-1]
    below = np.sqrt(((tasks.value - tasks.low) ** 2).sum(axis=-1)) / count
    above = np.sqrt(((tasks.high - tasks.value) ** 2).sum(axis=-1)) / count
    return Bounds(mean, mean - below, mean + above)


def compute_student_p(values: Array, null: float = 0.0) -> float:
    """Return the two-sided p-value of Student's t test that the mean of the values is `null`.

    The p-value is 1 with fewer than two values, and NaN if the values have no spread.
    """
    values = np.asarray(values, dtype=float)
    n = len(values)
    if n < 2:
        return 1.0
    if np.ptp(values) <= NO_SPREAD:
        return float("nan")
    return float(2 * stdtr(n - 1, -abs(values.mean() - null) * np.sqrt(n) / values.std(ddof=1)))


def compute_sign_p(successes: int, trials: int) -> float:
    """Return the two-sided p-value of the exact binomial test that successes and failures are equally likely."""
    return min(1.0, 2 * float(bdtr(min(successes, trials - successes), trials, 0.5)))


def compute_flip_p(values: Array, null: float = 0.0) -> float:
    """Return the two-sided p-value of the sign-flip test that the values are symmetric about `null`.

    If up to 24 values differ from `null`, all combinations of signs are tried. With more values, combinations are drawn with a
    fixed seed. If all differences from `null` are equally large, the test is a binomial test.
    """
    differences = np.asarray(values, dtype=float) - null
    differences = differences[np.abs(differences) > NO_SPREAD]
    sizes = np.abs(differences)
    if not len(differences):
        return 1.0
    if np.ptp(sizes) <= NO_SPREAD:
        return compute_sign_p(int((differences > 0).sum()), len(differences))
    if len(differences) <= MAX_EXACT_FLIPS:
        return _count_flips(sizes, abs(float(differences.sum())))
    return _draw_flips(differences.tobytes())


@lru_cache(maxsize=256)
def _draw_flips(values: bytes) -> float:
    """Return the p-value of the sign-flip test from random signs, drawn with a fixed seed.

    The text and the page of a report test the same values.

    Args:
        values: Bytes of the array of values, which as the key of a stored result take a quarter of the memory of a tuple.
    """
    differences, rng, extreme, left = np.frombuffer(values), np.random.default_rng(0), 1, DRAWN_FLIPS
    total = float(differences.sum())
    observed = abs(total) * (1 - NO_SPREAD)
    # few signs at once, since eight times their bytes would not fit into the processor's cache; a generator makes four signs from
    # each of its numbers, so that multiples of four rows are the same signs as all rows at once
    rows = max(4, MULTIPLIED_AT_ONCE // len(differences) // 4 * 4)
    while left:
        signs = rng.integers(0, 2, (min(left, rows), len(differences)), dtype=np.int8)
        sums = 2 * (signs.astype(np.float64) @ differences) - total
        extreme += int((np.abs(sums) >= observed).sum())
        left -= len(signs)
    return extreme / (DRAWN_FLIPS + 1)


def _count_flips(sizes: Array, observed: float) -> float:
    """Return the exact p-value of the sign-flip test: the share of all choices of signs with as extreme a sum.

    To save time, the sums of the first and of the second half of the values are listed separately: 2 × 2¹² sums for 24 values
    instead of 2²⁴.
    """
    tolerance = 1e-9 * max(1.0, float(sizes.sum()))
    left, right = (_list_signed_sums(half) for half in (sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]))
    right = np.sort(right)
    above = len(right) - np.searchsorted(right, observed - tolerance - left, side="left")
    below = np.searchsorted(right, -observed + tolerance - left, side="right")
    share = float((above + below).sum()) / (len(left) * len(right))
    return min(1.0, share)


def _list_signed_sums(sizes: Array) -> Array:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums
