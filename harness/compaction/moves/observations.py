"""Masking of all but the newest results of tools, by their number alone, with a stub that says how long they were.

Source: SWE-agent's history processor for the last n observations, and the mask of The Complexity Trap (arXiv 2508.21433).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.compaction.stages import replaced, with_output
from harness.messages import ToolResult
from harness.plan import Plan
from harness.tokens import Budget, Usage
from harness.view import Item, View

ELIDED = re.compile(r"Old environment output: \(\d+ lines omitted\)")
LONGEST = 60
"""Characters of a stub at most: what is longer need not be matched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """More results than are kept have come since the last masking. Looks at no more than the newest ones."""

    keep: int
    every: int

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        count = _overdue(view.items, self.keep, self.every, self.keep + self.every)
        return f"more than {self.keep} results, {self.every} at a time" if count else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elide:
    """All results but the newest become one line."""

    keep: int
    every: int

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        count = _overdue(view.items, self.keep, self.every, len(view.items))
        shown = [item for item in view.items if item.message.role == "tool" and not _is_elided(item)]
        old = shown[: max(0, count)]
        return Plan(reason=f"{reason}; {len(old)} old results", replace=tuple(replaced(item, _elided) for item in old))


def _overdue(items: Sequence[Item], keep: int, every: int, enough: int) -> int:
    """How many results are to be masked now, looking at the newest `enough` at most.

    The request counts as the first result, as it does in the source; it is never masked.
    """
    shown, masked = 0, False
    for item in reversed(items):
        if item.message.role != "tool":
            continue
        if masked := _is_elided(item):
            break
        shown += 1
        if shown >= enough:
            break
    if masked:
        return (shown - keep) // every * every
    return (shown + 1) // every * every - keep - 1


def _is_elided(item: Item) -> bool:
    for part in item.message.parts:  # a loop, since every result is looked at before every step
        if isinstance(part, ToolResult) and (len(part.output) > LONGEST or not ELIDED.fullmatch(part.output)):
            return False
    return True


def _elided(result: ToolResult) -> ToolResult:
    return with_output(result, f"Old environment output: ({len(result.output.splitlines())} lines omitted)")
