"""What is continued at the first changed message equals what is computed from all messages, under every policy.

A random conversation is lived through step by step. Before each step the policy may edit it, and the view, the policy's plan and
the request are compared with those that read every message.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agent.conversation import PreparedRequest, RequestBuilder
from harness.conversation.codec import digest_message
from harness.conversation.events import Compaction, Entry, Hook, ItemId, MessageAdded, Patch, StepFinished
from harness.conversation.messages import Message, assistant, system, user
from harness.conversation.tally_cache import TallyCache
from harness.conversation.tokens import Counter, Estimated, Window
from harness.conversation.view import (
    Item,
    View,
    count_events,
    find_violation,
    find_violation_after,
    fold,
    patch_items,
    render_messages,
)
from harness.protocols import Policy
from harness.session.compactor import SessionCompactor
from harness.store.log import MemoryOutputs
from harness.testing.fakes import FakeModel
from harness.testing.strategies import logs
from tests.contracts.test_policy_properties import POLICIES, WINDOW

pytestmark = pytest.mark.slow

HOOKS: tuple[Hook, ...] = ("turn", "step")


class ReadingAll:
    """Builder of requests that reads all messages of every view."""

    def __init__(self, counter: Counter) -> None:
        self.counter, self.chain, self.tokens = counter, list[bytes](), list[int]()

    def prepare(self, view: View) -> PreparedRequest:
        messages, former, chain = render_messages(view.messages), self.chain, list[bytes]()
        for message in messages:
            chain.append(digest_message(message, chain[-1] if chain else b""))
        kept = 0
        while kept < min(len(former), len(chain)) and former[kept] == chain[kept]:
            kept += 1
        kept_tokens = Estimated(sum(self.tokens[:kept]))
        self.chain, self.tokens = chain, [self.counter.count(message) for message in messages]
        return PreparedRequest(tuple(messages), chain[-1].hex() if chain else "", kept, kept_tokens)


def apply_plainly(items: Sequence[Item], patch: Patch, seq: int, counter: Counter) -> tuple[Item, ...]:
    """Return the messages after the changes of a compaction, each looked at."""
    after, changes = list[Item](), {change.item: change.message for change in patch.replace}
    for item in items:
        if item.item_id not in patch.forget:
            message = changes.get(item.item_id)
            original = item.tokens if item.original_tokens is None else item.original_tokens
            after.append(item if message is None else Item(item.item_id, message, counter.count(message), original))
        for slot, insert in enumerate(patch.insert):
            if insert.after == item.item_id:
                after.append(Item(ItemId(seq, slot), insert.message, counter.count(insert.message), None))
    return tuple(after)


def fold_plainly(view: View, seq: int, event: Compaction, counter: Counter) -> View:
    """Return the view after an applied compaction, each sum computed over all messages."""
    items = apply_plainly(view.items, event.patch, seq, counter)
    ids = {item.item_id for item in items}
    inserted = {ItemId(seq, slot) for slot, insert in enumerate(event.patch.insert) if insert.stands_for}
    tokens = Estimated(sum(item.tokens for item in items))
    return replace(
        fold(view, Entry(seq, event), counter),
        items=items,
        tokens=tokens,
        events=sum(count_events(item.message) for item in items),
        summaries=tuple(sorted(ids & (inserted | {*view.summaries}))),
        set_aside=tuple(item for item in (*view.set_aside, *view.items) if item.item_id in event.patch.set_aside),
        saved_tokens=sum(item.original_tokens - item.tokens for item in items if item.original_tokens is not None),
        pending=tuple(item for item in view.pending if item.item_id in ids),
    )


def forget_totals(view: View) -> View:
    """Return the view with an empty cache of totals."""
    return replace(view, items=tuple(view.items), tally_cache=TallyCache())


@settings(max_examples=60)
@given(logs(max_steps=20), st.sampled_from(POLICIES), st.sampled_from([WINDOW, Window(tokens=100_000, source="configuration")]))
def test_view_plan_and_request_are_those_of_a_reader_of_all_messages(
    log: tuple[Entry, ...], policy: Policy, window: Window
) -> None:
    counter, view, seq = policy.counter, View(), 0
    summarizer = FakeModel([assistant(f"summary {number}") for number in range(200)])
    compactor = SessionCompactor(policy=policy, window=window, summarizer=summarizer, outputs=MemoryOutputs())
    requests, plain_requests = RequestBuilder(counter), ReadingAll(counter)
    for entry in log:
        if isinstance(entry.event, MessageAdded) and entry.event.message.role == "assistant":
            if find_violation(view.messages) is None:
                for hook in HOOKS:
                    plan = policy.plan(view, compactor.budget, None, hook)
                    assert plan == policy.plan(forget_totals(view), compactor.budget, None, hook)
                    event = compactor.compact(view, None, view.steps + 1, hook, lambda _: None)
                    if event is not None:
                        seq += 1
                        before, view = view, fold(view, Entry(seq, event), counter)
                        assert event.status != "applied" or view == fold_plainly(before, seq, event, counter)
            request, plain_request = requests.prepare(view), plain_requests.prepare(view)
            assert request == plain_request
        if isinstance(entry.event, MessageAdded | StepFinished):
            seq += 1
            view = fold(view, Entry(seq, entry.event), counter)


def test_a_request_keeps_what_stands_behind_a_message_that_was_replaced_by_an_equal_one() -> None:
    counter = POLICIES[0].counter
    messages = (system("Be good."), user("Build it."), assistant("Done."), user("Go on."))
    items = [Item(ItemId(seq), message, counter.count(message), None) for seq, message in enumerate(messages, start=1)]
    tokens = Estimated(sum(item.tokens for item in items))
    view, builder = View(items=tuple(items), tokens=tokens), RequestBuilder(counter)
    builder.prepare(view)
    items[1] = items[1]._replace(original_tokens=Estimated(99))
    request = builder.prepare(replace(view, items=tuple(items), edits=1))
    assert (request.kept_prefix_messages, request.kept_prefix_tokens) == (len(messages), tokens)


@given(logs(max_steps=6), st.data())
def test_a_patch_breaks_a_rule_exactly_if_the_whole_conversation_does(log: tuple[Entry, ...], data: st.DataObject) -> None:
    counter, view = POLICIES[0].counter, View()
    dropped = data.draw(st.sets(st.integers(0, len(log)), max_size=1))
    for entry in log:
        if isinstance(entry.event, MessageAdded) and entry.seq not in dropped:
            view = fold(view, entry, counter)
            if data.draw(st.booleans()):
                gone = data.draw(st.sets(st.sampled_from([item.item_id for item in view.items]), max_size=3))
                patched = patch_items(view.items, Patch(forget=tuple(gone)), 0, counter)
                messages: list[Message] = [item.message for item in patched.items]
                assert find_violation_after(view, patched) == find_violation(messages)
