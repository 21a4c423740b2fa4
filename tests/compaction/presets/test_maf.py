"""Tests of anchored compaction: what is shortened depends on places alone, and only if that saves enough."""

from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.maf import CUT_MARK
from harness.conversation.messages import user
from harness.conversation.tokens import Window
from harness.policies import MafAnchored
from tests.compaction.conversations import Room, grown, step, view_of, work


def test_results_between_the_anchors_lose_their_middle_and_the_anchors_stay():
    policy = MafAnchored()
    view = view_of(user("go"), *work(0, 20, 4_000), policy=policy)
    after = (room := Room(policy, 30_000)).after(view, room.ask(view))
    assert after.messages[:6] == view.messages[:6]
    assert after.messages[-8:] == view.messages[-8:]
    middle = [result.output for message in after.messages[6:-8] for result in message.results]
    assert len(middle) == 14
    assert all(CUT_MARK in output and output.startswith("oo") and output.endswith("oo") for output in middle)
    assert sum(map(len, middle)) <= 0.25 * 0.8 * 30_000 * 4
    assert room.ask(after) is None


def test_a_compaction_that_saves_too_little_is_not_made():
    policy = MafAnchored(min_gain_share=0.6)
    view = view_of(user("go"), *work(0, 20, 4_000), policy=policy)
    assert Room(policy, 30_000).ask(view) is None


@given(
    shares=st.lists(st.floats(0, 3), min_size=1, max_size=40) | st.builds(lambda share: [share] * 40, st.floats(0.5, 2.5)),
    window_tokens=st.integers(2_000, 60_000),
    min_gain_share=st.sampled_from([0.0, 0.1, 0.23, 0.6]),
)
def test_the_quick_look_never_hides_a_compaction(shares, window_tokens, min_gain_share):
    """Each result has a share of the characters that results may have together, divided by their number."""
    policy = MafAnchored(min_gain_share=min_gain_share)
    budget = policy.budget(Window(tokens=window_tokens, source="configuration"))
    lengths = [int(share * budget.threshold_tokens / len(shares)) for share in shares]
    steps = [message for number, length in enumerate(lengths) for message in step(number, "o" * length)]
    view = view_of(user("go"), *steps, policy=policy)
    expected = policy.pipeline.rules[0].reducer.reduce(view, budget, "asked at every step")
    assert policy.plan(view, budget, None, "step") == (None if expected.is_empty else expected)


def test_what_was_shortened_is_not_shortened_again_when_the_conversation_grows():
    policy = MafAnchored()
    view = view_of(user("go"), *work(0, 20, 4_000), policy=policy)
    after = (room := Room(policy, 30_000)).after(view, room.ask(view))
    later = grown(after, policy, *work(50, 8, 4_000))
    final = room.after(later, room.ask(later), seq=5_000)
    assert final.messages[: len(after.messages) - 8] == after.messages[:-8]


def test_above_the_threshold_the_oldest_calls_between_the_anchors_go():
    policy = MafAnchored()
    view = view_of(user("go"), *work(0, 60, 400), *step(99), policy=policy)
    after = (room := Room(policy, 4_000)).after(view, room.ask(view))
    assert after.tokens <= 3_200
    assert after.messages[:6] == view.messages[:6]
    assert after.messages[-8:] == view.messages[-8:]
