"""Rates, paired counts and families of tests, checked against published numbers, exact enumeration and general properties."""

from itertools import combinations, product
from math import comb, isnan
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from harness.analysis.intervals import Interval, compute_newcombe_bounds
from harness.analysis.statistics import (
    PairedCounts,
    adjust_benjamini_hochberg,
    adjust_holm,
    compute_mcnemar_p,
    estimate_pass_at_k,
    estimate_pass_hat_k,
    estimate_rate,
)
from harness.errors import UsageError

few = st.integers(0, 40)
counts = st.builds(PairedCounts, both=few, only_a=few, only_b=few, neither=few)


def swapped(pairs):
    return PairedCounts(both=pairs.both, only_a=pairs.only_b, only_b=pairs.only_a, neither=pairs.neither)


def compute_interval(pairs):
    """Return Newcombe's 95 % interval for the difference of two paired success rates."""
    bounds = compute_newcombe_bounds(pairs.both, pairs.only_a, pairs.only_b, pairs.neither)
    return Interval(float(bounds.low), float(bounds.high))


# --- one rate ----------------------------------------------------------------------------------------------------------


def test_wilson_gives_the_published_interval():
    # Newcombe, Statistics in Medicine 17 (1998), p. 857: 81 of 263
    rate = estimate_rate(81, 263)
    assert (round(rate.low, 4), round(rate.high, 4)) == (0.2553, 0.3662)


@given(st.integers(1, 300), st.data())
def test_wilson_stays_within_0_and_1_and_holds_its_estimate(trials, data):
    successes = data.draw(st.integers(0, trials))
    rate = estimate_rate(successes, trials)
    assert 0 <= rate.low <= rate.share <= rate.high <= 1


def test_no_trial_leaves_everything_possible():
    rate = estimate_rate(0, 0)
    assert (rate.low, rate.high, str(rate)) == (0, 1, "0/0")
    assert isnan(rate.share)


