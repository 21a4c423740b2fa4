"""Keeping recent tokens by turns, and summing up a turn that is too long in two parts (S2.2, S2.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.compaction.cuts import LastTokens, Snap
from harness.plan import Plan, Slot, SummaryFormat
from harness.tokens import Budget
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeTurns:
    """What lies before the newest tokens becomes one user message behind the system message.

    The cut stands at a message of the user; where the newest turn alone holds more than the kept tokens, at an answer within
    it. Then the history before that turn and the beginning of the turn are summarized apart, and their texts joined.
    """

    keep_tokens: int
    """Estimated tokens that stay at least."""
    history: SummaryFormat
    beginning: SummaryFormat
    max_tokens: int
    """Output limit of each of the two summaries."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        start = LastTokens(tokens=self.keep_tokens).start(view.items, budget)
        turn = _newest_turn(view)
        split = turn < start
        cut = Snap(legal="assistant" if split else "user").snapped(view.items, start)
        if cut <= 1 or (split and cut <= turn):
            return Plan(reason=f"{reason}, but nothing lies before the kept {self.keep_tokens} tokens")
        before, within = view.items[1 : turn if split else cut], view.items[turn:cut] if split else ()
        slots = [self._slot(view, before, self.history)] if before else []
        if within:
            alone = self.beginning if any(item.item_id not in view.summaries for item in before) else self.history
            if alone is self.history:
                slots = [self._slot(view, (*before, *within), self.history)]
            else:
                slots.append(self._slot(view, within, alone, continues=True))
        gone = tuple(item.item_id for item in view.items[1:cut])
        return Plan(reason=f"{reason}{'; the newest turn is split' if within else ''}", forget=gone, slots=tuple(slots))

    def _slot(self, view: View, told: Sequence[Item], form: SummaryFormat, *, continues: bool = False) -> Slot:
        return Slot(
            after=view.items[0].item_id,
            role="user",
            stands_for=tuple(item.item_id for item in told),
            format=form,
            max_tokens=self.max_tokens,
            continues=continues,
        )


def _newest_turn(view: View) -> int:
    """Index of the message of the user with which the newest turn begins; behind the summaries if that is out of view."""
    spoken = (
        index
        for index in range(len(view.items) - 1, 0, -1)
        if view.items[index].message.role == "user" and view.items[index].item_id not in view.summaries
    )
    return next(spoken, 1 + len(view.summaries))
