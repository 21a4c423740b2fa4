"""Tests of OpenHands' policies on a small session, in which each message is one event."""

import re

import pytest

from harness.compaction.description import walk_parts
from harness.compaction.presets.openhands import EventList, OpenHands, OpenHandsV0
from harness.conversation.events import Compaction, Entry, Hook, MessageAdded, Patch
from harness.conversation.messages import Message, assistant
from harness.conversation.plan import SummaryRequest
from harness.conversation.tokens import Window
from harness.conversation.view import View, fold
from harness.errors import ModelError, ProviderFailed, UsageError
from harness.session.compactor import SessionCompactor
from harness.testing.fakes import FakeModel
from tests.compaction.conversations import seen
from tests.compaction.presets.examples import compacted, due, session


def test_above_eighty_events_the_first_four_stay_and_the_newest_thirty_five():
    messages = session(40)
    view, _ = compacted(OpenHands(), messages, 100_000)
    assert view == ["0", "1", "2", "3", "S", *map(str, range(48, 82))], "34, since the 35th is a result whose call is gone"
    assert not due(OpenHands(), messages[:80], 100_000)


def test_above_a_hundred_and_twenty_events_of_v0_fifty_five_stay():
    messages = session(60)
    view, _ = compacted(OpenHandsV0(), messages, 100_000)
    assert view == ["0", "1", "2", "3", "S", *map(str, range(68, 122))]
    assert not due(OpenHandsV0(), messages[:120], 100_000)


def test_a_refused_prompt_calls_for_half_the_events():
    view, _ = compacted(OpenHands(), session(20), 100_000, "overflow")
    assert view == ["0", "1", "2", "3", "S", *map(str, range(26, 42))]


def test_the_strictest_of_several_limits_decides():
    view, _ = compacted(OpenHands(), session(60), 100_000, "overflow")
    assert view == ["0", "1", "2", "3", "S", *map(str, range(88, 122))], "half of the size, and not of the 122 events"


def test_everything_except_the_system_message_is_summarized_if_nothing_lies_between_head_and_tail():
    view, _ = compacted(OpenHands(), session(2), 100_000, "overflow")
    assert view == ["0", "S"]


def test_the_summarizer_reads_five_hundred_characters_of_an_event_or_all_of_it():
    messages = session(40, "y" * 3_000)
    for policy, read in ((OpenHands(), 500), (OpenHands(full_events=True), 3_000)):
        for rule in policy.pipeline.rules:
            (form,) = {part for part in walk_parts(rule.reducer) if isinstance(part, EventList)}
            (event,) = form.list_events(messages[3:4])
            assert event.text.count("y") == read


def test_the_sdk_has_its_instruction_in_the_system_message_and_v0_before_the_events():
    request = SummaryRequest(to_summarize=session(2), previous_summary="OLD", task="", round=2)
    sdk, v0 = (
        next(part for part in walk_parts(policy.pipeline.rules) if isinstance(part, EventList)).build_prompt(request)
        for policy in (OpenHands(), OpenHandsV0())
    )
    assert [message.role for message in sdk] == ["system", "user"]
    assert "VERSION_CONTROL_STATUS:" in sdk[0].text
    assert "<EVENT>" not in sdk[0].text
    assert [message.role for message in v0] == ["user"]
    assert v0[0].text == f"{sdk[0].text}\n\n{v0[0].text[v0[0].text.index('<PREVIOUS SUMMARY>') :]}"


@pytest.mark.parametrize("kind", [OpenHands, OpenHandsV0])
def test_half_of_the_size_must_hold_the_head_the_summary_and_one_event_more(kind: type[OpenHands | OpenHandsV0]):
    assert kind(max_size=16, keep_first=6).pipeline.rules
    with pytest.raises(UsageError, match=r"keep_first=7 must be less than half of max_size=16"):
        kind(max_size=16, keep_first=7)


DOWN = ProviderFailed("puppet", 500, "down")


def asked(replies: list[Message | ModelError], messages: tuple[Message, ...], hook: Hook) -> tuple[FakeModel, Compaction]:
    puppet = FakeModel(replies)
    policy = OpenHands()
    view = View()
    for number, message in enumerate(messages):
        view = fold(view, Entry(number + 1, MessageAdded(message=message, step=0)), policy.counter)
    room = SessionCompactor(policy=policy, window=Window(tokens=100_000, source="configuration"), summarizer=puppet)
    event = room.compact(seen(view), None, 1, hook, lambda _: None)
    assert event is not None
    return puppet, event


def test_a_failed_summary_after_an_overflow_is_retried_with_shorter_and_shorter_events():
    messages = session(20, "y" * 3_000)
    puppet, event = asked([*[DOWN] * 5, assistant("at last")], messages, "overflow")
    longest = [max(map(len, re.findall("y+", request.messages[1].text))) for request in puppet.requests]
    assert longest == [500, 500, 198, 158, 126, 100], "of the cut ones either end, half of 400, 320, 256 and 204, less the mark"
    assert [request.messages[1].text.count("<EVENT>") for request in puppet.requests] == [22, 41, 41, 41, 41, 41]
    assert (event.status, len(event.patch.forget), event.summary) == ("applied", 41, "at last")
    assert "4 times" in event.reason


def test_after_five_failed_summaries_of_the_whole_view_the_session_continues_unchanged():
    puppet, event = asked([DOWN] * 6, session(20), "overflow")
    assert (len(puppet.requests), event.status, event.patch) == (6, "failed", Patch())


def test_events_stay_if_their_summary_fails():
    puppet, event = asked([DOWN], session(40), "step")
    assert (len(puppet.requests), event.status) == (1, "failed")


def test_an_empty_summary_is_taken():
    for hook in ("step", "overflow"):
        puppet, event = asked([assistant(" \n")], session(40), hook)
        assert (len(puppet.requests), event.status, event.summary) == (1, "applied", "")
        assert "no text" in event.failure


def test_v0_evicts_the_older_half_after_the_request_when_a_prompt_is_refused():
    view, event = compacted(OpenHandsV0(), session(20), 100_000, "overflow")
    assert view == ["0", "1", *map(str, range(22, 42))]
    assert event.summarizer == ""
