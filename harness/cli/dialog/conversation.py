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

from harness.agent.cancellation import ATTENTIVE_SECONDS
from harness.cli.dialog.slash_commands import Quit, Terminal, resuming
from harness.errors import HarnessError
from harness.session.interactive import Ended
from harness.session.live import LiveSession

CHUNK_BYTES = 65_536


def lines(terminal: TextIO) -> Iterator[str]:
    """One line after the other as it is typed, without its end, until the input ends.

    It looks again and again (see `ATTENTIVE_SECONDS`) instead of waiting in one long read.
    """
    number = terminal.fileno()
    decoder = codecs.getincrementaldecoder(terminal.encoding)(errors="replace")
    rest = ""
    while True:
        if not select([number], [], [], ATTENTIVE_SECONDS)[0]:
            continue
        typed = os.read(number, CHUNK_BYTES)
        *whole, rest = (rest + decoder.decode(typed, final=not typed)).split("\n")
        yield from whole
        if not typed:
            if rest:
                yield rest
            return


BUSY = frozenset({"starting", "working", "compacting", "asking"})


def talk(at: Terminal, lines: Iterable[str]) -> Ended:
    """Obey line after line until the input ends, somebody quits or the session breaks; then close it.

    At the end of the input the running turn and all that waits are worked off. Ctrl-C stops the turn, a second one the session.

    Raises:
        HarnessError: the session broke; the message says why and what to do.
    """
    live = at.live
    try:
        with interrupting(live):
            for line in lines:
                at.obey(line)
                if live.state == "failed":
                    break
            else:
                live.wait()
    except (Quit, KeyboardInterrupt):
        live.stop()
    return closed(live)


def closed(live: LiveSession) -> Ended:
    """Close a session. Raises HarnessError if it broke: what was logged is kept, and the message says how to go on with it."""
    ended = live.close()
    if live.failure:
        again = shlex.join(resuming(live.session, live.session_id)) if live.entries else ""
        raise HarnessError(f"session {live.session_id!r} broke off: {live.failure}{again and f'; to go on: {again}'}")
    return ended


@contextmanager
def interrupting(live: LiveSession) -> Iterator[None]:
    """The first Ctrl-C stops a running turn; one that finds nothing to stop, and SIGTERM, is a KeyboardInterrupt."""

    def asked(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM or live.stopping or live.state not in BUSY:
            raise KeyboardInterrupt
        live.stop()

    with handling(asked):
        yield


@contextmanager
def handling(asked: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a function called on Ctrl-C and SIGTERM."""
    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
