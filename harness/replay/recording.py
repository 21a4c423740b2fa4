"""Recorded session as a frozen value: its messages in legal order, the usage of each call, and the native compactions.

A native compaction is a compaction by the recorded agent. The messages are given as if no native compaction had taken place: a
summary that the agent received is stored in its `NativeCompaction` and left out of `messages`, unless the file no longer holds
the summarized messages (`in_place`). Everything that could not be read, was left out or was repaired has a caveat.
"""

from dataclasses import dataclass
from typing import Literal

from harness.messages import Message
from harness.tokens import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """Note about something that was dropped or repaired while a file was read."""

    place: str
    """Place in the file: a line of a JSONL file or a path inside a JSON object; empty for the file as a whole."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage:
    """Message with the data that the file has about it."""

    message: Message
    step: int | None
    """Number of the model call that wrote the message, or that made the tool call of a result, or that first read any other
    message; from 1, and 0 before the first call. None for a demonstration, which is no part of the session."""
    usage: Usage | None = None
    """Usage of the model call that wrote the message; None if unknown or if no model call wrote it."""
    cost_usd: float | None = None
    model: str = ""
    """Name of the model that wrote an assistant message; empty if not recorded."""
    place: str = ""
    """Place in the file where the message begins."""
    synthetic: bool = False
    """Whether the message was made up, because a call has no result in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCompaction:
    """Compaction by the recorded agent."""

    kind: Literal["compaction", "microcompaction"] = "compaction"
    """`compaction`: a summary replaced messages; `microcompaction`: old tool results were cleared."""
    position: int = 0
    """Number of messages before the compaction: it took place before `messages[position]`."""
    trigger: Literal["auto", "manual", "unknown"] = "unknown"
    tokens_before: int | None = None
    """Tokens before the compaction, as the recorded agent counted them; None if not recorded."""
    tokens_saved: int | None = None
    summary: str = ""
    """Text of the summary; empty for a microcompaction or if the file does not hold the summary."""
    in_place: bool = False
    """Whether the summary is one of `messages`, because the summarized messages are not in the file."""
    kept_from: int | None = None
    """Index of the first message that was retained: `messages[kept_from:position]` follow the summary; None if none were."""
    cleared: tuple[str, ...] = ()
    """Ids of the calls, as in `messages`, whose results were cleared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Recorded session."""

    source: str
    """Name of the format, a key of `harness.replay.formats.FORMATS`."""
    session_id: str
    """Id of the session; empty if not recorded."""
    models: tuple[str, ...]
    """Names of the models in order of their first answer; empty if not recorded."""
    messages: tuple[RecordedMessage, ...]
    """Messages in a legal order, except that the system message may be missing (see `harness.view.find_violation`)."""
    system_recorded: bool
    """Whether `messages` begins with the recorded system prompt."""
    compactions: tuple[NativeCompaction, ...] = ()
    cost_usd: float | None = None
    """Cost of the session in USD: the total in the file, or else the sum over the calls; None if not recorded."""
    caveats: tuple[Caveat, ...] = ()

    @property
    def steps(self) -> int:
        """Number of recorded model calls."""
        return max((recorded.step or 0 for recorded in self.messages if recorded.message.role == "assistant"), default=0)
