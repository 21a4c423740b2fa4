"""Paired comparison of two arms on the same seeds."""

import dataclasses
import math
import re

import numpy as np
import pytest

from harness.analysis.axes import contrast_axes
from harness.analysis.comparison import compare
from harness.analysis.measures import METRICS, add_measures, estimate_cell
from harness.errors import UnknownName, UsageError
from tests.analysis.selections import arms, grid, results


def test_pairs_are_matched_by_seed_and_not_by_row():
    comparison = compare(
        results(
            [
                {"arm": "a", "seed": 0, "success": True},
                {"arm": "a", "seed": 1, "success": False},
                {"arm": "b", "seed": 1, "success": False},
                {"arm": "b", "seed": 0, "success": False},
            ]
        ),
        "a",
        "b",
    )
    assert (comparison.counts.only_a, comparison.counts.neither, comparison.counts.pairs) == (1, 1, 2)


def test_a_comparison_says_everything_that_it_takes_to_believe_it():
    """C7."""
    text = str(compare(arms([True] * 8, [True] * 5 + [False] * 3), "a", "b"))
    for sentence in (
        "8 pairs of trials on the same task and seed; L0 simulated",
        "a 8/8, 100 % [63, 100], b 5/8, 62 % [31, 86]",
        "both 5, only a 3, only b 0, neither 0",
        "what the numbers are about (estimand): these tasks: this one task only",
        "success a − b, these tasks: +38 points [-3, +69]",
        "p = 0.25",
        "placebo check",
        "Interval for success: ±36 points around the estimate.",
        "does not show that success is equal",
        "Exploratory",
    ):
        assert sentence in text


def test_a_score_that_differs_equally_for_every_seed_has_an_interval_with_a_width():
    rows = [{"arm": arm, "seed": seed, "score": score} for arm, score in (("a", 0.25), ("b", 1.0)) for seed in range(3)]
    text = str(compare(results(rows), "a", "b"))
    assert "score a − b, these tasks: -0.750 [-0.9" in text
    assert "steps a ÷ b, these tasks: 1.00, no interval (no spread" in text


@pytest.mark.slow
def test_a_comparison_says_when_scores_tell_nothing_apart_and_why_an_interval_is_wide():
    def compare_scores(scores, success):
        rows = [
            {"arm": arm, "seed": seed, "score": score, "success": success} for arm in "ab" for seed, score in enumerate(scores)
        ]
        return str(compare(results(rows), "a", "b"))

    assert "all trials passed every check, so neither success nor score tells the arms apart" in compare_scores([1.0] * 3, True)
    assert "the interval of the score is wide" in compare_scores([0.4, 0.5, 0.6], False)
    many = compare_scores([0.4, 0.5] * 40, False)
    assert "the interval of the score is wide" not in many
    assert "tells the arms apart" not in many


@pytest.mark.slow
def test_six_tasks_speak_for_tasks_like_these_and_five_do_not():
    rows = [
        {"arm": arm, "task": f"t{task}", "seed": seed, "success": arm == "a"}
        for arm in "ab"
        for task in range(6)
        for seed in range(2)
    ]
    comparison = compare(results(rows), "a", "b")
    assert (comparison.find_effect("success").estimand, comparison.p_value) == ("tasks like these", 2**-5)
    assert comparison.interval.low < comparison.difference == 1.0
    assert compare(results(rows), "a", "b", estimand="these tasks").find_effect("success").estimand == "these tasks"
    with pytest.raises(UsageError, match="at least 6 tasks"):
        compare(results([row for row in rows if row["task"] != "t5"]), "a", "b", estimand="tasks like these")


def test_the_number_of_distinct_trajectories_is_shown_beside_n():
    rows = [{"arm": arm, "seed": seed, "trajectory": f"{arm}{seed // 2}"} for arm in "ab" for seed in range(4)]
    comparison = compare(results(rows), "a", "b")
    assert (comparison.counts.pairs, comparison.distinct_trajectories) == (4, 2)
    assert "4 pairs of trials on the same task and seed, 2 of them distinct; the others repeat these; L0" in str(comparison)
    different = [row | {"trajectory": f"{row['arm']}{row['seed']}"} for row in rows]
    assert "on the same task and seed, none of which repeats another; L0" in str(compare(results(different), "a", "b"))
    with pytest.raises(UnknownName, match="unknown metric 'cost'"):
        comparison.find_effect("cost")


