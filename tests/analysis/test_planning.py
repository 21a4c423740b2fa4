"""What a plan can show: smallest p-values, numbers of contrasts, and least detectable effects checked by simulation."""

from collections.abc import Sequence
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import nctdtr, stdtrit

from harness.analysis.estimation import compute_bounds, compute_p
from harness.analysis.pilot import compute_margin_power, measure_assumptions
from harness.analysis.planning import (
    compute_least_detectable_difference,
    compute_standard_error,
    compute_student_quantile,
    describe_comparability,
    describe_margins,
    describe_power,
)
from harness.analysis.power_assumptions import PowerAssumptions
from harness.errors import UsageError, format_count
from harness.experiment.contrasts import (
    Contrast,
    compute_smallest_p,
    count_possible_contrasts,
    refuse_invalid_contrasts,
)
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.policies import KeepLast
from tests.analysis.selections import results


@pytest.mark.parametrize(
    ("tasks", "seeds", "contrasts"), [(7, 1, 3), (6, 20, 1), (8, 1, 6), (1, 5, 0), (1, 6, 1), (1, 7, 3), (0, 0, 0)]
)
def test_a_plan_can_show_as_many_contrasts_as_survive_holm_in_the_best_case(tasks, seeds, contrasts):
    assert count_possible_contrasts(tasks, seeds) == contrasts


@pytest.mark.parametrize(
    ("tasks", "seeds", "estimand"),
    [*product(range(1, 8), range(2, 7), ["these tasks"]), *product(range(6, 16), [1], ["tasks like these"])],
)
def test_the_smallest_p_is_that_of_the_best_case(tasks, seeds, estimand):
    ones, zeros = [np.ones(seeds)] * tasks, [np.zeros(seeds)] * tasks
    best = compute_p("binary", ones, zeros, estimand)
    assert compute_smallest_p(tasks, seeds, estimand) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize(("tasks", "seeds", "looks"), [(3, 3, 1), (3, 3, 2), (5, 3, 1), (2, 4, 1), (7, 1, 1)])
def test_the_check_of_a_plan_allows_as_many_contrasts_as_its_description_states(tasks, seeds, looks):
    possible = count_possible_contrasts(tasks, seeds, looks=looks)
    text = describe_power(tasks, seeds, PowerAssumptions(looks=looks))
    assert f"at most {format_count(possible, 'contrast')} could be shown" in text
    contrasts = [Contrast(a="a", b=f"b{number}") for number in range(possible + 1)]
    arms = {"a", *(contrast.b for contrast in contrasts)}
    refuse_invalid_contrasts(contrasts[:-1], arms, tasks, seeds, looks)
    with pytest.raises(UsageError, match=f"at most {possible} after"):
        refuse_invalid_contrasts(contrasts, arms, tasks, seeds, looks)


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ((), "at most 1,000 contrasts could be shown"),
        (("success",), "at most 1,000 contrasts in success could be shown"),
        (("score",), "at most 250 contrasts in score could be shown"),
        (("score", "success"), "at most 250 contrasts in score or 1,000 contrasts in success could be shown"),
    ],
)
def test_the_number_of_contrasts_is_that_for_the_declared_metric(metrics, text):
    trial = Trial(task="flashcards", policy=KeepLast(), window_tokens=32_768)
    contrasts = [Contrast(a="threshold=0.5", b="threshold=0.8", metric=metric) for metric in metrics]
    axes: dict[str, Sequence[object]] = {"policy.threshold": [0.5, 0.8], "seed": list(range(20))}
    assert text in describe_comparability(Experiment(name="e", base=trial, axes=axes, contrasts=contrasts))


def test_a_few_tasks_with_seeds_can_show_contrasts_about_themselves():
    assert count_possible_contrasts(3, 1) == 0
    assert count_possible_contrasts(3, 2) >= 1
    assert count_possible_contrasts(1, 5_000) == count_possible_contrasts(1, 1_000)  # a p-value that is zero as a float
    assert compute_smallest_p(3, 2) >= 2**-5
    assert compute_smallest_p(3, 20) < 1e-5


@given(st.integers(6, 40), st.integers(1, 20), st.integers(1, 3))
def test_more_contrasts_need_a_larger_effect_and_more_seeds_a_smaller_one(tasks, seeds, contrasts):
    one = compute_least_detectable_difference(tasks, seeds, PowerAssumptions(discordance=0.9))
    more = compute_least_detectable_difference(tasks, seeds, PowerAssumptions(discordance=0.9, contrasts=contrasts))
    longer = compute_least_detectable_difference(tasks, 2 * seeds, PowerAssumptions(discordance=0.9))
    if one is not None and more is not None:
        assert more >= one
    if one is not None and longer is not None:
        assert longer < one


