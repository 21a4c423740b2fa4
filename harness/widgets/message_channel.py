"""Numbered and rate-limited messages from the notebook kernel to every page that shows a widget.

Jupyter's server silently drops messages from a kernel that sends too many. Therefore all widgets of a process send through one
`MessageSender`, which limits their rate, and every message is numbered. A page that misses messages, because it was just opened,
reloaded or disconnected, reports the last number it has received and gets the rest.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""JSON object, as a dictionary with string keys."""

MESSAGES_PER_SECOND = 20
"""Maximum number of messages per second from all widgets of a process together.

Jupyter's server drops messages above 1,000 per second; pages become slow much earlier.
"""
MAX_MESSAGE_CHARACTERS = 200_000
"""Approximate maximum number of characters in one message to the pages; longer content is split into several messages."""
MAX_RETAINED_ITEMS = 20_000
"""Default for the maximum number of sent items that a channel retains, so that a page can request missed items again."""
ITEM_OVERHEAD_CHARACTERS = 100
"""Number of characters assumed for each item, besides its texts, when the size of a message is estimated."""


class MessageSender:
    """Sender of the messages of all widgets to their pages, which limits the rate and serves widgets in turn.

    The sender's thread only runs while messages are waiting.
    """

    def __init__(self, messages_per_second: float = MESSAGES_PER_SECOND) -> None:
        self._pause_seconds = 1 / messages_per_second
        self._waiting: dict[MessageChannel, None] = {}
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._next_send_at = 0.0

    def schedule(self, channel: "MessageChannel") -> None:
        """Schedule the next message of a channel, to be sent as soon as the rate limit permits. Thread-safe."""
        with self._condition:
            self._waiting[channel] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_scheduled, name="harness-widgets", daemon=True)
                self._thread.start()

    def drain(self, timeout_seconds: float = 10.0) -> bool:
        """Wait until all scheduled messages are sent, and return whether they were sent before the timeout."""
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, timeout_seconds)

    def _send_scheduled(self) -> None:
        try:
            while (channel := self._take_next_channel()) is not None:
                time.sleep(max(0.0, self._next_send_at - time.monotonic()))
                self._next_send_at = time.monotonic() + self._pause_seconds
                if channel.send_batch():
                    self.schedule(channel)
        except BaseException:
            self._finish_thread()  # the next batch is sent by a new thread
            raise

    def _take_next_channel(self) -> "MessageChannel | None":
        """Return the channel whose messages have waited longest.

        If no channel waits, return None and mark the sending thread as ended.
        """
        with self._condition:
            channel = next(iter(self._waiting), None)
            if channel is None:
                self._finish_thread()
            else:
                del self._waiting[channel]
            return channel

    def _finish_thread(self) -> None:
        with self._condition:
            self._thread = None
            self._condition.notify_all()


SHARED_SENDER = MessageSender()
"""Message sender shared by all widgets of this process, because the rate limit applies to the kernel as a whole."""


class MessageChannel:
    """Thread-safe channel from one widget to its pages, which sends a list of items and named values (a state).

    All values must be plain JSON. A message looks like `{"kind": "batch", "number": 7, "oldest": 1, "from": 41, "items": [...],
    "state": {...}, "whole": false}`:

    - `number` counts messages.
    - `from` is the number of the first item in `items`.
    - `oldest` is the number of the oldest retained item.
    - `whole` is true if `state` is complete, and false if it contains only changes.
    """

    def __init__(
        self,
        send: Callable[[Mapping[str, Any]], None],
        sender: MessageSender = SHARED_SENDER,
        *,
        max_retained_items: int = MAX_RETAINED_ITEMS,
    ) -> None:
        """Open a channel from a widget to its pages, without items and state.

        Args:
            send: Function that sends one message to all pages; called from the thread of `sender`, never concurrently.
            sender: Sender that limits the messages of all widgets together.
            max_retained_items: Maximum number of items that a page can request again.
        """
        self._send, self._sender, self._max_retained_items = send, sender, max_retained_items
        self._lock = threading.Lock()
        self._items: list[Mapping[str, Any]] = []
        self._oldest = 1
        self._first_unsent = 1
        """Number, counted from 1, of the first item of the channel that has not been sent to the pages yet."""
        self._state: dict[str, Any] = {}
        self._changed: dict[str, None] = {}
        self._message_count = 0
        self._sync_requested = False

    def append(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Append items to the list that the pages receive; the items are sent in order."""
        with self._lock:
            self._items += items
            if len(self._items) > 2 * self._max_retained_items:
                dropped_count = len(self._items) - self._max_retained_items
                del self._items[:dropped_count]
                self._oldest += dropped_count
                self._first_unsent = max(self._first_unsent, self._oldest)
        self._sender.schedule(self)

    def update_state(self, **state: Any) -> None:
        """Set values that the pages show, by name.

        If a value changes several times before it is sent, only the last one is sent.
        """
        with self._lock:
            self._state.update(state)
            self._changed.update(dict.fromkeys(state))
        self._sender.schedule(self)

    def handle_sync(self, message: Mapping[str, Any]) -> bool:
        """Handle a page's report of the last item that it has received, and schedule the missing items.

        The report is a message such as `{"kind": "sync", "have": 40}`; return False for any other message.
        """
        if message.get("kind") != "sync":
            return False
        have = message.get("have")
        with self._lock:
            self._first_unsent = max(self._oldest, min(self._first_unsent, (have if isinstance(have, int) else 0) + 1))
            self._changed.update(dict.fromkeys(self._state))
            self._sync_requested = True
        self._sender.schedule(self)
        return True

    def send_batch(self) -> bool:
        """Send waiting items and state changes in one message; return whether more items wait.

        The sender calls this method.
        """
        with self._lock:
            first = self._first_unsent
            items = self._take_batch(first - self._oldest)
            state = {name: self._state[name] for name in self._changed}
            if not (items or state or self._sync_requested):
                return False
            self._first_unsent += len(items)
            self._message_count += 1
            self._changed.clear()
            whole, self._sync_requested = self._sync_requested, False
            has_more = self._first_unsent < self._oldest + len(self._items)
            batch = {"kind": "batch", "number": self._message_count, "oldest": self._oldest, "from": first, "items": items}
        self._send({**batch, "state": state, "whole": whole})
        return has_more

    def _take_batch(self, start: int) -> list[Mapping[str, Any]]:
        """Return the items from index `start` on, as many as fit into one message to the pages."""
        characters, end = 0, start
        while end < len(self._items) and (end == start or characters < MAX_MESSAGE_CHARACTERS):
            texts = [value for value in self._items[end].values() if isinstance(value, str)]
            characters += ITEM_OVERHEAD_CHARACTERS + sum(map(len, texts))
            end += 1
        return self._items[start:end]
