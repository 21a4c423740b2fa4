"""What is counted in turns of an agent, a call and what it observed: masking old observations, and summing up old turns.

Source: SWE-agent's history processor for the last n observations, and both of The Complexity Trap (arXiv 2508.21433).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.compaction.moves.around import said_by_user
from harness.compaction.stages import replaced, with_output
from harness.messages import ToolResult
from harness.plan import Plan, Slot, SummaryFormat
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsSinceSummary:
    """So many turns stand behind the newest summary, or in view if there is none. Looks back no further than that."""

    count: int

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        newest, turns = view.summaries[-1] if view.summaries else None, 0
        for item in reversed(view.items):
            if item.item_id == newest:
                return None
            turns += bool(item.message.calls)
            if turns >= self.count:
                return f"{self.count} turns without a summary"
        return None


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
