"""Tests of Letta: the share of evicted messages, failed summaries, and prompts that are too long."""

import pytest

from harness.compaction.presets.crush import Crush
from harness.compaction.presets.goose import Goose
from harness.compaction.presets.letta import HEADING, Letta
from harness.conversation.messages import user
from harness.errors import ContextOverflow, ProviderFailed
from tests.compaction.conversations import Room, report, view_of, work

LETTA, GOOSE, CRUSH_POLICY = Letta(), Goose(), Crush()


@pytest.mark.parametrize(("size", "kept"), [(3_000, 12), (1_000, 12), (900, 10), (400, 4), (100, 0)])
def test_letta_evicts_40_percent_or_more_until_what_stays_is_below_70_percent_of_the_window(size: int, kept: int) -> None:
    view = view_of(user("request"), *work(0, 9), policy=LETTA)
    assert (len(view.items), view.items[-1].tokens + view.items[-2].tokens) == (20, 105)
    room = Room(LETTA, size, "SUMMARY")
    after = room.after(view, room.ask(view, report(size)))
    assert after.items[1].message.text == f"{HEADING}\nSUMMARY"
    assert len(after.items) == 2 + kept
    assert after.items[2:] == view.items[20 - kept :]
    assert not kept or sum(item.tokens for item in (view.items[0], *after.items[2:])) < 0.7 * size


def test_letta_tries_the_newest_answer_alone_before_everything_is_summarized() -> None:
    view = view_of(user("request"), *work(0, 28, 40), *work(40, 1, 8_000), *work(50, 1, 40), policy=LETTA)
    room = Room(LETTA, 2_500, "SUMMARY")
    after = room.after(view, room.ask(view, report(2_500)))
    assert round(0.9 * len(view.items)) < len(view.items) - 3, "the first 90 % end before the long result"
    assert after.items[2:] == view.items[-2:]


def test_letta_sums_up_everything_when_the_sliding_summary_fails_and_cuts_a_long_one() -> None:
    policy = Letta(summary_clip_characters=100)
    view = view_of(user("request"), *work(0, 9), policy=policy)
    room = Room(policy, 1_000, ProviderFailed("s", 500, "down"), "S" * 300)
    event = room.ask(view, report(1_000))
    after = room.after(view, event)
    assert event is not None
    assert "down" in event.failure
    assert len(after.items) == 2
    assert after.items[1].message.text == f"{HEADING}\n{'S' * 100}\n[... 200 more characters]"


def test_letta_clamps_results_and_then_leaves_out_the_middle_of_what_is_too_long() -> None:
    policy = Letta(result_characters=50)
    view = view_of(user("request"), *work(0, 20), policy=policy)
    over = ContextOverflow("s", 9, 8)
    room = Room(policy, 3_000, over, over, "S")
    event = room.ask(view, report(3_000))
    assert event is not None
    assert event.status == "applied"
    whole, clamped, ends = room.prompts()
    assert ("o" * 51 in whole, "o" * 51 in clamped, "o" * 50 in clamped) == (True, False, True)
    assert "messages in the middle are left out here" in ends
    assert len(ends) < 0.75 * len(clamped)
