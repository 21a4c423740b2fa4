"""The answer that is still coming, kept beside the log as far as it is there, so that a killed process loses a second of it.

Apart from the log, in which an answer stands when it is whole or was stopped. Trials have none: a grid runs a broken trial again.
"""

import time
from collections.abc import Callable

from harness.events import Entry, MessageQueued, MessageUnqueued, Signal, TextDelta

KEEP_SECONDS = 1.0
"""From one keeping to the next, at least."""


class Draft:
    """Hears all that a session tells. Not thread-safe: used in the session's thread."""

    def __init__(self, keep: Callable[[int, str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was written yet.

        Args:
            keep: takes the number of a step, and the text of its answer so far.
            clock: seconds that never go back.
        """
        self._keep, self._clock = keep, clock
        self._texts: list[str] = []
        self._kept = True
        self._next_seconds = clock()

    def hear(self, heard: Entry | Signal) -> None:
        """Take note of what the model wrote, and of the end of its answer."""
        match heard:
            case TextDelta(part="text"):
                if heard.anew:
                    self._texts.clear()
                self._texts.append(heard.text)
                self._kept = False
            case Entry(event=MessageQueued() | MessageUnqueued()):
                pass
            case Entry():
                self._texts.clear()
                self._kept = True
            case _:
                pass

    def keep(self, step: int) -> None:
        """Keep what is new, unless something was kept just now.

        Raises:
            StoreError: it was not kept.
        """
        now = self._clock()
        if self._kept or now < self._next_seconds:
            return
        self._texts = ["".join(self._texts)]
        self._keep(step, self._texts[0])
        self._kept, self._next_seconds = True, now + KEEP_SECONDS
