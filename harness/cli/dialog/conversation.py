"""Carries a live session on from one line to the next, and closes it: at a terminal, or for one message of a pipe."""

import codecs
import os
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from select import select
from types import FrameType
from typing import TextIO

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.cli.dialog.slash_commands import Quit, Terminal, build_resume_command
from harness.errors import HarnessError
from harness.session.execution import SessionResult
from harness.session.live_session import LiveSession

CHUNK_BYTES = 65_536


def read_lines(terminal: TextIO) -> Iterator[str]:
    """One line after the other as it is typed, without its end, until the input ends.

    It looks again and again (see `MAIN_THREAD_WAIT_SECONDS`) instead of waiting in one long read.
    """
    descriptor = terminal.fileno()
    decoder = codecs.getincrementaldecoder(terminal.encoding)(errors="replace")
    rest = ""
    while True:
        if not select([descriptor], [], [], MAIN_THREAD_WAIT_SECONDS)[0]:
            continue
        chunk = os.read(descriptor, CHUNK_BYTES)
        *whole, rest = (rest + decoder.decode(chunk, final=not chunk)).split("\n")
        yield from whole
        if not chunk:
            if rest:
                yield rest
            return


BUSY_STATES = frozenset({"starting", "working", "compacting", "asking"})


def run_dialog(terminal: Terminal, lines: Iterable[str]) -> SessionResult:
    """Obey line after line until the input ends, somebody quits or the session breaks; then close it.

    At the end of the input the running turn and all that waits are worked off. Ctrl-C stops the turn, a second one the session.

    Raises:
        HarnessError: the session broke; the message says why and what to do.
    """
    live = terminal.live
    try:
        with stop_turn_on_interrupt(live):
            for line in lines:
                terminal.handle_line(line)
                if live.state == "failed":
                    break
            else:
                live.wait()
    except (Quit, KeyboardInterrupt):
        live.stop()
    return close_session(live)


def close_session(live: LiveSession) -> SessionResult:
    """Close a session. Raises HarnessError if it broke: what was logged is kept, and the message says how to go on with it."""
    ended = live.close()
    if live.failure:
        resume_command = shlex.join(build_resume_command(live.spec, live.session_id)) if live.entries else ""
        raise HarnessError(
            f"session {live.session_id!r} broke off: {live.failure}{resume_command and f'; to go on: {resume_command}'}"
        )
    return ended


@contextmanager
def stop_turn_on_interrupt(live: LiveSession) -> Iterator[None]:
    """The first Ctrl-C stops a running turn; one that finds nothing to stop, and SIGTERM, is a KeyboardInterrupt."""

    def handle_signal(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM or live.is_stopping or live.state not in BUSY_STATES:
            raise KeyboardInterrupt
        live.stop()

    with install_signal_handler(handle_signal):
        yield


@contextmanager
def install_signal_handler(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a function called on Ctrl-C and SIGTERM."""
    previous_handlers = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
