"""Rules that choose how many of the newest messages the model still sees after a compaction.

A tail is a rule that proposes where the retained end of the conversation begins, as the index of its first message.
`Snap.find_legal_index` moves that index to a place where no tool call loses its results. If the index then lies within the
retained beginning of the conversation, there is nothing to evict.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from harness.compaction.triggers import ALL_KEPT, Amount
from harness.conversation.messages import Message
from harness.conversation.tokens import Budget, count_json_characters
from harness.conversation.view import Item, count_events

CutBoundary: TypeAlias = Literal["no-result", "user", "assistant", "user-or-assistant"]
"""Kind of message that may directly follow evicted messages.

`no-result` allows any message but a tool result, whose call would be evicted. The other values allow only the named kind.
"""


class Tail(Protocol):
    """Rule that selects the newest messages of a conversation, which stay when older ones are evicted."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index of the oldest message that belongs to the retained end of the conversation.

        The caller moves this index to a place where no tool call loses its results.
        """
        ...

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the minimum number of tokens or messages retained at the end of the conversation; None if unknown."""
        ...


def count_messages_for_events(items: Sequence[Item], event_count: int) -> int:
    """Return how many of the first messages together have at least a given number of events.

    Each message, tool call and tool result is one event.
    """
    index = events = 0
    while index < len(items) and events < event_count:
        events += count_events(items[index].message)
        index += 1
    return index


def find_fitting_start(sizes: Sequence[int], room: int) -> int:
    """Return the smallest index from which on the sizes add up to at most `room`.

    If not even the last size fits, the index is the length of the list.
    """
    index = len(sizes)
    while index and sizes[index - 1] <= room:
        index -= 1
        room -= sizes[index]
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessages:
    """Rule that retains a fixed number of messages at the end of the conversation."""

    count: int
    """Number of messages retained at the end of the conversation."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index of the first of the last `count` messages; 0 if there are fewer messages."""
        return max(0, len(items) - self.count)

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the number of messages that are retained at the end of the conversation."""
        return Amount(self.count, "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTokens:
    """Rule that retains the newest messages that together have about a given number of estimated tokens."""

    tokens: int
    """Number of estimated tokens to retain at the end of the conversation."""
    reaching: bool = True
    """Whether `tokens` is a minimum, reached with as few messages as possible; if false, `tokens` is a maximum."""
    least_messages: int = 0
    """Minimum number of messages retained at the end if `reaching` is false, however long the messages are."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index of the first retained message.

        From there on, the messages hold at least the configured number of tokens, or at most that number if `reaching` is false.
        """
        if not self.reaching:
            fitting = find_fitting_start([item.tokens for item in items], self.tokens)
            return max(0, min(fitting, len(items) - self.least_messages))
        kept_tokens = 0
        for index in range(len(items) - 1, -1, -1):
            kept_tokens += items[index].tokens
            if kept_tokens >= self.tokens:
                return index
        return 0

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the configured number of tokens to retain at the end of the conversation."""
        return Amount(self.tokens, "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastShare:
    """Rule that retains the last messages that make up a share of all messages, or of their characters as JSON."""

    share: float
    """Share of the messages, or of their characters, to retain at the end of the conversation; above 0 and at most 1."""
    unit: Literal["messages", "characters"] = "messages"
    """Unit in which the retained share is measured, either messages or characters of their JSON."""
    excluded_messages: int = 0
    """Number of messages at the beginning of the conversation that do not count when the share of messages is computed."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index of the first retained message, given the configured share of messages or characters."""
        if self.unit == "messages":
            beside = min(self.excluded_messages, len(items))
            return beside + int((len(items) - beside) * (1 - self.share))
        sizes = [count_json_characters(item.message) for item in items]
        before, removed_size = (1 - self.share) * sum(sizes), 0
        for index, size in enumerate(sizes):
            if removed_size >= before:
                return index
            removed_size += size
        return len(items)

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return `ALL_KEPT` (everything stays) if the share is 1; otherwise None, as a share is no fixed number."""
        return ALL_KEPT if self.share >= 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snap:
    """Rule that moves the boundary between evicted and retained messages, so that no tool call loses its results."""

    direction: Literal["back", "forward"] = "back"
    """Direction in which the end of the evicted messages is moved: back to an earlier message, or forward to a later one."""
    legal: CutBoundary = "no-result"
    """Kind of message that may directly follow the evicted messages, such as any message but a tool result (`no-result`)."""

    def find_legal_index(self, items: Sequence[Item], index: int) -> int:
        """Return the nearest index at which no tool call would be separated from its results.

        If there is no such place, return 0 when moving back, and the number of messages when moving forward.
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
"""Rule that retains a few more messages if needed, so that the first retained message is not a tool result."""

_BOUNDARY_CHECKS: dict[CutBoundary, Callable[[Message], bool]] = {
    "no-result": lambda message: message.role != "tool",
    "user": lambda message: message.role == "user",
    "assistant": lambda message: message.role == "assistant",
    "user-or-assistant": lambda message: message.role in {"user", "assistant"},
}