@pytest.mark.slow
def test_success_rates_speak_about_the_tasks_that_were_asked_for():
    trials = [
        {"arm": arm, "task": f"t{task}", "seed": seed, "success": False} for arm in "ab" for task in range(7) for seed in range(4)
    ]
    these, like = (compare(results(trials), "a", "b", estimand=one) for one in ("these tasks", "tasks like these"))
    assert these.success_a.high < like.success_a.high


def test_swapping_the_arms_turns_the_difference_around():
    selection = arms([True, True, False, True], [False, True, False, False])
    assert compare(selection, "a", "b").difference == -compare(selection, "b", "a").difference


def test_an_arm_against_itself_shows_nothing():
    comparison = compare(arms([True, False, True], []), "a", "a")
    assert (comparison.difference, comparison.counts.discordant_pairs, comparison.p_value) == (0, 0, 1)
    assert [ratio.ratio_of_totals for ratio in comparison.ratios] == [1, 1, 1]


def test_lost_and_lonely_trials_are_counted_and_in_no_number():
    rows = [{"arm": "a", "seed": s} for s in range(4)] + [{"arm": "b", "seed": s} for s in range(2)]
    rows += [{"arm": "b", "seed": 2, "status": "crashed", "reason": "crashed"}]
    comparison = compare(results(rows), "a", "b")
    assert (comparison.counts.pairs, comparison.unpaired_trials, comparison.excluded_trials) == (2, 2, 1)
    assert "1 trial excluded because of infrastructure failures" in str(comparison)


@pytest.mark.slow
def test_trials_that_one_arm_lost_bound_what_the_difference_could_have_been():
    rows = [{"arm": arm, "seed": seed, "success": arm == "a"} for arm in "ab" for seed in range(4)]
    assert compare(results(rows), "a", "b").worst_case is None
    rows[0] |= {"status": "crashed", "reason": "crashed"}
    comparison = compare(results(rows), "a", "b")
    assert (comparison.difference, comparison.worst_case) == (1.0, (0.75, 1.0))
    assert "success a − b is between +75 and +100 points" in str(comparison)
    same, other = (
        [row | ({"status": "crashed", "reason": "crashed"} if place == lost else {}) for place, row in enumerate(rows)]
        for lost in (4, 5)
    )
    assert compare(results(same), "a", "b").worst_case is None
    assert compare(results(other), "a", "b").worst_case == (0.5, 1.0)  # seed 0 of one arm and seed 1 of the other
    repeated = [row | {"replicate": int(row["arm"] == "b")} for row in rows]  # as an A/A arm
    assert compare(results(repeated), "a", "b").worst_case == comparison.worst_case


def test_a_scripted_and_a_real_summarizer_of_one_scripted_agent_may_be_compared():
    rows = [{"arm": arm, "seed": seed, "level": level} for arm, level in (("a", "L0"), ("b", "L1")) for seed in range(3)]
    assert "same scripted agent" in str(compare(results(rows), "a", "b"))
    with pytest.raises(UsageError, match="never pooled"):
        compare(results([row | {"model": row["arm"]} for row in rows]), "a", "b")


def test_pairs_in_which_a_policy_did_nothing_are_counted():
    idle = ["never fired", "no effect", "active", "summarizer never asked"]
    rows = [{"arm": "a", "seed": seed, "activity": activity} for seed, activity in enumerate(idle)]
    rows += [{"arm": "b", "seed": seed, "activity": "control"} for seed in range(5)]
    rows += [{"arm": "a", "seed": 4, "activity": "never fired", "status": "failed", "reason": "illegal_plan"}]  # it fired
    rows[-1] |= {"error": "policy 'mine.py:broken': KeyError: 'x'\n"}
    comparison = compare(results(rows), "a", "b")
    assert (comparison.policy_errors_a, comparison.policy_errors_b) == (1, 0)
    assert "the trial of a ended by an error of its policy in 1 of 5 pairs, so its steps" in str(comparison)
    assert "mend the policy first: policy 'mine.py:broken': KeyError: 'x'" in str(comparison)
    assert "the trial of b ended" not in str(comparison)
    assert "ended by an error of its policy" not in str(compare(results(rows[:-1]), "a", "b"))
    assert (comparison.inert_pairs_a, comparison.inert_pairs_b) == (2, 0)
    assert "the policy of a was never triggered or changed nothing in 2 of 5 pairs" in str(comparison)
    assert "the policy of b" not in str(comparison)
    assert (comparison.uncalled_pairs_a, comparison.uncalled_pairs_b) == (1, 0)
    assert "the summarizer of a was never called in 1 of 5 pairs, which say nothing about its summaries" in str(comparison)
    assert "the summarizer of b" not in str(comparison)