def test_the_least_detectable_effect_is_detected_in_four_of_five_simulated_studies():
    tasks, seeds, assumptions = 24, 10, PowerAssumptions(discordance=0.4, task_sd=0.1)
    effect = compute_least_detectable_difference(tasks, seeds, assumptions)
    assert effect is not None
    rng, detections = np.random.default_rng(2), 0.0
    for _ in range(400):
        true = rng.normal(effect, assumptions.task_sd, tasks)
        signs = rng.choice([1, -1, 0], p=[(0.4 + effect) / 2, (0.4 - effect) / 2, 0.6], size=(tasks, seeds))
        means = signs.mean(axis=1) + true - effect
        detections += float(
            compute_bounds("amount", [np.array([one]) for one in means], [np.zeros(1)] * tasks, "tasks like these").low > 0
        )
    assert detections / 400 == pytest.approx(0.8, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "seeds", "discordance", "contrasts"),
    [(1, 20, 0.4, 1), (3, 20, 0.16, 1), (5, 10, 0.3, 1), (3, 20, 0.3, 20), (1, 60, 0.4, 20)],
)
def test_the_least_detectable_effect_on_these_tasks_is_shown_in_about_four_of_five_simulated_studies(
    tasks, seeds, discordance, contrasts
):
    assumptions = PowerAssumptions(discordance=discordance, contrasts=contrasts)
    effect = compute_least_detectable_difference(tasks, seeds, assumptions)
    assert effect is not None
    rng, shown, shares = np.random.default_rng(3), 0, [(discordance + effect) / 2, (discordance - effect) / 2, 1 - discordance]
    for _ in range(400):
        signs = rng.choice([1, -1, 0], p=shares, size=(tasks, seeds))
        ties = rng.random((tasks, seeds)) < 0.5
        a, b = np.where(signs, signs > 0, ties).astype(float), np.where(signs, signs < 0, ties).astype(float)
        shown += compute_p("binary", list(a), list(b), "these tasks") <= 0.05 / contrasts
    assert 0.73 < shown / 400 < 0.93


def test_a_plan_that_can_show_nothing_says_so_and_another_names_its_assumptions():
    assert "too few to show any difference" in describe_power(1, 5, PowerAssumptions())
    text = describe_power(12, 5, PowerAssumptions(contrasts=2))
    assert text.startswith("12 tasks × 5 seeds, tasks like these: at most 102 contrasts could be shown")
    assert (
        "after correction, assuming that 16 % of pairs differ by chance and that true differences vary over tasks by 10 points"
        in text
    )
    assert "need 6 tasks" in describe_power(3, 20, PowerAssumptions())


