"""Tests of frozen, ranked summaries: they stay verbatim until two of the lowest rank are merged."""

from collections import Counter
from itertools import count, pairwise

from harness.compaction.presets.frozen_ranked import read_rank
from harness.conversation.messages import user
from harness.policies import FrozenRanked
from tests.compaction.conversations import Room, grown, view_of, work

SMALL = FrozenRanked(summary_max_tokens=400)


def run_rounds(rounds: int, policy=SMALL, window_tokens: int = 8_000):
    """Return the view after each of several compactions, and the room."""
    room = Room(policy, window_tokens, *[f"fact {number} " + "w" * 1_500 for number in range(3 * rounds)])
    view = view_of(user("go"), *work(0, 70), policy=policy)
    views, seqs = [], count(10_000, 1_000)
    for number in range(rounds):
        event = room.ask(view, hook="manual")
        assert event is not None
        assert event.status == "applied", event.reason
        view = room.after(view, event, seq=next(seqs))
        views.append(view)
        view = grown(view, policy, *work(1_000 * (number + 1), 25), seq=next(seqs))
    return views, room


def list_ranks(view) -> list[int]:
    return [read_rank(item) for item in view.items if item.item_id in view.summaries]


def test_summaries_stay_verbatim_and_new_ones_stand_behind_them():
    (first, second, *_), _ = run_rounds(2)
    assert list_ranks(first) == [1]
    assert list_ranks(second) == [1, 1]
    assert next(item.message for item in first.items if item.item_id in first.summaries) in second.messages


def test_two_summaries_of_the_lowest_rank_are_merged_when_all_are_too_long():
    views, room = run_rounds(12)
    ranks = [list_ranks(view) for view in views]
    assert any(2 in row for row in ranks)
    for before, after in pairwise(ranks):
        grown_by = len(after) - len(before)
        assert grown_by in {0, 1}
        if grown_by == 0:
            lowest = min(rank for rank in before if before.count(rank) > 1)
            assert Counter(after) == Counter([*before, 1, lowest + 1]) - Counter([lowest, lowest])
    assert max(map(len, ranks)) <= 7
    merged = [prompt for prompt in room.prompts() if "joins these summaries" in prompt]
    assert merged
    assert all(prompt.count("[SUMMARY OF RANK") == 2 for prompt in merged)


def test_each_fact_is_rewritten_at_most_as_often_as_its_rank_says():
    views, _ = run_rounds(12)
    assert max(map(max, map(list_ranks, views))) <= 4
