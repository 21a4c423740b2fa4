"""Tests that the bounds retain the specified messages within their budget."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.bounds import DropAll, OracleRetention, RandomRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.stages import group_blocks
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import Message, assistant, system, user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Window
from harness.conversation.view import Item, View, fold_all
from harness.errors import UsageError
from harness.policies import policy_from_plain
from harness.protocols import Need, Policy
from harness.testing.strategies import logs

WINDOW = Window(tokens=16_000, source="configuration")
SHARES = st.sampled_from([0.1, 0.5, 1.0])


class Future:
    """Oracle with the needs by the index of the message."""

    def __init__(self, needs: dict[int, Need]) -> None:
        self._needs = needs

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        return [self._needs.get(at) for at in range(len(messages))]


def budget_of(policy: Policy) -> Budget:
    return policy.budget(WINDOW)


def kept(policy: Policy, view: View) -> list[Item] | None:
    plan: CompactionPlan | None = policy.plan(view, budget_of(policy), None)
    if plan is None:
        return None
    assert not plan.replace
    assert not plan.slots
    return [item for item in view.items if item.item_id not in plan.forget]


def test_bounds_have_the_budget_of_keep_last() -> None:
    for policy in (DropAll(), RandomRetention(), OracleRetention(), OracleRetention().with_oracle(Future({}))):
        assert budget_of(policy) == budget_of(KeepLast())


@given(log=logs())
def test_drop_all_keeps_the_system_message_and_the_newest_message_with_its_pair(log: tuple[Entry, ...]) -> None:
    view = fold_all(log)
    left = kept(DropAll(threshold=0.02), view)
    if left is not None:
        assert left == [view.items[0], *group_blocks(view.items[1:])[-1].items]


@given(log=logs(), share=SHARES, seed=st.integers(0, 9))
def test_random_fills_its_share_and_no_more(log: tuple[Entry, ...], share: float, seed: int) -> None:
    view, policy = fold_all(log), RandomRetention(threshold=0.1, keep_share=share, seed=seed)
    left = kept(policy, view)
    if left is None:
        return
    whole = group_blocks(view.items[1:])
    room = int((budget_of(policy).threshold_tokens or 0) * share)
    always = [view.items[0], *whole[-1].items]
    tokens = sum(item.tokens for item in left)
    assert tokens <= max(room, sum(item.tokens for item in always))
    assert set(always) <= set(left)
    for block in whole[:-1]:
        stays = {item in left for item in block.items}
        assert len(stays) == 1, "what belongs together stays or goes together"
        assert stays == {True} or block.tokens > room - tokens, "what would still fit is kept"


def test_lots_differ_by_seed_and_by_request_and_do_not_change_while_a_session_grows() -> None:
    orders = {}
    for request, seed in (("a", 0), ("b", 0), ("a", 1)):
        view = conversation(request, 30)
        left = kept(RandomRetention(threshold=0.2, seed=seed), view)
        assert left is not None
        orders[request, seed] = [item.item_id for item in left]
    assert len({tuple(order) for order in orders.values()}) == 3
    longer = kept(RandomRetention(threshold=0.2), conversation("a", 40))
    assert longer is not None
    gone = {item.item_id for item in conversation("a", 30).items[:-1]} - set(orders["a", 0])
    assert not gone & {item.item_id for item in longer}, "who lost its lot does not come back by more messages"


def conversation(request: str, messages: int) -> View:
    all_messages = [system("s"), user(request), *(assistant("word " * 100) for _ in range(messages))]
    return fold_all(tuple(Entry(seq, MessageAdded(message=each, step=0)) for seq, each in enumerate(all_messages, start=1)))


def test_the_oracle_keeps_what_is_lost_for_good_before_what_is_needed_sooner_and_forgets_what_is_never_needed() -> None:
    view = conversation("a", 30)
    future = Future({1: Need(9, lost_for_good=True), 5: Need(0, lost_for_good=False), 6: Need(3, lost_for_good=False)})
    roomy = kept(OracleRetention(threshold=0.2).with_oracle(future), view)
    assert roomy == [view.items[at] for at in (0, 1, 5, 6, 31)]
    tight = OracleRetention(threshold=0.2, keep_share=0.3).with_oracle(future)
    assert kept(tight, view) == [view.items[at] for at in (0, 1, 5, 31)]


def test_an_oracle_without_the_future_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="with_oracle"):
        kept(OracleRetention(threshold=0.05), conversation("a", 30))


@pytest.mark.parametrize(
    ("field", "value"),
    [("threshold", 0), ("threshold", 1.1), ("keep_share", 0), ("keep_share", 2), ("seed", -1), ("clip_characters", 0),
     ("safety_reserve_tokens", -1), ("context_window", 0)],
)  # fmt: skip
def test_values_that_no_session_could_be_run_with_are_refused(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=field):
        policy_from_plain({"kind": "random", field: value})
