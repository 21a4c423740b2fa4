"""Repeated dead ends: what failed before a compaction and is tried again after it.

Two forms are seen. A call that failed is made again and fails alike, nothing having been written in between. Or a text that
was in place when something failed, and was then written over, is written again. Source: RESEARCH 2.4.
"""

from dataclasses import dataclass

from harness.experiment.behaviour.calls import Act, Signature
from harness.experiment.behaviour.writes import Writes


@dataclass(slots=True)
class _Placed:
    """A text that stands in a file."""

    signature: Signature
    blamed: bool = False
    """Something failed while it was in place."""


class DeadEnds:
    """Hears calls in order and counts."""

    def __init__(self) -> None:
        self.repeated = 0
        self._failures: dict[tuple[Signature, str], tuple[int, int]] = {}
        self._placed: dict[str, _Placed] = {}
        self._given_up: dict[Signature, int] = {}

    def add_act(self, number: int, act: Act, writes: Writes, rounds: int) -> None:
        """Take note of a call.

        Args:
            number: of the call.
            act: the call.
            writes: all calls before this one.
            rounds: compactions applied so far.
        """
        if not act.well:
            self._add_failure(number, act, writes, rounds)
        elif act.deed == "write":
            self._add_write(act, rounds)

    def _add_failure(self, number: int, act: Act, writes: Writes, rounds: int) -> None:
        key = act.signature, act.observation
        earlier, rounds_then = self._failures.get(key, (number, rounds))
        self.repeated += rounds_then < rounds and writes.last_write() < earlier
        self._failures[key] = number, rounds
        for placed in self._placed.values():
            placed.blamed = True

    def _add_write(self, act: Act, rounds: int) -> None:
        before = self._placed.get(act.target)
        if before is not None and before.signature == act.signature:
            return
        if before is not None and before.blamed:
            self._given_up.setdefault(before.signature, rounds)
        self.repeated += self._given_up.get(act.signature, rounds) < rounds
        self._placed[act.target] = _Placed(act.signature)
