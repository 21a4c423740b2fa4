"""Signals handled for a while: Ctrl-C, SIGTERM."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def install_signal_handler(
    on_signal: Callable[[int, FrameType | None], None], signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Have a function called on signals, by default Ctrl-C and SIGTERM, while open; only in the main thread, which gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handlers = {number: signal.signal(number, on_signal) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
