"""Intervals and tests on arrays: agreement with SciPy and statsmodels, many studies at once, and no interval of width zero."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest, permutation_test, ttest_1samp
from statsmodels.stats.proportion import proportion_confint

from harness.analysis import intervals
from harness.analysis.intervals import (
    Bounds,
    combine_bounds,
    compute_bounded_mean_bounds,
    compute_exact_rate_bounds,
    compute_flip_p,
    compute_newcombe_bounds,
    compute_student_bounds,
    compute_student_p,
    compute_wilson_bounds,
)

numbers = st.floats(-3, 3).map(lambda value: round(value, 3))


@settings(max_examples=30)
@given(st.lists(numbers, min_size=2, max_size=20).filter(lambda values: max(values) - min(values) > 1e-3))
def test_student_agrees_with_scipy(values):
    bounds, expected = compute_student_bounds(np.array(values)), ttest_1samp(values, 0.0)
    assert [bounds.low, bounds.high] == pytest.approx(list(expected.confidence_interval(0.95)), abs=1e-9)
    assert compute_student_p(np.array(values)) == pytest.approx(expected.pvalue, abs=1e-9)


@given(st.integers(1, 200), st.data())
def test_wilson_and_exact_bounds_of_a_rate_agree_with_statsmodels(trials, data):
    successes = data.draw(st.integers(0, trials))
    for compute, method in ((compute_wilson_bounds, "wilson"), (compute_exact_rate_bounds, "beta")):
        bounds = compute(successes, trials)
        assert [bounds.low, bounds.high] == pytest.approx(list(proportion_confint(successes, trials, method=method)), abs=1e-9)


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5, 0.5]])
def test_student_has_no_interval_of_width_zero(values):
    assert np.isnan(compute_student_bounds(np.array(values)).low)


@settings(max_examples=20, deadline=None)
@given(st.lists(numbers, min_size=3, max_size=8))
def test_sign_flips_are_counted_as_scipy_counts_them(values):
    expected = permutation_test(
        (np.array(values),), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=2**9, vectorized=True
    )
    assert compute_flip_p(np.array(values)) == pytest.approx(expected.pvalue)


def test_sign_flips_of_equal_size_are_a_binomial_test_whatever_their_number():
    values = np.array([1.0] * 40 + [-1.0] * 20 + [0.0] * 5)
    assert compute_flip_p(values) == pytest.approx(binomtest(40, 60).pvalue)


def test_many_sign_flips_are_drawn_and_always_give_the_same_p():
    values = np.random.default_rng(0).normal(0.3, 1.0, 60)
    assert compute_flip_p(values) == compute_flip_p(values)
    assert compute_flip_p(values) == pytest.approx(compute_student_p(values), abs=0.01)


@pytest.mark.parametrize("count", [25, 26, 27, 31])
def test_drawn_sign_flips_are_the_same_however_many_are_drawn_at_once(count, monkeypatch):
    values = np.random.default_rng(count).normal(0.2, 1.0, count)
    monkeypatch.setattr(intervals, "DRAWN_FLIPS", 2_999)
    p_values = {
        intervals._draw_flips.__wrapped__(values.tobytes())
        for at_once in (1, 100, 1_000, 2**17)
        if monkeypatch.setattr(intervals, "MULTIPLIED_AT_ONCE", at_once) is None
    }
    assert len(p_values) == 1


def test_six_tasks_in_one_direction_are_the_fewest_that_reach_five_percent():
    assert compute_flip_p(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])) == 2**-5
    assert compute_flip_p(np.array([0.1, 0.2, 0.3, 0.4, 0.5])) > 0.05


def test_twenty_four_tasks_are_counted_exactly_in_a_moment():
    values = np.linspace(0.1, 1.0, 24)
    assert compute_flip_p(values) == pytest.approx(2**-23)
    assert compute_flip_p(values + 1, null=1.0) == pytest.approx(2**-23)


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (5, 5), (20, 20)])
def test_bounds_of_a_bounded_mean_equal_the_exact_interval_for_equal_outcomes(successes, trials):
    bounds = compute_bounded_mean_bounds(np.array([1.0] * successes + [0.0] * (trials - successes)), 0.0, 1.0)
    exact = compute_exact_rate_bounds(successes, trials)
    assert [float(bounds.low), float(bounds.high)] == pytest.approx([float(exact.low), float(exact.high)], abs=0.012)


@pytest.mark.parametrize(("successes", "trials"), [(2, 5), (11, 20)])
def test_bounds_of_a_bounded_mean_are_quantiles_of_beta_distributions_for_mixed_outcomes(successes, trials):
    failures = trials - successes
    bounds = compute_bounded_mean_bounds(np.array([1.0] * successes + [0.0] * failures), 0.0, 1.0)
    expected = beta.ppf(0.025, successes, failures + 0.5), beta.ppf(0.975, successes + 0.5, failures)
    assert [float(bounds.low), float(bounds.high)] == pytest.approx(expected, abs=0.012)


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("seeds", [5, 20])
def test_differences_of_scores_are_covered_where_students_t_misses_complete_failures(seeds, failing):
    rng = np.random.default_rng([seeds, int(10 * failing)])
    values = -np.where(rng.random((2000, seeds)) < failing, rng.integers(6, 9, (2000, seeds)) / 8, 0.0)
    values += rng.choice([0.0, 0.0, 0.125, -0.125], (2000, seeds)) * (values == 0)
    bounded, student = compute_bounded_mean_bounds(values, -1.0, 1.0), compute_student_bounds(values)
    covered = [((one.low <= -failing * 0.875) & (-failing * 0.875 <= one.high)).mean() for one in (bounded, student)]
    assert covered[0] >= 0.95
    assert covered[1] < covered[0]
    if failing < 0.2:
        assert covered[1] < 0.9


@given(st.floats(0, 1), st.integers(1, 30))
@example(value=1.0, count=5)
def test_equal_values_of_a_bounded_variable_have_an_interval_with_a_width(value, count):
    bounds = compute_bounded_mean_bounds(np.full(count, value), 0.0, 1.0)
    assert 0 <= bounds.low <= value <= bounds.high <= 1
    assert bounds.high - bounds.low > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("probabilities", [(0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.02, 0.0, 0.98)])
def test_a_bounded_mean_is_covered_whatever_the_distribution(probabilities):
    values = np.random.default_rng(3).choice([0.0, 0.3, 1.0], p=probabilities, size=(4000, 6))
    bounds, truth = compute_bounded_mean_bounds(values, 0.0, 1.0), 0.3 * probabilities[1] + probabilities[2]
    assert ((bounds.low <= truth) & (truth <= bounds.high)).mean() >= 0.95


def test_many_studies_at_once_give_what_each_gives_alone():
    rng = np.random.default_rng(5)
    values, counts = rng.random((7, 9)), rng.integers(0, 9, (4, 7)).astype(float)
    for together, alone in (
        (compute_student_bounds(values), [compute_student_bounds(one) for one in values]),
        (compute_bounded_mean_bounds(values, 0.0, 1.0), [compute_bounded_mean_bounds(one, 0.0, 1.0) for one in values]),
        (compute_newcombe_bounds(*counts), [compute_newcombe_bounds(*one) for one in counts.T]),
        (compute_wilson_bounds(counts[0], 9.0), [compute_wilson_bounds(one, 9.0) for one in counts[0]]),
    ):
        assert pytest.approx(np.array(alone), abs=1e-6) == np.array(together).T


def test_combining_the_bounds_of_several_tasks_narrows_the_interval():
    one = Bounds(np.array([0.2]), np.array([-0.1]), np.array([0.4]))
    assert combine_bounds(one) == pytest.approx((0.2, -0.1, 0.4))
    four = combine_bounds(Bounds(*(np.repeat(bound, 4) for bound in one)))
    assert four == pytest.approx((0.2, 0.05, 0.3))


def test_a_task_without_an_interval_leaves_the_mean_without_one():
    bounds = combine_bounds(Bounds(np.array([0.2, 0.4]), np.array([0.1, np.nan]), np.array([0.3, np.nan])))
    assert bounds.value == pytest.approx(0.3)
    assert np.isnan([bounds.low, bounds.high]).all()


def test_bounds_of_many_values_do_not_depend_on_which_weights_are_kept(monkeypatch):
    values = np.linspace(0.1, 0.7, 3 * 23).reshape(3, 23)
    kept = compute_bounded_mean_bounds(values, 0.0, 1.0)
    monkeypatch.setattr(intervals, "MAX_SHARED_VALUES", 22)
    drawn = compute_bounded_mean_bounds(values, 0.0, 1.0)
    np.testing.assert_array_equal(kept.low, drawn.low)
    np.testing.assert_array_equal(kept.high, drawn.high)


def test_the_weights_of_many_values_are_in_memory_once_at_most(monkeypatch):
    monkeypatch.setattr(intervals, "MAX_SHARED_VALUES", 22)
    varied, flat = np.linspace(0.1, 0.7, 600).reshape(1, 600), np.full((1, 600), 0.3)
    tracemalloc.start()
    compute_bounded_mean_bounds(varied, 0.0, 1.0)
    _, once_bytes = tracemalloc.get_traced_memory()
    compute_bounded_mean_bounds(flat, 0.0, 1.0)
    compute_bounded_mean_bounds(varied, 0.0, 1.0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert once_bytes > 600 * intervals.WEIGHT_DRAWS * 4
    assert peak_bytes < 1.2 * once_bytes
