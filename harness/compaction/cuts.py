"""Cuts of a view (the messages that the model sees next): the places from which on messages stay unchanged.

A tail proposes where the retained end of a view begins, as the index of the first retained item. `Snap.find_legal_index` moves
that index to a place where no tool call loses its results. If the index lies within the retained head, nothing lies between head
and tail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from harness.compaction.triggers import ALL_KEPT, Amount
from harness.messages import Message
from harness.tokens import Budget, count_json_characters
from harness.view import Item, count_events

CutBoundary: TypeAlias = Literal["no-result", "user", "assistant", "user-or-assistant"]
"""Kinds of messages that a cut may leave as the first retained one, such as any message but a tool result.

A tool result must not be the first retained message, because its call would be evicted.
"""


class Tail(Protocol):
    """Rule that selects the messages retained at the end of a view; a pure function of its arguments."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index of the first item to retain at the end of the view.

        The caller moves this index to a place where no tool call loses its results.
        """
        ...

    def state_kept(self, budget: Budget) -> Amount | None:
        """Return the smallest amount of tokens or messages that the tail retains, or None if no number can be given."""
        ...


def count_messages_for_events(items: Sequence[Item], event_count: int) -> int:
    """Return the number of leading messages that together contain at least a given number of events."""
    index = events = 0
    while index < len(items) and events < event_count:
        events += count_events(items[index].message)
        index += 1
    return index


def find_fitting_start(sizes: Sequence[int], room: int) -> int:
    """Return the smallest index from which on all sizes together fit into the room; the length of the list if none fits."""
    index = len(sizes)
    while index and sizes[index - 1] <= room:
        index -= 1
        room -= sizes[index]
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessages:
    """Tail that retains a fixed number of messages at the end of the view."""

    count: int
    """Number of messages retained at the end of the view."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index of the first of the last `count` messages; 0 if there are fewer messages."""
        return max(0, len(items) - self.count)

    def state_kept(self, budget: Budget) -> Amount | None:
        """Return the number of messages at the end that this tail retains."""
        return Amount(self.count, "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTokens:
    """Tail that retains as many messages at the end of the view as hold a number of estimated tokens."""

    tokens: int
    """Number of estimated tokens to retain at the end of the view."""
    reaching: bool = True
    """Whether the tail is the shortest one with at least `tokens` tokens; otherwise it is the longest one with at most that
    number."""
    least_messages: int = 0
    """Minimum number of messages retained at the end of the view, however long they are."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index from which on the messages hold at least (`reaching`) or at most the configured number of tokens."""
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
        """Return the configured number of tokens as the amount that this tail retains."""
        return Amount(self.tokens, "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastShare:
    """Tail that retains a share of the messages in view, or of the characters of their JSON."""

    share: float
    """Share of the view to retain, above 0 and at most 1."""
    unit: Literal["messages", "characters"] = "messages"
    """Unit in which the retained share is measured, either messages or characters of their JSON."""
    excluded_messages: int = 0
    """Number of messages at the beginning of the view that are not counted when the share of messages is computed."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index from which on the configured share of the messages, or of their characters, is retained."""
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
        """Return `ALL_KEPT` for a share of 1; otherwise None, because a smaller share depends on the size of the view."""
        return ALL_KEPT if self.share >= 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snap:
    """Rule that moves a cut (the boundary between evicted and retained messages) to the nearest legal place."""

    direction: Literal["back", "forward"] = "back"
    """Direction in which the cut moves, back to earlier messages or forward to later ones."""
    legal: CutBoundary = "no-result"
    """Kinds of messages that may be the first retained one behind the cut."""

    def find_legal_index(self, items: Sequence[Item], index: int) -> int:
        """Return the nearest index at which the view may be cut.

        The index is 0 if there is no legal place before the cut, and the number of items if there is none behind it.
        """
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
"""Rule that moves a cut back to the nearest message that is not a tool result."""

_BOUNDARY_CHECKS: dict[CutBoundary, Callable[[Message], bool]] = {
    "no-result": lambda message: message.role != "tool",
    "user": lambda message: message.role == "user",
    "assistant": lambda message: message.role == "assistant",
    "user-or-assistant": lambda message: message.role in {"user", "assistant"},
}
