"""Paired ratios: the arithmetic, the unit of resampling, and the warning about few units."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from harness.analysis.paired_estimates import compute_paired_difference, compute_paired_ratio


def pairs(a, b, tasks=None):
    return pd.DataFrame({"task": tasks or ["t"] * len(a), "seed": range(len(a)), "score_a": a, "score_b": b})


def test_the_interval_is_that_of_the_paired_t_test():
    """C7."""
    a, b = [0.5, 0.75, 1.0, 0.25], [0.25, 0.5, 1.0, 0.5]
    found, expected = compute_paired_difference(pairs(a, b), "score"), ttest_rel(a, b).confidence_interval(0.95)
    assert found.mean == pytest.approx(0.0625)
    assert list(found.interval) == pytest.approx([expected.low, expected.high])


def test_the_task_is_the_unit_and_not_its_trials():
    few = compute_paired_difference(pairs([0.5, 1.0], [0.25, 1.0], ["x", "y"]), "score")
    many = compute_paired_difference(pairs([0.5] * 9 + [1.0], [0.25] * 9 + [1.0], ["x"] * 9 + ["y"]), "score")
    assert (many.unit_count, many.unit, many.pairs) == (2, "task", 10)
    assert (many.mean, many.interval) == (few.mean, few.interval)


def test_one_unit_has_no_interval_and_equal_units_have_one_of_no_width():
    assert np.isnan(compute_paired_difference(pairs([1.0], [0.5]), "score").interval).all()
    assert compute_paired_difference(pairs([1.0, 0.75], [0.75, 0.5]), "score").interval == (0.25, 0.25)


@given(st.integers(1, 24), st.integers(2, 24), st.lists(st.integers(0, 24), min_size=2, max_size=6))
def test_an_interval_of_no_width_has_a_warning_whatever_the_rounding(amount, checks, passed):
    b = [number / checks for number in passed]
    found = compute_paired_difference(pairs([(number + amount) / checks for number in passed], b), "score")
    assert found.warning == "the difference is the same for every seed; the interval says nothing about other tasks"


@pytest.mark.parametrize(("a", "b"), [([1.0], [0.5]), ([], []), ([1.0, 0.5], [0.5, 0.25])])
def test_an_interval_that_is_missing_or_has_a_width_has_no_warning(a, b):
    assert compute_paired_difference(pairs(a, b), "score").warning == ""


def test_no_pair_has_no_difference():
    assert np.isnan(compute_paired_difference(pairs([], []), "score").mean)


def ratio_pairs(a, b, tasks=None, seeds=None):
    n = len(a)
    return pd.DataFrame({"task": tasks or ["t"] * n, "seed": seeds or range(n), "x_a": a, "x_b": b})


def test_totals_and_typical_pair_tell_a_long_tail_apart():
    found = compute_paired_ratio(ratio_pairs([1, 1, 1, 10], [1, 1, 1, 100], tasks=list("abcd")), "x")
    assert found.ratio_of_totals == pytest.approx(13 / 103)
    assert found.geometric_mean == pytest.approx(0.1 ** (1 / 4))
    assert (found.median_a, found.median_b, found.lower_share) == (1, 1, 0.25)


def test_the_task_is_resampled_and_not_its_trials():
    one_trial = ratio_pairs([1.0, 3.0], [2.0, 2.0], tasks=["a", "b"])
    repeated = pd.concat([one_trial] * 10, ignore_index=True)
    assert compute_paired_ratio(repeated, "x").unit_count == 2
    assert (
        compute_paired_ratio(repeated, "x").ratio_of_totals_interval
        == compute_paired_ratio(one_trial, "x").ratio_of_totals_interval
    )


def test_one_task_is_resampled_by_seed_and_says_so():
    found = compute_paired_ratio(ratio_pairs([1.0, 3.0, 2.0], [2.0, 2.0, 2.0]), "x")
    assert (found.unit, found.unit_count) == ("seed", 3)
    assert "3 seeds" in found.warning
    assert "does not apply to other tasks" in found.warning


def test_a_single_unit_has_no_interval():
    found = compute_paired_ratio(ratio_pairs([1.0], [2.0]), "x")
    assert np.isnan(found.ratio_of_totals_interval).all()
    assert found.warning == "one seed, so there is no interval"


def test_under_sixty_tasks_there_is_a_warning_and_from_sixty_on_there_is_none():
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=(2, 60))
    fewer = ratio_pairs(values[0][:59], values[1][:59], tasks=[str(i) for i in range(59)])
    assert "60 are needed" in compute_paired_ratio(fewer, "x").warning
    assert compute_paired_ratio(ratio_pairs(values[0], values[1], tasks=[str(i) for i in range(60)]), "x").warning == ""


def test_unknown_and_zero_values_are_left_out_and_counted():
    found = compute_paired_ratio(ratio_pairs([1.0, None, 0.0, 4.0], [2.0, 1.0, 1.0, 4.0]), "x")
    assert (found.pairs, found.excluded_pairs) == (2, 2)
    assert found.ratio_of_totals == pytest.approx(5 / 6)


def test_no_known_value_gives_no_number():
    found = compute_paired_ratio(ratio_pairs([None, None], [1.0, 2.0]), "x")
    assert found.pairs == 0
    assert np.isnan([found.ratio_of_totals, found.geometric_mean]).all()
    assert found.warning == "no pair has both values"


def test_the_same_table_gives_the_same_interval():
    table = ratio_pairs([1.0, 5.0, 2.0, 8.0], [2.0, 2.0, 3.0, 3.0], tasks=list("abcd"))
    assert compute_paired_ratio(table, "x") == compute_paired_ratio(table, "x")


@settings(max_examples=20)
@given(st.floats(0.2, 5), st.integers(2, 12))
def test_a_constant_factor_is_found_without_any_spread(factor, tasks):
    b = np.arange(1.0, tasks + 1)
    found = compute_paired_ratio(ratio_pairs(factor * b, b, tasks=[str(i) for i in range(tasks)]), "x", resamples=200)
    assert [found.ratio_of_totals, *found.ratio_of_totals_interval] == pytest.approx([factor] * 3)
    assert [found.geometric_mean, *found.geometric_mean_interval] == pytest.approx([factor] * 3)


def test_the_interval_covers_the_truth_at_sixty_tasks():
    rng, covered = np.random.default_rng(1), 0
    for _ in range(100):
        a, b = np.exp(rng.normal(0.2, 0.6, 60)), np.ones(60)
        low, high = compute_paired_ratio(
            ratio_pairs(a, b, tasks=[str(i) for i in range(60)]), "x", resamples=400
        ).geometric_mean_interval
        covered += low <= np.exp(0.2) <= high
    assert covered >= 87
