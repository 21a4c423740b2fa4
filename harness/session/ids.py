"""Factories of ids that sort alphabetically by their time of creation: ULIDs in live sessions, plain numbers in trials."""

import itertools
import threading
import time
from typing import TYPE_CHECKING, Final

from ulid import ULID, ULIDGenerator

from harness.protocols import Clock, IdFactory

LARGEST_NUMBER: Final = 999_999
"""Largest number in an id of `SequentialIds`, which has six digits."""


class TimeOrderedIds:
    """Factory of unique ids that sort by time: ULIDs of 26 letters and digits.

    A ULID has 48 bits of time in milliseconds and 80 random bits. Ids made by one object are ordered even within a millisecond
    and after its clock was set back. Thread-safe.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        """Create a factory that reads the time in its ids from `clock`, in seconds since the epoch."""
        self._clock, self._last_ms, self._lock = clock, 0, threading.Lock()
        self._generator = ULIDGenerator(clock=self._read_clock_ms)

    def make_ascending(self) -> str:
        """Return a new id that sorts after all earlier ascending ids."""
        return str(self._generate()).lower()

    def make_descending(self) -> str:
        """Return a new id that sorts before all earlier descending ids."""
        inverted = bytes(255 - byte for byte in self._generate().bytes)
        return str(ULID(inverted)).lower()

    def _generate(self) -> ULID:
        with self._lock:
            return self._generator.generate()

    def _read_clock_ms(self) -> int:
        self._last_ms = max(self._last_ms, int(self._clock() * 1000))  # the clock of a machine may be set back
        return self._last_ms


class SequentialIds:
    """Factory of six-digit ids, which are the same in each run of a trial. Thread-safe.

    The ids are unique only within one session. Calls from several threads get their ids in the order in which they reach the
    factory.
    """

    def __init__(self) -> None:
        """Create a factory whose first ascending id is `000001`."""
        self._numbers, self._lock = itertools.count(1), threading.Lock()

    def make_ascending(self) -> str:
        """Return a new id that sorts after all earlier ascending ids."""
        return f"{self._take_number():06}"

    def make_descending(self) -> str:
        """Return a new id that sorts before all earlier descending ids."""
        return f"{LARGEST_NUMBER - self._take_number():06}"

    def _take_number(self) -> int:
        with self._lock:
            return next(self._numbers)


TIME_ORDERED_IDS: Final = TimeOrderedIds()
"""Factory of the ids of live sessions, shared by all sessions of the process so that their ids are ordered."""


if TYPE_CHECKING:
    _: tuple[type[IdFactory], ...] = (TimeOrderedIds, SequentialIds)
