"""Effects of one arm against another: units, copies, estimands, refusals and words."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from harness.analysis.effects import compute_null_p, describe_evidence, estimate_effect, estimate_task_effects
from harness.errors import UsageError


def pairs(a, b, metric="success", tasks=None, seeds=None, **columns):
    n = len(a)
    table = {"task": tasks or ["t"] * n, "seed": seeds if seeds is not None else range(n)}
    return pd.DataFrame(table | {f"{metric}_a": a, f"{metric}_b": b} | columns)


def test_the_interval_over_tasks_is_that_of_the_paired_t_test():
    a, b = [0.5, 0.75, 1.0, 0.25, 0.5, 0.75], [0.25, 0.5, 1.0, 0.5, 0.25, 0.25]
    effect = estimate_effect(pairs(a, b, "score", tasks=list("abcdef")), "score")
    assert (effect.estimand, effect.method) == ("tasks like these", "Student's t and sign-flip test over tasks")
    assert tuple(effect.interval) == pytest.approx(tuple(ttest_rel(a, b).confidence_interval(0.95)))
    assert effect.value == pytest.approx(np.mean(a) - np.mean(b))


def test_the_mean_of_the_task_means_is_estimated_and_not_the_mean_of_the_trials():
    effect = estimate_effect(pairs([1, 1, 1, 1], [0, 0, 0, 1], tasks=["x", "x", "x", "y"], seeds=[0, 1, 2, 0]), "success")
    assert (effect.value, effect.task_count, effect.unit_count, effect.pair_count) == (0.5, 2, 4, 4)


def test_copies_count_once_and_distinct_runs_of_one_seed_each_count():
    same = pairs([1] * 6, [0] * 6, seeds=[0] * 6, trajectory=["x"] * 6)
    distinct = pairs([1] * 6, [0] * 6, seeds=[0] * 6, trajectory=list("uvwxyz"))
    assert [estimate_effect(one, "success").unit_count for one in (same, distinct)] == [1, 6]
    assert [estimate_effect(one, "success").is_significant for one in (same, distinct)] == [False, True]


def test_copies_are_no_units_but_keep_their_weight_in_the_estimate():
    outcomes, runs = [1] * 6 + [0] * 4, ["same"] * 6 + list("abcd")
    effect = estimate_effect(pairs(outcomes, [0] * 10, seeds=[0] * 10, trajectory=runs), "success")
    assert (effect.value, effect.unit_count, effect.method) == (0.6, 5, "Newcombe's interval and exact McNemar test")
    assert effect.p_value == 0.25  # three of five units differ
    nested = estimate_effect(pairs(outcomes, [0] * 10, seeds=[0] * 5 + [1] * 5, trajectory=runs), "success")
    assert (nested.value, nested.unit_count) == (0.6, 2)


def test_distinct_seeds_count_even_if_their_trajectories_coincide():
    effect = estimate_effect(pairs([1] * 6, [0] * 6, trajectory=["x"] * 6), "success")
    assert (effect.unit_count, effect.p_value) == (6, 2**-5)


def test_runs_of_one_seed_are_nested_in_it_if_there_are_several_seeds():
    effect = estimate_effect(pairs([1, 0, 1, 1], [0, 0, 0, 0], seeds=[0, 0, 1, 1], trajectory=list("abcd")), "success")
    assert (effect.unit_count, effect.value) == (2, 0.75)
    assert effect.method == "interval for values from 0 to 1 and sign-flip test over seeds"


def test_amounts_are_compared_by_the_logarithms_of_their_ratios():
    effect = estimate_effect(pairs([2.0, 8.0, 2.0], [1.0, 2.0, 2.0], "steps"), "steps")
    assert effect.value == pytest.approx(2.0)
    expected = ttest_rel(np.log([2.0, 8.0, 2.0]), np.log([1.0, 2.0, 2.0]))
    assert tuple(effect.interval) == pytest.approx(tuple(np.exp(expected.confidence_interval(0.95))))
    assert effect.p_value == pytest.approx(expected.pvalue)


def test_unknown_and_zero_amounts_are_left_out_and_counted():
    effect = estimate_effect(pairs([1.0, None, 0.0, 4.0], [2.0, 1.0, 1.0, 4.0], "steps"), "steps")
    assert (effect.pair_count, effect.excluded_pairs) == (2, 2)


@pytest.mark.parametrize(
    ("table", "metric", "refusal"),
    [
        (pairs([2.0], [1.0], "steps"), "steps", "a single seed"),
        (pairs([2.0, 2.0], [1.0, 3.0], "steps", tasks=["x", "y"]), "steps", "a task with a single seed"),
        (pairs([2.0, 4.0, 8.0], [1.0, 2.0, 4.0], "steps"), "steps", "no spread, so the values say nothing about chance"),
        (pairs([], [], "steps"), "steps", "no pairs"),
    ],
)
def test_an_interval_that_cannot_be_had_is_refused_with_the_reason(table, metric, refusal):
    effect = estimate_effect(table, metric)
    assert effect.refusal == refusal
    assert np.isnan([*effect.interval, effect.p_value]).all()


def test_equal_scores_have_an_interval_with_a_width():
    effect = estimate_effect(pairs([0.25] * 3, [1.0] * 3, "score"), "score")
    assert effect.value == -0.75
    assert effect.interval.low < -0.75 < effect.interval.high


VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nan])


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 3), VALUES, VALUES), min_size=1, max_size=30))
def test_the_effects_on_tasks_are_those_of_their_own_pairs(rows):
    tasks, seeds, a, b = map(list, zip(*rows, strict=True))
    for metric in ("score", "steps"):
        whole = pairs(a, b, metric, tasks=tasks, seeds=seeds)
        own = {task: estimate_effect(one, metric, is_tested=False) for task, one in whole.groupby("task")}
        known = {task: effect for task, effect in own.items() if effect.pair_count}
        assert repr(estimate_task_effects(whole, metric)) == repr(known)


def test_tasks_like_these_are_refused_with_few_tasks():
    with pytest.raises(UsageError, match="at least 6 tasks"):
        estimate_effect(pairs([1, 0], [0, 0], tasks=["x", "y"]), "success", estimand="tasks like these")


def test_another_value_than_no_effect_can_be_tested():
    table = pairs([0.5, 0.75, 1.0, 0.25, 0.5, 0.75], [0.45, 0.7, 1.0, 0.3, 0.5, 0.7], "score", tasks=list("abcdef"))
    assert compute_null_p(table, "score", 0.0) == pytest.approx(estimate_effect(table, "score").p_value)
    assert compute_null_p(table, "score", -0.2) <= 0.05 < compute_null_p(table, "score", 0.0)


@pytest.mark.parametrize(
    ("a", "b", "evidence"),
    [
        ([1] * 5, [0] * 5, "p would be 0.062, above 0.05. Read the trials as examples"),
        ([1] * 8, [1] * 5 + [0] * 3, "does not show that success is equal"),
        ([1] * 5 + [0] * 3, [0] * 8, "a hint"),
        ([1] * 8, [0] * 8, "Both the interval and the test exclude 0"),
        ([], [], "unknown"),
    ],
)
def test_words_follow_the_interval_and_the_test(a, b, evidence):
    assert evidence in describe_evidence(estimate_effect(pairs(a, b), "success"))
