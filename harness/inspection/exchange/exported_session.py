"""Session as the writers of all formats see it: messages, model calls with their requests, and compactions, in order."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness.conversation.events import CallTiming, Compaction, MessageAdded, SessionEnded, SessionStarted, StepFinished
from harness.conversation.messages import Message, ToolCall
from harness.conversation.tokens import QuarterOfCharacters, Usage
from harness.conversation.view import View, drop_rolled_back, fold
from harness.recordings.session_file import TimedEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedMessage:
    """Message that no model wrote: the system prompt, a message of the user or a note of the program."""

    message: Message
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """Model call with its request, answer and tool results."""

    request: Sequence[Message]
    """Messages in view when the model was asked."""
    answer: Message
    results: tuple[Message, ...]
    timings: Mapping[str, CallTiming]
    """Times of tool calls, by their ids, where they are known."""
    usage: Usage | None
    """Tokens that the provider reported; None if it reported none."""
    cost_usd: float | None
    seconds: float
    """Duration of the model call."""
    at_ms: int | None
    """Time of the answer in milliseconds since the epoch; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedCompaction:
    """Compaction that changed the context."""

    inserted: tuple[Message, ...]
    """Messages that the compaction added to the context, such as a summary."""
    reason: str
    is_manual: bool
    tokens_before: int
    """Tokens of the context by the agent's own count, or else estimated."""
    tokens_after: int
    seconds: float
    at_ms: int | None


SessionItem: TypeAlias = TypedMessage | ModelCall | AppliedCompaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSession:
    """Session to be written in a format of another program."""

    session_id: str
    agent: str
    """Name of the agent: the format of a recording, or `harness`."""
    model: str
    task: str
    items: tuple[SessionItem, ...]
    error: str = ""
    """Reason why the session failed; empty if it did not."""

    @property
    def calls(self) -> Iterator[ModelCall]:
        """Model calls of the session, in order."""
        return (item for item in self.items if isinstance(item, ModelCall))

    @property
    def cost_usd(self) -> float | None:
        """Sum of the known costs of the model calls; None if no cost is known."""
        costs = [call.cost_usd for call in self.calls if call.cost_usd is not None]
        return sum(costs) if costs else None


def decode_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a tool call; those that are no JSON object are under the name `raw`."""
    try:
        arguments = json.loads(call.arguments_json)
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {"raw": call.arguments_json}


def build_exported_session(log: Sequence[TimedEntry]) -> ExportedSession:
    """Return the messages, model calls and compactions of a session, without what was rolled back."""
    times_ms = {timed.entry.seq: timed.at_ms or None for timed in log}
    counter, view = QuarterOfCharacters(), View()
    start: SessionStarted | None = None
    items: list[SessionItem] = []
    answer: tuple[MessageAdded, Sequence[Message], int | None] | None = None
    results: list[MessageAdded] = []
    error = ""
    for entry in drop_rolled_back(timed.entry for timed in log):
        event, at_ms = entry.event, times_ms[entry.seq]
        match event:
            case SessionStarted():
                start = start or event
            case MessageAdded(message=message) if message.role == "assistant":
                items += _end_call(answer, results, None)
                answer, results = (event, [item.message for item in view.items], at_ms), []
            case MessageAdded(message=message) if message.role == "tool":
                results.append(event)
            case MessageAdded(message=message):
                items += _end_call(answer, results, None)
                answer, results = None, []
                items.append(TypedMessage(message=message, at_ms=at_ms))
            case StepFinished():
                items += _end_call(answer, results, event)
                answer, results = None, []
            case Compaction(status="applied"):
                items.append(_make_compaction(event, at_ms))
            case SessionEnded(status="failed"):
                error = event.detail or event.reason
        view = fold(view, entry, counter)
    items += _end_call(answer, results, None)
    return ExportedSession(
        session_id=start.session_id if start else "",
        agent=_find_agent(start),
        model=start.model if start else "",
        task=start.task if start else "",
        items=tuple(items),
        error=error,
    )


def _find_agent(start: SessionStarted | None) -> str:
    if start is None or start.sandbox != "recorded":
        return "harness"
    try:
        return str(json.loads(start.policy_json)["source"])
    except (ValueError, KeyError, TypeError):
        return "recording"


def _end_call(
    answer: tuple[MessageAdded, Sequence[Message], int | None] | None, results: Sequence[MessageAdded], end: StepFinished | None
) -> Iterator[ModelCall]:
    if answer is None:
        return
    event, request, at_ms = answer
    is_reported = end is not None and end.usage.is_reported and end.usage.prompt_tokens + end.usage.output_tokens > 0
    yield ModelCall(
        request=request,
        answer=event.message,
        results=tuple([result.message for result in results]),
        timings={part.call_id: result.timing for result in results for part in result.message.results if result.timing},
        usage=end.usage if end is not None and is_reported else None,
        cost_usd=end.cost_usd if end is not None else None,
        seconds=end.model_seconds if end is not None else 0.0,
        at_ms=at_ms,
    )


def _make_compaction(event: Compaction, at_ms: int | None) -> AppliedCompaction:
    before, after = event.reported_tokens_before, event.reported_tokens_after
    return AppliedCompaction(
        inserted=tuple([insert.message for insert in event.patch.insert]),
        reason=event.reason,
        is_manual=event.moment == "manual",
        tokens_before=event.tokens_before if before is None else before,
        tokens_after=event.tokens_after if after is None else after,
        seconds=event.wall_seconds,
        at_ms=at_ms,
    )
