"""Metrics that can be chosen: their columns, the intervals of cells, and the default."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.arms import estimate_success
from harness.analysis.measures import METRICS, add_measures, choose_metric, estimate_cell, estimate_change, find_metric
from harness.errors import UnknownName
from tests.analysis.selections import arms, grid, results

SCORES = st.lists(st.floats(0, 1), min_size=2, max_size=8)


def test_every_metric_has_a_column_of_trials_and_a_unit_in_its_label():
    trials = add_measures(grid())
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.column in trials
        assert metric.label.startswith(f"{name} (")
        assert metric.label.endswith(")")


def test_tokens_and_cost_include_summarizer_and_sub_agents():
    row = {"prompt_tokens": 1000, "output_tokens": 200, "summarizer_prompt_tokens": 30, "summarizer_output_tokens": 4}
    more = {"sub_agent_prompt_tokens": 500_000, "sub_agent_output_tokens": 60_000, "cost_usd": 1.0, "summarizer_cost_usd": 0.25}
    trials = add_measures(results([row | more]))
    assert trials["total_tokens"].tolist() == [561_234]
    assert trials["total_cost_usd"].tolist() == [1.25]


def test_retention_weighs_kinds_of_facts_equally_and_is_unknown_without_probes():
    def probe(kind, fact, kept, seen=True):
        return {"trial_id": "a/flashcards/0/0", "kind": kind, "fact": fact, "seen_before": seen, "seen_after": kept}

    probes = [probe("value", str(place), False) for place in range(3)] + [probe("value", "3", True), probe("goal", "g", True)]
    probes.append(probe("goal", "unseen", False, seen=False))
    trials = add_measures(results([{"seed": 0}, {"seed": 1}], probes=probes))
    assert trials["retention"].iloc[0] == pytest.approx((0.25 + 1) / 2)
    assert math.isnan(trials["retention"].iloc[1])
    assert estimate_cell(trials, METRICS["retention"]).n == 1


@pytest.mark.slow
def test_success_of_a_cell_is_the_rate_of_the_report():
    selection = add_measures(grid(seeds=(0, 1, 2, 3)))
    for _, trials in selection.groupby("arm"):
        rate, cell = estimate_success(trials), estimate_cell(trials, METRICS["success"])
        assert cell == (rate.trials, rate.share, rate.low, rate.high)


@pytest.mark.slow
@given(SCORES)
def test_the_interval_of_a_score_contains_the_mean_and_stays_between_0_and_1(scores):
    trials = add_measures(results([{"seed": seed, "score": score} for seed, score in enumerate(scores)]))
    cell = estimate_cell(trials, METRICS["score"])
    assert cell.n == len(scores)
    assert cell.value == pytest.approx(np.mean(scores))
    assert 0 <= cell.low <= cell.value + 1e-9
    assert cell.value - 1e-9 <= cell.high <= 1
    assert cell.high > cell.low


def test_a_cell_is_the_mean_over_tasks_not_over_trials():
    rows = [{"task": "a", "seed": seed, "steps": 10} for seed in range(9)] + [{"task": "b", "seed": 0, "steps": 30}]
    assert estimate_cell(add_measures(results(rows)), METRICS["steps"]).value == 20


def test_from_six_tasks_on_the_interval_is_over_tasks():
    rows = [{"task": f"t{task}", "seed": seed, "steps": 10 * task + 10} for task in range(6) for seed in range(2)]
    cell = estimate_cell(add_measures(results(rows)), METRICS["steps"])
    assert cell.low < 35 < cell.high
    few = estimate_cell(add_measures(results(rows[:10])), METRICS["steps"])
    assert math.isnan(few.low)  # five tasks whose seeds are equal: nothing is known about chance


def test_copies_of_a_run_do_not_make_an_interval_narrower():
    copies = [{"replicate": place + 3 * again, "score": 0.5 + 0.1 * place} for again in range(4) for place in range(3)]
    frame = add_measures(results(copies))
    frame["trajectory"] = [f"t{place % 3}" for place in frame["replicate"]]
    once = frame[frame["replicate"] < 3]
    assert estimate_cell(frame, METRICS["score"])[1:] == pytest.approx(estimate_cell(once, METRICS["score"])[1:])


def test_arms_that_are_pooled_each_have_their_weight_and_are_no_further_evidence():
    scores = {"inert": 0.2, "idle": 0.2, "active": 0.8}
    rows = [{"arm": arm, "score": score, "trajectory": "t" if score < 0.5 else "u"} for arm, score in scores.items()]
    frame = add_measures(results([*rows, {"arm": "control", "score": 0.2, "trajectory": "t"}]))
    pooled, control = frame[frame["arm"] != "control"], frame[frame["arm"] == "control"]
    cell, change = estimate_cell(pooled, METRICS["score"]), estimate_change(pooled, control, METRICS["score"])
    assert (cell.value, change.value) == pytest.approx((0.4, 0.2))
    assert math.isnan(cell.low)
    assert (change.unit_count, change.refusal) == (1, "a single seed")


def test_score_is_the_default_where_success_is_constant_in_most_cells():
    def choose(*outcomes):
        frame = results(
            [{"arm": str(arm), "seed": seed, "success": won} for arm, row in enumerate(outcomes) for seed, won in enumerate(row)]
        )
        return choose_metric([trials for _, trials in frame.trials.groupby("arm")]).name

    assert choose([True, True], [False, False], [True, False]) == "score"
    assert choose([True, True], [True, False]) == "success"


def test_a_change_is_the_difference_of_scores_and_the_ratio_of_costs():
    selection = arms([True] * 4, [False] * 4)
    trials = add_measures(selection)
    trials["total_cost_usd"] = [1.0, 2.0, 3.0, 4.0, 2.0, 4.0, 6.0, 8.0]
    a, b = (trials[trials["arm"] == arm] for arm in "ab")
    success, cost = (estimate_change(a, b, METRICS[name]) for name in ("success", "cost"))
    assert success.value == 1
    assert METRICS["success"].format_effect(success) == "+100"
    assert cost.value == pytest.approx(0.5)
    assert METRICS["cost"].format_effect(cost) == "×0.50"


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(UnknownName, match="cost"):
        find_metric("costs")


def test_values_and_intervals_are_formatted_with_the_precision_of_their_kind():
    assert METRICS["success"].format_value(0.5) == "50 %"
    assert METRICS["success"].format_interval(0.25, 0.75) == "[25, 75]"
    assert METRICS["score"].format_interval(0.25, 0.75) == "[0.25, 0.75]"
    assert METRICS["cost"].format_value(1.5) == "1.50"
    assert METRICS["tokens"].format_value(1_234_567) == "1.23M"
    assert METRICS["tokens"].format_interval(math.nan, math.nan) == "no interval"
    assert METRICS["cost"].format_change_interval(0.7, 0.95) == "[×0.70, ×0.95]"
    assert METRICS["cost"].format_change_interval(0.99526, 1.00261) == "[×0.995, ×1.003]"
    assert METRICS["tokens"].format_interval(1_234_567, 1_234_570) == "[1,234,567, 1,234,570]"
    assert METRICS["score"].format_interval(0.5, 0.5) == "[0.5, 0.5]"
    assert METRICS["score"].format_value(math.nan) == "–"
