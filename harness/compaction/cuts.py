"""Where a view is cut: which messages at the end of it stay as they are.

A tail says where the kept end would begin; `find_legal_index` moves that place to where a cut is legal. Places are indexes of the
first kept item; a place at or before the kept head means that nothing lies between head and tail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from harness.compaction.triggers import ALL_KEPT, Amount
from harness.messages import Message
from harness.tokens import Budget, count_json_characters
from harness.view import Item, count_events

CutBoundary: TypeAlias = Literal["any", "no-result", "user", "assistant", "user-or-assistant"]
"""The first kept message: any at all; any but a tool result, which would lose its call; or one of certain roles."""


class Tail(Protocol):
    """What is kept at the end of a view. Pure."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Index of the first item that stays, before any boundary rule."""
        ...

    def state_kept(self, budget: Budget) -> Amount | None:
        """State the minimum that stays; None = no number can be stated."""
        ...


def count_messages_for_events(items: Sequence[Item], event_count: int) -> int:
    """How many messages it takes to make so many events."""
    index = events = 0
    while index < len(items) and events < event_count:
        events += count_events(items[index].message)
        index += 1
    return index


def find_fitting_start(sizes: Sequence[int], room: int) -> int:
    """Return the index from which on all sizes together fit the room; the number of sizes if not even the last one fits."""
    index = len(sizes)
    while index and sizes[index - 1] <= room:
        index -= 1
        room -= sizes[index]
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessages:
    """So many messages. Source: S0.5 (where its picture and its algorithm differ, the algorithm counts)."""

    count: int

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        return max(0, len(items) - self.count)

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return Amount(self.count, "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTokens:
    """Messages of so many estimated tokens."""

    tokens: int
    reaching: bool = True
    """True: as few messages as hold at least so many tokens (S2.2). False: as many as hold no more."""
    least_messages: int = 0
    """Messages that stay whatever they hold."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        if not self.reaching:
            fitting = find_fitting_start([item.tokens for item in items], self.tokens)
            return max(0, min(fitting, len(items) - self.least_messages))
        held = 0
        for index in range(len(items) - 1, -1, -1):
            held += items[index].tokens
            if held >= self.tokens:
                return index
        return 0

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return Amount(self.tokens, "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastShare:
    """The last share of the messages, or of the characters of their JSON."""

    share: float
    unit: Literal["messages", "characters"] = "messages"
    excluded_messages: int = 0
    """Messages at the beginning of which no share is taken; of messages only."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        if self.unit == "messages":
            beside = min(self.excluded_messages, len(items))
            return beside + int((len(items) - beside) * (1 - self.share))
        sizes = [count_json_characters(item.message) for item in items]
        before, gone = (1 - self.share) * sum(sizes), 0
        for index, size in enumerate(sizes):
            if gone >= before:
                return index
            gone += size
        return len(items)

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return ALL_KEPT if self.share >= 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snap:
    """Moves a place to the nearest legal one in a direction."""

    direction: Literal["back", "forward"] = "back"
    legal: CutBoundary = "no-result"

    def find_legal_index(self, items: Sequence[Item], index: int) -> int:
        """The place: 0 when there is none behind, the number of items when there is none ahead."""
        allowed, end = _BOUNDARY_CHECKS[self.legal], len(items)
        index = min(max(index, 0), end)
        if self.direction == "back":
            while 0 < index < end and not allowed(items[index].message):
                index -= 1
            return index
        while index < end and not allowed(items[index].message):
            index += 1
        return index


SNAP_BACK = Snap()
"""To the nearest message that is no tool result."""

_BOUNDARY_CHECKS: dict[CutBoundary, Callable[[Message], bool]] = {
    "any": lambda _: True,
    "no-result": lambda message: message.role != "tool",
    "user": lambda message: message.role == "user",
    "assistant": lambda message: message.role == "assistant",
    "user-or-assistant": lambda message: message.role in {"user", "assistant"},
}
