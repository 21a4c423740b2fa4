"""Tests of counterfactual runs: they do what a live session does, and classify each message correctly."""

from functools import cache

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Compaction, Entry, Event, MessageAdded, SessionStarted, StepFinished
from harness.conversation.messages import Text, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Estimated, Measured, Usage
from harness.conversation.view import OPENING_MESSAGE
from harness.errors import UsageError
from harness.inspection.calibration import RecordedCalibration
from harness.inspection.counterfactual import CounterfactualRun, CounterfactualSpec, SessionTrace, count_uncompacted_tokens
from harness.inspection.disposition import classify_messages
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import WINDOW_TOKENS, SampleOracle, build_sample_log, open_sample_summarizer, run_on_sample
from harness.policies import PRESETS, policy_from_plain

SAMPLE_TOKENS = 250_000


@cache
def sample():
    session = RecordedSession(name="sample", entries=build_sample_log(SAMPLE_TOKENS), oracle=SampleOracle())
    return session, SessionTrace(session.entries)


def compute_run(policy, window_tokens=WINDOW_TOKENS, **setting):
    session, trace = sample()
    run = CounterfactualRun(session, trace, CounterfactualSpec(policy=policy, window_tokens=window_tokens, **setting))
    run.advance()
    return run


def small_log(*turns):
    """Return a log of steps, each given as user text or None, answer, and output or None."""
    events: list[Event] = [
        SessionStarted(
            session_id="s", task="", model="m", policy_json="", window_tokens=0, threshold_tokens=None, budget_rule="", sandbox=""
        ),
        MessageAdded(message=system("S" * 40), step=0),
    ]
    for number, (asked, answer, output) in enumerate(turns, 1):
        if asked:
            events.append(MessageAdded(message=user(asked), step=number))
        calls = [ToolCall(call_id=f"c{number}", name="run", arguments_json="{}")] if output else []
        events.append(MessageAdded(message=assistant(answer, *calls), step=number))
        if output:
            events.append(MessageAdded(message=tool(ToolResult(call_id=f"c{number}", name="run", output=output)), step=number))
        events.append(finished(number))
    return tuple(Entry(seq, event) for seq, event in enumerate(events, 1))


def finished(step):
    return StepFinished(
        step=step,
        view_tokens=Estimated(0),
        view_messages=0,
        usage=Usage(input_tokens=Measured(0), output_tokens=Measured(0)),
        cost_usd=None,
        request_digest="",
        kept_prefix_messages=0,
        kept_prefix_tokens=Estimated(0),
        calls=0,
        call_errors=0,
        model_seconds=0.0,
        tool_seconds=0.0,
    )


