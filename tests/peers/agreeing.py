"""Comparison of a preset with an original on many conversations, with a count of the conversations that were informative."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_DIFFERENT = 0.08
"""Maximum share of the generated conversations to which the documented differences of a preset may apply."""


@dataclass(slots=True)
class Tally:
    """Results of the conversations of one test."""

    differences: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    """Predicates on the input that state where a difference is expected, by its cause."""
    seen: Counter[str] = field(default_factory=Counter)

    def compare(self, case: Any, ours: list[Any], theirs: list[Any]) -> None:
        """Check that preset and original agree, except for a documented difference."""
        self.seen["asked"] += 1
        self.seen["acted"] += bool(theirs)
        self.seen["acted more than once"] += len(theirs) > 1
        expected = [cause for cause, holds in self.differences.items() if holds(case)]
        self.seen["excused"] += bool(expected)
        if expected and ours != theirs:
            self.seen["different"] += 1
            return
        assert ours == theirs, explained(ours, theirs)

    def check(self, acted: float = 0.3) -> None:
        """Check that enough conversations made the original act and that few were excused."""
        assert self.seen["acted"] >= acted * self.seen["asked"], f"the conversations prove little: {self.seen}"
        assert self.seen["acted more than once"] > 0, f"no conversation shows a second round: {self.seen}"
        assert self.seen["excused"] < MOST_DIFFERENT * self.seen["asked"], f"too many are excused: {self.seen}"


def explained(ours: list[Any], theirs: list[Any]) -> str:
    """Return the first model call at which the two differ."""
    at = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
    return f"act {at} of ours {ours[at : at + 1]} and of the original's {theirs[at : at + 1]}"
