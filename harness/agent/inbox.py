"""User messages that wait for their turn."""

import threading
from collections import deque
from collections.abc import Iterable

from harness.task import LaterMessage


class Inbox:
    """A queue of user messages. Thread-safe: anyone may put, the loop takes between steps."""

    def __init__(self, later: Iterable[LaterMessage] = ()) -> None:
        """Start with messages that are due at given steps of a scripted task."""
        self._later = sorted(later, key=lambda message: message.step)
        self._queue: deque[str] = deque()
        self._lock = threading.Lock()

    def put(self, text: str) -> int:
        """Queue a message; returns its position, 1 = next."""
        with self._lock:
            self._queue.append(text)
            return len(self._queue)

    def take(self, step: int) -> tuple[str, ...]:
        """Everything that is due before `step`, in order."""
        if not self._queue and not self._later:
            return ()
        with self._lock:
            due = [message.text for message in self._later if message.step <= step]
            self._later = [message for message in self._later if message.step > step]
            due.extend(self._queue)
            self._queue.clear()
        return tuple(due)
