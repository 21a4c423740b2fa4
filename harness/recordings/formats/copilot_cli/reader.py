"""Importer of sessions recorded by GitHub Copilot CLI, whose files `events.jsonl` have one JSON row per event.

Properties of the format:

- An event has `type`, `data`, `id`, `timestamp` and `parentId`. Events of a sub-agent have the id of the agent, in early versions
  the id of the tool call that started it.
- The usage of each call (`assistant.usage`) is never written to the file. Answers have only their output tokens, and the row
  `session.shutdown` has totals.
- `transformedContent` is the text of a user message as the model read it.
- A rewind removes the event that it names and all behind it.

Source: github/copilot-sdk at cc0438d6 (`nodejs/src/generated/session-events.ts`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.conversation.messages import Part
from harness.errors import format_count
from harness.recordings.blocks import build_usage, make_call, make_reasoning_parts, make_text_parts
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import LeftOutCall, NativeCompaction, SubAgentLink

FOLDERS = ("~/.copilot/session-state",)
"""Folders in which the agent stores its sessions."""

_REPEATED = ("assistant.reasoning", "tool.execution_start", "tool.execution_partial_result", "session.compaction_start")
"""Types of events whose content other events repeat."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a log of events of Copilot CLI, recognised by the names and fields of its events."""
    return any(_is_event(value) for _, value in document.rows)


