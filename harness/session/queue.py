"""The log of a live session, shared by the thread that works and everybody who queues a message."""

import threading
from collections.abc import Callable, Sequence

from harness.errors import UsageError
from harness.events import Entry, Event, MessageAdded, MessageQueued, MessageUnqueued, SessionStarted
from harness.messages import sanitize_message, user
from harness.protocols import Log
from harness.session.history import find_queued_messages
from harness.store.records import Draft


class QueuedLog:
    """Keeps the protocol of `harness.protocols.Log` for the agent, and the queue for all. Thread-safe."""

    def __init__(self, on_entry: Callable[[Entry], None], entries: Sequence[Entry] = ()) -> None:
        """Start with what is logged already.

        Args:
            on_entry: hears each new entry in order, under the lock; must return at once.
            entries: of a session that is gone on with.
        """
        self._on_entry = on_entry
        self._entries = list(entries)
        self._queued_by_seq = find_queued_messages(entries)
        self._early: list[str] = []
        self._log: Log | None = None
        self._save_draft: Callable[[Draft], None] | None = None
        self._taken_seq: int | None = None
        self._lock = threading.RLock()

    def open(self, log: Log, save_draft: Callable[[Draft], None]) -> None:
        """Log there from now on; of a session that has begun, what was queued before it was open too.

        Args:
            log: takes events.
            save_draft: takes an answer as far as it has come.
        """
        with self._lock:
            self._log, self._save_draft = log, save_draft
            if self.has_begun:
                self.log_early_messages()

    def save_draft(self, draft: Draft) -> None:
        """Keep an answer as far as it has come.

        Raises:
            StoreError: it was not kept.
        """
        with self._lock:
            if self._save_draft is not None:
                self._save_draft(draft)

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """See `harness.protocols.Log`."""
        with self._lock:
            if self._log is None:
                raise UsageError("the session has not started")
            new_entries = self._log.append(events)
            self._entries += new_entries
            for entry in new_entries:
                if isinstance(entry.event, MessageQueued):
                    self._queued_by_seq[entry.seq] = entry.event.text
                elif isinstance(entry.event, MessageUnqueued):
                    self._queued_by_seq.pop(entry.event.queued, None)
                self._on_entry(entry)
        return new_entries

    def entries(self) -> tuple[Entry, ...]:
        """All events so far, in order."""
        with self._lock:
            return tuple(self._entries)

    def close(self) -> None:
        """The log is closed by its opener."""

    @property
    def has_begun(self) -> bool:
        """Whether the first event is there."""
        return bool(self._entries)

    @property
    def queued_messages(self) -> tuple[str, ...]:
        """The messages that wait, the next one first."""
        with self._lock:
            return (*self._queued_by_seq.values(), *self._early)

    def enqueue(self, text: str) -> int:
        """Queue a message; returns its position, 1 = next. It is in the log when this returns, once that is open and has begun.

        Raises:
            StoreError: it could not be logged, and does not wait.
        """
        with self._lock:
            if self._log is None or not self.has_begun or self._early:
                self._early.append(text)
            else:
                self.append((MessageQueued(text=text),))
            return len(self._queued_by_seq) + len(self._early)

    def log_early_messages(self) -> None:
        """Log the messages that were queued before the log was open and had begun."""
        with self._lock:
            self.append(tuple(MessageQueued(text=text) for text in self._early))
            self._early.clear()

    def take_first(self) -> str | None:
        """Take the first message of a session that begins with it; None when there is none."""
        with self._lock:
            return self._early.pop(0) if self._early else None

    def take_next(self, step: int) -> tuple[Event, ...]:
        """What is to be logged when the next message is taken, before that step; nothing when none waits."""
        with self._lock:
            if not self._queued_by_seq:
                return ()
            self._taken_seq, text = next(iter(self._queued_by_seq.items()))
        unqueued_event = MessageUnqueued(queued=self._taken_seq, why="taken")
        return unqueued_event, MessageAdded(message=sanitize_message(user(text)), step=step)

    def withdraw(self, position: int) -> str:
        """Take a message out of the queue; returns its text.

        Raises:
            UsageError: nothing waits at that position, or its turn begins just now.
        """
        with self._lock:
            sequence_numbers, queued = list(self._queued_by_seq), self.queued_messages
            if not 1 <= position <= len(queued) or sequence_numbers[position - 1 : position] == [self._taken_seq]:
                raise UsageError(f"no message waits at position {position}; {len(queued)} wait")
            if position > len(sequence_numbers):
                return self._early.pop(position - len(sequence_numbers) - 1)
            self.append((MessageUnqueued(queued=sequence_numbers[position - 1], why="withdrawn"),))
            return queued[position - 1]

    @property
    def start_event(self) -> SessionStarted | None:
        """The first event."""
        first = self._entries[0].event if self._entries else None
        return first if isinstance(first, SessionStarted) else None