def test_the_cost_of_the_summarizer_is_a_cost():
    selection = results([{"arm": "a", "cost_usd": 1.0, "summarizer_cost_usd": 1.0}, {"arm": "b", "cost_usd": 1.0}])
    (cost,) = [ratio for ratio in compare(selection, "a", "b").ratios if ratio.metric == "total_cost_usd"]
    assert cost.ratio_of_totals == 2


def test_a_price_that_is_not_known_makes_no_ratio():
    selection = results([{"arm": "a", "summarizer_cost_usd": None}, {"arm": "b"}])
    assert "cost in USD (with summaries): no pair has known values above 0 in both arms" in str(compare(selection, "a", "b"))


def test_the_table_shows_the_four_counts():
    table = compare(arms([True, True, False], [True, False, False]), "a", "b").table()
    assert table.loc["success", "failure"] == 1
    assert table.to_numpy().sum() == 3


def test_unknown_arms_and_mixed_levels_are_refused():
    with pytest.raises(UnknownName, match="unknown arm 'c'"):
        compare(arms([True], [True]), "a", "c")
    with pytest.raises(UsageError, match="never pooled"):
        compare(results([{"arm": "a"}, {"arm": "b", "level": "L3"}]), "a", "b")


def test_arms_are_compared_by_their_values():
    rows = [
        {"arm": f"threshold={value}", "seed": seed, "axes_json": f'{{"policy.threshold": {value}}}', "success": value == 0.5}
        for value in (0.5, 0.8)
        for seed in range(3)
    ]
    comparison = compare(results(rows), {"threshold": 0.5}, {"threshold": 0.8})
    assert (comparison.a, comparison.b, comparison.counts.only_a) == ("threshold=0.5", "threshold=0.8", 3)


def test_a_notebook_shows_a_comparison_as_an_escaped_table_with_its_caveats():
    rows = [{"arm": arm, "seed": seed, "success": seed > 1} for arm in ("<b>a</b>", "b") for seed in range(4)]
    html = compare(results(rows), "<b>a</b>", "b")._repr_html_()
    assert "<h4>&lt;b&gt;a&lt;/b&gt; − b</h4>" in html
    assert "<b>" not in html
    assert html.count("<tr>") == 6
    assert "Exploratory: each p is" in html


def test_a_comparison_is_always_the_first_arm_minus_the_second():
    tables = arms((True, True, False), (False, True, False))
    forward, backward = compare(tables, "a", "b"), compare(tables, "b", "a")
    assert (forward.a, forward.b, backward.a, backward.b) == ("a", "b", "b", "a")
    assert forward.difference == -backward.difference == pytest.approx(1 / 3)
    assert tuple(forward.interval) == pytest.approx((-backward.interval.high, -backward.interval.low))


@pytest.mark.slow
def test_costs_without_a_prompt_cache_are_named_with_the_ratio_that_a_cache_would_give():
    def compare_costs(**changes):
        sides = {"a": {"cost_usd": 2.0, "cache_could_save_usd": 0.5}, "b": {"cost_usd": 4.0, "cache_could_save_usd": 3.5}}
        return compare(
            results([{"arm": arm, "seed": seed} | side | changes for arm, side in sides.items() for seed in (0, 1)]), "a", "b"
        )

    comparison = compare_costs()
    assert comparison.find_effect("total_cost_usd").value == pytest.approx(0.5)
    assert comparison.cached_cost_ratio == pytest.approx(3.0)
    for text in (str(comparison), comparison._repr_html_()):
        assert "costs are without a prompt cache" in text
        assert "with a cache that never evicts, totals a ÷ b would be 3.00" in text
    for changes in ({"cache_read_tokens": 7}, {"cache_write_tokens": 7}, {"cache_could_save_usd": None}, {"cost_usd": None}):
        comparison = compare_costs(**changes)
        assert comparison.cached_cost_ratio is None
        assert "prompt cache" not in str(comparison)


