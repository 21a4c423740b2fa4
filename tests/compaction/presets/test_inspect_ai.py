"""Tests of Inspect's policies on a small session."""

from harness.compaction.presets.inspect_ai import InspectEdit, InspectSummary, InspectTrim
from tests.compaction.presets.examples import compacted, due, session


def test_system_message_and_request_stay_and_all_else_is_summarized():
    view, event = compacted(InspectSummary(), session(10), 1_000)
    assert view == ["0", "1", "S"]
    assert event.summary.startswith("[CONTEXT COMPACTION SUMMARY]")


def test_a_fifth_of_the_messages_after_the_request_is_evicted_with_whole_calls():
    view, _ = compacted(InspectTrim(), session(10), 1_000)
    assert view == ["0", "1", *map(str, range(6, 22))]
    view, _ = compacted(InspectTrim(preserve=0.75), session(10), 1_000)
    assert view == ["0", "1", *map(str, range(8, 22))], "the result at the cut has lost its call"


def test_trimming_is_repeated_until_there_is_room():
    view, _ = compacted(InspectTrim(), session(10), 900)
    assert view == ["0", "1", *map(str, range(10, 22))]


def test_all_but_three_results_are_removed_and_their_calls_stay():
    view, event = compacted(InspectEdit(), session(5), 500)
    assert view == ["0", "1", "2", "3~", "4", "5~", "6", "7", "8", "9", "10", "11"]
    assert event.patch.replace[0].message.results[0].output == "(Tool result removed)"


def test_the_policy_is_not_triggered_at_the_threshold_itself():
    messages = session(5)
    assert due(InspectEdit(), messages, 500)
    assert not due(InspectEdit(threshold=1.0), messages, 2_000)
