"""Where a view is cut: which messages at the end of it stay as they are.

A tail says where the kept end would begin; `snapped` moves that place to where a cut is legal. Places are indexes of the
first kept item; a place at or before the kept head means that nothing lies between head and tail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from harness.messages import Message
from harness.tokens import Budget, Counter, QuarterOfCharacters, count_json_characters
from harness.view import Item, count_events

DEFAULT_COUNTER = QuarterOfCharacters()

CutBoundary: TypeAlias = Literal["any", "no-result", "user", "assistant", "user-or-assistant"]
"""The first kept message: any at all; any but a tool result, which would lose its call; or one of certain roles."""


class Tail(Protocol):
    """What is kept at the end of a view. Pure."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Index of the first item that stays, before any boundary rule."""
        ...


def count_messages_for_events(items: Sequence[Item], event_count: int) -> int:
    """How many messages it takes to make so many events."""
    index = events = 0
    while index < len(items) and events < event_count:
        events += count_events(items[index].message)
        index += 1
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessages:
    """So many messages. Source: S0.5 (where its picture and its algorithm differ, the algorithm counts)."""

    count: int

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        return max(0, len(items) - self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvents:
    """As many messages as make no more than so many events; a number below 0 keeps all."""

    count: int
    share: float = 0.0
    """Of all events, added to the number, rounded down."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        sizes = [count_events(item.message) for item in items]
        room, index = int(self.share * sum(sizes)) + self.count, len(items)
        if room < 0:
            return 0
        while index and sizes[index - 1] <= room:
            index -= 1
            room -= sizes[index]
        return index


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBelowThreshold:
    """As many messages as hold, together with the first ones, less than a share of the threshold."""

    share: float
    head_events: int
    """Events at the beginning that count as the first ones; of a message that they do not hold whole, its first calls do."""
    counter: Counter = DEFAULT_COUNTER

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        head = count_messages_for_events(items, self.head_events)
        room = int((budget.threshold_tokens or 0) * self.share) - self._count_head_tokens(items[:head])
        index = len(items)
        while index > head and items[index - 1].tokens < room:
            index -= 1
            room -= items[index].tokens
        return index

    def _count_head_tokens(self, head: Sequence[Item]) -> int:
        """Of the first events."""
        tokens = sum(item.tokens for item in head)
        over = sum(count_events(item.message) for item in head) - self.head_events
        if over <= 0:
            return tokens
        *_, last = head
        gone = set(last.message.calls[len(last.message.calls) - over :])
        held = Message(role=last.message.role, parts=tuple(part for part in last.message.parts if part not in gone))
        return tokens - last.tokens + self.counter.count(held)


@dataclass(frozen=True, slots=True)
class ShortestTail:
    """Whichever of several tails keeps least."""

    tails: tuple[Tail, ...]

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        return max(tail.find_start(items, budget) for tail in self.tails)


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
        held = 0
        for index in range(len(items) - 1, -1, -1):
            if not self.reaching and held + items[index].tokens > self.tokens:
                return max(0, min(index + 1, len(items) - self.least_messages))
            held += items[index].tokens
            if self.reaching and held >= self.tokens:
                return index
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOfWindow:
    """As many messages as hold no more than a share of the window."""

    share: float
    least_messages: int = 1
    """Messages that stay whatever they hold."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        tokens = max(1, int(budget.window_tokens * self.share))
        return LastTokens(tokens=tokens, reaching=False, least_messages=self.least_messages).find_start(items, budget)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTurns:
    """So many turns: from a message of the user to the next one."""

    count: int

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        starts = [index for index, item in enumerate(items) if item.message.role == "user"]
        return starts[-self.count] if 0 < self.count <= len(starts) else 0


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
