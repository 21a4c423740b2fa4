"""Tests of Strands' summaries: how many messages they cover, what stays, and how an earlier summary is treated."""

import pytest

from harness.compaction.presets.strands import INSTRUCTION, StrandsSummary, StrandsWindow
from harness.conversation.messages import user
from harness.errors import UsageError
from tests.compaction.conversations import Room, grown, step, view_of, window, work


@pytest.mark.parametrize(("messages", "share", "keep", "summarized"), [(40, 0.3, 10, 13), (40, 0.8, 30, 11), (40, 0.1, 0, 5)])
def test_the_oldest_share_is_summarized_but_never_the_newest_messages(messages, share, keep, summarized):
    """13, 11 and 5 are 12, 10 and 4 with the result of the call at the cut."""
    policy = StrandsSummary(summary_share=share, keep_messages=keep)
    view = view_of(user("go"), *work(0, messages // 2), policy=policy)
    room = Room(policy, 2_000, "S")
    after = room.after(view, room.ask(view))
    assert [item.message.text for item in after.items[1:2]] == ["S"]
    assert after.messages[2:] == view.messages[1 + summarized :]
    (request,) = room.summarizer.requests
    assert request.messages == (*view.messages[: 1 + summarized], user(INSTRUCTION))


def test_an_earlier_summary_is_the_first_message_of_the_next():
    policy = StrandsSummary()
    view = view_of(user("go"), *work(0, 20), policy=policy)
    room = Room(policy, 2_000, "ONE", "TWO")
    after = room.after(view, room.ask(view))
    final = room.after(after, room.ask(grown(after, policy, *work(50, 10))), seq=5_000)
    assert "ONE" in room.prompts()[1]
    assert [item.message.text for item in final.items].count("TWO") == 1
    assert "ONE" not in [item.message.text for item in final.items]


def test_a_conversation_of_only_newest_messages_is_left_as_it_is():
    policy = StrandsSummary(keep_messages=50)
    view = view_of(user("go"), *work(0, 20), policy=policy)
    event = Room(policy, 2_000).ask(view)
    assert event is not None
    assert event.status == "no-op"
    below = view_of(user("go"), *work(0, 2), policy=policy)
    assert policy.plan(below, policy.budget(window(2_000)), None) is None


def test_a_share_outside_of_the_limits_of_the_original_is_refused():
    with pytest.raises(UsageError, match=r"summary_share=0.9 must be from 0.1 to 0.8"):
        StrandsSummary(summary_share=0.9)


def test_the_window_cuts_the_oldest_result_first_and_evicts_up_to_a_message_of_the_user():
    policy = StrandsWindow(window_messages=10, every_step=True)
    view = view_of(user("go"), *step(1, "x" * 900), *work(2, 3), user("on"), *work(10, 4), policy=policy)
    room = Room(policy, 4_000)
    event = room.ask(view, hook="overflow")
    assert event is not None
    cut = room.after(view, event)
    output = cut.messages[3].results[0].output
    assert output.startswith("x" * 200)
    assert "500 characters" in output
    assert len(cut.messages) == len(view.messages)
    evicted = room.after(cut, room.ask(cut), seq=2_000)
    assert [message.text for message in evicted.messages[:2]] == ["be good", "on"]
    assert room.ask(evicted) is None


def test_by_default_the_window_slides_between_turns_and_after_an_overflow():
    view = view_of(user("go"), *step(1, "x" * 900), *work(2, 30), policy=StrandsWindow())
    room = Room(StrandsWindow(), 4_000)
    assert room.ask(view) is None
    for hook in ("turn", "overflow"):
        event = room.ask(view, hook=hook)
        assert event is not None
        assert event.status == "applied"
