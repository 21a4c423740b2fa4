"""Importer of sessions recorded by OpenHands (version 0) as lists of events, which are actions and observations.

Properties of the format:

- Evaluation outputs have one list of events per row (`history`).
- An observation is linked to its action by `cause` or by its call id.
- Several actions may share one response of the model, whose usage counts once.
- `message`, `args` and `content` repeat each other.
- Bookkeeping events (states, recalls) are no messages.
- A condensation lists the events that it evicts.
- Old outputs hold pairs of action and observation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from harness.conversation.messages import Part, ToolCall
from harness.errors import MalformedRecording
from harness.recordings.blocks import make_call, make_text_parts, read_openai_calls, read_openai_usage, read_parts
from harness.recordings.document import Document, Fields
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction

_IGNORED_EVENTS = {"change_agent_state", "recall", "null", "agent_state_changed", "loop_recovery", ""}


def can_read(document: Document) -> bool:
    """Return whether a parsed file holds events of OpenHands, as one list or, in `history`, a list per row."""
    if isinstance(document.single_value, list):
        return _has_event(document.single_value)
    return any(
        isinstance(value, dict) and "trajectory" not in value and _has_event(value.get("history")) for _, value in document.rows
    )


def _has_event(history: Any) -> bool:
    return isinstance(history, list) and any(_is_event(item) for item in _flatten_events(history))


def _is_event(item: Any) -> bool:
    return isinstance(item, dict) and ("action" in item or "observation" in item) and ("source" in item or "args" in item)


def _flatten_events(history: list[Any]) -> Iterator[Any]:
    return chain.from_iterable(item if isinstance(item, list) else [item] for item in history)


def read(document: Document) -> Iterator[Draft]:
    """Yield the session of each list of OpenHands events in a file as a `Draft`.

    A file is one list or has one list per row.
    """
    rows = [document.read_root("history")] if isinstance(document.single_value, list) else document.list_objects()
    session_rows = [row for row in rows if isinstance(row.values.get("history"), list) and row.values["history"]]
    if not session_rows:
        raise MalformedRecording(document.file, "", "a row with events in its history")
    for row in session_rows:
        draft = _read_session(replace(row, values={**row.values, "history": list(_flatten_events(row.values["history"]))}))
        for other in rows:
            if row is session_rows[0] and "history" not in other.values:
                draft.count_unread(other, "row without a history")
        yield draft


def _read_session(whole: Fields) -> Draft:
    session_id = whole.values.get("instance_id")
    draft = Draft(session_id=session_id if isinstance(session_id, str) else "")
    if isinstance(whole.values.get("metrics"), dict):
        draft.cost_usd = whole.read_object("metrics").read_amount("accumulated_cost")
    reader = _Reader(draft=draft)
    for event in whole.read_objects("history"):
        reader.read_event(event)
    return draft


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reader that adds the events of an OpenHands session (actions and observations) to the recording."""

    draft: Draft
    call_of_event: dict[int, str] = field(default_factory=dict)
    seen_responses: set[str] = field(default_factory=set)

    def read_event(self, event: Fields) -> None:
        self.draft.now_ms = event.read_time_ms("timestamp")
        if event.has("action"):
            self.read_action(event, event.read_text("action"))
        elif event.has("observation"):
            self.read_observation(event, event.read_text("observation"))
        else:
            self.draft.count_dropped("event that is neither action nor observation")

    def read_action(self, event: Fields, action: str) -> None:
        arguments, source = event.read_object("args"), event.read_text("source")
        if action == "system":
            self.draft.add_message("system", make_text_parts(arguments.read_text("content")), event.place)
        elif action == "condensation":
            self.draft.add_compaction(NativeCompaction(trigger="auto", summary=arguments.read_text("summary")))
        elif action in _IGNORED_EVENTS:
            self.draft.count_unread(arguments, f"action {action!r}")
        elif source == "user":
            text = arguments.read_text("content") if action == "message" else event.read_text("message")
            self.draft.add_message("user", make_text_parts(text), event.place)
        elif source == "agent":
            self.read_answer(event, action, arguments)
        else:
            self.draft.count_dropped(f"action {action!r} of {source or 'unknown source'}")

    def read_answer(self, event: Fields, action: str, arguments: Fields) -> None:
        metadata = event.read_object("tool_call_metadata")
        response = metadata.read_object("model_response")
        key = response.read_text("id")
        message = next((choice.read_object("message") for choice in response.read_objects("choices")), None)
        first = not key or key not in self.seen_responses
        self.seen_responses.add(key)
        parts: list[Part] = []
        if first:
            name = "content" if action == "message" else "thought"
            parts += make_text_parts(arguments.read_text(name)) if message is None else read_parts(message, self.draft)
        if metadata.has("tool_call_id") or action != "message":
            parts.append(self.read_call(event, metadata, message, arguments))
        usage = read_openai_usage(response.read_object("usage"))
        self.draft.add_answer(parts, event.place, key=key, model=response.read_text("model"), usage=usage)

    def read_call(self, event: Fields, metadata: Fields, message: Fields | None, arguments: Fields) -> ToolCall:
        call_id = metadata.read_text("tool_call_id") or f"event-{event.read_count('id')}"
        if event.has("id"):
            self.call_of_event[event.read_count("id")] = call_id
        for call in read_openai_calls(message) if message is not None else ():
            if call.call_id == call_id:
                return call
        rest = {key: value for key, value in arguments.values.items() if key != "thought"}
        return make_call(call_id, metadata.read_text("function_name") or event.read_text("action"), rest)

    def read_observation(self, event: Fields, observation: str) -> None:
        call_id = event.read_object("tool_call_metadata").read_text("tool_call_id")
        if not call_id and observation not in _IGNORED_EVENTS and event.has("cause"):
            call_id = self.call_of_event.get(event.read_count("cause"), "")
        if call_id:
            self.draft.add_result(call_id, event.read_text("content"), event.place, status=observation)
        elif observation in _IGNORED_EVENTS:
            self.draft.count_unread(Fields({"content": event.values.get("content")}, "", ""), f"observation {observation!r}")
        else:
            self.draft.add_message("user", make_text_parts(event.read_text("content")), event.place)
