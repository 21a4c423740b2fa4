"""The answer of a step that is not over, kept beside the log as far as it is there: a killed process loses a second of it.

Apart from the log, in which an answer stands when it was stopped, or is whole and its calls have their results. Trials have
none: a grid runs a broken trial again.
"""

import time
from collections.abc import Callable

from harness.agent.heard import Heard
from harness.events import Entry, MessageQueued, MessageUnqueued, Signal, TextDelta, ToolStarted
from harness.messages import ToolCall
from harness.store import records

KEEP_SECONDS = 1.0
"""From one keeping to the next, at least."""


class Draft:
    """Hears all that a session tells. Not thread-safe: used in the session's thread."""

    def __init__(self, keep: Callable[[records.Draft], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was written yet.

        Args:
            keep: takes the answer so far.
            clock: seconds that never go back.
        """
        self._keep, self._clock = keep, clock
        self._answer, self._calls = Heard(), list[ToolCall]()
        self._kept = True
        self._next_seconds = clock()

    def hear(self, heard: Entry | Signal) -> None:
        """Take note of what the model wrote, of its calls that run, and of the end of the step."""
        match heard:
            case TextDelta():
                self._answer.add(heard)
                self._kept = False
            case ToolStarted():
                self._calls.append(heard.call)
                self._kept = False
            case Entry(event=MessageQueued() | MessageUnqueued()):
                pass
            case Entry():
                self._answer.forget()
                self._calls.clear()
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
        self._keep(records.Draft(step, self._answer.text, self._answer.reasoning, tuple(self._calls)))
        self._kept, self._next_seconds = True, now + KEEP_SECONDS
