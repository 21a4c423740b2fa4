"""Tests of the policies of pydantic-ai-harness on a small session."""

import pytest

from harness.compaction.presets.pydantic_ai import COUNTER, PydanticClear, PydanticSummary, PydanticWindow
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.errors import UsageError
from tests.compaction.presets.examples import compacted, due, session


def batches(steps: int) -> tuple[Message, ...]:
    """Return the messages of `session` with three calls and results in each step."""
    messages = [system("Be good."), user("Build it.")]
    for step in range(steps):
        calls = [ToolCall(call_id=f"c{step}-{at}", name="read_file", arguments_json='{"path": "f.py"}') for at in range(3)]
        results = [ToolResult(call_id=call.call_id, name=call.name, output="x" * 400) for call in calls]
        messages += [assistant(f"step {step}", *calls), *map(tool, results)]
    return tuple(messages)


def test_the_summary_stands_behind_the_request_and_before_the_newest_twenty():
    view, event = compacted(PydanticSummary(), session(60), 6_000)
    assert view == ["0", "1", "S", *map(str, range(102, 122))]
    assert "so far so good" in event.summary


def test_all_results_of_an_answer_count_as_one_message():
    policy = PydanticSummary(trigger_share=None, trigger_messages=20, keep_messages=4)
    assert not due(policy, batches(9), 100_000)  # the request, and 9 times an answer and its results
    view, _ = compacted(policy, batches(10), 100_000)
    assert view == ["0", "1", "S", *map(str, range(34, 42))]


def test_a_tail_that_would_begin_with_results_begins_with_their_call():
    view, _ = compacted(PydanticWindow(trigger_messages=10, keep_messages=3), batches(6), 100_000)
    assert view == ["0", "1", *map(str, range(18, 26))]


def test_only_the_newest_messages_are_kept_if_the_request_is_not():
    view, _ = compacted(PydanticWindow(trigger_messages=10, keep_messages=4, keep_request=False), session(6), 100_000)
    assert view == ["0", "10", "11", "12", "13"]


def test_all_but_the_newest_three_results_are_cleared():
    view, _ = compacted(PydanticClear(trigger_tokens=500), session(5), 10_000)
    assert view == ["0", "1", "2", "3~", "4", "5~", "6", "7", "8", "9", "10", "11"]


def test_no_result_is_cleared_if_that_would_save_too_little():
    _, event = compacted(PydanticClear(trigger_tokens=500, least_saved_tokens=1_000), session(5), 10_000)
    assert event.status == "no-op"
    assert "fewer than 1,000" in event.reason


def test_each_text_of_a_message_is_rounded_up():
    call = ToolCall(call_id="c", name="run_code", arguments_json="{}")
    assert COUNTER.count(assistant("hello", call)) == 2 + 2 + 1


@pytest.mark.parametrize(
    "fields",
    [
        {"trigger_share": 0.0},
        {"trigger_tokens": 100},
        {"trigger_share": None},
        {"keep_messages": -1},
        {"keep_tokens": 0},
        {"result_characters": 0},
    ],
)
def test_fields_that_cannot_be_are_refused_by_name(fields):
    with pytest.raises(UsageError, match=next(iter(fields))):
        PydanticSummary(**fields)