def _is_event(value: Any) -> bool:
    if not is_object_with(value, "type", "data", "id") or not isinstance(value["data"], dict):
        return False
    if value["type"] == "session.start":
        return "copilotVersion" in value["data"] or value["data"].get("producer") == "copilot-agent"
    return value["type"] in {"user.message", "assistant.message"} and "parentId" in value


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a log of Copilot CLI as an unfinished recording, and then the sessions of its sub-agents."""
    reader = _Reader()
    for row in document.list_objects():
        reader.read_event(row)
    main = reader.drafts.pop("")
    for agent, draft in reader.drafts.items():
        draft.session_id, draft.parent_id = f"{main.session_id}.{agent}", main.session_id
        main.sub_agents.append(SubAgentLink(session_id=draft.session_id, call_id=reader.call_of_agent.get(agent, "")))
    yield main
    yield from (draft for draft in reader.drafts.values() if draft.turns)


@dataclass(slots=True)
class _Reader:
    """Reader of the events of a session and its sub-agents."""

    drafts: dict[str, Draft] = field(default_factory=lambda: {"": Draft()})
    """Drafts of the session (empty name) and its sub-agents."""
    call_of_agent: dict[str, str] = field(default_factory=dict)
    turn_of_event: dict[str, int] = field(default_factory=dict)
    """Index of the next turn of the main session at each event, by the id of the event."""

    def read_event(self, row: Fields) -> None:
        """Read one event into the draft of its agent."""
        data, kind = row.read_object("data"), row.read_text("type")
        call_id = data.read_text("parentToolCallId")
        if kind == "subagent.started":
            call_id = data.read_text("toolCallId")
        agent = row.read_text("agentId") or (call_id if kind != "subagent.started" else "")
        if agent and call_id:
            self.call_of_agent[agent] = call_id
        self.turn_of_event[row.read_text("id")] = len(self.drafts[""].turns)
        draft = self.drafts.setdefault(agent, Draft())
        draft.now_ms = row.read_time_ms("timestamp")
        match kind:
            case "session.start":
                draft.session_id = draft.session_id or data.read_text("sessionId")
                draft.add_model(data.read_text("selectedModel"))
            case "session.model_change":
                draft.add_model(data.read_text("newModel"))
            case "system.message":
                parts = make_text_parts(data.read_text("content"))
                if not any(turn.parts == list(parts) for turn in draft.turns[:1]):  # repeated when a session is resumed
                    draft.add_message("system", parts, row.place)
            case "user.message":
                text = data.read_text("transformedContent") or data.read_text("content")
                draft.add_message("user", make_text_parts(text), row.place)
                for _ in data.read_objects("attachments"):
                    draft.count_dropped("attachment of a message, left out")
            case "assistant.message":
                _read_answer(data, draft, row)
            case "tool.execution_complete":
                _read_result(data, draft, row.place)
            case "session.compaction_complete":
                _read_compaction(data, draft, row.place)
            case "session.context_cleared":
                draft.add_compaction(NativeCompaction(trigger="manual", summary=data.read_text("initialMessage")))
            case "session.truncation":
                draft.count_dropped("truncation of the context, whose removed messages are not named")
            case "session.snapshot_rewind":
                self.rewind(data.read_text("upToEventId"), row.place)
            case "session.shutdown":
                _read_totals(data, draft, row.place)
            case _ if kind not in _REPEATED:
                draft.count_unread(data if data.values else row, f"event of type {kind!r}")

    def rewind(self, event_id: str, place: str) -> None:
        """Remove the messages of the session from an event on, if it is in the file."""
        main = self.drafts[""]
        start = self.turn_of_event.get(event_id, len(main.turns))
        removed = main.turns[start:]
        main.leave_out(removed, "rewound")
        main.cut(start)
        main.warn(place, f"a rewind removed {format_count(len(removed), 'message')}, whose cost counts")


def _read_answer(data: Fields, draft: Draft, row: Fields) -> None:
    parts: list[Part] = [
        *make_reasoning_parts(data.read_text("reasoningText")),
        *make_text_parts(data.read_text("content")),
        *(
            make_call(request.read_text("toolCallId"), request.read_text("name"), request.values.get("arguments"))
            for request in data.read_objects("toolRequests")
        ),
    ]
    if data.has("encryptedContent") or data.has("reasoningOpaque"):
        draft.count_dropped("reasoning whose text is encrypted")
    key = data.read_text("apiCallId") if data.has("chunkCount") else ""
    turn = draft.add_answer(parts, row.place, key=key, model=data.read_text("model"))
    turn.request_key = data.read_text("messageId")


def _read_result(data: Fields, draft: Draft, place: str) -> None:
    if data.read_flag("success"):
        draft.add_result(data.read_text("toolCallId"), data.read_object("result").read_text("content"), place)
    else:
        text = data.read_object("error").read_text("message") or data.read_object("result").read_text("content")
        draft.add_result(data.read_text("toolCallId"), text, place, status="error")


def _read_compaction(data: Fields, draft: Draft, place: str) -> None:
    spent = data.read_object("compactionTokensUsed")
    if spent.values:
        prompt, read, written = (spent.read_count(f"{name}Tokens") for name in ("input", "cacheRead", "cacheWrite"))
        uncached = prompt - read - written if prompt >= read + written else prompt
        draft.left_out_calls.append(
            LeftOutCall(
                reason="compaction",
                place=place,
                usage=build_usage(uncached, spent.read_count("outputTokens"), read=read, written=written),
                model=spent.read_text("model"),
                at_ms=draft.now_ms,
            )
        )
    if not data.read_flag("success"):
        draft.warn(place, "a compaction failed; the context stayed as it was")
        return
    before, removed = data.read_optional_count("preCompactionTokens"), data.read_optional_count("tokensRemoved")
    after = data.read_optional_count("postCompactionTokens")
    if after is None and before is not None and removed is not None:
        after = before - removed
    duration_ms = spent.read_amount("duration")
    trigger = data.read_text("trigger")
    event = NativeCompaction(
        trigger="manual" if trigger == "manual" else "auto" if trigger else "unknown",
        tokens_before=before,
        tokens_after=after,
        seconds=None if duration_ms is None else duration_ms / 1000,
        summary=data.read_text("summaryContent"),
    )
    draft.add_compaction(event)


def _read_totals(data: Fields, draft: Draft, place: str) -> None:
    """Add the totals of a session that ended, by model, as notes."""
    metrics = data.read_object("modelMetrics")
    for model in metrics.values:
        usage = metrics.read_object(model).read_object("usage")
        counts = {name: usage.read_count(f"{name}Tokens") for name in ("input", "output", "cacheRead", "cacheWrite")}
        text = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        draft.warn(place, f"tokens of all calls of {model} by the agent's total: {text}; no call has its own usage")
