"""Repeated dead ends: what failed before a compaction and is tried again after it.

Two forms are seen. A call that failed is made again and fails alike, whatever numbers it prints, and nothing changed of what
it rests on. Or a text that was in place when something failed, and was then written over, is written again.

A call may rest on the whole workspace: tests that are run again after a change are no dead end, however they fail. Only of a
call that names a text which the agent wrote (a patch, a script) that text and the other paths that it names are the attempt;
that the agent meanwhile wrote a note or tried another patch is no change of it. Where an edit elsewhere leaves such a call
failing alike, it is counted all the same. What is written once more as it was is no change, and what a failed call changed is
not assumed. Source: RESEARCH 2.4.
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
        self._changes = Writes()
        self._placed: dict[str, _Placed] = {}
        self._given_up: dict[Signature, int] = {}

    def add_act(self, number: int, act: Act, rounds: int) -> None:
        """Take note of a call.

        Args:
            number: of the call.
            act: the call.
            rounds: compactions applied so far.
        """
        if not act.well:
            self._add_failure(number, act, rounds)
        elif act.deed != "write" or self._add_write(act, rounds):
            self._changes.add(number, act)

    def _add_failure(self, number: int, act: Act, rounds: int) -> None:
        key = act.signature, act.failure
        earlier, rounds_then = self._failures.get(key, (number, rounds))
        self.repeated += rounds_then < rounds and self._last_change(act) < earlier
        self._failures[key] = number, rounds
        for placed in self._placed.values():
            placed.blamed = True

    def _last_change(self, act: Act) -> int:
        """Number of the last call that changed what a call rests on."""
        own = act.paths & self._placed.keys()
        return self._changes.last_named(act) if own else self._changes.last_touch(act)

    def _add_write(self, act: Act, rounds: int) -> bool:
        """Take note of a text that is written; whether it differs from what the agent wrote there last."""
        before = self._placed.get(act.target)
        if before is not None and before.signature == act.signature:
            return False
        if before is not None and before.blamed:
            self._given_up.setdefault(before.signature, rounds)
        self.repeated += self._given_up.get(act.signature, rounds) < rounds
        self._placed[act.target] = _Placed(act.signature)
        return True