def test_a_step_whose_answer_is_not_in_the_log_has_no_time_of_an_answer():
    log = small_log(("do it", "yes", "out"))
    log = (*log, Entry(len(log) + 1, finished(2)))
    first, second = SessionTrace(log, [1_000 * entry.seq for entry in log]).steps
    assert (first.asked_seconds, first.answered_seconds) == (3, 4)
    assert (second.asked_seconds, second.answered_seconds) == (5, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_under_every_policy_the_dispositions_account_for_every_token_in_view(name):
    run = compute_run(PRESETS[name]())
    failed = [entry.event.reason for entry in run.attempts if entry.event.status == "failed"]
    assert [reason for reason in failed if "SummaryFailed" in reason] == []
    for index in (0, run.steps // 2, run.steps - 1):
        scene = run.find_state(index)
        standings = run.list_message_states(scene)
        assert scene.view.tokens == run.view_tokens[index]
        assert len(standings) == scene.step.messages_at_request
        ours = set(standings.items)
        new = sum(item.tokens for item in scene.view.items if item.item_id not in ours)
        assert sum(one.tokens_after for one in standings) + new == scene.view.tokens
        for one in standings:
            assert (one.disposition in {"kept", "masked"}) == (one.tokens_after > 0 or one.tokens_before == 0)
            assert (one.disposition == "summarized") == (one.summarized_by is not None)
            assert one.disposition != "kept" or one.tokens_before == one.tokens_after


@pytest.mark.slow
@pytest.mark.parametrize("name", ["drop-all", "inspect-trim", "cline-basic", "roo-sliding", "random", "oracle"])
def test_a_counterfactual_run_without_summaries_compacts_like_the_live_session(name):
    live = run_on_sample(PRESETS[name](), WINDOW_TOKENS, summarizer=open_sample_summarizer("scripted/empty"))
    ours = [entry.event for entry in compute_run(PRESETS[name]()).attempts]
    assert live.applied_attempts
    theirs = [change.event for change in live.attempts][: len(ours)]
    assert [(event.step, event.status, event.tokens_before, event.tokens_after) for event in ours] == [
        (event.step, event.status, event.tokens_before, event.tokens_after) for event in theirs
    ]


@pytest.mark.slow
def test_the_first_compaction_with_a_summary_evicts_the_same_messages_as_in_the_live_session():
    change = run_on_sample(KeepLast(), WINDOW_TOKENS, max_compactions=1).applied_attempts[0]
    run = compute_run(KeepLast())
    event = run.attempts[0].event
    index = next(index for index, step in enumerate(run.trace.steps) if step.end_event.step == event.step)
    assert (event.step, event.tokens_before) == (change.event.step, change.event.tokens_before)
    live = [one.disposition for one in classify_messages(change) if one.disposition != "summary"]
    assert [one.disposition for one in run.list_message_states(run.find_state(index))] == live


@pytest.mark.slow
def test_messages_that_went_with_a_summary_are_dropped_when_that_summary_goes_unsaid():
    policy = policy_from_plain({"kind": "openhands-v0", "max_size": 10, "keep_first": 2})
    run = compute_run(policy)
    scene = run.find_state(run.steps - 1)
    standings = run.list_message_states(scene)
    shown = {item.item_id for item in scene.view.items}
    tellers = {one.summarized_by for one in standings if one.summarized_by is not None}
    assert scene.view.rounds > 3
    assert tellers <= shown
    assert len(tellers) == 1


def test_a_summary_is_as_long_as_asked_but_no_longer_than_the_policy_allows():
    short = compute_run(KeepLast(), summary_tokens=100).attempts[0].event
    long = compute_run(KeepLast(), summary_tokens=100_000).attempts[0].event
    assert 100 <= len(short.summary) / 4 < 200
    assert 800 <= len(long.summary) / 4 < 900


def test_constants_are_scaled_from_their_nominal_window():
    plain, scaled = compute_run(KeepLast(), 100_000), compute_run(KeepLast(), 100_000, nominal_window_tokens=200_000)
    assert plain.budget.reserved_tokens == 2 * scaled.budget.reserved_tokens
    assert "nominal window of 200000" in scaled.budget_rule


@pytest.mark.slow
def test_a_run_may_be_stopped_and_carried_on():
    session, trace = sample()
    setting = CounterfactualSpec(policy=KeepLast(), window_tokens=WINDOW_TOKENS)
    sliced = CounterfactualRun(session, trace, setting)
    asked = 0
    while not sliced.is_done:
        before = sliced.steps
        sliced.advance(lambda: True)
        assert sliced.steps == before + 1
        asked += 1
    assert asked == len(trace.steps)
    whole = compute_run(KeepLast())
    assert [sliced.find_state(index) for index in range(asked)] == [whole.find_state(index) for index in range(asked)]


@pytest.mark.slow
@pytest.mark.parametrize("calibrated", [False, True])
def test_skipped_steps_leave_the_views_and_sizes_of_a_whole_run(calibrated):
    session, trace = sample()[0], SessionTrace(sample()[0].entries)
    if calibrated:
        trace.calibration = RecordedCalibration(
            overhead_tokens=5_000.5, typed_tokens=0.3, answer_tokens=0.31, result_tokens=0.29, prompts=8, error=0.0
        )
    setting = CounterfactualSpec(policy=KeepLast(), window_tokens=40_000, explains_shortfalls=False)
    whole, skipping = CounterfactualRun(session, trace, setting), CounterfactualRun(session, trace, setting)
    whole.advance()
    counts = [whole.count_attempts(index) for index in range(whole.steps)]
    while not skipping.is_done:
        start, before = skipping.steps, len(skipping.attempts)
        quiet = next((place for place, count in enumerate(counts[start:]) if count > before), len(counts) - start)
        skipping.skip(quiet)
        if not quiet:
            skipping.advance(lambda: True)
        assert skipping.sent_view == whole.find_state(skipping.steps - 1).view == skipping.find_state(skipping.steps - 1).view
    assert skipping.view_tokens == whole.view_tokens
    assert [skipping.count_attempts(index) for index in range(skipping.steps)] == counts
    assert 1 < counts[-1] < len(counts) / 3  # so that several steps were skipped before and behind compactions
    assert [entry.seq for entry in skipping.attempts] == [entry.seq for entry in whole.attempts]


def test_without_explanations_compactions_do_the_same():
    explained, unexplained = (compute_run(KeepLast(), explains_shortfalls=explains) for explains in (True, False))
    patches = [[entry.event.patch for entry in run.attempts] for run in (explained, unexplained)]
    assert patches[0] == patches[1]
    assert patches[0]
    assert not any(entry.event.shortfall for entry in unexplained.attempts)


def test_a_turn_of_the_user_begins_before_its_message():
    trace = SessionTrace(small_log(("do it", "yes", "out"), (None, "done", None), ("and that", "done", None)))
    assert [(step.messages_at_turn, step.messages_at_request, step.messages_at_end) for step in trace.steps] == [
        (None, 2, 4),
        (None, 4, 5),
        (5, 6, 7),
    ]
    assert [message.role for message in trace.messages[:2]] == ["system", "user"]


def test_the_whole_conversation_is_counted_at_each_step():
    trace = SessionTrace(small_log(("x" * 40, "y" * 40, None), ("z" * 40, "y" * 40, None)))
    assert list(count_uncompacted_tokens(trace)) == [20, 40]


def test_after_an_overflow_it_compacts_as_often_as_a_live_session():
    turns = [("go on", "y" * 60, "x" * 60)] * 26 + [(None, "z", "x" * 3_600), (None, "done", None)]
    session = RecordedSession(name="long", entries=small_log(*turns))
    run = CounterfactualRun(
        session,
        SessionTrace(session.entries),
        CounterfactualSpec(policy=PRESETS["roo-sliding"](max_output_tokens=1), window_tokens=1_100),
    )
    run.advance()
    attempts = [attempt.event for attempt in run.attempts if isinstance(attempt.event, Compaction)]
    assert [attempt.moment for attempt in attempts] == ["step", "overflow", "overflow"]
    assert attempts[2].tokens_after < 1_100 < attempts[1].tokens_after


def test_a_log_without_a_step_is_refused():
    with pytest.raises(UsageError, match="no finished step"):
        SessionTrace(small_log())


def test_a_policy_that_needs_a_forecast_is_refused_in_a_session_without_one():
    _, trace = sample()
    session = RecordedSession(name="other", entries=())
    with pytest.raises(UsageError, match="'oracle' needs a forecast"):
        CounterfactualRun(session, trace, CounterfactualSpec(policy=PRESETS["oracle"](), window_tokens=WINDOW_TOKENS))


def test_messages_that_belong_to_no_step_are_listed_too():
    log = small_log(("do it", "yes", "out"), (None, "done", None))
    cut = MessageAdded(message=assistant("half an ans"), step=3)
    trace = SessionTrace((*log, Entry(len(log) + 1, cut)))
    assert len(trace.messages) == 6
    assert trace.steps[-1].messages_at_end == 5
    assert OPENING_MESSAGE not in trace.messages
    assert isinstance(trace.messages[-1].parts[0], Text)
