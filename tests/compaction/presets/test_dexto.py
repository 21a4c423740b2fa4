"""Tests of dexto: clearing, summarizing, and the loss of former summaries."""

import pytest

from harness.compaction.presets.dexto import Dexto
from harness.errors import ProviderFailed
from harness.messages import assistant, user
from tests.compaction.talk import Room, grown, numbers, report, view_of, work

DEXTO = Dexto(protect_tokens=200, least_saved_tokens=300)

KEEPING = Dexto(protect_tokens=40_000)


def test_dexto_clears_old_results_first_and_if_that_is_enough_nothing_else() -> None:
    view = view_of(user("request"), *work(0, 9), policy=DEXTO)
    event = Room(DEXTO, 1_000).ask(view, report(900))
    assert event is not None
    assert [change.item.event for change in event.patch.replace] == [4, 6, 8, 10, 12, 14, 16]
    assert (event.patch.forget, event.summarizer) == ((), "")


def test_else_all_but_the_last_two_turns_becomes_an_answer() -> None:
    talk = [user("one"), *work(0, 4), assistant("a"), user("two"), *work(10, 2), assistant("b"), user("three"), *work(20, 2)]
    view = view_of(*talk, policy=KEEPING)
    room = Room(KEEPING, 1_000, "SUMMARY")
    after = room.after(view, room.ask(view, report(901)))
    assert after.items[1].message == assistant("<session_compaction>\nSUMMARY\n</session_compaction>")
    assert numbers(after) == [1, 1_000, *range(12, 23)]


@pytest.mark.parametrize(("steps", "kept"), [(3, 4), (5, 4), (10, 4), (15, 6)])
def test_where_no_turn_lies_before_the_last_two_a_fifth_of_the_messages_stays_three_at_least(steps: int, kept: int) -> None:
    view = view_of(user("request"), *work(0, steps), policy=KEEPING)
    room = Room(KEEPING, 300, "S")
    after = room.after(view, room.ask(view, report(900)))
    assert after.items[2:] == view.items[-kept:], "an odd number would part a call from its result"


def test_dexto_loses_what_a_former_summary_held() -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    room = Room(KEEPING, 1_000, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view, report(901))), KEEPING, *work(40, 10))
    final = room.after(view, room.ask(view, report(901)), seq=5_000)
    assert "ONE" not in room.prompts()[1]
    assert [text for item in final.items if "session_compaction" in (text := item.message.text)] == [
        "<session_compaction>\nTWO\n</session_compaction>"
    ]


def test_dexto_does_not_sum_up_four_messages_and_shows_only_beginnings() -> None:
    few = view_of(user("q" * 4_000), *work(0, 1), assistant("a"), policy=KEEPING)
    event = Room(KEEPING, 300).ask(few, report(900))
    assert event is not None
    assert (event.status, event.summarizer) == ("no-op", "")
    view = view_of(user("q" * 4_000), *work(0, 4, 900), policy=KEEPING)
    room = Room(KEEPING, 300, "S")
    room.ask(view, report(900))
    assert "q" * 2_000 + "\n[... 2000 more" in room.prompts()[0]
    assert "o" * 500 + "\n[... 400 more" in room.prompts()[0]


@pytest.mark.parametrize("trouble", [ProviderFailed("s", 500, "down"), ""])
def test_when_its_summarizer_fails_a_list_stands_for_the_summary(trouble: str | ProviderFailed) -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    event = Room(KEEPING, 1_000, trouble).ask(view, report(901))
    assert event is not None
    assert event.status == "applied"
    assert event.failure
    assert "- asked: the request\n- tools used: execute_command (8)" in event.summary
