"""Stopping a session from outside: asked for at any time, answered at once even while a provider stalls (S1.5, S1.8)."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.05


class Cancellation:
    """A wish to stop. Thread-safe; once made it stands."""

    def __init__(self) -> None:
        """Nobody wishes to stop yet."""
        self._wished = threading.Event()

    def request(self) -> None:
        """Ask the session to stop as soon as it can."""
        self._wished.set()

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._wished.is_set()


class _Box(Generic[T]):
    """Where a thread leaves its result or its error."""

    def __init__(self) -> None:
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def fill(self, work: Callable[[], T]) -> None:
        try:
            self.value = work()
        except BaseException as error:  # noqa: BLE001  (raised again by the waiting thread)
            self.error = error
        finally:
            self.done.set()


def interruptible(work: Callable[[], T], cancellation: Cancellation | None) -> T | None:
    """The result of `work`, or None when the session was cancelled first; the work is then left to end by itself.

    Without a cancellation the work runs right here, so trials pay nothing.
    """
    if cancellation is None:
        return work()
    box: _Box[T] = _Box()
    threading.Thread(target=box.fill, args=(work,), name="harness-waits", daemon=True).start()
    while not box.done.wait(POLL_SECONDS):
        if cancellation.requested:
            return None
    if box.error is not None:
        raise box.error
    return box.value
