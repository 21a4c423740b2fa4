"""Temporary handlers for signals that a process receives, such as Ctrl-C."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def install_signal_handler(
    on_signal: Callable[[int, FrameType | None], None], signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Call a function when the process receives Ctrl-C, SIGTERM or other given signals, while the `with` block runs.

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
