"""What is typed at a terminal, line by line, without ever being deaf to Ctrl-C."""

import codecs
import os
from collections.abc import Iterator
from select import select
from typing import TextIO

from harness.agent.cancellation import ATTENTIVE_SECONDS

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
