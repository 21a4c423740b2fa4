"""Events of a session: one frozen class for each kind of event. The log of a session is a sequence of these events.

The log of a trial with a scripted model has five kinds of events: the session started, a message was added, a step finished, the
view was compacted, the session ended. Other sessions also log the start of each tool call, so that the log shows which calls are
running. The state of each tool call, and whether a message is still in view, are computed from these events. A failed model call
is logged if it cost money. A session of several turns has more kinds: a turn ended, a message was queued or left the queue, a
sub-agent ended, the workspace was saved, and the session was rolled back, forked or resumed. Progress within a step (its start,
pieces of the answer, a tool that starts or ends) is a `TransientEvent`, which is displayed but never logged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from harness.conversation.advisories import Advisory
from harness.conversation.messages import File, Message, ToolCall, ToolResult
from harness.conversation.tokens import Estimated, Usage

Hook: TypeAlias = Literal["turn", "step", "overflow", "manual"]
"""Occasion on which a compaction policy is called.

- `turn`: Before a turn, which is the work on one user message.
- `step`: Before a step, which is one model call.
- `overflow`: After the provider refused the prompt as too long.
- `manual`: On request of the user.
"""

CostSource: TypeAlias = Literal["recorded", "priced", "parent", "unknown"]
"""Source of the cost of a recorded session: the file gives it, it was computed from the list prices of the models when the file
was read, it is part of the cost of the session that started this one, or there is none."""
StopReason: TypeAlias = Literal[
    "replied",
    "declared",
    "cut_short",
    "refused",
    "max_steps",
    "overflow",
    "model_error",
    "sandbox_error",
    "sandbox_killed",
    "store_error",
    "cancelled",
    "timeout",
    "agent_failed",
    "doom_loop",
    "illegal_plan",
    "broken_off",
    "crashed",
    "repeated_crash",
]
"""Reason why a turn or a session stopped.

Two reasons complete a session: `replied` (an answer without tool calls) and `declared` (the model declared that it is done, or
another agent ended by itself without an error).
All other reasons are failures. Those that need an explanation:

- `cut_short`: The output limit, or the end of the context window, cut off the last answer.
- `refused`: The model or a content filter of the provider refused to give the last answer, or to complete it.
- `doom_loop`: The model repeated the same tool call and was stopped.
- `sandbox_error`: The machine lost the sandbox.
- `sandbox_killed`: The commands of the model ended the sandbox, for example by using up its memory.
- `illegal_plan`: The compaction policy proposed an invalid conversation.
- `agent_failed`: The external agent of a trial ended with an error, or never asked its model.
- `timeout`: The tools of a trial took too much time, or the trial exceeded its time limit.
- `broken_off`: The process was killed during a step, as detected when the session is opened again; or the record of another
  agent ends in the middle of its work (see `harness.conversation.endings`).
