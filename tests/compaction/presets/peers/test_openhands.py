"""OpenHands' policies on a small session: each message of it is one event."""

from harness.compaction.formats.events import EventList
from harness.compaction.presets.peers.openhands import OpenHands, OpenHandsV0
from harness.compaction.stages import Summarize
from tests.compaction.presets.peers.examples import compacted, due, session


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


def test_where_nothing_lies_between_all_but_the_system_message_is_summarized():
    view, _ = compacted(OpenHands(), session(2), 100_000, "overflow")
    assert view == ["0", "S"]


def test_the_summarizer_reads_five_hundred_characters_of_an_event_or_all_of_it():
    messages = session(40, "y" * 3_000)
    for policy, read in ((OpenHands(), 500), (OpenHands(full_events=True), 3_000)):
        reducer = policy.pipeline.rules[2].reducer
        assert isinstance(reducer, Summarize)
        assert isinstance(reducer.format, EventList)
        (event,) = reducer.format.events(messages[3:4])
        assert event.text.count("y") == read
