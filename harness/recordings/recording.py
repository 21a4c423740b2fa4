"""Classes that describe a recorded session: its messages, the usage of each model call, and the compactions that took place.

A native compaction is one that the agent itself made during the recorded session. A recording has its messages as if no such
compaction had taken place: the summary is stored in a `NativeCompaction` and left out of `messages`, unless the file no longer
has the summarized messages (`in_place`). A note (`Caveat`) describes each part that could not be read, was left out or was
repaired.
"""

from dataclasses import dataclass
from typing import Literal

from harness.conversation.messages import Message
from harness.conversation.tokens import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """Note about something in a recorded session that was dropped or repaired while its file was read."""

    place: str
    """Place in the file to which the note refers, such as a line or a path inside a JSON object; empty for the whole file."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage:
    """Message of a recorded session, with its model call, the cost of that call and its place in the file."""

    message: Message
    step: int | None
    """Number of the model call to which the message belongs, from 1; 0 before the first call. An answer and its tool results
    belong to the call that wrote the answer, any other message to the first call that read it. None for a demonstration, which
    is no part of the session."""
    usage: Usage | None = None
    """Numbers of tokens used by the model call that wrote the message; None if unknown or if no model wrote it."""
    cost_usd: float | None = None
    model: str = ""
    """Name of the model that wrote the message; empty if not recorded or if no model wrote it."""
    place: str = ""
    """Place in the file where the message begins, such as `line 7`; empty if the message is not from the file."""
    synthetic: bool = False
    """Whether the importer made up the message, for example because a tool call has no result in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCompaction:
    """Compaction that took place in the original session.

    In contrast, other compactions are applied to the recording later by this package.
    """

    kind: Literal["compaction", "microcompaction"] = "compaction"
    """Kind of compaction. `compaction`: a summary replaced messages; `microcompaction`: old tool results were cleared."""
    position: int = 0
    """Number of messages in the recording that come before the compaction."""
    trigger: Literal["auto", "manual", "unknown"] = "unknown"
    tokens_before: int | None = None
    """Number of tokens in the context before the compaction, according to the file; None if the file does not contain it."""
    tokens_saved: int | None = None
    summary: str = ""
    """Text of the summary that the compaction wrote; empty if there was none or if the file does not hold it."""
    in_place: bool = False
    """Whether the summary is one of the recording's messages, because the file no longer holds the messages that it replaced."""
    kept_from: int | None = None
    """Index of the first message of the recording that the compaction kept in addition to its summary; None if it kept none."""
    cleared: tuple[str, ...] = ()
    """Ids of the tool calls whose results the compaction removed from the context; the recording's messages have the same ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Recorded session of an agent, as read from a file, with messages in an order that providers accept."""

    source: str
    """Name of the file format from which the session was read, a key of `harness.recordings.reading.FORMATS`."""
    session_id: str
    """Id of the session as given in the file; empty if not recorded."""
    models: tuple[str, ...]
    """Names of the models used in the session, in the order of their first answers; empty if not recorded."""
    messages: tuple[RecordedMessage, ...]
    """Messages of the session in an order that providers accept; only the system message may be missing."""
    system_recorded: bool
    """Whether the file holds the session's system prompt, which is then the first message."""
    compactions: tuple[NativeCompaction, ...] = ()
    cost_usd: float | None = None
    """Cost of the session in USD, which is the total in the file or else the sum over its model calls; None if not recorded."""
    caveats: tuple[Caveat, ...] = ()

    @property
    def steps(self) -> int:
        """Number of model calls in the recorded session."""
        return max((recorded.step or 0 for recorded in self.messages if recorded.message.role == "assistant"), default=0)
