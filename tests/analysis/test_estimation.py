"""Choice of the estimand, interval and test: properties, refusals, and coverage in simulated studies with known effects."""

from collections import Counter, defaultdict
from itertools import combinations_with_replacement, product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.estimands import choose_estimand, find_refusal
from harness.analysis.estimation import compute_bounds, compute_p, compute_rate_bounds, compute_test_p
from harness.analysis.intervals import Array, compute_newcombe_bounds
from harness.analysis.statistics import PairedCounts, compute_mcnemar_p
from harness.errors import UnknownName, UsageError
from harness.experiment.contrasts import compute_smallest_p
from tests.bench.studies import Cell, format_row, is_accepted, simulate


def outcomes(*tasks):
    return [np.array(task, dtype=float) for task in tasks]


@st.composite
def studies(draw):
    kind = draw(st.sampled_from(["binary", "bounded", "amount"]))
    value = {"binary": st.sampled_from([0.0, 1.0]), "bounded": st.integers(0, 4).map(lambda x: x / 4), "amount": st.floats(-2, 2)}
    count = draw(st.integers(1, 8))
    sizes = [draw(st.integers(1, 4)) for _ in range(count)]
    sides = [[np.array(draw(st.lists(value[kind], min_size=n, max_size=n))) for n in sizes] for _ in range(2)]
    return kind, *sides, choose_estimand(count)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(studies())
def test_an_interval_holds_its_estimate_has_a_width_and_agrees_with_its_p(study):
    kind, a, b, estimand = study
    value, low, high = compute_bounds(kind, a, b, estimand)
    if np.isnan(low):
        assert kind == "amount" or (estimand == "these tasks" and min(map(len, a)) == 1)
        return
    assert low <= value <= high
    assert high - low > 1e-9
    p = compute_p(kind, a, b, estimand)
    assert 0 < p <= 1
    if p < 0.049:
        assert low > 0 or high < 0


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(studies())
def test_swapping_the_arms_turns_the_interval_around(study):
    kind, a, b, estimand = study
    bounds, swapped = compute_bounds(kind, a, b, estimand), compute_bounds(kind, b, a, estimand)
    expected = (-swapped.value, -swapped.high, -swapped.low)
    assert tuple(map(float, bounds)) == pytest.approx(tuple(map(float, expected)), abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("count", [13, 16, 40])
def test_a_p_from_drawn_weights_is_never_smaller_than_the_draws_can_show(count):
    ones, zeros = np.ones(count), np.zeros(count)
    p = compute_p("bounded", [ones], [zeros], "these tasks")
    assert 2e-4 <= p <= 2e-4 + 4 * 2.0 ** (1 - count)  # the exact p is 2 ** (1 - count)


def test_from_six_tasks_on_numbers_speak_about_tasks_like_these():
    assert [choose_estimand(count) for count in (1, 5, 6, 7)] == ["these tasks"] * 2 + ["tasks like these"] * 2
    assert choose_estimand(9, "these tasks") == "these tasks"
    with pytest.raises(UsageError, match=r"'tasks like these' needs at least 6 tasks \(got 5\)"):
        choose_estimand(5, "tasks like these")
    with pytest.raises(UnknownName, match="did you mean 'these tasks'"):
        choose_estimand(9, "These tasks")  # type: ignore[arg-type]


def test_the_interval_and_test_of_a_single_task_use_its_pairs():
    a, b = outcomes([1, 1, 1, 1, 0, 1, 1, 1]), outcomes([0, 0, 1, 0, 0, 1, 0, 0])
    counts = PairedCounts.from_outcomes(list(a[0] > 0), list(b[0] > 0))
    bounds = compute_bounds("binary", a, b, "these tasks")
    expected = compute_newcombe_bounds(counts.both, counts.only_a, counts.only_b, counts.neither)
    assert (bounds.low, bounds.high) == pytest.approx((float(expected.low), float(expected.high)))
    assert compute_p("binary", a, b, "these tasks") == pytest.approx(compute_mcnemar_p(counts))


def test_tasks_that_ran_once_have_the_exact_mcnemar_test():
    a, b = outcomes(*[[1]] * 9, [0], *[[1]] * 4), outcomes(*[[0]] * 9, [1], *[[1]] * 4)
    bounds = compute_bounds("binary", a, b, "tasks like these")
    counts = PairedCounts(both=4, only_a=9, only_b=1)
    expected = compute_newcombe_bounds(counts.both, counts.only_a, counts.only_b, counts.neither)
    assert (bounds.low, bounds.high) == pytest.approx((float(expected.low), float(expected.high)))
    assert compute_p("binary", a, b, "tasks like these") == pytest.approx(compute_mcnemar_p(counts))


def test_no_p_of_these_tasks_is_smaller_than_all_their_pairs_could_give():
    assert compute_p("binary", outcomes([1] * 4, [1] * 4), outcomes([0] * 4, [0] * 4), "these tasks") == 2**-7


def make_arms(differences) -> tuple[list[Array], list[Array]]:
    """Return the values of two arms with the given differences, from -1 to 1, in each task."""
    tasks = outcomes(*differences)
    return [np.maximum(task, 0.0) for task in tasks], [np.maximum(-task, 0.0) for task in tasks]


@pytest.mark.parametrize("kind", ["binary", "bounded"])
@pytest.mark.parametrize(
    ("differences", "p"),
    [([[1, 1]] * 4 + [[1, -1]], 2 * 11 / 2**10), ([[1, 1]] * 4, 2 / 2**8), ([[1] * 4, [1] * 3 + [0]], 2 / 2**7)],
    ids=["nine-of-ten", "eight-of-eight", "seven-and-a-tie"],
)
def test_pairs_of_equal_weight_have_at_least_the_p_of_the_exact_sign_test(kind, differences, p):
    assert compute_test_p(kind, *make_arms(differences), "these tasks") == pytest.approx(p)
    assert compute_p(kind, *make_arms(differences), "these tasks") >= p * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "seeds"), [(5, 2), (4, 2), (3, 3)])
