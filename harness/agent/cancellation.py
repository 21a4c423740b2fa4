"""Stopping a session from outside: asked for at any time, answered at once even while a provider stalls (S1.5, S1.8)."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from harness.protocols import ignore

T = TypeVar("T")

POLL_SECONDS = 0.05
MAIN_THREAD_WAIT_SECONDS = 0.1
"""How long the main thread waits at a time. Python's signal handlers run only when it comes out of a call, and a signal that
another thread took, or that came just before the call, does not bring it out."""


class Cancellation:
    """A wish to stop. Thread-safe; once made it stands."""

    def __init__(self, poll: Callable[[], None] = ignore) -> None:
        """Nobody wishes to stop yet.

        Args:
            poll: is called about twenty times a second by who waits for work that can be interrupted; must return quickly.
        """
        self.poll = poll
        self._event = threading.Event()

    def request(self) -> None:
        """Ask the session to stop as soon as it can."""
        self._event.set()

    @property
    def is_requested(self) -> bool:
        """Whether somebody asked."""
        return self._event.is_set()


class WorkAbandoned(Exception):
    """Ends work that nobody waits for any more."""


class _PendingResult(Future[T]):
    """The result or error of work in another thread."""

    is_abandoned = False

    def run(self, work: Callable[[], T]) -> None:
        _thread_state.pending = self
        try:
            self.set_result(work())
        except BaseException as error:  # noqa: BLE001  (raised again by the waiting thread)
            self.set_exception(error)

    def wait(self, seconds: float) -> bool:
        """Wait at most that long; return whether the work has ended."""
        with suppress(TimeoutError):
            self.exception(seconds)
            return True
        return False

    def abandon(self, undo: Callable[[T], object]) -> None:
        """End the work at its next call of `raise_if_abandoned`, and undo a result that it returns all the same."""
        self.is_abandoned = True
        self.add_done_callback(lambda ended: None if ended.exception() else undo(ended.result()))


_thread_state = threading.local()


def raise_if_abandoned() -> None:
    """End the work of this thread if it was given up; called where it tells something, so that a provider is not asked again.

    Raises:
        WorkAbandoned: nobody waits for it.
    """
    pending: _PendingResult[object] | None = getattr(_thread_state, "pending", None)
    if pending is not None and pending.is_abandoned:
        raise WorkAbandoned


def run_interruptibly(work: Callable[[], T], cancellation: Cancellation | None, undo: Callable[[T], object] = ignore) -> T | None:
    """The result of `work`, or None when the session was cancelled first; the work is then left to end by itself.

    It ends the next time that it tells anything (see `raise_if_abandoned`). So it does where waiting itself fails.
    A result that it comes to nevertheless is undone, where it must be.

    A call of a provider that is silent tells nothing: it keeps its thread and its connection until the next piece of an answer
    comes or it has stalled. Nobody closes it from outside: a socket that is closed wakes nobody who reads from it, and before
    the answer begins the libraries of providers hand out nothing that could be shut.

    Without a cancellation the work runs right here, so trials pay nothing.
    """
    if cancellation is None:
        return work()
    pending = _start(work)
    try:
        while not pending.wait(POLL_SECONDS):
            cancellation.poll()
            if cancellation.is_requested:
                pending.abandon(undo)
                return None
    except BaseException:
        pending.abandon(undo)
        raise
    return pending.result()


def run_to_completion(work: Callable[[], T], cancellation: Cancellation | None) -> T:
    """The result of `work`, which is waited for whatever is wished meanwhile: a running tool finishes (S1.5).

    Where waiting itself fails, the session is over: then the cancellation is requested, so that no further tool starts and
    sub-agents end.
    """
    if cancellation is None:
        return work()
    pending = _start(work)
    try:
        while not pending.wait(POLL_SECONDS):
            cancellation.poll()
    except BaseException:
        cancellation.request()
        raise
    return pending.result()


def _start(work: Callable[[], T]) -> _PendingResult[T]:
    pending = _PendingResult[T]()
    threading.Thread(target=pending.run, args=(work,), name="harness-waits", daemon=True).start()
    return pending
