"""What is counted in turns of an agent, a call and what it observed: masking old observations, and summing up old turns.

Source: SWE-agent's history processor for the last n observations, and both of The Complexity Trap (arXiv 2508.21433).
"""

import re
from dataclasses import dataclass

from harness.compaction.moves.around import said_by_user
from harness.compaction.stages import replaced, with_output
from harness.events import ItemId
from harness.messages import ToolResult
from harness.plan import Plan, Slot, SummaryFormat
from harness.tokens import Budget, Usage
from harness.view import Item, View

ELIDED = re.compile(r"Old environment output: \(\d+ lines omitted\)")
LONGEST = 60
"""Characters of a stub at most: what is longer need not be matched."""


class _Shown:
    """The tally of results: those that have come since the newest masked one. See `harness.growth`."""

    __slots__ = ("items", "masked")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.masked = False
        """Whether there is such a one."""

    def add(self, item: Item) -> None:
        """See `harness.growth.Tally`."""
        if item.message.role != "tool":
            return
        if _is_elided(item):
            self.items.clear()
            self.masked = True
        else:
            self.items.append(item)

    def overdue(self, keep: int, every: int) -> int:
        """How many results are to be masked now.

        The request counts as the first result, as it does in the source; it is never masked.
        """
        shown = len(self.items)
        return (shown - keep) // every * every if self.masked else (shown + 1) // every * every - keep - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """More results than are kept have come since the last masking."""

    keep: int
    every: int

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        count = view.growth.read(view.items, _Shown, _Shown, lambda shown: shown.overdue(self.keep, self.every))
        return f"more than {self.keep} results, {self.every} at a time" if count > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elide:
    """All results but the newest become one line."""

    keep: int
    every: int

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        count = view.growth.read(view.items, _Shown, _Shown, lambda shown: shown.overdue(self.keep, self.every))
        shown = [item for item in view.items if item.message.role == "tool" and not _is_elided(item)] if count > 0 else []
        old = shown[: max(0, count)]
        return Plan(reason=f"{reason}; {len(old)} old results", replace=tuple(replaced(item, _elided) for item in old))


def _is_elided(item: Item) -> bool:
    for part in item.message.parts:  # a loop, since every result is looked at before every step
        if isinstance(part, ToolResult) and (len(part.output) > LONGEST or not ELIDED.fullmatch(part.output)):
            return False
    return True


def _elided(result: ToolResult) -> ToolResult:
    return with_output(result, f"Old environment output: ({len(result.output.splitlines())} lines omitted)")


class _Turns:
    """The tally of turns behind the newest summary. See `harness.growth`."""

    __slots__ = ("_newest", "count")

    def __init__(self, newest: ItemId | None) -> None:
        self._newest = newest
        self.count = 0

    def add(self, item: Item) -> None:
        """See `harness.growth.Tally`."""
        self.count = 0 if item.item_id == self._newest else self.count + bool(item.message.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsSinceSummary:
    """So many turns stand behind the newest summary, or in view if there is none."""

    count: int

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        newest = view.summaries[-1] if view.summaries else None
        turns = view.growth.read(view.items, _Turns, lambda: _Turns(newest), lambda tally: tally.count)
        return f"{self.count} turns without a summary" if turns >= self.count else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeTurns:
    """The oldest turns, with all that was said between them, become a checkpoint behind the request and former checkpoints.

    The newest of these is told apart.
    """

    turns: int
    latest_only: bool
    """Whether former checkpoints go."""
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        items, former = view.items, set(view.summaries)
        first = 1 + (len(items) > 1 and said_by_user(view, 1))
        starts = [index for index, item in enumerate(items) if item.message.calls]
        end = starts[self.turns] if len(starts) > self.turns else len(items)
        old = [item.item_id for item in items[first:end] if item.item_id not in former]
        if not old:
            return Plan(reason=f"{reason}, but there is none before the kept ones")
        stays = [item for item in view.summaries[-1:] if not self.latest_only]
        slot = Slot(
            after=stays[0] if stays else items[first - 1].item_id,
            role="assistant",
            stands_for=(*view.summaries[-1:], *old),
            format=self.format,
            max_tokens=self.max_tokens,
        )
        return Plan(reason=reason, forget=(*(view.summaries if self.latest_only else ()), *old), slots=(slot,))
