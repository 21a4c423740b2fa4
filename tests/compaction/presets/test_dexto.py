"""Tests of dexto: clearing, summarizing, and the loss of former summaries."""

import pytest

from harness.compaction.presets.dexto import Dexto
from harness.conversation.messages import assistant, user
from harness.errors import ProviderFailed
from tests.compaction.conversations import Room, grown, numbers, report, view_of, work

DEXTO = Dexto(protect_tokens=200, least_saved_tokens=300)

KEEPING = Dexto(protect_tokens=40_000)


def test_dexto_requests_no_summary_if_clearing_old_results_is_enough() -> None:
    view = view_of(user("request"), *work(0, 9), policy=DEXTO)
    event = Room(DEXTO, 1_000).ask(view, report(900))
    assert event is not None
    assert [change.item.event for change in event.patch.replace] == [4, 6, 8, 10, 12, 14, 16]
    assert (event.patch.forget, event.summarizer) == ((), "")


def test_dexto_replaces_all_but_the_last_two_turns_by_a_summary_otherwise() -> None:
    messages = [user("one"), *work(0, 4), assistant("a"), user("two"), *work(10, 2), assistant("b"), user("three"), *work(20, 2)]
    view = view_of(*messages, policy=KEEPING)
    room = Room(KEEPING, 1_000, "SUMMARY")
    after = room.after(view, room.ask(view, report(901)))
    assert after.items[1].message == assistant("<session_compaction>\nSUMMARY\n</session_compaction>")
    assert numbers(after) == [1, 1_000, *range(12, 23)]


@pytest.mark.parametrize(("steps", "kept"), [(3, 4), (5, 4), (10, 4), (15, 6)])
def test_a_fifth_of_the_messages_and_at_least_three_are_kept_if_only_two_turns_exist(steps: int, kept: int) -> None:
    view = view_of(user("request"), *work(0, steps), policy=KEEPING)
    room = Room(KEEPING, 300, "S")
    after = room.after(view, room.ask(view, report(900)))
    assert after.items[2:] == view.items[-kept:], "an odd number would part a call from its result"


def test_if_only_one_turn_began_since_the_summary_it_stays() -> None:
    messages = [user("one"), *work(0, 4), assistant("a"), user("two"), *work(10, 4)]
    view = view_of(*messages, policy=KEEPING)
    room = Room(KEEPING, 1_000, "ONE", "TWO")
    view = room.after(view, room.ask(view, report(901)))
    assert numbers(view) == [1, 1_000, *range(17, 21)], "no message precedes the last two turns, so a fifth of all stays"
    view = grown(view, KEEPING, *work(20, 3), assistant("b"), user("three"), *work(30, 3))
    after = room.after(view, room.ask(view, report(901)), seq=5_000)
    assert numbers(after) == [1, 5_000, *range(2_007, 2_014)]


def test_dexto_loses_what_a_former_summary_held_and_what_the_compaction_before_retained() -> None:
    view = view_of(user("the request"), *work(0, 10, 100), policy=KEEPING)
    room = Room(KEEPING, 1_000, "ONE", "TWO")
    view = room.after(view, room.ask(view, report(901)))
    assert numbers(view) == [1, 1_000, 19, 20, 21, 22]
    view = grown(view, KEEPING, *work(40, 10, 200))
    final = room.after(view, room.ask(view, report(901)), seq=5_000)
    second = room.prompts()[1]
    assert "ONE" not in second
    assert second.count("o" * 200) == 8, "the newest two results stay"
    assert second.count("o" * 100) == 16, "none of the results that the first compaction retained"
    assert numbers(final) == [1, 5_000, 2_016, 2_017, 2_018, 2_019]


def test_the_summarizer_of_dexto_reads_the_newest_request_and_the_names_of_tools_alone() -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    room = Room(KEEPING, 1_000, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view, report(901))), KEEPING, *work(40, 10))
    room.ask(view, report(901))
    for prompt in room.prompts():
        assert "\nCURRENT TASK:\nthe request\n" in prompt, "also when no message of the user is in view"
        assert "[execute_command] {} -> ok" in prompt
        assert "make" not in prompt


def test_dexto_clears_old_results_at_any_size_of_the_conversation() -> None:
    view = view_of(user("request"), *work(0, 9), policy=DEXTO)
    event = Room(DEXTO, 100_000).ask(view, report(900))
    assert event is not None
    assert len(event.patch.replace) == 7
    few = view_of(user("request"), *work(0, 4), policy=DEXTO)
    assert Room(DEXTO, 100_000).ask(few, report(900)) is None


def test_dexto_does_not_sum_up_four_messages_since_a_summary_and_shows_only_beginnings() -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    room = Room(KEEPING, 300, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view, report(900))), KEEPING, *work(40, 2, 900))
    event = room.ask(view, report(900))
    assert event is not None
    assert (event.status, event.summarizer) == ("no-op", "")
    assert "4 messages since the last summary are fewer than 5" in event.reason
    view = view_of(user("q" * 4_000), *work(0, 4, 900), policy=KEEPING)
    room = Room(KEEPING, 300, "S")
    room.ask(view, report(900))
    assert "q" * 2_000 + "\n[... 2000 more" in room.prompts()[0]
    assert "o" * 500 + "\n[... 400 more" in room.prompts()[0]


def test_when_its_summarizer_fails_a_list_stands_for_the_summary() -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    event = Room(KEEPING, 1_000, ProviderFailed("s", 500, "down")).ask(view, report(901))
    assert event is not None
    assert (event.status, event.failure[:14]) == ("applied", "ProviderFailed")
    listed = "asked: the request\ntools used: execute_command\nmessages: 17\ncurrent task: the request"
    assert event.summary == f"<session_compaction>\n{listed}\n</session_compaction>"


def test_an_empty_summary_of_dexto_is_accepted_and_logged_as_a_failure() -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    event = Room(KEEPING, 1_000, "").ask(view, report(901))
    assert event is not None
    assert (event.status, event.failure) == ("applied", "SummaryEmpty: the summarizer returned no text")
    assert event.summary == "<session_compaction>\n</session_compaction>"
