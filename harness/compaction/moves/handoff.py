"""A hand-over to an agent that starts anew: the user's own messages stay, all else is told in one summary behind them."""

from dataclasses import dataclass, replace

from harness.compaction.moves.around import answered, said_by_user
from harness.events import Replace
from harness.messages import Text
from harness.plan import Plan, Slot, SummaryFormat
from harness.tokens import Budget, Counter
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """The newest messages of the user stay up to a number of tokens, the one that crosses it is cut in its middle.

    The summarizer is told everything, also what stays. What the user has said since the last answer is neither told nor counted.
    """

    most_tokens: int
    """Of the user's messages; a cap, so a policy that hands over always finds something."""
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""
    counter: Counter
    """Of the policy: the share of a message that stays is measured by it."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        end = answered(view)
        kept, change = self._kept(view, end)
        told = view.items[1:end]
        gone = tuple(item.item_id for item in told if item not in kept)
        if not gone:
            return Plan(reason=f"{reason}, but nothing was said but by the user")
        slot = Slot(
            after=max([view.items[0], *kept]).item_id,
            role="user",
            stands_for=tuple(item.item_id for item in told),
            format=self.format,
            max_tokens=self.max_tokens,
            former="among",
        )
        return Plan(reason=reason, forget=gone, replace=change, slots=(slot,))

    def _kept(self, view: View, end: int) -> tuple[list[Item], tuple[Replace, ...]]:
        kept: list[Item] = []
        room = self.most_tokens
        for index in range(end - 1, 0, -1):
            if not said_by_user(view, index):
                continue
            item = view.items[index]
            if room <= 0:
                break
            kept.append(item)
            if item.tokens > room:
                return kept, (self._cut(item, room),)
            room -= item.tokens
        return kept, ()

    def _cut(self, item: Item, room: int) -> Replace:
        """The message without so much of its middle that it fits."""
        text, low, high = item.message.text, 0, len(item.message.text) // 2
        while low < high:
            half = (low + high + 1) // 2
            if self.counter.count(replace(item.message, parts=(Text(text=without_middle(text, half)),))) <= room:
                low = half
            else:
                high = half - 1
        return Replace(item=item.item_id, message=replace(item.message, parts=(Text(text=without_middle(text, low)),)))


def without_middle(text: str, half: int) -> str:
    """The first and the last characters of a text, and how many are left out between them."""
    return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[len(text) - half :]}"
