"""Tests of the totals of a session, and of whether its treatment was given."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.description import Abilities
from harness.conversation.codec import copy_fields
from harness.conversation.events import (
    Compaction,
    Entry,
    Insert,
    ItemId,
    Patch,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    SubAgentEnded,
    TextDelta,
    Waiting,
)
from harness.conversation.messages import assistant
from harness.conversation.tokens import Estimated, Measured, Usage
from harness.session.totals import TrialTotals, describe_metrics
from tests.session.finished_steps import step

USAGES = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6).map(Measured),
    output_tokens=st.integers(0, 10**4).map(Measured),
    cache_read_tokens=st.integers(0, 10**6).map(Measured),
)


def compaction(status, usage=None, cost_usd=0.25, **changes):
    return Compaction(
        round=1,
        step=1,
        moment="step",
        status=status,
        reason="",
        patch=Patch(),
        tokens_before=Estimated(2),
        tokens_after=Estimated(1),
        messages_before=2,
        messages_after=1,
        summarizer_usage=usage,
        summarizer_cost_usd=cost_usd,
        **changes,
    )


def tallied(*events):
    totals = TrialTotals()
    applied = count(1)
    for seq, event in enumerate(events, 1):
        is_applied = isinstance(event, Compaction) and event.status == "applied"
        totals(Entry(seq, replace(event, round=next(applied)) if is_applied else event))
    return totals


@given(st.lists(USAGES))
def test_steps_add_up(usages):
    """S3.4."""
    totals = tallied(*(step(usage, number=number) for number, usage in enumerate(usages, 1)))
    assert totals.steps == len(usages)
    assert totals.prompt_tokens == sum(usage.prompt_tokens for usage in usages)
    assert totals.output_tokens == sum(usage.output_tokens for usage in usages)
    assert totals.peak_context_tokens == max((usage.prompt_tokens for usage in usages), default=0)
    assert totals.cost_usd == pytest.approx(0.5 * len(usages))


@given(USAGES, st.permutations([0.5, None, 0.25]))
def test_an_unknown_price_makes_the_total_cost_unknown(usage, costs):
    assert tallied(*(step(usage, cost) for cost in costs)).cost_usd is None


@given(USAGES)
def test_a_summarizers_tokens_are_counted_apart_also_when_nothing_came_of_it(usage):
    totals = tallied(compaction("applied", usage), compaction("no-op", usage), compaction("failed"))
    assert totals.summarizer_prompt_tokens == 2 * usage.prompt_tokens
    assert totals.summarizer_cost_usd == 0.5
    assert (totals.prompt_tokens, totals.cost_usd) == (0, 0.0)


@pytest.mark.parametrize(
    ("statuses", "treatment"),
    [
        ([], "as planned"),
        (["applied", "applied"], "as planned"),
        (["applied", "no-op"], "as planned"),
        (["applied", "failed"], "partly"),
        (["failed", "failed"], "not at all"),
        (["no-op"], "not at all"),
    ],
)
def test_the_treatment_says_whether_compactions_were_applied_as_planned(statuses, treatment):
    totals = tallied(*map(compaction, statuses))
    assert totals.treatment == treatment
    assert totals.compactions == statuses.count("applied")


RULED, SUMMARIZING = Abilities(can_act=True, can_summarize=False), Abilities(can_act=True, can_summarize=True)
ASKED, FAILED = {"summarizer": "scripted/empty"}, {"failure": "ContextOverflow: too long"}


@pytest.mark.parametrize(
    ("able", "events", "activity"),
    [
        (Abilities(can_act=False, can_summarize=False), [], "control"),
        (RULED, [], "never fired"),
        (RULED, [("no-op", {})], "no effect"),
        (SUMMARIZING, [("failed", FAILED), ("failed", FAILED)], "no effect"),
        (RULED, [("no-op", {}), ("applied", {})], "active"),
        (SUMMARIZING, [("applied", {}), ("applied", {})], "summarizer never asked"),
        (SUMMARIZING, [("applied", {}), ("applied", ASKED)], "active"),
        (SUMMARIZING, [("applied", {}), ("no-op", ASKED)], "active"),
        (SUMMARIZING, [("applied", FAILED)], "active"),
    ],
)
def test_the_activity_of_a_policy_depends_on_its_abilities(able, events, activity):
    assert tallied(*(compaction(status, **changes) for status, changes in events)).classify_activity(able) == activity


def test_signals_are_not_events_and_the_end_is_kept():
    totals = TrialTotals()
    totals(TextDelta(text="x"))
    assert totals.event_count == 0
    for one in (Waiting(what="retry 1 of 3", seconds=2.5), Waiting(what="summary"), Waiting(what="retry 2 of 3", seconds=4.0)):
        totals(one)
    assert (totals.event_count, totals.retries, totals.waited_seconds) == (0, 2, 6.5)
    end = SessionEnded(status="failed", reason="overflow")
    assert tallied(end).end_event == end


def begun(model):
    return SessionStarted(
        session_id="s",
        task="",
        model=model,
        policy_json="{}",
        window_tokens=1,
        threshold_tokens=None,
        budget_rule="",
        sandbox="memory",
    )


def test_cache_savings_are_cheaper_reads_minus_dearer_writes():
    """S3.5."""
    usage = Usage(
        input_tokens=Measured(100_000),
        output_tokens=Measured(50_000),
        cache_read_tokens=Measured(1_000_000),
        cache_write_tokens=Measured(200_000),
    )
    totals = tallied(begun("scripted/flashcards:attentive"), step(usage), step(usage))
    assert totals.cache_saved_usd == pytest.approx(2 * (1.0 * 2.70 - 0.2 * 0.75))


def test_cache_savings_use_the_prices_of_the_model_of_a_resumed_session():
    usage = Usage(input_tokens=Measured(0), output_tokens=Measured(0), cache_read_tokens=Measured(1_000_000))
    started = begun("scripted")
    resumed = SessionResumed(**copy_fields(started, SessionResumed))
    totals = tallied(started, step(usage), replace(resumed, model="local/qwen2.5-0.5b"), step(usage))
    assert totals.cache_saved_usd == pytest.approx(2.70), "a model on this machine costs nothing"
    unpriced = tallied(started, step(usage), replace(resumed, model="hosted_vllm/unknown"), step(usage))
    assert unpriced.cache_saved_usd is None


def test_prunings_and_summaries_are_counted_with_the_time_that_they_took():
    """S3.16."""
    insert = Insert(message=assistant("summary"), after=ItemId(2))
    summary = compaction("applied", summarizer="m", summarizer_seconds=2.0, wall_seconds=2.5)
    totals = tallied(
        compaction("applied", wall_seconds=0.25),
        replace(summary, patch=Patch(insert=(insert,))),
        compaction("no-op", wall_seconds=9.0),
        compaction("failed", summarizer="m", summarizer_seconds=1.0),
    )
    assert (totals.prunings, totals.pruned_tokens, totals.pruning_seconds) == (1, 1, 0.25)
    assert (totals.summarizer_calls, totals.summarizer_seconds) == (2, 3.0)
    metrics = dict(describe_metrics(totals))
    assert metrics["pruning"] == "1 pruning in 250.0 ms, 1 token saved"
    assert metrics["summaries"] == "2 attempts in 3.0 s"


@pytest.mark.parametrize(
    ("model", "summarizers", "agent", "summaries"),
    [
        ("gpt-4o", ["m"], "", ""),
        ("scripted:typical", ["scripted/extractive"], " (simulated)", " (simulated)"),
        ("scripted/flashcards@3:attentive", ["m", "scripted/empty"], " (simulated)", " (simulated in part)"),
    ],
)
def test_costs_and_durations_of_scripted_models_are_marked(model, summarizers, agent, summaries):
    start = SessionStarted(
        session_id="s", task="", model=model, policy_json="{}", window_tokens=0, threshold_tokens=None, budget_rule="", sandbox=""
    )
    written = [compaction("no-op", summarizer=name, summarizer_seconds=1.0) for name in summarizers]
    totals = tallied(start, *written)
    assert totals.describe_cost() == f"$0.0000{agent}"
    assert dict(describe_metrics(totals))["summaries"].endswith(f" s{summaries}")
    assert totals.summary_note == summaries


@given(st.integers(0, 10**6), st.integers(0, 10**6), USAGES)
def test_possible_cache_savings_grow_with_the_shared_prefix(view, kept, usage):
    def could(shared):
        sent = replace(step(usage), view_tokens=Estimated(max(view, 1)), kept_prefix_tokens=Estimated(shared))
        return tallied(begun("scripted"), sent).cache_could_save_usd

    nothing, whole = -0.75 * usage.prompt_tokens / 1e6, 2.70 * usage.prompt_tokens / 1e6
    assert could(0) == pytest.approx(nothing)
    assert could(max(view, 1)) == pytest.approx(whole)
    assert min(nothing, whole) - 1e-9 <= could(kept) <= max(nothing, whole) + 1e-9


def test_cache_savings_are_unknown_if_the_price_is_unknown():
    totals = tallied(
        begun("hosted_vllm/nobody-has-priced-this"), step(Usage(input_tokens=Measured(1), output_tokens=Measured(1)))
    )
    assert (totals.cache_saved_usd, totals.cache_could_save_usd) == (None, None)


@given(st.lists(st.sampled_from([0.5, None, 0.25])), USAGES)
def test_sub_agents_are_counted_apart_and_are_part_of_the_whole(costs, usage):
    """S3.20."""
    ended = [
        SubAgentEnded(step=1, session_id=f"s.{number}", steps=2, prompt_tokens=90, output_tokens=8, cost_usd=cost)
        for number, cost in enumerate(costs)
    ]
    totals, alone = tallied(step(usage), *ended), tallied(step(usage))
    assert (totals.explorations, totals.sub_agent_steps) == (len(costs), 2 * len(costs))
    assert (totals.sub_agent_prompt_tokens, totals.sub_agent_output_tokens) == (90 * len(costs), 8 * len(costs))
    assert totals.sub_agent_cost_usd == (None if None in costs else sum(costs))
    assert (totals.steps, totals.prompt_tokens, totals.cost_usd) == (1, alone.prompt_tokens, 0.5)
    assert totals.all_prompt_tokens == alone.prompt_tokens + totals.sub_agent_prompt_tokens
    assert totals.total_cost_usd == (None if None in costs else 0.5 + sum(costs))
