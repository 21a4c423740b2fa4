"""LangChain's policies on a small session."""

import pytest

from harness.compaction.presets.peers.langchain import COUNTER, UNTOLD, LangChainClear, LangChainSummary
from harness.errors import UsageError
from harness.messages import system
from tests.compaction.presets.peers.examples import compacted, due, session


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


def test_by_default_a_long_run_is_summarized_by_a_fixed_sentence_and_no_model_is_asked():
    messages = session(60)
    view, event = compacted(LangChainSummary(), messages, 8_000)
    assert view == ["0", "S", *map(str, range(102, 122))]
    assert event.summarizer == ""
    assert UNTOLD in event.summary


def test_without_trimming_the_model_is_asked():
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
