"""Values that compaction of message lists returns: the result of a call, and the state for the next one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.conversation.events import Compaction, Entry, ItemId
from harness.conversation.shapes.shape import Piece, Raw, Shape
from harness.conversation.tokens import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactState:
    """Record of the former calls of `compact` on a list of messages, which the next call takes.

    `CompactState()` stands for a conversation that nothing was done to. A state can be pickled.
    """

    entries: tuple[Entry, ...] = field(default=(), repr=False)
    """Log of the calls so far."""
    pieces: Mapping[ItemId, Piece] = field(default_factory=dict, repr=False)
    """Raw messages of each message that the model sees."""
    seen: tuple[tuple[Raw, ...], tuple[int, ...]] = field(default=((), ()), repr=False)
    """List of the last call, and the number of each raw message."""
    sent: tuple[tuple[Raw, ...], tuple[int, ...]] = field(default=((), ()), repr=False)
    """List that the last call returned, and the number of each raw message."""
    numbers: int = 0
    """Number of raw messages that were read so far."""
    shape: Shape | None = field(default=None, repr=False)
    """Shape of the list; None if it was not recognised yet, or nothing was read."""
    waiting: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Name of the tool of each call in the newest message that has no result yet, by call id."""
    usage: Usage | None = field(default=None, repr=False)
    """Usage reported for the newest answer; None if unknown or out of date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """Result of compacting a list of messages.

    Attributes:
        messages: Messages to send to the model, in the shape of the list that was given. Messages that did not change are the
            same objects. Required.
        status: `applied` if the list was compacted, `no-op` if a compaction would save nothing, `failed` if the summarizer
            failed, `started` if a summary was requested for later use, `not-due` if the policy saw no need. Required.
        reason: Reason of the policy, or why it saw no need. Required.
        tokens_before: Estimated number of tokens before, by the policy's token counter, without tool definitions. Required.
        tokens_after: Estimated number of tokens of `messages`, without tool definitions. Required.
        removed: Indexes of the given messages that are no longer in `messages`. Default: `()`.
        edited: Indexes of the given messages that are in `messages` in a changed form. Default: `()`.
        summary: Text of the summaries that were inserted; empty if there is none. Default: `''`.
        cost_usd: Cost of the summarizer in US dollars; None if its price is unknown. Default: `0.0`.
        notices: Warnings of the policy for the user. Default: `()`.
        events: Log events of the compactions that were attempted. Default: `()`.
        state: State for the next call of `compact`; None in a result of `Compactor`, which has it. Default: `None`.
    """

    messages: list[dict[str, Any]]
    status: Literal["applied", "no-op", "failed", "started", "not-due"]
    reason: str
    tokens_before: int
    tokens_after: int
    removed: tuple[int, ...] = ()
    edited: tuple[int, ...] = ()
    summary: str = ""
    cost_usd: float | None = 0.0
    notices: tuple[str, ...] = ()
    events: tuple[Compaction, ...] = ()
    state: CompactState | None = field(default=None, repr=False)