- `crashed`: An error of the program ended the session.
- `repeated_crash`: The trial crashed in every attempt after its session had begun.
"""


SANDBOX_LOST_REASONS: Final = frozenset({"sandbox_error", "sandbox_killed"})
"""Stop reasons of sessions whose sandbox, and with it the workspace, was lost."""


class ItemId(NamedTuple):
    """Id of one message of a view.

    Ids sort in order of creation. Within a session an id never changes and is never used for another message.
    """

    event: int
    """Number of the event, in the log of the session, that added the message."""
    slot: int = 0
    """Index of the message among those that the same compaction inserted; 0 for a message that no compaction inserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replacement of one message in view by another message, for example of a tool result by a one-line stub."""

    item: ItemId
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Insertion of a new message, such as a summary, into a view."""

    message: Message
    after: ItemId
    """Id of the message after which the new message is inserted; the same compaction must not evict that message."""
    stands_for: tuple[ItemId, ...] = ()
    """Ids of the messages that the inserted message summarizes; empty if the inserted message is no summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Changes of the messages that the model sees next: which ones to evict, to replace and to insert."""

    forget: tuple[ItemId, ...] = ()
    replace: tuple[Replace, ...] = ()
    insert: tuple[Insert, ...] = ()
    set_aside: tuple[ItemId, ...] = ()
    """Ids of all messages that the model no longer sees but a later summary will cover, including those evicted earlier."""

    @property
    def changed_ids(self) -> frozenset[ItemId]:
        """Ids of the messages that are evicted or replaced."""
        return frozenset((*self.forget, *[change.item for change in self.replace]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """Start of a session, with its configuration; always the first event of a log."""

    session_id: str
    task: str
    """Request of the user with which the session began, verbatim."""
    model: str
    policy_json: str
    """Kind and fields of the compaction policy as canonical JSON, after scaling its constants to the context window."""
    window_tokens: int
    threshold_tokens: int | None
    budget_rule: str
    sandbox: str
    """Name of the sandbox backend that runs the agent's tools; it never changes within a session."""
    setup_json: str = ""
    """Complete configuration of the session as JSON, from which it can be resumed; empty in a trial, which is never resumed."""
    attended: bool = False
    """Whether a person attends the session, who is asked about repeated calls; false in a trial."""
    advisories: tuple[Advisory, ...] = ()
    """Warnings about the configuration that were found before the session started; empty in logs of version 0.2 or older."""
    price_rule: str = ""
    """Price rule with a lifetime, such as `anthropic-2026-10:1h`, under which the cache use and the costs of scripted models are
    simulated; empty if none is, so that usage and costs are those that the models report."""
    kind: Literal["session-started"] = "session-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTiming:
    """Start and duration of a tool call."""

    started_at_ms: int
    """Time at which the tool call started, in milliseconds since the epoch, by the clock of the session."""
    seconds: float
    """Duration of the tool call in seconds, by a clock that is never set back.

    A command that the action cache answered counts with the duration of its original run.
    """
    cached_seconds: float | None = None
    """Part of `seconds` that was not spent now, because the action cache answered commands that had run before.

    None if the cache answered no command of the call.
    """

    @property
    def ended_at_ms(self) -> int:
        """Time at which the tool call ended, in milliseconds since the epoch; later than in reality if commands were cached."""
        return self.started_at_ms + round(1_000 * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAdded:
    """Addition of a message of any role to the conversation."""

    message: Message
    step: int
    """Number of the step (model call) in which the message was added; 0 before the first model call."""
    timing: CallTiming | None = field(default=None, compare=False)
    """Start and duration of the tool call whose result the message holds.

    None for other messages, for a call that never started, in a recording of another agent and in a log of version 0.2 or older.
    Comparisons of events ignore this field, because the times of two runs always differ.
    """
    kind: Literal["message-added"] = "message-added"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """Start of a tool call, which shows that the call runs until its result is logged.

    Sessions that log whole steps at once omit this event. `MessageAdded.timing` has the exact times of every call.
    """

    step: int
    """Number of the step (model call) that requested the tool call."""
    call_id: str
    kind: Literal["call-started"] = "call-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimed:
    """Time right before a step, at which the policy is asked to compact.

    Logged only if the session has simulated gaps between its steps, or a policy that reads the time. Without this event, the time
    of a step is unknown, since logs of equal sessions must be equal.
    """

    step: int
    """Number of the step (model call) that follows."""
    seconds: float
    """Time in seconds: since the epoch or, with simulated gaps, since the start of the session."""
    kind: Literal["step-timed"] = "step-timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailed:
    """Model call of the agent that failed although it cost money, or whose prompt the provider refused as too long.

    Any other failed call is not logged as an event of its own.
    """

    step: int
    """Number of the step (model call) that failed."""
    cost_usd: float | None
    """Cost of the attempts whose token usage is known, in USD; None if the price of the model is unknown."""
    detail: str = ""
    """Error message of the last attempt."""
    is_overflow: bool = False
    """Whether the provider refused the prompt as too long. False in a log of version 0.2 or older, which has no such events."""
    kind: Literal["model-call-failed"] = "model-call-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """End of a step.

    The model's answer and all tool results precede it in the log.
    """

    step: int
    """Number of the step (model call) in the session, from 1."""
    view_tokens: Estimated
    """Estimated number of tokens in the messages that were sent to the model, by the compaction policy's token counter."""
    view_messages: int
    usage: Usage
    cost_usd: float | None
    """Cost of the model call in USD; None if the price of the model is unknown."""
    request_digest: str
    """SHA-256 of the messages that were sent to the model, as hex digits; equal requests have equal digests."""
    kept_prefix_messages: int
    """Number of messages at the beginning of the request that the previous request began with, too, so that a cache can help."""
    kept_prefix_tokens: Estimated
    calls: int
    call_errors: int
    model_seconds: float
    """Duration of the model call in seconds; simulated time if the model is scripted."""
    tool_seconds: float
    """Wall time in seconds from the start of the first tool call to the end of the last one."""
    finish_reason: Literal["stop", "tool-calls", "length", "content-filter"] | None = None
    """Reason why the answer of the model ended: `length` if the output limit or the end of the context window cut it off,
    `content-filter` if it was refused, `tool-calls` if it calls tools, else `stop`; None in a recording and in a log of version
    0.2 or older.

    litellm replaces some reasons of other providers, such as the end of the context window at Amazon Bedrock, by `stop`.
    """
    impossible_usage: bool | None = None
    """Whether `usage` reports a longer prompt than the model can read, so that the report is wrong. Policies do not use it, but
    totals and costs include it. None in a recording and in a log of an older version."""
    truncation_seconds: float | None = field(default=None, compare=False)
    """Wall time in seconds of shortening the outputs of the step's tools and saving them whole. This and the following four times
    do not overlap. Comparisons of events ignore them, because the wall time of two runs always differs. None in a recording and
    in a log of an older version."""
    planning_seconds: float | None = field(default=None, compare=False)
    """Wall time in seconds of asking the policy before the step what to compact, whether or not anything was due."""
    compaction_seconds: float | None = field(default=None, compare=False)
    """Wall time in seconds of carrying out the policy's plans before the step, without waiting for the summarizer."""
    snapshot_seconds: float | None = field(default=None, compare=False)
    """Wall time in seconds of taking and saving snapshots of the workspace in the step; 0 in a trial, which saves none."""
    writing_seconds: float | None = field(default=None, compare=False)
    """Wall time in seconds of writing events and tool results to the log since the end of the previous step was passed to it, so
    that the write that logs the end of a step counts to the next step."""
    kind: Literal["step-finished"] = "step-finished"


MISSED_TARGET = "compaction cannot reach its target here"
"""Beginning of the field `shortfall` of a compaction by a policy of this project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Attempt at a compaction of the messages that the model sees next.

    The attempt changed the messages, changed nothing, or failed.
    """

    round: int
    """Number of the compaction in the session, from 1. Only compactions that changed the view are counted; a failed attempt has
    the number of the last one before it."""
    step: int
    """Number of the step (model call) before which the compaction took place."""
    moment: Hook
    status: Literal["applied", "no-op", "failed", "started"]
    """Result of the attempt.

    `started` means that a summary was requested in the background: `patch` has the changes that a later compaction may apply, and
    the messages stay as they are until then.
    """
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
    """Wall time in seconds from planning the compaction to logging it, the summarizer's answer included. Comparisons of events
    ignore this field, because the wall time of two runs always differs."""
    failure: str = ""
    """Reason why the summarizer failed; empty if it did not fail. If the compaction was applied nevertheless, it used a fallback
    instead of the summary."""
    offloaded: tuple[str, ...] = ()
    """Names under which this compaction saved tool results that it removed from the view, oldest first."""
    shortfall: str = ""
    """Reason why the compaction missed its target, with the tokens that stay in the request; empty if it did not.

    A compaction misses its target if it saves a small share of the tokens only, or if the policy is due again right after it. A
    compaction that saved nothing has a reason only under policies of this project.
    """
    fruitless: bool = False
    """Whether an applied compaction counts as an attempt without effect, because it missed its target; only for policies of this
    project. An attempt that was not applied always counts."""
    reported_tokens_before: int | None = None
    """Number of tokens in the context before the compaction by the count of the agent that made it.

    None unless the compaction was recorded by another agent that gives the number.
    """
    reported_tokens_after: int | None = None
    """Number of tokens in the context after the compaction by the same count."""
    tree_id: str = ""
    """Id of a snapshot of the workspace that was taken at the compaction; empty if none was taken or that failed."""
    started_step: int | None = None
    """Number of the step before which the applied summary was started; None if it was not started earlier."""
    blocking_seconds: float | None = None
    """Time in seconds for which the session waited for a summary that was started earlier; None for any other compaction, which
    waits for all of `summarizer_seconds`."""
    kind: Literal["compaction"] = "compaction"

    @property
    def messages_removed(self) -> int:
        """Number of messages that this compaction evicted from the view; messages that it replaced or inserted do not count."""
        return len(self.patch.forget)

    @property
    def explanation(self) -> str:
        """Reason for the compaction, and why it missed its target if it did."""
        return f"{self.reason}; {self.shortfall}" if self.shortfall else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """End of a session; the last event of a log unless the process was killed or the session is resumed."""

    status: Literal["completed", "failed"]
    reason: StopReason
    detail: str = ""
    recorded_cost_usd: float | None = None
    """Cost in USD of all model calls of a recording without its sub-agents; None if unknown, and in a log of this package."""
    cost_source: CostSource | None = None
    """Source of `recorded_cost_usd`; None in a log of this package and in an import of an older version."""
    kind: Literal["session-ended"] = "session-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """End of a turn (the agent's work on one user message) in a session of several turns.

    A trial has only `SessionEnded`.
    """

    turn: int
    """Number of the turn in the session, from 1; an interrupted turn that is continued keeps its number."""
    status: Literal["completed", "failed"]
    reason: StopReason
    detail: str = ""
    kind: Literal["turn-ended"] = "turn-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueued:
    """Arrival of a user message in the session's queue.

    The number of this event identifies the message in the queue.
    """

    text: str
    files: tuple[File, ...] = ()
    """Files that the user attached to the message."""
    kind: Literal["message-queued"] = "message-queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnqueued:
    """Removal of a user message from the queue.

    Either the agent reads the message now (`MessageAdded` follows), or the user withdrew it.
    """

    queued: int
    """Number of the event `MessageQueued` that put the message into the queue."""
    why: Literal["taken", "withdrawn"]
    kind: Literal["message-unqueued"] = "message-unqueued"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentEnded:
    """End of a sub-agent called during a step, with its costs.

    The messages of the sub-agent are in a session of their own.
    """

    step: int
    """Number of the step in the calling session during which the sub-agent ran."""
    session_id: str
    """Id of the sub-agent's session."""
    steps: int
    """Number of steps that the sub-agent took."""
    prompt_tokens: int
    """Total prompt tokens of the sub-agent's model calls and summaries, cached tokens included."""
    output_tokens: int
    """Total output tokens of the sub-agent's model calls and summaries."""
    cost_usd: float | None
    """Total cost of the sub-agent in USD; None if the price of a model is unknown."""
    call_id: str = ""
    """Id of the tool call that the sub-agent answered; empty in a log of version 0.2 or older."""
    cost_source: CostSource | None = None
    """Source of the cost of a recorded sub-agent; None in a log of this package and in an import of an older version."""
    kind: Literal["sub-agent-ended"] = "sub-agent-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSaved:
    """Snapshot of the workspace after a step, or failure to take it; a step that changed no files has no such event."""

    step: int
    """Number of the step after which the workspace was saved; 0 before the first step."""
    tree_id: str
    """Id under which the snapshot of the workspace is stored; equal for equal contents, and empty if saving failed."""
    changed_files: tuple[str, ...] = ()
    """Paths of the files that differ from the previous snapshot, sorted; at most 1,000."""
    patch_hash: str | None = None
    """SHA-256 (hexadecimal) of the changes since the previous snapshot; empty if no file has changed.

    None if the changes are unknown: for the first snapshot, after a crash, and in a log of version 0.2 or older.
    """
    left_out: tuple[str, ...] = ()
    """Lines on what the snapshot lacks, such as pipes and devices: path and reason; empty in a log of version 0.2 or older."""
    kind: Literal["workspace-saved"] = "workspace-saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """Return of a session, with its conversation and its workspace, to the state after an earlier step.

    Events logged since that step no longer count. Queued messages stay in the queue.
    """

    step: int
    """Number of the step to whose end the session returns."""
    to_event: int
    """Number of the last event that still counts after the rollback; all later events before the rollback are undone."""
    kind: Literal["rolled-back"] = "rolled-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked:
    """Beginning of a forked session, whose earlier events are copied from another session up to a step."""

    session_id: str
    """Id of the original session, from which the earlier events were copied."""
    step: int
    """Number of the last step that was copied from the original session."""
    setup_json: str = ""
    """Complete configuration of the forked session as JSON; empty if it is the same as in the copied events."""
    kind: Literal["session-forked"] = "session-forked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed:
    """Continuation of a session from its log, after the session was closed or its process was killed, or with another policy.

    The fields mean the same as in `SessionStarted` and apply from this event on.
    """

    model: str
    policy_json: str
    window_tokens: int
    threshold_tokens: int | None
    budget_rule: str
    sandbox: str
    setup_json: str = ""
    """Complete configuration of the resumed session as JSON; empty if the configuration last given in the log still holds."""
    attended: bool = False
    kind: Literal["session-resumed"] = "session-resumed"


Event: TypeAlias = (
    SessionStarted
    | MessageAdded
    | CallStarted
    | StepTimed
    | ModelCallFailed
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
"""Event classes by the value of their field `kind`, such as `step-finished`."""


class Entry(NamedTuple):
    """Entry of a session's log: an event and its number."""

    seq: int
    """Number of the event in the log of its session, from 1 without gaps."""
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """Transient event: another piece of the model's answer has arrived, while the model still writes."""

    text: str
    """New text of the answer. Empty for a piece of a tool call, which is displayed only when the call is complete."""
    part: Literal["text", "reasoning"] = "text"
    """Whether the new piece belongs to the text of the model's answer or to its reasoning."""
    anew: bool = False
    """Whether the model starts its answer again after a failed request; all pieces received before must then be discarded."""
    kind: Literal["text-delta"] = "text-delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """Transient event: the model call of a step has started."""

    step: int
    kind: Literal["step-started"] = "step-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """Transient event: a tool call has started. It is sent whether or not the log gets the event `CallStarted`."""

    call: ToolCall
    """Tool call that started, as the model wrote it."""
    kind: Literal["tool-started"] = "tool-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """Transient event: a tool call has ended; other calls of the same answer may still be running."""

    result: ToolResult
    kind: Literal["tool-ended"] = "tool-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Transient event: the session waits, for example before a retry or while a summary is written."""

    what: str
    """Reason for the wait, as displayed to the user."""
    seconds: float | None = None
    """Expected duration of the wait; None if unknown."""
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Transient event: a message from the compaction policy to the user, e.g. that a limit is near.

    The message is not logged.
    """

    text: str
    kind: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """Size of the context at the end of a step, in tokens."""

    tokens: int
    """Number of tokens in the context: those that the provider reported for the last model call, plus an estimate for the
    messages after that call. Before the first call, only an estimate."""
    usage_tokens: int
    """Prompt and output tokens of the last model call together, as the provider reported them; 0 before the first report."""
    trailing_tokens: int
    """Estimated number of tokens in the messages after the model's last answer, such as tool results and user messages."""
    kind: Literal["context-usage"] = "context-usage"


SessionState: TypeAlias = Literal["new", "starting", "working", "compacting", "asking", "idle", "failed", "closed"]
"""State of a live session. `compacting`: a summary is being written; `asking`: the user must decide on a repeated tool call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """Transient event: the state of a live session has changed, or its queue of unread user messages."""

    state: SessionState
    queued: tuple[str, ...]
    """Texts of the user messages that the agent has not read yet, in the order in which it will read them."""
    kind: Literal["state-changed"] = "state-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRepeated:
    """Transient event: the agent repeats the same tool call, so that the user must decide whether to go on."""

    call: ToolCall
    times: int
    """Number of times in a row that the agent has requested the same tool call, including the call that waits for the user."""
    kind: Literal["call-repeated"] = "call-repeated"


TransientEvent: TypeAlias = (
    StepStarted | TextDelta | ToolStarted | ToolEnded | Waiting | Notice | ContextUsage | StateChanged | CallRepeated
)

EventListener: TypeAlias = Callable[[Entry | TransientEvent], None]
"""Function that is called with every logged entry and every transient event of a session, in order."""
