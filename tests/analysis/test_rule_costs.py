"""Costs under price rules from the table of steps agree with those from the logs; winners that depend on the rule are named."""

import pandas as pd
import pytest

from harness.analysis import rule_costs, tables
from harness.analysis.comparison import compare
from harness.analysis.rule_costs import describe_winners, list_cheapest, name_rule, price_trials
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.inspection.repricing import DEFAULT_RULES, price_sessions
from harness.policies import load_policy_class
from harness.prices.rules import find_rule
from harness.replay.bills import find_held_tokens
from harness.reporting.rule_costs import build_rule_cost_section, describe_rule_dependence, select_equal_arms


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of an experiment with two arms, one of which compacts, with simulated gaps."""
    folder = tmp_path_factory.mktemp("costs")
    eager = KeepLast(trigger_tokens=12_000, keep_last=12, summarizer="scripted/extractive")
    base = Trial(task="flashcards", policy=NoCompaction(), window_tokens=100_000, gaps="claude-code")
    Experiment(name="costs", base=base, axes={"policy": [NoCompaction(), eager]}, folder=folder).run(workers=1, progress="off")
    return folder


@pytest.fixture(scope="module")
def masking(tmp_path_factory):
    """Folder of an experiment whose arms edit old messages again and again."""
    folder = tmp_path_factory.mktemp("masking")
    base = Trial(task="flashcards", policy=NoCompaction(), window_tokens=32_768, gaps="claude-code")
    policies = [load_policy_class(name)() for name in ("swe-agent", "complexity-trap-mask", "message-window")]
    Experiment(name="masking", base=base, axes={"policy": policies}, folder=folder).run(workers=1, progress="off")
    return folder


def test_an_edit_close_to_the_end_finds_the_latest_request_that_stays_whole():
    """The last step keeps 5 of 6 messages; the latest request that is part of it has 4 messages and 4,000 tokens."""
    rows = {
        "trial_id": ["a", "a", "b", "a", "a"],
        "step": [1, 2, 1, 3, 4],
        "prompt_tokens": [2_000, 4_000, 9_000, 6_000, 6_600],
        "output_tokens": [100, 100, 100, 100, 100],
        "view_tokens": [1_000, 2_000, 4_500, 3_000, 3_300],
        "view_messages": [2, 4, 3, 6, 7],
        "kept_prefix_tokens": [0, 1_000, 0, 2_000, 2_500],
        "kept_prefix_messages": [0, 2, 0, 4, 5],
    }
    steps = pd.DataFrame(rows)
    beginnings = rule_costs._measure_beginnings(steps, steps["prompt_tokens"].to_numpy(float))
    assert beginnings.shared_tokens.tolist() == [0, 2_000, 0, 4_000, 5_000]
    assert beginnings.whole_tokens.tolist() == [0, 2_000, 0, 4_000, 4_000]
    assert beginnings.whole_distance.tolist() == [0, 0, 0, 0, 3]
    assert beginnings.answer_tokens.tolist() == [0, 100, 0, 100, 0]


def test_a_request_without_the_empty_result_at_the_end_of_the_last_one_is_an_edit():
    """The second step replaces an empty last message, so it keeps all tokens of the first, but not all messages."""
    rows = {
        "trial_id": ["a", "a"],
        "step": [1, 2],
        "prompt_tokens": [4_000, 6_000],
        "output_tokens": [100, 100],
        "view_tokens": [2_000, 3_000],
        "view_messages": [4, 6],
        "kept_prefix_tokens": [0, 2_000],
        "kept_prefix_messages": [0, 3],
    }
    steps = pd.DataFrame(rows)
    beginnings = rule_costs._measure_beginnings(steps, steps["prompt_tokens"].to_numpy(float))
    assert beginnings.shared_tokens.tolist() == [0, 4_000]
    assert beginnings.whole_tokens.tolist() == [0, 0]
    assert beginnings.answer_tokens.tolist() == [0, 0]


def test_an_edit_that_keeps_one_message_shows_the_length_of_the_instructions():
    """Trial a has instructions of 300 of 400 estimated tokens in a first prompt of 4,000; of trial b they are unknown."""
    rows = {
        "trial_id": ["a", "a", "a", "b", "b"],
        "step": [1, 2, 3, 1, 2],
        "prompt_tokens": [4_000, 9_000, 5_000, 4_000, 5_000],
        "output_tokens": [10, 10, 10, 10, 10],
        "view_tokens": [400, 900, 500, 400, 500],
        "view_messages": [2, 40, 30, 40, 39],
        "kept_prefix_tokens": [0, 400, 300, 0, 350],
        "kept_prefix_messages": [0, 2, 1, 0, 2],
    }
    steps = pd.DataFrame(rows)
    beginnings = rule_costs._measure_beginnings(steps, steps["prompt_tokens"].to_numpy(float))
    assert beginnings.fixed_tokens.tolist() == [3_000, 3_000, 3_000, 0, 0]
    assert find_held_tokens(beginnings, find_rule("anthropic-2025-09")).tolist() == [0, 4_000, 3_000, 0, 0]


@pytest.mark.slow
def test_masking_costs_in_the_table_of_steps_what_it_costs_in_the_log(masking):
    """Where a cache has marks, it holds nothing of the prompts, which were never sent up to where they begin to differ."""
    rules = (*DEFAULT_RULES, "openai-2025-08", "ideal")
    from_logs = price_sessions(masking, rules).pivot_table(index="trial_id", columns="rule", values="total_usd")
    from_steps = price_trials(load(masking), rules)
    for rule in rules:
        assert from_steps[rule].to_dict() == pytest.approx(from_logs[rule].to_dict(), rel=0.01), rule


@pytest.mark.slow
def test_the_table_of_steps_prices_trials_as_their_logs_do(folder):
    results, rules = load(folder), (*DEFAULT_RULES, "openai-2025-08", "deepseek-2026-10", "vllm")
    from_logs = price_sessions(folder, rules).pivot_table(index="trial_id", columns="rule", values="total_usd")
    from_steps = price_trials(results, rules)
    for rule in rules:
        assert from_steps[rule].to_dict() == pytest.approx(from_logs[rule].to_dict(), rel=0.001), rule
    assert from_steps["none"].to_dict() == pytest.approx(from_logs["none"].to_dict())


@pytest.mark.slow
def test_trials_cost_the_same_if_they_are_priced_one_by_one(folder, monkeypatch):
    results = load(folder)
    together = price_trials(results)
    monkeypatch.setattr(tables, "TRIALS_AT_ONCE", 1)
    pd.testing.assert_frame_equal(price_trials(results), together)
    assert len(together) == len(results.trials) > 1


@pytest.mark.slow
def test_report_and_comparison_name_the_cheaper_arm_where_it_depends_on_the_rule(folder):
    results = load(folder)
    [section] = build_rule_cost_section(results)
    assert section.columns[-3:] == tuple(map(name_rule, DEFAULT_RULES))
    costs = price_trials(results).join(results.trials.set_index("trial_id")["arm"]).groupby("arm").mean()
    winners = {str(costs[rule].idxmin()) for rule in DEFAULT_RULES}
    comparison = compare(results, *costs.index)
    first_line = str(comparison).splitlines()[0]
    assert ("depends on the price rule" in first_line) == (len(winners) > 1)
    named = {rule: side for side, rules in comparison.cheaper_by_rule.items() for rule in rules}
    for rule, side in named.items():
        assert costs[rule].idxmin() == costs.index["ab".index(side)]


def test_a_winner_under_each_rule_is_named_and_ties_are_left_out():
    costs = {
        "dear": pd.Series({"a": 2.0, "b": 3.0}),
        "cheap": pd.Series({"a": 0.5, "b": 0.4}),
        "tied": pd.Series({"a": 1, "b": 1.0}),
    }
    winners = list_cheapest(costs)
    assert winners == {"a": ["dear"], "b": ["cheap"]}
    assert describe_winners(winners, "which arm costs less") == (
        "which arm costs less depends on the price rule: a under dear; b under cheap"
    )
    assert describe_winners({"a": ["dear"]}, "which arm costs less") == ""


def test_only_arms_that_succeed_about_equally_often_are_compared():
    trials = pd.DataFrame({"arm": ["a"] * 20 + ["b"] * 20 + ["c"] * 20, "success": [True] * 20 + [True] * 19 + [False] * 21})
    assert select_equal_arms(trials) == ["a", "b"]
    assert select_equal_arms(trials.assign(success=pd.NA)) == ["a", "b", "c"]
    means = pd.DataFrame({"x": {"a": 2.0, "b": 1.0, "c": 0.1}, "y": {"a": 1.0, "b": 2.0, "c": 0.1}})
    sentence = describe_rule_dependence(means, ["a", "b"])
    assert sentence.startswith("Of 2 arms with about equal success")
    assert sentence.endswith("depends on the price rule: b under x; a under y")