@pytest.mark.parametrize("kind", ["binary", "bounded"])
@pytest.mark.parametrize("tie", [0.0, 0.5])
def test_equal_arms_differ_at_no_level_more_often_than_it_allows(tasks, seeds, kind, tie):
    chances = {-1: (1 - tie) / 2, 0: tie, 1: (1 - tie) / 2}
    patterns: dict[tuple[int, ...], float] = defaultdict(float)  # probability of each set of differences of one task
    for differences in product(chances, repeat=seeds):
        patterns[tuple(sorted(differences))] += prod(chances[difference] for difference in differences)
    ps, weights = [], []
    for study in combinations_with_replacement([pattern for pattern in patterns if patterns[pattern]], tasks):
        if abs(np.sum(study)) >= 0.4 * tasks * seeds:  # smaller differences have p > 0.05
            left, orders = tasks, 1
            for count in Counter(study).values():
                orders, left = orders * comb(left, count), left - count
            ps.append(compute_p(kind, *make_arms(study), "these tasks"))
            weights.append(orders * prod(patterns[one] for one in study))
    for contrasts in (1, 2, 5, 10, 20):  # Holm's first step; 20 contrasts have a familywise error of at most 5 %
        level = 0.05 / contrasts
        assert np.dot(np.array(ps) <= level, weights) <= level


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(-8, 8).map(lambda x: x / 8), min_size=2, max_size=4), min_size=2, max_size=2))
def test_the_flip_test_of_unequal_tasks_is_about_the_mean_over_tasks(differences):
    null = -0.1
    tasks = [np.array(difference) - null for difference in differences]
    signs = product((-1, 1), repeat=sum(map(len, tasks)))
    ends = np.cumsum([len(task) for task in tasks])[:-1]
    means = [abs(np.mean([(x * y).mean() for x, y in zip(tasks, np.split(np.array(one), ends), strict=True)])) for one in signs]
    observed = abs(np.mean([task.mean() for task in tasks]))
    expected = np.mean(np.array(means) >= observed - 1e-9)
    assert compute_test_p("bounded", *make_arms(differences), "these tasks", null) == pytest.approx(expected)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(2, 5), st.sampled_from([0.0, -0.05, -0.3]), st.data())
def test_no_p_of_a_score_is_below_the_smallest_that_a_plan_states(tasks, seeds, null, data):
    value = st.sampled_from([1.0, 0.99, 0.9, 0.5])
    differences = [data.draw(st.lists(value, min_size=seeds, max_size=seeds)) for _ in range(tasks)]
    smallest = compute_smallest_p(tasks, seeds, "these tasks", "score")
    assert compute_p("bounded", *make_arms(differences), "these tasks", null) >= smallest * (1 - 1e-9)


@pytest.mark.parametrize(("tasks", "seeds"), [(2, 2), (2, 3), (3, 2), (3, 3), (2, 4)])
def test_no_p_of_success_is_below_the_smallest_that_a_plan_states(tasks, seeds):
    smallest = compute_smallest_p(tasks, seeds, "these tasks")
    patterns = list(combinations_with_replacement((0, 1), seeds))
    for study in combinations_with_replacement(patterns, tasks):
        assert compute_p("binary", *make_arms(study), "these tasks") >= smallest * 0.999


def test_a_margin_of_success_on_one_task_and_a_ratio_have_no_test():
    a, b = make_arms([[1, 1, 1, 0, 0, 1]])
    assert compute_test_p("binary", a, b, "these tasks", -0.1) == 0
    assert compute_test_p("amount", [*a, *a], [*b, *b], "these tasks") == 0


