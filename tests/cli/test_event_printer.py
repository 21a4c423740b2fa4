import io
import json
from dataclasses import replace

import pytest

from harness.cli.event_printer import EventPrinter
from harness.conversation.events import (
    Compaction,
    Entry,
    ItemId,
    MessageAdded,
    ModelCallFailed,
    Notice,
    Patch,
    SessionEnded,
    SessionStarted,
    StepFinished,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Waiting,
)
from harness.conversation.messages import ToolCall, ToolResult, assistant, tool, user
from harness.conversation.tokens import Estimated, Measured, Usage

STARTED = SessionStarted(
    session_id="s1",
    task="do it",
    model="m",
    policy_json="{}",
    window_tokens=128_000,
    threshold_tokens=93_600,
    budget_rule="0.8 of the rest",
    sandbox="bubblewrap",
)


def step(number, cost_usd=0.25):
    return StepFinished(
        step=number,
        view_tokens=Estimated(1200),
        view_messages=5,
        usage=Usage(input_tokens=Measured(1000), output_tokens=Measured(50), cache_read_tokens=Measured(200)),
        cost_usd=cost_usd,
        request_digest="",
        kept_prefix_messages=0,
        kept_prefix_tokens=Estimated(0),
        calls=1,
        call_errors=0,
        model_seconds=1.0,
        tool_seconds=0.1,
    )


def compaction(**changes):
    plain = {
        "round": 1,
        "step": 7,
        "moment": "step",
        "status": "applied",
        "reason": "over the threshold",
        "patch": Patch(forget=tuple(ItemId(number) for number in range(2, 32))),
        "tokens_before": Estimated(95_000),
        "tokens_after": Estimated(9_500),
        "messages_before": 41,
        "messages_after": 12,
    }
    return Compaction(**{**plain, **changes})


def print_events(*heard):
    words, log = io.StringIO(), io.StringIO()
    narrator = EventPrinter(text_stream=words, log_stream=log)
    for number, one in enumerate(heard, 1):
        signal = isinstance(one, TextDelta | ToolStarted | ToolEnded | Waiting)
        narrator(one if signal else Entry(number, one))
    return narrator, words.getvalue(), log.getvalue()


def test_start_compaction_and_end_are_printed_with_their_numbers():
    """S0.10; the line of a compaction also has the numbers that S4.4 logs when messages are trimmed."""
    _, _, log = print_events(
        STARTED, compaction(), SessionEnded(status="failed", reason="max_steps", detail="stopped after 50 steps")
    )
    assert "session s1 started: model m, window 128,000 tokens, compacted at 93,600 tokens" in log
    assert "compaction 1 before step 7: 95,000 -> 9,500 tokens, 41 -> 12 messages, 30 removed (over the threshold)" in log
    assert "session ended: failed (max_steps): stopped after 50 steps" in log


def test_a_policy_with_a_count_trigger_is_not_reported_as_never_compacting():
    _, _, log = print_events(replace(STARTED, threshold_tokens=None, budget_rule="at most 80 events"))
    assert "window 128,000 tokens, no threshold in tokens (at most 80 events)" in log


def test_a_failed_model_call_is_printed_with_its_cost():
    narrator, _, log = print_events(ModelCallFailed(step=3, cost_usd=0.25, detail="the provider of 'm' failed"))
    assert "step 3: the model call failed, $0.2500: the provider of 'm' failed" in log
    assert narrator.totals.cost_usd == 0.25


def test_streamed_text_is_not_printed_twice():
    _, words, _ = print_events(TextDelta(text="Hel"), TextDelta(text="lo"), MessageAdded(message=assistant("Hello"), step=1))
    assert words == "Hello\n"


def test_text_that_did_not_stream_is_printed_once():
    _, words, _ = print_events(MessageAdded(message=user("ask"), step=0), MessageAdded(message=assistant("Hello"), step=1))
    assert words == "Hello\n"


def test_a_log_line_never_starts_within_the_words():
    _, words, log = print_events(TextDelta(text="half a"), Waiting(what="retry 1 of 3", seconds=2.0))
    assert words == "half a\n"
    assert log == "waiting 2.0 s: retry 1 of 3\n"


def test_a_retried_answer_is_printed_on_a_line_of_its_own():
    anew = TextDelta(text="", anew=True)
    _, words, _ = print_events(
        TextDelta(text="half a"), Waiting(what="retry 1 of 3", seconds=2.0), anew, TextDelta(text="half a word")
    )
    assert words == "half a\nhalf a word"