def test_tasks_like_these_may_be_asked_for_although_costs_are_unknown_on_some_tasks():
    rows = [
        {"arm": arm, "task": f"t{task}", "seed": seed, "score": 0.5 + 0.1 * (arm == "a"), "cost_usd": 1.0 if task < 5 else None}
        for arm in ("a", "b")
        for task in range(8)
        for seed in range(2)
    ]
    comparison = compare(results(rows), "a", "b", estimand="tasks like these")
    score, cost = comparison.find_effect("score"), comparison.find_effect("total_cost_usd")
    assert (score.task_count, score.refusal, score.estimand) == (8, "", "tasks like these")
    assert (cost.task_count, cost.refusal) == (5, "known on 5 tasks, and tasks like these need 6")
    with pytest.raises(UsageError, match="'tasks like these' needs at least 6 tasks"):
        compare(results([row for row in rows if row["task"] in {"t0", "t1", "t2", "t3"}]), "a", "b", estimand="tasks like these")


@pytest.fixture(scope="module")
def thresholds():
    return grid(thresholds=(0.8, 0.95), keeps=(4, 20), summarizers=("scripted/extractive", "scripted/empty"))


@pytest.mark.slow
def test_a_setting_of_a_grid_is_compared_over_matched_arms_as_the_table_by_axis_does(thresholds):
    compared = compare(thresholds, {"threshold": 0.95}, {"threshold": 0.8})
    (contrast,) = (axis for axis in contrast_axes(thresholds.trials) if axis.axis == "policy.threshold")
    assert (compared.arm_pairs, contrast.arm_pairs) == (4, 4)
    for effect in contrast.effects:
        same = compared.find_effect(effect.metric)
        assert same.value == pytest.approx(effect.value)
        assert same.unit_count == effect.unit_count
        assert same.interval == pytest.approx(effect.interval, nan_ok=True)
    lines = str(compared).splitlines()
    assert lines[:2] == ["a = threshold=0.95 (4 arms)", "b = threshold=0.8 (4 arms)"]
    assert lines[2].startswith("effects are averaged over 4 pairs of arms that are equal in all other settings")
    assert compared.counts.pairs == 8  # of four pairs of arms on two seeds
    assert compared.unpaired_trials == 0


def test_settings_that_match_no_arms_one_to_one_are_refused_with_what_to_do(thresholds):
    with pytest.raises(UsageError, match="cannot be matched one to one; give a value for each setting in which they differ"):
        compare(thresholds, {"threshold": 0.8, "keep_last": 4}, {"threshold": 0.95})
    with pytest.raises(UsageError, match="matches 5 arms and 'no compaction' 1 arm, of which no two are equal in all other"):
        compare(thresholds, {"threshold": 0.8}, "no compaction")


def costs(courses, ratio=3.98):
    """Return results of two arms on one task whose costs hardly vary, with the course of the agent for each seed."""
    noise = np.random.default_rng(0).normal(1, 1e-4, (2, len(courses)))
    rows = [
        {"arm": arm, "seed": seed, "cost_usd": cost * noise[place, seed]}
        for place, (arm, cost) in enumerate((("a", ratio), ("b", 1.0)))
        for seed in range(len(courses))
    ]
    selection = results(rows)
    return dataclasses.replace(
        selection, trials=selection.trials.assign(trajectory=[f"{arm}{one}" for arm in "ab" for one in courses])
    )


def test_the_amounts_of_copies_have_no_interval():
    compared = compare(costs("xxxxxxxx"), "a", "b")
    assert compared.distinct_trajectories == 1
    effect = compared.find_effect("total_cost_usd")
    assert effect.value == pytest.approx(3.98, rel=1e-3)
    assert (effect.unit_count, effect.pair_count) == (1, 8)
    assert effect.refusal == "all pairs repeat one course, so they say nothing about chance"
    assert math.isnan(effect.p_value)
    assert "3.98, no interval (all pairs repeat one course" in str(compared)
    cell = estimate_cell(add_measures(costs("xxxxxxxx")).query("arm == 'a'"), METRICS["cost"])
    assert (cell.n, math.isnan(cell.low)) == (8, True)


def test_amounts_of_few_distinct_courses_need_the_test_that_scores_need():
    few = compare(costs("xyxyxyxy"), "a", "b").find_effect("total_cost_usd")
    assert (few.unit_count, few.p_value) == (2, 0.5)
    many = compare(costs("stuvwxyz"), "a", "b")
    effect = many.find_effect("total_cost_usd")
    assert (effect.unit_count, effect.is_significant) == (8, True)
    low, high = re.findall(r"cost in USD .* 3\.98 \[(\S+), (\S+)\], p < 0\.0001", str(many))[0]
    assert low < high  # bounds that differ are never printed as equal
