"""Events of a session: one frozen class for each kind of event. The log of a session is a sequence of these events.

The log of a trial has five kinds of events: the session started, a message was added, a step finished, the view was compacted,
the session ended. The state of a tool call and whether a message is still in view are computed from these events. A session of
several turns has more kinds: a turn ended, a message was queued or left the queue, a sub-agent ended, the workspace was saved,
and the session was rolled back, forked or resumed. Progress within a step (its start, pieces of the answer, a tool that starts or
ends) is a `Signal`, which is displayed but never logged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from harness.messages import Message, ToolCall, ToolResult
from harness.tokens import Estimated, Usage

Hook: TypeAlias = Literal["turn", "step", "overflow", "manual"]
"""Point at which a policy is called: before a turn, before a step, after the provider refused the prompt, or on user request."""

StopReason: TypeAlias = Literal[
    "replied",
    "declared",
    "cut_short",
    "max_steps",
    "overflow",
    "model_error",
    "sandbox_error",
    "store_error",
    "cancelled",
    "doom_loop",
    "illegal_plan",
    "broken_off",
    "crashed",
]
"""Reason why a turn or a session stopped. `replied` (an answer without tool calls) and `declared` (the model declared that it is
done) complete a session; the other reasons are failures. `cut_short`: the output limit cut off the last answer. `doom_loop`: the
model repeated the same call and was stopped. `illegal_plan`: the policy proposed a view that breaks a guard. `broken_off`: the
process was killed during a step, as detected when the session is opened again."""


class ItemId(NamedTuple):
    """Id of one message of a view.

    Ids sort in order of creation. Within a session an id never changes and is never used for another message.
    """

    event: int
    """Number of the event that added the message."""
    slot: int = 0
    """Index among the messages that a compaction inserted; 0 for a message that was added to the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replacement of one message of a view by another message, for example a tool result by a stub."""

    item: ItemId
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Insertion of a new message, such as a summary or a marker, into a view."""

    message: Message
    after: ItemId
    """Item after which the message is inserted; the item must stay in the view."""
    stands_for: tuple[ItemId, ...] = ()
    """Items that the message summarizes; empty for a message that is no summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Change of a view: items to evict, to replace and to insert, in terms of item ids."""

    forget: tuple[ItemId, ...] = ()
    replace: tuple[Replace, ...] = ()
    insert: tuple[Insert, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """Start of a session; the first event of every log."""

    session_id: str
    task: str
    """User's request, verbatim."""
    model: str
    policy_json: str
    """Kind and fields of the policy after scaling, as canonical JSON."""
    window_tokens: int
    threshold_tokens: int | None
    budget_rule: str
    sandbox: str
    """Sandbox backend that runs the tools; it never changes within a session."""
    setup_json: str = ""
    """Complete configuration of the session as JSON, used to resume it; empty if the session cannot be resumed, as in a trial."""
    kind: Literal["session-started"] = "session-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAdded:
    """Addition of a message of any role to the conversation."""

    message: Message
    step: int
    """Number of the step in which the message was added; 0 before the first model call."""
    kind: Literal["message-added"] = "message-added"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """End of a step: one model call and all results of its tool calls are logged."""

    step: int
    """Number of the step, from 1."""
    view_tokens: Estimated
    """Size of the view that was sent, estimated by the policy's token counter."""
    view_messages: int
    usage: Usage
    cost_usd: float | None
    """Cost of the model call in USD; None if the price of the model is unknown."""
    request_digest: str
    """SHA-256 chain over the rendered messages that were sent, as hex digits."""
    kept_prefix_messages: int
    """Number of leading messages shared with the previous request; its full length unless a compaction came in between."""
    kept_prefix_tokens: Estimated
    calls: int
    call_errors: int
    model_seconds: float
    """Duration of the model call in seconds; on the virtual clock if the model is scripted."""
    tool_seconds: float
    kind: Literal["step-finished"] = "step-finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One attempt at a compaction: it changed the view, changed nothing, or failed."""

    round: int
    """Number of the applied compaction in the session, from 1. A fruitless attempt has the number of the latest applied one."""
    step: int
    """Step before which the compaction took place."""
    moment: Hook
    status: Literal["applied", "no-op", "failed"]
    reason: str
    patch: Patch
    tokens_before: Estimated
    tokens_after: Estimated
    messages_before: int
    messages_after: int
    summary: str = ""
    summarizer: str = ""
    """Name of the model that wrote the summary; empty if no summarizer was called."""
    summarizer_usage: Usage | None = None
    summarizer_cost_usd: float | None = None
    summarizer_seconds: float = 0.0
    wall_seconds: float = field(default=0.0, compare=False)
    """Wall time in seconds from planning to this event, the summarizer's answer included. Excluded from comparisons of events,
    because the wall time of two runs always differs."""
    failure: str = ""
    """Reason why the summarizer failed, in which case an applied patch is the policy's fallback; empty if it did not fail."""
    offloaded: tuple[str, ...] = ()
    """Names of the saved outputs that hold tool results moved out of the view, oldest first."""
    kind: Literal["compaction"] = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """End of a session; the last event of a log unless the process was killed or the session is resumed."""

    status: Literal["completed", "failed"]
    reason: StopReason
    detail: str = ""
    kind: Literal["session-ended"] = "session-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """End of a turn in a session that goes on. A session of a single turn, such as a trial, has only `SessionEnded`."""

    turn: int
    """Number of the turn, from 1; a turn that is continued keeps its number."""
    status: Literal["completed", "failed"]
    reason: StopReason
    detail: str = ""
    kind: Literal["turn-ended"] = "turn-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueued:
    """Arrival of a user message in the queue; the number of this event identifies the message."""

    text: str
    kind: Literal["message-queued"] = "message-queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnqueued:
    """Removal of a message from the queue: it was taken, and `MessageAdded` follows, or it was withdrawn."""

    queued: int
    """Number of the event that queued the message."""
    why: Literal["taken", "withdrawn"]
    kind: Literal["message-unqueued"] = "message-unqueued"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentEnded:
    """End of a sub-agent called during a step, with its costs. The messages of the sub-agent are in a session of their own."""

    step: int
    """Step of the calling session."""
    session_id: str
    """Id of the sub-agent's session."""
    steps: int
    """Number of the sub-agent's steps."""
    prompt_tokens: int
    """Prompt tokens of the sub-agent's calls and summaries together, cached tokens included."""
    output_tokens: int
    """Output tokens of the sub-agent's calls and summaries together."""
    cost_usd: float | None
    """Cost of the sub-agent in USD; None if a price is unknown."""
    kind: Literal["sub-agent-ended"] = "sub-agent-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSaved:
    """Snapshot of the workspace after a step; a step that changed no files has no such event."""

    step: int
    """Number of the step; 0 before the first."""
    tree_id: str
    """Id of the snapshot."""
    kind: Literal["workspace-saved"] = "workspace-saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """Return of view and workspace to their state after an earlier step.

    Events between that step and this event no longer count. Queued messages stay in the queue.
    """

    step: int
    """Number of the step after which the state is restored."""
    to_event: int
    """Number of the last earlier event that still counts."""
    kind: Literal["rolled-back"] = "rolled-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked:
    """Fork of a session: all earlier events are copied from another session, up to a step."""

    session_id: str
    """Id of the session that was forked."""
    step: int
    """Last step that was copied."""
    setup_json: str = ""
    """Configuration of the new session, as in `SessionStarted`; empty if it is that of the copied events."""
    kind: Literal["session-forked"] = "session-forked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed:
    """Continuation of a session from its log, after the session was closed or its process was killed.

    The fields mean the same as in `SessionStarted` and apply from this event on.
    """

    model: str
    policy_json: str
    window_tokens: int
    threshold_tokens: int | None
    budget_rule: str
    sandbox: str
    setup_json: str = ""
    """Complete configuration of the session as JSON; empty if it has not changed."""
    kind: Literal["session-resumed"] = "session-resumed"


Event: TypeAlias = (
    SessionStarted
    | MessageAdded
    | StepFinished
    | Compaction
    | SessionEnded
    | TurnEnded
    | MessageQueued
    | MessageUnqueued
    | SubAgentEnded
    | WorkspaceSaved
    | RolledBack
    | SessionForked
    | SessionResumed
)

EVENT_CLASSES: dict[str, Any] = {event_class.__dataclass_fields__["kind"].default: event_class for event_class in get_args(Event)}
"""Class of each kind of event, by the value of its field `kind`."""


class Entry(NamedTuple):
    """Event with its number in the log."""

    seq: int
    """Number of the event in the log, from 1 without gaps."""
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """Arrival of another piece of the model's answer."""

    text: str
    """New text. Empty for a piece of a tool call, which is displayed once complete; listeners may still cancel the answer."""
    part: Literal["text", "reasoning"] = "text"
    """Part of the answer that the piece belongs to."""
    anew: bool = False
    """Whether the request was repeated, so that all earlier pieces of this answer are void."""
    kind: Literal["text-delta"] = "text-delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """Start of the model call of a step."""

    step: int
    kind: Literal["step-started"] = "step-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """Start of a tool call, whose state changes from pending to running."""

    call: ToolCall
    """Call as the model wrote it; it is logged at the end of the step."""
    kind: Literal["tool-started"] = "tool-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """End of a tool call; other calls of the same answer may still be running."""

    result: ToolResult
    kind: Literal["tool-ended"] = "tool-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Start of a wait, for example before a retry or while a summary is written."""

    what: str
    """Reason for the wait, as displayed to the user."""
    seconds: float | None = None
    """Expected duration of the wait; None if unknown."""
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Message from the policy to the user, for example that a limit is near."""

    text: str
    kind: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """Size of the context at the end of a step, in tokens."""

    tokens: int
    """Sum of `usage_tokens` and `trailing_tokens`; before the provider's first report, the estimate of the whole view."""
    usage_tokens: int
    """Tokens of the last model call as the provider reported them, answer included."""
    trailing_tokens: int
    """Estimated tokens of the messages after that answer: results of its tool calls and user messages."""
    kind: Literal["context-usage"] = "context-usage"


SessionState: TypeAlias = Literal["new", "starting", "working", "compacting", "asking", "idle", "failed", "closed"]
"""State of a live session. `compacting`: a summary is being written; `asking`: a repeated call waits for the user's decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """Change of a session's state or of its message queue."""

    state: SessionState
    queued: tuple[str, ...]
    """Texts of the queued messages, the next one first."""
    kind: Literal["state-changed"] = "state-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRepeated:
    """Request for the user's decision, because the agent is about to repeat the same call."""

    call: ToolCall
    times: int
    """Number of times that the call was made in a row, this one included."""
    kind: Literal["call-repeated"] = "call-repeated"


Signal: TypeAlias = (
    StepStarted | TextDelta | ToolStarted | ToolEnded | Waiting | Notice | ContextUsage | StateChanged | CallRepeated
)

EventListener: TypeAlias = Callable[[Entry | Signal], None]
"""Function that is called with every logged entry and every signal of a session, in order."""
