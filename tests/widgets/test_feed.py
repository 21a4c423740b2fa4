"""The feed of a session: updates in pieces give the same result as one update, whatever was logged."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.events import (
    CallRepeated,
    ContextUsage,
    Entry,
    MessageAdded,
    MessageQueued,
    Notice,
    RolledBack,
    StateChanged,
    StepFinished,
    StepStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TransientEvent,
    TurnEnded,
    Waiting,
)
from harness.conversation.messages import Message as Said
from harness.conversation.messages import Reasoning, Text, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.tokens import Budget, Estimated, Measured, Usage
from harness.session.history import find_last_step, find_step_end
from harness.testing.strategies import TEXTS, logs, make_step_finished
from harness.widgets.compaction_history import CompactionHistory
from harness.widgets.feed import MAX_CURVE_POINTS, MAX_ROW_CHARACTERS, Feed, TokenCurve, build_feed


class Page:
    """Return what a page shows after some updates."""

    def __init__(self):
        self.rows, self.state = {}, {}

    def hear(self, news):
        for item in news.items:
            if item["kind"] == "grown":
                row = self.rows[item["n"]]
                assert item["at"] == len(row["text"].encode("utf-16-le")) // 2
                row["text"] += item["text"]
            else:
                self.rows[item["n"]] = item
        self.state |= news.state


@st.composite
def sessions(draw):
    """Return a log with the transient events sent between its entries."""
    heard: list[Entry | TransientEvent] = []
    for entry in draw(logs(max_steps=8)):
        message = entry.event.message if isinstance(entry.event, MessageAdded) else None
        if message is not None and message.role == "assistant":
            heard += [TextDelta(text=text) for text in draw(st.lists(TEXTS, max_size=3))]
            heard += [TextDelta(text=text, part="reasoning") for text in draw(st.lists(TEXTS, max_size=2))]
            heard += [ToolStarted(call=call) for call in message.calls if draw(st.booleans())]
            heard += [Waiting(what="a retry", seconds=2.0)] * draw(st.integers(0, 1))
        heard.append(entry)
    return heard


@given(sessions(), st.data())
def test_a_page_updated_in_pieces_equals_one_updated_at_once(heard, data):
    feed, page = Feed(CompactionHistory()), Page()
    for one in heard:
        feed.receive(one)
        if data.draw(st.booleans()):
            page.hear(feed.take_update())
    page.hear(feed.take_update())
    assert [page.rows[number] for number in range(len(feed.rows))] == feed.rows
    assert page.state == feed.state
    assert feed.take_update() == ([], {})


@given(logs(max_steps=8))
def test_every_call_has_a_row_with_its_outcome_and_its_whole_answer_when_it_is_unfolded(log):
    feed = build_feed(CompactionHistory(), log)
    messages = [entry.event.message for entry in log if isinstance(entry.event, MessageAdded)]
    results = [result for message in messages for result in message.results]
    rows = [row for row in feed.rows if row["kind"] == "tool"]
    assert len(rows) == sum(len(message.calls) for message in messages) == len(results)
    for row, result in zip(rows, results, strict=True):
        assert row["size"] == len(result.output)
        assert row["status"] in ("ok", "error")
        assert row["failed"] == (row["status"] == "error")
        assert feed.build_row_body(row["n"])["parts"][-1] == ["output", result.output]


def entry(seq, event):
    return Entry(seq, event)


def entry_of_message(seq, message, step=1):
    return entry(seq, MessageAdded(message=message, step=step))


def test_a_streamed_answer_is_a_growing_row_that_the_whole_answer_replaces():
    feed = Feed(CompactionHistory())
    feed.receive(TextDelta(text="Let me 🙂 "))
    assert feed.take_update().items == [{"n": 0, "kind": "assistant", "step": 1, "text": "Let me 🙂 ", "live": True}]
    feed.receive(TextDelta(text="look"))
    assert feed.take_update().items == [{"kind": "grown", "n": 0, "at": 10, "text": "look"}]
    feed.receive(entry_of_message(1, assistant("Let me look.")))
    assert [row["text"] for row in feed.rows] == ["Let me look."]


def test_a_wait_is_over_as_soon_as_text_arrives():
    feed = Feed(CompactionHistory())
    feed.receive(Waiting(what="rate limit", seconds=8.0))
    feed.receive(TextDelta(text="", anew=True))
    assert feed.state["waiting"] == "waiting 8.0 s: rate limit"
    feed.receive(TextDelta(text="Let me"))
    assert feed.state["waiting"] == ""


def test_text_streamed_again_after_a_retry_is_not_shown_twice():
    feed = Feed(CompactionHistory())
    feed.receive(TextDelta(text="Let me lo"))
    feed.receive(Waiting(what="the provider failed", seconds=2.0))
    assert feed.state["waiting"] == "waiting 2.0 s: the provider failed"
    feed.receive(TextDelta(text="Let me look"))
    assert [row["text"] for row in feed.rows] == ["Let me look"]
    feed.receive(TextDelta(text="", anew=True))
    feed.receive(TextDelta(text="I look"))
    assert [row["text"] for row in feed.rows] == ["I look"]


def test_text_of_a_cancelled_model_call_is_ignored():
    feed = Feed(CompactionHistory())
    feed.receive(TextDelta(text="I was say"))
    feed.receive(StateChanged(state="idle", queued=("next",)))
    feed.receive(TextDelta(text="ing"))
    assert [row["text"] for row in feed.rows] == ["I was say"]
    assert feed.state["queued"] == ["next"]


def test_calls_that_have_no_result_when_a_turn_ends_are_marked_as_interrupted():
    feed = Feed(CompactionHistory())
    feed.receive(ToolStarted(call=CALL))
    feed.receive(entry(1, TurnEnded(turn=1, status="failed", reason="cancelled")))
    assert [row.get("status") for row in feed.rows] == ["interrupted", None]
    assert feed.state["interrupted"] is True


CALL = ToolCall(call_id="a", name="read_file", arguments_json='{"path": "x.py"}')


def test_a_running_call_shows_its_arguments_and_its_result_before_the_step_is_over():
    feed, other = Feed(CompactionHistory()), replace(CALL, call_id="b")
    for one in (CALL, other):
        feed.receive(ToolStarted(call=one))
    assert [(row["title"], row["status"], row["size"]) for row in feed.rows] == [("read_file x.py", "running", 0)] * 2
    assert feed.build_row_body(0)["parts"] == [["path", "x.py"]]
    result = ToolResult(call_id="a", name="read_file", output="no", status="error")
    feed.receive(ToolEnded(result=result))
    shown = [("read_file x.py", "error", 2), ("read_file x.py", "running", 0)]
    assert [(row["title"], row["status"], row["size"]) for row in feed.rows] == shown
    feed.take_update()
    feed.receive(entry_of_message(1, assistant("", CALL, other)))
    feed.receive(entry_of_message(2, tool(result)))
    assert [(row["title"], row["status"], row["size"]) for row in feed.rows] == shown
    assert feed.build_row_body(0)["parts"] == [["path", "x.py"], ["output", "no"]]


@pytest.mark.parametrize(("first_line", "failed"), [("exit code 0", False), ("exit code 1", True), ("exit code -9", True)])
def test_a_call_whose_command_fails_is_marked_as_failed(first_line, failed):
    feed = Feed(CompactionHistory())
    feed.receive(ToolStarted(call=CALL))
    feed.receive(ToolEnded(result=ToolResult(call_id="a", name="read_file", output=f"{first_line}\nout")))
    assert (feed.rows[0]["status"], feed.rows[0]["failed"]) == (first_line, failed)


def test_unfinished_streamed_text_can_always_be_sent_to_the_page():
    feed = Feed(CompactionHistory())
    feed.receive(TextDelta(text="half an emoji \ud83d"))
    feed.receive(ToolStarted(call=replace(CALL, arguments_json='{"path": "\\ud83d", "\\udc00": "\ud83d"}')))
    text = json.dumps([*feed.take_update().items, feed.build_row_body(1)], ensure_ascii=False)
    assert text.encode().decode() == text
    assert [row.get("text", row.get("title")) for row in feed.rows] == ["half an emoji ?", "read_file ?"]


def test_reasoning_streams_into_a_row_of_its_own_before_the_text():
    feed = Feed(CompactionHistory())
    feed.receive(StepStarted(step=1))
    assert feed.state["step"] == 1
    feed.receive(TextDelta(text="<b>hm", part="reasoning"))
    assert feed.take_update().items == [{"n": 0, "kind": "thought", "step": 1, "text": "<b>hm", "live": True}]
    feed.receive(TextDelta(text=", yes", part="reasoning"))
    assert feed.take_update().items == [{"kind": "grown", "n": 0, "at": 5, "text": ", yes"}]
    feed.receive(TextDelta(text="Yes."))
    feed.receive(ToolStarted(call=CALL))
    feed.receive(entry_of_message(1, assistant("Yes.", CALL, reasoning="<b>hm, yes")))
    assert [(row["kind"], row.get("text"), row.get("live")) for row in feed.rows] == [
        ("thought", "<b>hm, yes", None),
        ("assistant", "Yes.", None),
        ("tool", None, None),
    ]


def test_stopped_or_retried_reasoning_is_shown_once():
    feed = Feed(CompactionHistory())
    feed.receive(TextDelta(text="hm", part="reasoning"))
    feed.receive(TextDelta(text="", anew=True))
    feed.receive(TextDelta(text="h", part="reasoning"))
    feed.receive(entry_of_message(1, assistant(reasoning="h")))
    feed.receive(TextDelta(text="x" * (MAX_ROW_CHARACTERS + 5), part="reasoning"))
    feed.receive(entry(2, TurnEnded(turn=1, status="failed", reason="cancelled")))
    assert [(row["kind"], row["text"]) for row in feed.rows[:2]] == [("thought", "h"), ("thought", "x" * MAX_ROW_CHARACTERS)]
    assert feed.rows[1]["live"] is False


def test_arguments_that_are_no_json_are_shown_as_they_are():
    call = ToolCall(call_id="a", name="x", arguments_json="<img src=x>{")
    feed = build_feed(CompactionHistory(), [entry_of_message(1, assistant("", call))])
    assert feed.build_row_body(0)["parts"] == [["arguments", "<img src=x>{"]]


def test_a_long_text_is_shown_in_part_and_whole_when_it_is_unfolded():
    text = "x" * (MAX_ROW_CHARACTERS + 1)
    feed = build_feed(CompactionHistory(), [entry_of_message(1, user(text))])
    assert len(feed.rows[0]["text"]) == MAX_ROW_CHARACTERS
    assert feed.rows[0]["more"] is True
    assert feed.build_row_body(0)["parts"] == [["", text]]


def test_thinking_has_a_row_of_its_own():
    message = Said(role="assistant", parts=(Reasoning(text="hm"), Text(text="Yes.")))
    assert [(row["kind"], row["text"]) for row in build_feed(CompactionHistory(), [entry_of_message(1, message)]).rows] == [
        ("thought", "hm"),
        ("assistant", "Yes."),
    ]


def test_the_gauge_tells_the_budget_the_view_and_the_last_report():
    feed = Feed(CompactionHistory())
    feed.set_budget(Budget(window_tokens=1000, reserved_tokens=100, threshold_tokens=700, rule="by hand"))
    feed.receive(entry_of_message(1, user("x" * 40)))
    feed.receive(ContextUsage(tokens=30, usage_tokens=20, trailing_tokens=10))
    gauge = {"window": 1000, "reserved": 100, "threshold": 700, "rule": "by hand", "tokens": 10, "messages": 1}
    assert feed.state["gauge"] == gauge | {"reported": 20, "trailing": 10, "is_over": False}
    feed.receive(entry_of_message(2, user("x" * 4_000)))
    assert feed.state["gauge"]["is_over"] is True


def priced(step, cost_usd):
    usage = Usage(input_tokens=Measured(6), output_tokens=Measured(2), cache_read_tokens=Measured(4))
    plain = {name: getattr(make_step_finished(step), name) for name in StepFinished.__dataclass_fields__}
    return StepFinished(**plain | {"usage": usage, "cost_usd": cost_usd, "view_tokens": Estimated(8)})


def test_figures_are_sums_and_an_unknown_price_makes_the_sum_unknown():
    feed = build_feed(CompactionHistory(), [entry(1, priced(1, 0.5)), entry(2, priced(2, 0.25))])
    figures = dict(feed.state["figures"])
    metrics = dict(figures.pop("metrics"))
    assert metrics["cache"].startswith("40.0 % of the prompt tokens were read from a cache")
    assert figures == {
        "steps": 2,
        "compactions": 0,
        "prompt_tokens": 20,
        "output_tokens": 4,
        "total_tokens": 24,
        "sub_agent_tokens": 0,
        "summary_prompt_tokens": 0,
        "summary_output_tokens": 0,
        "summary_cost_usd": 0.0,
        "cost_usd": 0.75,
    }
    feed.receive(entry(3, priced(3, None)))
    feed.receive(entry(4, priced(4, 1.0)))
    assert feed.totals.cost_usd is None


@given(st.integers(1, 5_000))
def test_the_curve_of_a_long_session_stays_short_and_spans_it(steps):
    curve = TokenCurve()
    for step in range(1, steps + 1):
        curve.add(step, step)
    assert len(curve.points) <= MAX_CURVE_POINTS
    assert all(step == tokens for step, tokens in curve.points)
    assert curve.points[-1][0] > 0.98 * steps if steps > MAX_CURVE_POINTS else curve.points[-1][0] == steps


def test_a_repeated_call_is_a_question_until_the_session_goes_on():
    feed = Feed(CompactionHistory())
    call = ToolCall(call_id="a", name="execute_command", arguments_json='{"command": "make"}')
    feed.receive(StateChanged(state="asking", queued=()))
    feed.receive(CallRepeated(call=call, times=3))
    assert "3 times in a row: execute_command make" in feed.state["question"]
    feed.receive(StateChanged(state="working", queued=()))
    assert feed.state["question"] == ""


def test_a_rollback_is_shown_as_a_row_and_resets_the_gauge():
    feed = build_feed(
        CompactionHistory(),
        [entry_of_message(1, user("a")), entry_of_message(2, assistant("b")), entry(3, RolledBack(step=0, to_event=1))],
    )
    assert "rolled back to the end of step 0" in feed.rows[-1]["text"]
    assert feed.state["gauge"]["messages"] == 1


@given(logs(max_steps=8), st.data())
def test_after_a_rollback_curve_and_counts_are_those_of_a_session_that_never_went_further(log, data):
    step = data.draw(st.integers(0, find_last_step(log)))
    to_event = find_step_end(log, step)
    feed = build_feed(CompactionHistory(), [*log, entry(len(log) + 1, RolledBack(step=step, to_event=to_event))])
    shorter = build_feed(CompactionHistory(), log[:to_event])
    assert feed.curve.points == shorter.curve.points
    assert (feed.totals.steps, feed.totals.compactions) == (step, shorter.totals.compactions)
    assert feed.state["rounds"] == shorter.state.get("rounds", [])
    assert (feed.state["curve"], feed.state["figures"]["steps"]) == (feed.curve.points, step)


def test_notices_are_rows():
    feed = Feed(CompactionHistory())
    feed.receive(Notice(text="80 % of the cap"))
    assert [(row["kind"], row["text"]) for row in feed.rows] == [("notice", "80 % of the cap")]


@pytest.mark.parametrize(
    ("before", "numbers"), [(None, range(850, 1100)), (600, range(350, 600)), (40, range(40)), (0, range(0))]
)
def test_earlier_rows_are_given_in_windows(before, numbers):
    feed = Feed(CompactionHistory())
    for number in range(1100):
        feed.add_note(str(number))
    assert [row["n"] for row in feed.list_rows(before)] == list(numbers)
    assert feed.list_rows(before) == feed.rows[numbers.start : numbers.stop]


@pytest.mark.slow
def test_a_window_of_long_rows_fits_a_message():
    feed = Feed(CompactionHistory())
    for _ in range(200):
        feed.add_note("x" * MAX_ROW_CHARACTERS)
    assert 10 < len(feed.list_rows(None)) < 40


def make_silent_feed(seconds):
    """Return a feed whose clock reads `seconds[0]`."""
    feed = Feed(CompactionHistory(None), clock=lambda: seconds[0], stall_seconds=300.0)
    feed.receive(StepStarted(step=1))
    return feed


def test_a_feed_says_for_how_long_a_model_has_not_answered_until_it_does():
    seconds = [0.0]
    feed = make_silent_feed(seconds)
    seen = []
    for now in (9.0, 10.0, 12.0, 40.0):
        seconds[0] = now
        feed.note_silence()
        seen.append((feed.state.get("silent_seconds", 0), feed.state.get("waiting", "")))
    limit = "; a call without data is given up after 300 s"
    assert seen == [
        (0, ""),
        (10, f"no answer for 10 s{limit}"),
        (10, f"no answer for 10 s{limit}"),
        (40, f"no answer for 40 s{limit}"),
    ]
    feed.receive(Entry(1, MessageQueued(text="hello")))
    assert feed.state["silent_seconds"] == 40, "what the user writes is no answer"
    feed.receive(TextDelta(text="I look"))
    assert (feed.state["silent_seconds"], feed.state["waiting"]) == (0, "")
    seconds[0] = 51.0
    feed.note_silence()
    assert feed.state["silent_seconds"] == 10, "a stream may stall in its middle"


@pytest.mark.parametrize(
    "end",
    [
        ToolStarted(call=ToolCall(call_id="1", name="read_file", arguments_json="{}")),
        StateChanged(state="idle", queued=()),
        Entry(1, MessageAdded(message=assistant("done"), step=1)),
    ],
    ids=lambda end: type(end).__name__,
)
def test_nothing_is_awaited_from_a_model_after_its_answer(end):
    seconds = [0.0]
    feed = make_silent_feed(seconds)
    feed.receive(end)
    seconds[0] = 600.0
    feed.note_silence()
    assert feed.state.get("silent_seconds", 0) == 0


def test_a_wait_before_a_retry_is_no_silence_and_the_retry_is_named():
    seconds = [0.0]
    feed = make_silent_feed(seconds)
    feed.receive(Waiting(what="retry 1 of 3: the provider of 'x' failed (500): down", seconds=30.0))
    shown = []
    for now in (25.0, 41.0):
        seconds[0] = now
        feed.note_silence()
        shown.append(feed.state["waiting"].partition(";")[0])
    assert shown == [
        "waiting 30.0 s: retry 1 of 3: the provider of 'x' failed (500): down",
        "retry 1 of 3: no answer for 10 s",
    ]


def test_the_text_of_a_provider_is_folded_below_the_words_of_the_harness():
    feed = Feed(CompactionHistory(None))
    detail = "the provider of 'x' refused the request (401): {'no': 'key'}; check the provider's key in the environment"
    feed.receive(Entry(1, TurnEnded(turn=1, status="failed", reason="model_error", detail=detail)))
    (row,) = feed.rows
    words = "the provider of 'x' refused the request (401); check the provider's key in the environment"
    assert row["text"] == f"turn ended: model error: {words}"
    assert (row["more"], feed.build_row_body(0)["parts"]) == (True, [["", "{'no': 'key'}"]])


@given(logs(max_steps=8), st.data())
def test_exactly_the_rows_of_entries_that_were_rolled_back_are_marked(log, data):
    log = [entry for entry in log if not isinstance(entry.event, RolledBack)]
    steps = find_last_step(log)
    step = data.draw(st.integers(0, steps))
    end = find_step_end(log, step)
    whole = [*log, Entry(len(log) + 1, RolledBack(step=step, to_event=end))]
    kept, marked = build_feed(CompactionHistory(None), log[:end]), build_feed(CompactionHistory(None), whole)
    undone = [bool(row.get("undone")) for row in marked.rows]
    assert undone == [False] * len(kept.rows) + [True] * (len(marked.rows) - len(kept.rows) - 1) + [False]


def test_a_streamed_row_is_rolled_back_with_the_entry_that_it_becomes():
    feed = Feed(CompactionHistory(None))
    feed.receive(Entry(1, MessageAdded(message=user("begin"), step=0)))
    feed.receive(TextDelta(text="I lo"))
    feed.receive(Entry(2, MessageAdded(message=assistant("I look"), step=1)))
    feed.receive(Entry(3, RolledBack(step=0, to_event=1)))
    assert [bool(row.get("undone")) for row in feed.rows] == [False, True, False]
