"""Tests of LangChain's policies on a small session."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.langchain import (
    COUNTER,
    SHORTENED_MARK,
    TOO_LONG_SUMMARY,
    AnthropicClear,
    DeepAgents,
    LangChainClear,
    LangChainSummary,
    NewestFromUser,
)
from harness.conversation.messages import Message, assistant, system, user
from harness.conversation.tokens import QuarterOfCharacters
from harness.errors import UsageError
from harness.testing.strategies import conversations
from tests.compaction.presets.examples import compacted, due, session


def test_all_but_the_newest_three_results_are_cleared():
    messages = session(5)
    view, event = compacted(LangChainClear(trigger_tokens=500), messages, 10_000)
    assert view == ["0", "1", "2", "3~", "4", "5~", "6", "7", "8", "9", "10", "11"]
    assert [change.message.results[0].output for change in event.patch.replace] == ["[cleared]"] * 2


def test_clearing_is_due_above_its_trigger_and_not_at_it():
    messages = session(5)
    held = sum(map(COUNTER.count, messages))
    assert not due(LangChainClear(trigger_tokens=held), messages, 10_000)
    assert due(LangChainClear(trigger_tokens=held - 1), messages, 10_000)


def test_the_system_message_is_not_counted():
    assert COUNTER.count(system("a long one" * 100)) == 0


def test_a_long_run_without_new_requests_gets_a_fixed_sentence_and_no_model_call():
    messages = session(60)
    view, event = compacted(LangChainSummary(), messages, 8_000)
    assert view == ["0", "S", *map(str, range(102, 122))]
    assert event.summarizer == ""
    assert TOO_LONG_SUMMARY in event.summary


def test_the_summarizer_is_called_if_its_input_is_not_trimmed():
    view, event = compacted(LangChainSummary(trim_tokens=None), session(60), 8_000)
    assert view == ["0", "S", *map(str, range(102, 122))]
    assert event.summarizer != ""
    assert "so far so good" in event.summary


def test_twenty_messages_are_too_few_for_a_summary():
    _, event = compacted(LangChainSummary(trim_tokens=None), session(9, "x" * 4_000), 8_000)
    assert event.status == "no-op"


@pytest.mark.parametrize(
    "fields",
    [
        {"trigger_share": 0.0},
        {"trigger_tokens": 100},
        {"keep_tokens": 10, "keep_share": 0.5},
        {"keep_messages": 0},
        {"trim_tokens": 0},
    ],
)
def test_fields_that_cannot_be_are_refused_by_name(fields):
    with pytest.raises(UsageError, match=next(iter(fields))):
        LangChainSummary(**fields)


def writing(steps: int, characters: int) -> tuple[Message, ...]:
    """Return the messages of `session` with calls that write files of a number of characters."""
    content = json.dumps({"path": "f.py", "content": "w" * characters})
    messages = (
        replace(message, parts=tuple(replace(part, name="write_file", arguments_json=content) for part in message.calls))
        if message.calls
        else message
        for message in session(steps, "ok")
    )
    return tuple(messages)


def test_deepagents_shortens_what_old_calls_wrote_before_it_summarizes():
    view, event = compacted(DeepAgents(), writing(6, 4_000), 6_500)
    assert view == ["0", "1", "2~", "3", "4~", "5", "6~", "7", "8~", "9", "10~", "11", "12~", "13"]
    assert event.summarizer == ""
    first = json.loads(event.patch.replace[0].message.calls[0].arguments_json)
    assert first == {"path": "f.py", "content": "w" * 20 + SHORTENED_MARK}


def test_deepagents_summarizes_where_no_call_is_long():
    view, event = compacted(DeepAgents(), session(60), 8_000)
    assert view[:2] == ["0", "S"]
    assert "so far so good" in event.summary


def test_deepagents_summarizes_after_an_overflow():
    view, _ = compacted(DeepAgents(), session(20), 100_000, "overflow")
    assert view == [*map(str, range(42))]
    view, _ = compacted(DeepAgents(keep_share=0.002), session(20), 100_000, "overflow")
    assert view == ["0", "S", "40", "41"]


def test_the_clearing_of_the_api_saves_enough_or_nothing():
    clear = AnthropicClear(trigger_tokens=500)
    view, _ = compacted(clear, session(5), 10_000)
    assert view == ["0", "1", "2", "3~", "4", "5~", "6", "7", "8", "9", "10", "11"]
    assert not due(replace(clear, least_saved_tokens=1_000), session(5), 10_000)
    assert not due(replace(clear, trigger_tokens=5_000), session(5), 10_000)


QUARTER = QuarterOfCharacters()


@given(messages=conversations(), tokens=st.integers(1, 2_000))
def test_an_excerpt_begins_with_the_user_and_holds_no_more_than_its_tokens(messages, tokens):
    shown = NewestFromUser(tokens=tokens, counter=QUARTER).select(messages)
    assert sum(map(QUARTER.count, shown)) <= tokens
    assert not shown or shown[0].role == "user"
    assert shown[1:] == messages[len(messages) - len(shown) + 1 :][: len(shown)]


def test_the_summarizer_reads_the_last_lines_of_a_request_that_is_too_long():
    messages = (user("first line\nlast"), assistant("four"))
    assert NewestFromUser(tokens=2, counter=QUARTER).select(messages) == (user("last"), assistant("four"))


def test_the_summarizer_reads_nothing_if_the_newest_messages_contain_none_of_the_user():
    messages = (user("go"), assistant("x" * 40), assistant("y" * 40))
    assert NewestFromUser(tokens=10, counter=QUARTER).select(messages) == ()
    assert NewestFromUser(tokens=21, counter=QUARTER).select(messages) == messages
