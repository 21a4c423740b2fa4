"""Settings of this process: handlers of signals such as Ctrl-C, its end, and the search for garbage.

The package creates many objects and hardly any cyclic garbage. With Python's default, which looks for garbage after 700 new
objects, the search takes up to a tenth of the time of imports and a twentieth of the CPU time of trials.
"""

import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

GARBAGE_THRESHOLD = 50_000
"""Number of new objects after which a process of this package looks for garbage."""


def reduce_garbage_collection() -> None:
    """Let this process look for garbage only after many new objects."""
    gc.set_threshold(GARBAGE_THRESHOLD)


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Let this process not look for garbage while the context is open."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def install_signal_handler(
    on_signal: Callable[[int, FrameType | None], None], signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Call a function when this process receives Ctrl-C or another signal, while the `with` block runs.

    Has no effect outside the main thread, because only the main thread receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handlers = {number: signal.signal(number, on_signal) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def end_if_imported_by_worker() -> None:
    """End this process without a word if it is a worker that imports the main program, which called this at its top level.

    `multiprocessing` lets each new worker import the main program. A script that starts workers without
    `if __name__ == "__main__":` would start them in its workers, too, which `multiprocessing` refuses with a long traceback in
    each of them. The parent process finds that no worker starts, and says what to do.
    """
    # `multiprocessing` itself looks at this attribute, and has no public one for it
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


def end_with_parent() -> None:
    """Make this process receive SIGTERM as soon as its parent process has ended or was killed.

    Meant as the initializer of a process pool. Has no effect in a process that `multiprocessing` has not started.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_wait_for_end, args=(parent.sentinel,), name="harness-follows", daemon=True).start()


def _wait_for_end(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
