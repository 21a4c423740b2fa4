"""Functions that let another thread stop a session without delay, even while the provider of the model does not answer."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from harness.protocols import ignore

T = TypeVar("T")

POLL_SECONDS = 0.05
MAIN_THREAD_WAIT_SECONDS = 0.1
"""Maximum time in seconds that the main thread waits without a break.

Python runs signal handlers in the main thread, and only between calls. A signal that arrives just before a blocking call, or that
another thread receives, does not interrupt the call; short waits make sure that the handler runs soon.
"""


class Cancellation:
    """Request to stop a session, made from any thread. Thread-safe; a request cannot be withdrawn."""

    def __init__(self, poll: Callable[[], None] = ignore) -> None:
        """Create a cancellation that has not been requested yet.

        Args:
            poll: Function called about twenty times a second in the thread that waits for interruptible work, e.g. to deliver
                pending events. It must return quickly.
        """
        self.poll = poll
        self._event = threading.Event()

    def request(self) -> None:
        """Ask the running session, from any thread, to stop as soon as possible."""
        self._event.set()

    @property
    def is_requested(self) -> bool:
        """Whether the session has been asked to stop."""
        return self._event.is_set()


class WorkAbandoned(Exception):
    """Raised in a worker thread to end work that is no longer needed because the session was cancelled."""


class _PendingResult(Future[T]):
    """Result or error of a function that runs in another thread, available when the function ends."""

    is_abandoned = False

    def run(self, work: Callable[[], T]) -> None:
        _thread_state.pending = self
        try:
            self.set_result(work())
        except BaseException as error:  # noqa: BLE001  (raised again by the waiting thread)
            self.set_exception(error)

    def wait(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            self.exception(seconds)
            return True
        return False

    def abandon(self, undo: Callable[[T], object]) -> None:
        """Make the function end as soon as it calls `raise_if_abandoned`.

        If the function returns a result nevertheless, the result is passed to `undo`.
        """
        self.is_abandoned = True
        self.add_done_callback(lambda ended: None if ended.exception() else undo(ended.result()))


_thread_state = threading.local()


def raise_if_abandoned() -> None:
    """End the work of this thread if the session that waits for its result was cancelled.

    Long work calls this function whenever it makes progress, such as for each piece of a streamed reply.

    Raises:
        WorkAbandoned: The session that waits for the result was cancelled.
    """
    pending: _PendingResult[object] | None = getattr(_thread_state, "pending", None)
    if pending is not None and pending.is_abandoned:
        raise WorkAbandoned


def run_interruptibly(work: Callable[[], T], cancellation: Cancellation | None, undo: Callable[[T], object] = ignore) -> T | None:
    """Run a function in another thread and return its result, or None if the session is cancelled first.

    After a cancellation, or if waiting fails, the thread ends at the next call of `raise_if_abandoned`. Work that waits for a
    silent provider does not call it: it keeps its thread and connection until the provider sends something or the connection
    times out.

    Args:
        work: Function to run.
        cancellation: Object with which the session can be cancelled. None runs the function in this thread, without overhead.
        undo: Function called with a result that arrives although the work was abandoned.
    """
    if cancellation is None:
        return work()
    pending = _start(work)
    try:
        while not pending.wait(POLL_SECONDS):
            cancellation.poll()
            if cancellation.is_requested:
                # The connection of the work cannot be closed from here. Closing a socket does not wake a thread that reads from
                # it, and before an answer begins the client libraries offer nothing to close.
                pending.abandon(undo)
                return None
    except BaseException:
        pending.abandon(undo)
        raise
    return pending.result()


def run_to_completion(work: Callable[[], T], cancellation: Cancellation | None) -> T:
    """Run a function in another thread and return its result, even if the session is cancelled meanwhile.

    A running tool can thus finish. If waiting fails, the cancellation is requested before the error is raised, so that no further
    tool starts and sub-agents end.
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
