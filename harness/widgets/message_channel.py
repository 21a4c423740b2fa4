"""Messages from the kernel to every page that shows a widget: numbered, joined into batches, few a second.

Jupyter's server silently drops the messages of a kernel that sends too many. So all widgets of a process send through one
`MessageSender`, which limits their rate, and every message is numbered: a page that misses some, because it was just opened,
reloaded or cut off, reports the last number that it has and is sent the rest.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""JSON object with string keys."""

MESSAGES_PER_SECOND = 20
"""Of all widgets of a process together. The server drops what is above 1,000, and a page is slow long before."""
MAX_MESSAGE_CHARACTERS = 200_000
"""A longer batch is sent in pieces."""
MAX_RETAINED_ITEMS = 20_000
"""Items that a page can ask for again."""
ITEM_OVERHEAD_CHARACTERS = 100
"""What an item without any text weighs."""


class MessageSender:
    """Sends for many wires in turn, at most so many messages a second, in a thread that lives while there is work."""

    def __init__(self, messages_per_second: float = MESSAGES_PER_SECOND) -> None:
        self._pause_seconds = 1 / messages_per_second
        self._waiting: dict[MessageChannel, None] = {}
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._next_send_at = 0.0

    def schedule(self, channel: "MessageChannel") -> None:
        """Send for a wire soon: at once when nothing was sent lately. From any thread."""
        with self._condition:
            self._waiting[channel] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_scheduled, name="harness-widgets", daemon=True)
                self._thread.start()

    def drain(self, timeout_seconds: float = 10.0) -> bool:
        """Wait until everything is sent; whether it was in time."""
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, timeout_seconds)

    def _send_scheduled(self) -> None:
        try:
            while (wire := self._take_next_channel()) is not None:
                time.sleep(max(0.0, self._next_send_at - time.monotonic()))
                self._next_send_at = time.monotonic() + self._pause_seconds
                if wire.send_batch():
                    self.schedule(wire)
        except BaseException:
            self._finish_thread()  # whatever is told next is sent by a new thread
            raise

    def _take_next_channel(self) -> "MessageChannel | None":
        """The wire that waits longest; None ends the thread."""
        with self._condition:
            wire = next(iter(self._waiting), None)
            if wire is None:
                self._finish_thread()
            else:
                del self._waiting[wire]
            return wire

    def _finish_thread(self) -> None:
        with self._condition:
            self._thread = None
            self._condition.notify_all()


SHARED_SENDER = MessageSender()
"""Of this process: the limit is one of the kernel, however many widgets it shows."""


class MessageChannel:
    """What one widget tells its pages: a growing list of items, and a state of which only the newest counts. Thread-safe.

    Everything told must be plain JSON. A batch looks so: `{"kind": "batch", "number": 7, "oldest": 1, "from": 41, "items": [...],
    "state": {...}, "whole": false}`; `number` counts messages, `from` is the number of its first item, `oldest` that of the first
    which is kept, and `whole` says that the state is all of it, not only what changed.
    """

    def __init__(
        self,
        send: Callable[[Mapping[str, Any]], None],
        sender: MessageSender = SHARED_SENDER,
        *,
        max_retained_items: int = MAX_RETAINED_ITEMS,
    ) -> None:
        """Nothing is sent before somebody tells something.

        Args:
            send: sends one message to all pages; called from the thread of `sender`, never twice at a time.
            sender: limits the messages of all widgets together.
            max_retained_items: number of items that a page can ask for again.
        """
        self._send, self._sender, self._max_retained_items = send, sender, max_retained_items
        self._lock = threading.Lock()
        self._items: list[Mapping[str, Any]] = []
        self._oldest = 1
        self._first_unsent = 1
        """Number of the first item that is still to be sent."""
        self._state: dict[str, Any] = {}
        self._changed: dict[str, None] = {}
        self._message_count = 0
        self._sync_requested = False

    def append(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Tell of new items; each is delivered, in order."""
        with self._lock:
            self._items += items
            if len(self._items) > 2 * self._max_retained_items:
                gone = len(self._items) - self._max_retained_items
                del self._items[:gone]
                self._oldest += gone
                self._first_unsent = max(self._first_unsent, self._oldest)
        self._sender.schedule(self)

    def update_state(self, **state: Any) -> None:
        """Tell of a new state; of several in short time only the last value of each name is sent."""
        with self._lock:
            self._state.update(state)
            self._changed.update(dict.fromkeys(state))
        self._sender.schedule(self)

    def handle_sync(self, message: Mapping[str, Any]) -> bool:
        """Answer a page that says what it has: `{"kind": "sync", "have": 40}`; False = it wants something else."""
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
        """Send one message; whether there is more. Called by the post."""
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
            more = self._first_unsent < self._oldest + len(self._items)
            batch = {"kind": "batch", "number": self._message_count, "oldest": self._oldest, "from": first, "items": items}
        self._send({**batch, "state": state, "whole": whole})
        return more

    def _take_batch(self, start: int) -> list[Mapping[str, Any]]:
        """Items from an index on, as many as go into one message."""
        characters, end = 0, start
        while end < len(self._items) and (end == start or characters < MAX_MESSAGE_CHARACTERS):
            characters += ITEM_OVERHEAD_CHARACTERS + sum(
                len(value) for value in self._items[end].values() if isinstance(value, str)
            )
            end += 1
        return self._items[start:end]
