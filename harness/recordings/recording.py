"""Classes that describe a recorded session: its messages, the usage of each model call, and the compactions that took place.

A native compaction is one that the agent itself made during the recorded session. A recording has its messages as if no such
compaction had taken place: the summary is stored in a `NativeCompaction` and left out of `messages`, unless the file no longer
has the summarized messages (`in_place`). A note (`Caveat`) describes each part that could not be read, was left out or was
repaired.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from harness.conversation.events import CostSource
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
    at_ms: int | None = None
    """Time at which the agent recorded the (end of the) message, in milliseconds since the epoch; None if not recorded."""
    request_key: str = ""
    """Text that identifies the model call in all files into which the agent copied it; empty if there is none."""
    copied: bool = False
    """Whether the message is a copy from another recording, to which its usage and cost belong."""
    hour_write_tokens: int = 0
    """Part of the cache writes in `usage` that the provider keeps for an hour, at a higher price than for five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutCall:
    """Model call that was paid for, but whose answer is none of the recording's messages."""

    reason: Literal["rewound", "rolled back", "compaction", "side call"]
    """Reason why the answer is no message: the user went back to before it, or the call was made outside the conversation."""
    place: str
    usage: Usage | None
    model: str = ""
    cost_usd: float | None = None
    at_ms: int | None = None
    request_key: str = ""
    hour_write_tokens: int = 0


class RecordedCost(NamedTuple):
    """Cost of a recorded session in USD, None if unknown, and its source."""

    cost_usd: float | None
    source: CostSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentLink:
    """Session of a sub-agent that a tool call of a recorded session started."""

    session_id: str
    """Id of the sub-agent's session, which is a recording of its own."""
    call_id: str
    """Id of the tool call in the recording that started the sub-agent; empty if not recorded."""


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
    tokens_after: int | None = None
    """Number of tokens in the context after the compaction, according to the file; None if the file does not contain it."""
    seconds: float | None = None
    """Duration of the compaction in seconds, according to the file; None if the file does not contain it."""
    at_ms: int | None = None
    """Time of the compaction in milliseconds since the epoch; None if not recorded."""
    summary: str = ""
    """Text of the summary that the compaction wrote; empty if there was none or if the file does not hold it."""
    in_place: bool = False
    """Whether the summary is one of the recording's messages, because the file no longer holds the messages that it replaced."""
    kept_from: int | None = None
    """Index of the first message of the recording that the compaction kept in addition to its summary; None if it kept none."""
    cleared: tuple[str, ...] = ()
    """Ids of the tool calls whose results the compaction removed from the context; the recording's messages have the same ids."""
    view: tuple[Message, ...] | None = None
    """Messages in the context right after the compaction, without the system message, if the file lists them exactly."""
    inferred: bool = False
    """Whether the file marks no compaction and the sizes of the prompts imply one."""


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
    parent_id: str = ""
    """Id of the session that started this one as a sub-agent; empty if the session is no sub-agent's."""
    cost_in_parent: bool = False
    """Whether the cost of the session is part of the total that the file gives for the session that started it."""
    forked_from: str = ""
    """Id of the session from which this one was forked, whose messages it begins with; empty if it is no fork."""
    sub_agents: tuple[SubAgentLink, ...] = ()
    has_texts: bool = True
    """Whether the messages have their texts. Without texts, calls can be priced, but nothing can be shown or tried."""
    left_out_calls: tuple[LeftOutCall, ...] = ()
    """Model calls that were paid for and whose answers are none of the messages, in the order of the file."""

    @property
    def steps(self) -> int:
        """Number of model calls in the recorded session."""
        return max((recorded.step or 0 for recorded in self.messages if recorded.message.role == "assistant"), default=0)
