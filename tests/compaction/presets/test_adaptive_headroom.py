"""Tests of the target that follows the growth of the session."""

import pytest

from harness.compaction.presets.adaptive_headroom import NOTE, measure_growth
from harness.conversation.messages import user
from harness.policies import AdaptiveHeadroom
from tests.compaction.conversations import Room, view_of, work


def test_growth_is_the_mean_length_of_the_newest_steps():
    view = view_of(user("go"), *work(0, 50, 4_000), *work(100, 30, 384), policy=AdaptiveHeadroom())
    assert measure_growth(view.items) == pytest.approx(105)
    assert measure_growth(view.items[:2]) == 0


@pytest.mark.parametrize(("steps", "share"), [(0, 0.7), (30, 1 - 30 * 105 / 9_000), (500, 0.15)])
def test_the_oldest_messages_go_until_the_steps_fit_within_the_limits(steps: int, share: float):
    policy = AdaptiveHeadroom(headroom_steps=steps)
    view = view_of(user("go"), *work(0, 90), policy=policy)
    room = Room(policy, 10_000)
    event = room.ask(view)
    assert event is not None
    assert event.status == "applied"
    after = room.after(view, event)
    assert 9_000 * share - 130 < after.tokens <= 9_000 * share + 20
    assert after.messages[:2] == view.messages[:2]
    assert after.messages[-3:] == view.messages[-3:]
    assert [message.text for message in after.messages].count(NOTE) == 1


def test_a_second_eviction_keeps_the_one_note():
    policy = AdaptiveHeadroom(headroom_steps=0)
    room = Room(policy, 10_000)
    view = view_of(user("go"), *work(0, 90), policy=policy)
    after = room.after(view, room.ask(view))
    final = room.after(
        after, Room(AdaptiveHeadroom(headroom_steps=0, most_share=0.3), 10_000).ask(after, hook="manual"), seq=4_000
    )
    assert [message.text for message in final.messages].count(NOTE) == 1
    assert final.tokens < after.tokens
