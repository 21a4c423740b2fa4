"""One frozen class for each thing that can happen in a session; the log is a sequence of these and nothing else.

Five kinds are enough for a trial, since a tool call's progress and a message's fate are read off them: a message was added, a
step finished, the view was compacted, and the two ends of a session. A session of several turns has more: a turn ended, a
message was queued or left the queue, a sub-agent was asked, the workspace was kept, and the session was rolled back, forked or
taken up again. What streams by while a step runs (its start, pieces of the answer, a tool that starts or ends) is a `Signal`:
shown, never logged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from harness.messages import Message, ToolCall, ToolResult
from harness.tokens import Estimated, Usage

Hook: TypeAlias = Literal["turn", "step", "overflow", "manual"]
"""When a policy is asked: before a turn, before a step, after the provider refused the prompt, when somebody wishes it."""

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
"""`replied`: an answer without calls; `declared`: the model said that it is done (both complete a session); `cut_short`: its
last answer was cut off by the output limit; `doom_loop`: it made the same call again and again, and was stopped;
`illegal_plan`: the policy proposed a view that breaks a guard, which is the policy's fault and no crash; `broken_off`: its
process was killed while the model wrote or its calls ran, which is found when the session is opened again."""


class ItemId(NamedTuple):
    """Names one message of a view: the event that brought it, and which of its inserts it is (0 for a message).

    Ids sort in the order in which they came into being and never change or repeat within a session.
    """

    event: int
    slot: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Show another message in the place of one (masking, pruning, clearing of arguments)."""

    item: ItemId
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Put a new message (a summary, a marker) into the view."""

    message: Message
    after: ItemId
    """The item behind which it goes; it must stay in the view."""
    stands_for: tuple[ItemId, ...] = ()
    """The items whose content it carries on; empty = it is no summary, but stands beside one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """The change of a view in three verbs, each by item id."""

    forget: tuple[ItemId, ...] = ()
    replace: tuple[Replace, ...] = ()
    insert: tuple[Insert, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """The first event of every log."""

    session_id: str
    task: str
    """The user's request, verbatim (S0.7)."""
    model: str
    policy_json: str
    """Kind and fields of the policy as it works here (scaled, if it is), as canonical JSON."""
    window_tokens: int
    threshold_tokens: int | None
    budget_rule: str
    sandbox: str
    """The backend that runs the tools; it never changes within a session."""
    setup_json: str = ""
    """All that it was set up with, so that it can be gone on with, as JSON; empty = it is not told, as in a trial."""
    kind: Literal["session-started"] = "session-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAdded:
    """A message of any role joined the conversation."""

    message: Message
    step: int
    """0 before the first model call."""
    kind: Literal["message-added"] = "message-added"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """One model call and the results of its tool calls are logged."""

    step: int
    """Counts from 1."""
    view_tokens: Estimated
    """The view that was sent, by the policy's counter."""
    view_messages: int
    usage: Usage
    cost_usd: float | None
    """None = the price of this model is not known."""
    request_digest: str
    """SHA-256 chain over the rendered messages that were sent (hex)."""
    kept_prefix_messages: int
    """Leading messages shared with the request before; equals that request's length unless a compaction came between."""
    kept_prefix_tokens: Estimated
    calls: int
    call_errors: int
    model_seconds: float
    """Of the scripted model: on its virtual clock."""
    tool_seconds: float
    kind: Literal["step-finished"] = "step-finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The view was changed, or a due change came to nothing; one event for each attempt (S0.7, S2.7)."""

    round: int
    """Number of the applied compaction in this session, from 1; of a fruitless attempt: that of the last applied one."""
    step: int
    """The step before which it took place."""
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
    """Model name; empty when nobody was asked."""
    summarizer_usage: Usage | None = None
    summarizer_cost_usd: float | None = None
    summarizer_seconds: float = 0.0
    wall_seconds: float = field(default=0.0, compare=False)
    """From planning to this event as the clock on the wall has it, a summarizer's answer included; no two runs share it, so it
    is no part of what makes events equal."""
    failure: str = ""
    """Why no summary came; then an applied patch is the policy's fallback, not what was planned."""
    offloaded: tuple[str, ...] = ()
    """Names of the texts that went from the view into the saved outputs, oldest first."""
    kind: Literal["compaction"] = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """The last event of a log whose process was not killed, unless the session is taken up again."""

    status: Literal["completed", "failed"]
    reason: StopReason
    detail: str = ""
    kind: Literal["session-ended"] = "session-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The agent rests, and the session goes on. A session of a single turn, as a trial is, only has its end."""

    turn: int
    """Counts from 1; one that is gone on with has the same number again."""
    status: Literal["completed", "failed"]
    reason: StopReason
    detail: str = ""
    kind: Literal["turn-ended"] = "turn-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueued:
    """A user message waits for its turn; the number of this event is its name (S1.4)."""

    text: str
    kind: Literal["message-queued"] = "message-queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnqueued:
    """A message waits no longer: it was taken, and follows as `MessageAdded`, or withdrawn."""

    queued: int
    """Number of the event that queued it."""
    why: Literal["taken", "withdrawn"]
    kind: Literal["message-unqueued"] = "message-unqueued"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentEnded:
    """What a sub-agent took that was asked during a step, whatever came of it (S3.20); what it did is a session of its own."""

    step: int
    """Of the session that asked."""
    session_id: str
    """Of the sub-agent."""
    steps: int
    prompt_tokens: int
    """Of its calls and its summaries together, cached tokens included."""
    output_tokens: int
    cost_usd: float | None
    """None = a price is not known."""
    kind: Literal["sub-agent-ended"] = "sub-agent-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSaved:
    """The workspace was kept as it stood after a step; a step that changed nothing has none (S3.11)."""

    step: int
    """0 = before the first."""
    tree_id: str
    """Names the snapshot."""
    kind: Literal["workspace-saved"] = "workspace-saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """View and workspace are again as they were after a step. What was logged since counts no more; what waits still waits."""

    step: int
    to_event: int
    """The last event that counts, of those before this one."""
    kind: Literal["rolled-back"] = "rolled-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked:
    """All events before this one are those of another session, up to a step."""

    session_id: str
    """Of the other session."""
    step: int
    setup_json: str = ""
    """As in `SessionStarted`, for the new session; empty = as the events before tell."""
    kind: Literal["session-forked"] = "session-forked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed:
    """The session was taken up again from its log, after it was closed or its process was killed."""

    model: str
    policy_json: str
    """As in `SessionStarted`, and so all below; from here on."""
    window_tokens: int
    threshold_tokens: int | None
    budget_rule: str
    sandbox: str
    setup_json: str = ""
    """Empty = as before."""
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
    """An event in its place in a log."""

    seq: int
    """From 1, without gaps, in the order of appending."""
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """The model wrote some more of its answer."""

    text: str
    """Empty where something came that nobody is shown before it is whole, as of a call: who hears of it can end it."""
    part: Literal["text", "reasoning"] = "text"
    """What it is a piece of."""
    anew: bool = False
    """The provider is asked again: what was heard of this answer before counts no more."""
    kind: Literal["text-delta"] = "text-delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """The model is asked for the answer of a step (S3.9); how the step ends is logged."""

    step: int
    kind: Literal["step-started"] = "step-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool call went from pending to running (S3.7)."""

    call: ToolCall
    """As the model wrote it; in the log it stands once the step is over."""
    kind: Literal["tool-started"] = "tool-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """A running call gave its result; others of the same answer may still run."""

    result: ToolResult
    kind: Literal["tool-ended"] = "tool-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The next thing takes time: a retry of the provider, a summary being written."""

    what: str
    seconds: float | None = None
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The policy has something to say to whoever watches, e.g. that a limit is near (S4.4)."""

    text: str
    kind: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """How full the context is when a step has ended (S2.10)."""

    tokens: int
    """The next two together; before the first report, the estimate of the whole view."""
    usage_tokens: int
    """The last call as the provider reported it, answer included."""
    trailing_tokens: int
    """Estimate of what came behind that answer: the results of its calls and what the user said."""
    kind: Literal["context-usage"] = "context-usage"


SessionState: TypeAlias = Literal["new", "starting", "working", "compacting", "asking", "idle", "failed", "closed"]
"""Of a session of several turns: `compacting` while a summary is written, `asking` while a repeated call waits for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """What a session does, or what waits for it, is another."""

    state: SessionState
    queued: tuple[str, ...]
    """Messages that wait, the next one first."""
    kind: Literal["state-changed"] = "state-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRepeated:
    """The agent is about to make the same call once more; somebody is asked what to do (S3.10)."""

    call: ToolCall
    times: int
    """In a row, this one included."""
    kind: Literal["call-repeated"] = "call-repeated"


Signal: TypeAlias = (
    StepStarted | TextDelta | ToolStarted | ToolEnded | Waiting | Notice | ContextUsage | StateChanged | CallRepeated
)

EventListener: TypeAlias = Callable[[Entry | Signal], None]
"""Function that is called with every logged entry and every signal of a session, in order."""
