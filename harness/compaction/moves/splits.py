"""Keeping the newest tokens wherever they begin; a turn that begins before them is summed up in two parts."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.compaction.cuts import LastTokens, Snap
from harness.compaction.moves.around import said_by_user
from harness.plan import Excerpt, Plan, Slot, SummaryFormat
from harness.tokens import Budget
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTurn:
    """What lies before the newest tokens becomes one message of the user; the cut is at the next message that is no result.

    Where it is in the middle of a turn, the history before that turn and the beginning of the turn are summed up apart and
    joined. Where a turn has no history but a former summary, its beginning is merged into that.
    """

    keep_tokens: int
    history: SummaryFormat
    beginning: SummaryFormat
    """Of the beginning of a turn, behind its history."""
    beginning_alone: SummaryFormat
    """Of the beginning of a turn that has no history."""
    max_tokens: int
    """Output limit for the history."""
    beginning_max_tokens: int
    excerpt: Excerpt
    forgets_kept: bool = False
    """Whether what a former compaction kept goes at the next one without being told: a defect of old versions."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        floor = self._floor(view)
        start = floor + LastTokens(tokens=self.keep_tokens).start(view.items[floor:], budget)
        cut = Snap(direction="forward").snapped(view.items, start)
        if start <= floor or cut == len(view.items):
            return Plan(reason=f"{reason}, but nothing lies before the kept {self.keep_tokens} tokens")
        turn = self._turn(view, floor, cut)
        former = tuple(item for item in view.items[1:cut] if item.item_id in view.summaries)
        before = tuple(item for item in view.items[floor:turn] if item not in former)
        slots = self._slots(view, former, before, view.items[turn:cut])
        gone = tuple(item.item_id for item in view.items[1:cut])
        return Plan(reason=f"{reason}{'; a turn is split' if turn < cut else ''}", forget=gone, slots=slots)

    def _floor(self, view: View) -> int:
        """Index of the first item that can be told."""
        if not self.forgets_kept or not view.summaries:
            return 1
        newest = max(view.summaries)
        return next((index for index, item in enumerate(view.items) if index and item.item_id > newest), len(view.items))

    def _turn(self, view: View, floor: int, cut: int) -> int:
        """Index at which the turn begins that the cut splits; the cut itself if it splits none."""
        if cut >= len(view.items) or said_by_user(view, cut):
            return cut
        return next((index for index in range(cut - 1, floor - 1, -1) if said_by_user(view, index)), cut)

    def _slots(self, view: View, former: Sequence[Item], before: Sequence[Item], within: Sequence[Item]) -> tuple[Slot, ...]:
        if not within:
            return (self._slot(view, (*former, *before), self.history),)
        if before:
            return (
                self._slot(view, (*former, *before), self.history),
                self._slot(view, within, self.beginning, continues=True),
            )
        if former:
            return (self._slot(view, (*former, *within), self.history),)
        return (self._slot(view, within, self.beginning_alone),)

    def _slot(self, view: View, told: Sequence[Item], form: SummaryFormat, *, continues: bool = False) -> Slot:
        return Slot(
            after=view.items[0].item_id,
            role="user",
            stands_for=tuple(item.item_id for item in told),
            format=form,
            max_tokens=self.max_tokens if form is self.history else self.beginning_max_tokens,
            continues=continues,
            excerpt=self.excerpt,
        )