def test_every_call_is_printed_with_its_outcome():
    call = ToolCall(call_id="c", name="write_file", arguments_json='{"path": "a.py", "content": "x"}')
    result = ToolResult(call_id="c", name="write_file", output="wrote 1 byte")
    _, _, log = print_events(MessageAdded(message=assistant("", call), step=1), MessageAdded(message=tool(result), step=1))
    assert log == "  [write_file] a.py -> ok\n"


def called(name="c", command="ls"):
    return ToolCall(call_id=name, name="execute_command", arguments_json=json.dumps({"command": command}))


def ended(name="c", code=0):
    return ToolResult(call_id=name, name="execute_command", output=f"exit code {code}\n")


def test_a_call_is_printed_with_its_arguments_at_its_start_and_its_line_ends_with_the_outcome():
    _, words, log = print_events(TextDelta(text="I look."), ToolStarted(call=called(command="ls \x1b[2J" + "x" * 900)))
    assert words == "I look.\n"
    assert log.startswith("  [execute_command] ls �[2Jxxx")
    assert len(log) < 250
    logged = [MessageAdded(message=one, step=1) for one in (assistant("I look.", called()), tool(ended()))]
    _, words, log = print_events(TextDelta(text="I look."), ToolStarted(call=called()), ToolEnded(result=ended()), *logged)
    assert words == "I look.\n"
    assert log == "  [execute_command] ls -> exit code 0\n"


def test_parallel_calls_are_each_printed_with_their_outcome():
    started = [ToolStarted(call=called("a", "one")), ToolStarted(call=called("b", "two"))]
    results = [ToolEnded(result=ended("b", 1)), ToolEnded(result=ended("a"))]
    message = assistant("", called("a", "one"), called("b", "two"))
    logged = [MessageAdded(message=one, step=1) for one in (message, tool(ended("a")), tool(ended("b", 1)))]
    _, _, log = print_events(*started, *results, *logged)
    assert log.splitlines() == [
        "  [execute_command] one",
        "  [execute_command] two -> exit code 1",
        "  [execute_command] one -> exit code 0",
    ]


def test_a_call_without_a_result_is_printed_when_its_step_is_logged():
    stopped = replace(ended(), status="interrupted", output="error: the call was interrupted")
    _, _, log = print_events(
        ToolStarted(call=called()), *(MessageAdded(message=one, step=1) for one in (assistant("", called()), tool(stopped)))
    )
    assert log.splitlines() == ["  [execute_command] ls", "  [execute_command] ls -> error"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_reasoning_is_dim_while_it_streams_in_a_terminal_and_a_line_in_a_file(kind):
    words, log = io.StringIO(), kind()
    narrator = EventPrinter(text_stream=words, log_stream=log)
    for one in (
        TextDelta(text="hm\n\x1b[2J", part="reasoning"),
        TextDelta(text=" yes", part="reasoning"),
        TextDelta(text="Yes."),
        Entry(1, MessageAdded(message=assistant("Yes.", reasoning="hm\n\x1b[2J yes"), step=1)),
    ):
        narrator(one)
    assert words.getvalue() == "Yes.\n"
    dim = "\x1b[2mhm\n�[2J\x1b[22m\x1b[2m yes\x1b[22m\n"
    assert log.getvalue() == (dim if kind is Terminal else "thinking: hm �[2J yes\n")


def test_the_total_adds_up_steps_and_summaries():
    narrator, _, _ = print_events(step(1), compaction(summarizer="m", summarizer_cost_usd=0.5), step(2))
    assert narrator.format_total(simulated=True) == "2 steps, 1 compaction, 2,400 tokens in, 100 out, $1.0000 (simulated)"


def test_one_unknown_price_makes_the_total_unknown():
    narrator, _, _ = print_events(step(1), step(2, cost_usd=None))
    assert narrator.format_total(simulated=False).endswith("at an unknown price")


def test_a_failed_compaction_is_printed_and_not_counted():
    narrator, _, log = print_events(compaction(status="failed", reason="the summarizer failed"))
    assert log == "compaction failed before step 7: the summarizer failed\n"
    assert narrator.totals.compactions == 0


def test_hostile_words_cannot_drive_the_terminal():
    _, words, log = print_events(
        TextDelta(text="\x1b[2J"), SessionEnded(status="failed", reason="model_error", detail="\x1b]0;x\x07\na")
    )
    assert "\x1b" not in words + log
    assert log.count("\n") == 1


def test_a_notice_of_a_policy_is_printed_as_a_warning():
    log = io.StringIO()
    EventPrinter(text_stream=io.StringIO(), log_stream=log)(Notice(text="Conversation approaching limit (81/100 messages)"))
    assert log.getvalue() == "warning: Conversation approaching limit (81/100 messages)\n"
