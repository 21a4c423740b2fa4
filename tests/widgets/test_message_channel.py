"""Numbered messages: every item arrives once and in order whatever is lost, and a kernel never sends too many messages."""

import threading
import time
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.widgets import message_channel as wires
from harness.widgets.message_channel import MessageChannel, MessageSender


class Reader:
    """A page with the logic of `connect` in kernel.js: accepts what fits and requests what is missing."""

    def __init__(self, wire):
        self.wire, self.items, self.state, self.last = wire, [], {}, None

    def hear(self, message):
        lost = not message["whole"] if self.last is None else message["number"] != self.last + 1
        self.last = message["number"]
        gap = bool(message["items"]) and message["from"] > len(self.items) + 1
        if not gap:
            self.items += message["items"][len(self.items) + 1 - message["from"] :]
        self.state.update(message["state"])
        if gap or lost:
            self.wire.handle_sync({"kind": "sync", "have": len(self.items)})


def numbered(first, count):
    return [{"text": str(number)} for number in range(first, first + count)]


def all_sent(send, **limits):
    post = MessageSender(messages_per_second=10_000)
    return post, MessageChannel(send, post, **limits)


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=20), lost=st.sets(st.integers(1, 40)))
def test_a_page_that_loses_messages_ends_with_every_item_in_order_and_the_newest_state(sizes, lost):
    sent: list[Any] = []
    wire = MessageChannel(sent.append, QuietPost())
    reader, count, delivered = Reader(wire), 0, 0

    def carry(*, losing):
        nonlocal delivered
        while wire.send_batch() or sent:
            for message in sent:
                delivered += 1
                if not (losing and delivered in lost):
                    reader.hear(message)
            sent.clear()

    for size in sizes:
        wire.append(numbered(count, size))
        count += size
        wire.update_state(told=count)
        carry(losing=True)
    wire.append(numbered(count, 1))
    carry(losing=False)
    wire.update_state(end=True)
    carry(losing=False)
    assert reader.items == numbered(0, count + 1)
    assert reader.state == {"told": count, "end": True}


class QuietPost(MessageSender):
    """Sender that leaves the delivery to the test."""

    def schedule(self, channel):
        """Do nothing."""


def test_many_wires_together_keep_the_pace_and_starve_none():
    sent: list[int] = []

    def note(name, _message):
        sent.append(name)

    post = MessageSender(messages_per_second=100)
    channels = [MessageChannel(partial(note, name), post) for name in range(4)]
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        for wire in channels:
            wire.append([{"text": "x"}])
        time.sleep(0.001)
    assert post.drain()
    took = time.monotonic() - began
    assert len(sent) <= 100 * took + 2
    counts = [sent.count(name) for name in range(4)]
    assert max(counts) - min(counts) <= 2, counts


def test_the_first_message_after_a_rest_is_sent_at_once():
    heard = threading.Event()
    post = MessageSender(messages_per_second=1e-6)
    wire = MessageChannel(lambda _: heard.set(), post)
    wire.update_state(now=1)
    assert heard.wait(60)


def test_no_thread_is_left_when_all_is_sent():
    post, wire = all_sent([].append)
    wire.append(numbered(0, 3))
    assert post.drain()
    assert post._thread is None


def test_a_long_history_is_sent_in_several_messages():
    sent: list[Any] = []
    post, wire = all_sent(sent.append)
    wire.append([{"text": "x" * (wires.MAX_MESSAGE_CHARACTERS // 2)} for _ in range(10)])
    assert post.drain()
    assert [len(message["items"]) for message in sent] == [2] * 5
    assert [message["from"] for message in sent] == [1, 3, 5, 7, 9]


def test_the_oldest_items_of_a_long_history_are_dropped_and_the_message_says_so():
    sent: list[Any] = []
    post, wire = all_sent(sent.append, max_retained_items=10)
    for number in range(45):
        wire.append(numbered(number, 1))
    post.drain()
    sent.clear()
    wire.handle_sync({"kind": "sync", "have": 0})
    assert post.drain()
    (message,) = sent
    assert message["from"] == message["oldest"] > 1
    assert message["items"] == numbered(message["oldest"] - 1, 46 - message["oldest"])
    assert 10 <= len(message["items"]) <= 20


@pytest.mark.parametrize("have", [None, "all", -5, 10**9, [], True])
def test_a_page_may_say_that_it_has_anything(have):
    sent: list[Any] = []
    post, wire = all_sent(sent.append)
    wire.append(numbered(0, 3))
    assert wire.handle_sync({"kind": "sync", "have": have})
    assert post.drain()
    assert sum(len(message["items"]) for message in sent) in {2, 3, 5, 6}


def test_a_message_of_another_kind_is_not_answered():
    _, wire = all_sent([].append)
    assert not wire.handle_sync({"kind": "other"})


def test_a_send_that_failed_is_no_secret_and_the_next_one_is_sent(monkeypatch):
    sent: list[Any] = []
    failure_seen = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda failure: failure_seen.set())

    def send(message):
        if message["number"] == 1:
            raise OSError("the socket is gone")
        sent.append(message)

    post, wire = all_sent(send)
    wire.update_state(first=1)
    assert failure_seen.wait(60)
    wire.update_state(second=2)
    assert post.drain()
    assert [message["state"] for message in sent] == [{"second": 2}]