@given(st.integers(6, 40), st.integers(1, 200), st.floats(0.01, 0.5), st.floats(0.05, 1.0), st.floats(0.1, 8.0))
def test_neither_seeds_nor_repetitions_give_more_power_than_the_differences_between_tasks_allow(
    tasks, seeds, task_sd, discordance, distance
):
    assumptions = PowerAssumptions(task_sd=task_sd, discordance=discordance)
    errors = [compute_standard_error(tasks, count, assumptions, "tasks like these") for count in (seeds, 2 * seeds, inf)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == pytest.approx(task_sd / tasks**0.5)
    critical = stdtrit(tasks - 1, 0.975)
    power, _, best_power = (1 - nctdtr(tasks - 1, distance * errors[-1] / error, critical) for error in errors)
    assert power <= best_power + 1e-9
    detectable = compute_least_detectable_difference(tasks, seeds, assumptions)
    if detectable is not None:
        least = (compute_student_quantile(tasks - 1, 0.975) + compute_student_quantile(tasks - 1, 0.8)) * errors[-1]
        assert detectable > least


def test_a_thousand_seeds_show_no_smaller_difference_than_the_floor_from_tasks_in_simulated_studies():
    tasks, assumptions, rng = 8, PowerAssumptions(task_sd=0.1), np.random.default_rng(5)
    floor = compute_standard_error(tasks, inf, assumptions, "tasks like these")
    means = rng.normal(0.0, assumptions.task_sd, (2_000, tasks)) + rng.normal(0.0, (0.16 / 1_000) ** 0.5, (2_000, tasks))
    assert means.mean(axis=1).std() == pytest.approx(floor, rel=0.06)


def test_a_plan_states_the_floor_that_more_seeds_and_repetitions_never_lower():
    floor = "never lower the standard error below 2.5 points (task × arm), so that a difference of 7.5 points is the smallest"
    for seeds in (4, 400):
        assert floor in describe_power(16, seeds, PowerAssumptions())
    assert "never lower" not in describe_power(3, 20, PowerAssumptions())
    assert "never lower" not in describe_power(16, 20, PowerAssumptions(task_sd=0.0))
    text = describe_power(7, 20, PowerAssumptions(task_sd=0.2))
    assert text.endswith("below 7.6 points (task × arm); only more tasks do"), "no difference that pairs allow is large enough"


@pytest.mark.parametrize(("tasks", "estimand"), [(8, "tasks like these"), (3, "these tasks")])
def test_the_power_for_a_margin_is_the_share_of_simulated_plans_that_show_it(tasks, estimand):
    contrast, assumptions = (
        Contrast(a="a", b="b", metric="total_cost_usd", margin=1.25),
        PowerAssumptions(log_sd=0.5, log_task_sd=0.2, task_sd=9.0),
    )
    rng, seeds = np.random.default_rng(2), 10
    effects = rng.normal(0, assumptions.log_task_sd if tasks >= 6 else 0.0, (2000, tasks, 1))
    values = np.moveaxis(effects + rng.normal(0, 0.5, (2000, tasks, seeds)), 1, 0)
    shown = (compute_bounds("amount", list(values), list(np.zeros_like(values)), estimand).high < np.log(1.25)).mean()
    assert compute_margin_power(contrast, tasks, seeds, assumptions) == pytest.approx(shown, abs=0.06)


@pytest.mark.slow
def test_a_margin_that_can_hardly_be_shown_is_warned_about_before_the_run():
    narrow, wide = (Contrast(a="a", b="b", metric="score", margin=margin) for margin in (0.02, 0.5))
    (warning,) = describe_margins([Contrast(a="c", b="b"), narrow, wide], 3, 20, PowerAssumptions(score_sd=0.2))
    assert warning.startswith(
        "a against b: even if both are equally good, the probability to show that score is not worse by 0.02"
    )
    assert warning.endswith("add seeds or declare a wider margin")
    assert compute_margin_power(wide, 3, 1, PowerAssumptions()) == 0.0


@pytest.mark.slow
def test_assumptions_are_measured_in_a_pilot_experiment():
    rng = np.random.default_rng(4)
    rows = [
        {
            "arm": arm,
            "task": f"t{task}",
            "seed": seed,
            "success": bool(rng.random() < 0.5),
            "score": float(np.clip(0.5 + rng.normal(0, 0.1), 0, 1)),
            "cost_usd": float(np.exp(rng.normal(0, 0.3))),
        }
        for arm in "ab"
        for task in range(10)
        for seed in range(40)
    ]
    assumptions = measure_assumptions(results(rows).trials, "pilots/one")
    assert assumptions.discordance == pytest.approx(0.5, abs=0.06)
    assert assumptions.score_sd == pytest.approx(0.1 * 2**0.5, rel=0.1)
    assert assumptions.log_sd == pytest.approx(0.3 * 2**0.5, rel=0.1)
    assert max(assumptions.task_sd, assumptions.score_task_sd, assumptions.log_task_sd) < 0.2
    assert "as measured in pilots/one that 48 % of" in describe_power(10, 4, assumptions)
    with pytest.raises(UsageError, match="pilot: 'x' has no two arms with valid trials on the same task and seed"):
        measure_assumptions(results(rows[:400]).trials, "x")


def test_the_variation_over_tasks_is_measured_without_what_the_seeds_add():
    rng = np.random.default_rng(4)
    rows = []
    for task in range(40):
        cost, score = rng.normal(0, 0.5), rng.normal(0, 0.15)
        for arm in "ab":
            for seed in range(6):
                log_usd = cost * (arm == "a") + rng.normal(0, 0.6)
                points = float(np.clip(0.5 + score * (arm == "a") + rng.normal(0, 0.2), 0, 1))
                rows.append({"arm": arm, "task": f"t{task}", "seed": seed, "cost_usd": float(np.exp(log_usd)), "score": points})
    assumptions = measure_assumptions(results(rows).trials, "pilot")
    assert assumptions.log_task_sd == pytest.approx(0.5, rel=0.25)  # with what the seeds add: 0.61
    assert assumptions.score_task_sd == pytest.approx(0.15, rel=0.25)
    assert assumptions.task_sd == 0.0


@given(st.integers(1, 400), st.floats(0.6, 0.999999))
def test_the_quantile_of_students_t_equals_that_of_scipy(freedom, probability):
    assert compute_student_quantile(freedom, probability) == pytest.approx(float(stdtrit(freedom, probability)), rel=1e-8)