@pytest.mark.parametrize(("successes", "trials"), [(3, 2), (-1, 2)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(UsageError, match="0 <= successes <= trials"):
        estimate_rate(successes, trials)


@pytest.mark.parametrize(("successes", "trials", "bounds"), [(0, 8, (0.0, 0.3694)), (8, 8, (0.6306, 1.0)), (1, 1, (0.025, 1.0))])
def test_equal_outcomes_get_the_exact_interval(successes, trials, bounds):
    rate = estimate_rate(successes, trials)
    assert (round(rate.low, 4), round(rate.high, 4)) == bounds


def test_a_rate_is_written_with_its_n_and_interval():
    assert str(estimate_rate(7, 8)) == "7/8, 88 % [53, 98]"


# --- two rates on the same pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "difference", "low", "high"),
    [
        # Cavo et al. (2012) in Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables, chapter 8
        ((59, 6, 16, 80), -0.0621, -0.1186, -0.0046),
        # Newcombe, Statistics in Medicine 17 (1998), pp. 2635-2650, the tables of his examples
        ((36, 12, 2, 0), 0.2000, 0.0569, 0.3404),
    ],
)
def test_newcombe_gives_the_published_interval(table, difference, low, high):
    pairs = PairedCounts(both=table[0], only_a=table[1], only_b=table[2], neither=table[3])
    interval = compute_interval(pairs)
    assert (round(pairs.difference, 4), round(interval.low, 4), round(interval.high, 4)) == (difference, low, high)


@given(counts)
def test_newcombe_holds_the_difference_and_stays_within_1(pairs):
    low, high = compute_interval(pairs)
    assert -1 <= low <= high <= 1
    if pairs.pairs:
        assert low <= pairs.difference <= high


@given(counts)
def test_swapping_the_arms_turns_the_interval_around(pairs):
    low, high = compute_interval(pairs)
    assert compute_interval(swapped(pairs)) == pytest.approx((-high, -low))
    assert compute_mcnemar_p(swapped(pairs)) == pytest.approx(compute_mcnemar_p(pairs))


@given(counts)
def test_more_of_the_same_pairs_make_the_interval_narrower(pairs):
    if pairs.pairs:
        more = PairedCounts(both=4 * pairs.both, only_a=4 * pairs.only_a, only_b=4 * pairs.only_b, neither=4 * pairs.neither)
        assert (
            compute_interval(more).high - compute_interval(more).low < compute_interval(pairs).high - compute_interval(pairs).low
        )


def coverage(pairs, only_a, only_b, both):
    """Return the exact probability that the interval contains the true difference, over all tables of a number of pairs."""
    neither, covered = 1 - only_a - only_b - both, 0.0
    for x, y, z in product(range(pairs + 1), repeat=3):
        if x + y + z <= pairs:
            ways = comb(pairs, x) * comb(pairs - x, y) * comb(pairs - x - y, z)
            chance = ways * only_a**x * only_b**y * both**z * neither ** (pairs - x - y - z)
            low, high = compute_interval(PairedCounts(only_a=x, only_b=y, both=z, neither=pairs - x - y - z))
            covered += chance * (low <= only_a - only_b <= high)
    return covered


@pytest.mark.parametrize("pairs", [4, 8, 12])
def test_newcombe_covers_the_truth_at_the_small_numbers_of_agent_studies(pairs):
    assert coverage(pairs, only_a=0.08, only_b=0.04, both=0.5) > 0.95
    assert coverage(pairs, only_a=0.5, only_b=0.05, both=0.25) > 0.93


def test_newcombe_does_not_buy_its_coverage_by_saying_nothing():
    low, high = compute_interval(PairedCounts(both=45, only_a=25, only_b=5, neither=25))
    assert low > 0
    assert high - low < 0.25


def test_no_pair_leaves_every_difference_possible():
    assert compute_interval(PairedCounts()) == (-1, 1)
    assert compute_mcnemar_p(PairedCounts()) == 1


@given(counts)
def test_mcnemar_is_a_fair_coin_on_the_pairs_that_differ(pairs):
    expected = binomtest(pairs.only_a, pairs.discordant_pairs).pvalue if pairs.discordant_pairs else 1
    assert compute_mcnemar_p(pairs) == pytest.approx(expected)


def test_pairs_are_counted_by_what_became_of_both():
    pair_counts = PairedCounts.from_outcomes([True, True, False, False, True], [True, False, True, False, False])
    assert pair_counts == PairedCounts(both=1, only_a=2, only_b=1, neither=1)
    assert pair_counts.discordant_pairs == 3
    assert pair_counts.difference == pytest.approx(0.2)


# --- many comparisons ---------------------------------------------------------------------------------------------------


def test_holm_gives_the_textbook_values_in_the_order_given():
    assert adjust_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_holm([]) == []


def test_benjamini_and_hochberg_give_the_textbook_values_in_the_order_given():
    assert adjust_benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjust_benjamini_hochberg([]) == []


@settings(max_examples=15)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_never_lowers_a_p_value(values):
    assert all(adjusted >= p for p, adjusted in zip(values, adjust_holm(values), strict=True))


def test_pass_at_k_and_pass_hat_k_are_means_over_all_choices_of_k_replicates():
    outcomes = [True, False, False, True, False]
    for k in range(1, 6):
        choices = list(combinations(outcomes, k))
        assert estimate_pass_at_k(2, 5, k) == pytest.approx(sum(map(any, choices)) / len(choices))
        assert estimate_pass_hat_k(2, 5, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@pytest.mark.parametrize("estimate", [estimate_pass_at_k, estimate_pass_hat_k])
def test_more_attempts_than_replicates_are_refused(estimate):
    with pytest.raises(UsageError, match=r"k: must be between 1 and .* 3 \(got 4\)"):
        estimate(1, 3, 4)
    with pytest.raises(UsageError, match="successes"):
        estimate(4, 3, 1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_agree_with_statsmodels(p_values):
    # statsmodels collects garbage in each call, which takes 0.3 s in a process that has run many tests
    with patch("gc.collect"):
        holm, benjamini_hochberg = (list(multipletests(p_values, method=method)[1]) for method in ("holm", "fdr_bh"))
    assert adjust_holm(p_values) == pytest.approx(holm)
    assert adjust_benjamini_hochberg(p_values) == pytest.approx(benjamini_hochberg)


@given(counts)
def test_mcnemar_agrees_with_statsmodels(pairs):
    expected = mcnemar([[pairs.both, pairs.only_a], [pairs.only_b, pairs.neither]], exact=True).pvalue
    assert compute_mcnemar_p(pairs) == pytest.approx(min(1.0, expected) if pairs.discordant_pairs else 1.0)