def test_the_task_is_the_unit_and_not_its_seeds():
    few = compute_bounds("binary", outcomes(*[[1], [0], [1], [1], [1], [1]]), outcomes(*[[0]] * 6), "tasks like these")
    a = outcomes(*[[1, 0] * 20, [0, 0] * 20, [1, 1] * 20, [1, 1] * 20, [1, 1] * 20, [1, 0] * 20])
    many = compute_bounds("binary", a, outcomes(*[[0] * 40] * 6), "tasks like these")
    assert many.high - many.low > 0.3
    assert few.high - few.low > 0.3


def test_an_effect_that_differs_from_task_to_task_is_no_claim_about_other_tasks():
    a, b = (
        outcomes([1] * 20, [1] * 20, [1] * 20, [0] * 20, [0] * 20, [1] * 20),
        outcomes(*[[0] * 20] * 3, *[[1] * 20] * 2, [0] * 20),
    )
    assert compute_p("binary", a, b, "tasks like these") > 0.05
    assert compute_p("binary", a, b, "these tasks") < 0.001


@pytest.mark.parametrize(
    ("counts", "estimand", "reason"),
    [
        ([1, 1, 1], "these tasks", "a task with a single seed"),
        ([1], "these tasks", "a single seed"),
        ([5, 1], "these tasks", "a task with a single seed"),
        ([2, 2], "these tasks", ""),
        ([1] * 6, "tasks like these", ""),
        ([], "these tasks", "no pairs"),
    ],
)
def test_designs_that_say_nothing_about_chance_are_refused(counts, estimand, reason):
    assert find_refusal(counts, estimand) == reason


def test_a_rate_over_tasks_is_wider_than_one_that_counts_trials():
    tasks = outcomes([1] * 10, [0] * 10, [1] * 10, [0] * 10, [1] * 10, [0] * 10)
    bounds = compute_rate_bounds(tasks, "tasks like these")
    assert bounds.value == 0.5
    assert bounds.high - bounds.low > 0.9
    within = compute_rate_bounds(tasks, "these tasks")
    assert within.high - within.low < 0.25


def test_equal_outcomes_of_all_tasks_have_an_exact_interval():
    bounds = compute_rate_bounds(outcomes([1] * 4, [1] * 4), "these tasks")
    assert (round(float(bounds.low), 4), float(bounds.high)) == (0.6306, 1.0)
    assert compute_rate_bounds(outcomes(*[[1] * 4] * 6), "tasks like these").low < 0.6


def test_the_exact_interval_counts_only_the_fewest_seeds_of_a_task():
    bounds = compute_rate_bounds(outcomes([1] * 20, [1] * 2), "these tasks")
    assert float(bounds.low) == pytest.approx(compute_rate_bounds(outcomes([1] * 2, [1] * 2), "these tasks").low)


def compute_coverage(seeds, rate_sets):
    """Return the probability, for each set of success rates of the tasks, that the interval contains their mean."""
    counts = list(product(*(range(n + 1) for n in seeds)))
    bounds = [
        compute_rate_bounds([np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(one, seeds, strict=True)], "these tasks")
        for one in counts
    ]
    low, high = (np.array([float(getattr(bound, side)) for bound in bounds]) for side in ("low", "high"))
    chances = [
        np.prod(
            [[comb(n, k) * p**k * (1 - p) ** (n - k) for k, n, p in zip(one, seeds, rates, strict=True)] for one in counts], 1
        )
        for rates in rate_sets
    ]
    means = [float(np.mean(rate_set)) for rate_set in rate_sets]
    return [
        float(weights[(low <= mean + 1e-9) & (high >= mean - 1e-9)].sum()) for weights, mean in zip(chances, means, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [(5, 5), (3, 3, 3), (2,) * 5, (3, 2), (5, 5, 4), (8, 2, 2), (20, 2), (3, 3, 3, 2), (2, 2, 2, 2, 3)],
)
def test_the_interval_of_a_rate_covers_the_truth_whether_rates_of_tasks_are_equal_or_not(seeds):
    equal = compute_coverage(seeds, [(rate / 40,) * len(seeds) for rate in range(2, 39)])
    unequal = compute_coverage(seeds, list(product((0.1, 0.6, 1.0), repeat=len(seeds)))[:-1])
    for coverage in (equal, unequal):
        assert np.mean(coverage) >= 0.95
        assert min(coverage) >= 0.88  # like that of Wilson's interval of one task


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [
        Cell(metric="success", tasks=3, seeds=20, arm_task_sd=2.0),
        Cell(metric="success", tasks=6, seeds=5, arm_task_sd=1.0, base=0.8),
        Cell(metric="score", tasks=12, seeds=5, arm_task_sd=1.0, base=0.3),
        Cell(metric="cost", tasks=6, seeds=5, arm_task_sd=2.0),
    ],
    ids=lambda cell: f"{cell.metric}-{cell.tasks}x{cell.seeds}",
)
def test_intervals_cover_the_truth_and_claims_are_seldom_false(cell):
    result = simulate(cell)
    assert is_accepted(result), format_row(result)
    assert not result.refusal
