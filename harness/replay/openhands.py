"""OpenHands' event lists (version 0): actions and observations; in evaluation outputs one list a row, under `history`.

Pitfalls: an observation is linked to its action by `cause` or by its call id; several actions may share one response, whose
usage counts once; `message`, `args` and `content` repeat each other; bookkeeping events (states, recalls) are no messages; a
condensation names the events that it forgets; old outputs hold pairs of action and observation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.errors import MalformedRecording
from harness.messages import Part, ToolCall
from harness.replay.blocks import arguments_text, content_parts, openai_usage
from harness.replay.document import Document
from harness.replay.draft import Draft, texts
from harness.replay.fields import Fields, compact_json, is_object_with
from harness.replay.recording import NativeCompaction, Recording

NAME = "openhands"
_SILENT = {"change_agent_state", "recall", "null", "agent_state_changed", "loop_recovery", ""}


def recognises(document: Document) -> bool:
    """Whether it is a list of events, or rows with a history of events."""
    if isinstance(document.whole, list):
        return any(_is_event(item) for item in _events_in(document.whole))
    return any(
        is_object_with(value, "history")
        and "trajectory" not in value
        and isinstance(value["history"], list)
        and any(_is_event(item) for item in _events_in(value["history"]))
        for _, value in document.rows
    )


def _is_event(item: Any) -> bool:
    return isinstance(item, dict) and ("action" in item or "observation" in item) and ("source" in item or "args" in item)


def _events_in(history: list[Any]) -> Iterator[Any]:
    for item in history:
        if isinstance(item, list):
            yield from item
        else:
            yield item


def read(document: Document) -> tuple[Recording, ...]:
    """The session of a list, or one session for each row with a history."""
    if isinstance(document.whole, list):
        whole = Fields({"history": list(_events_in(document.whole))}, document.file, "")
        return (_session(whole, document),)
    rows = [Fields(value, document.file, f"line {line}") for line, value in document.rows if isinstance(value, dict)]
    held = [row for row in rows if isinstance(row.values.get("history"), list) and row.values["history"]]
    if not held:
        raise MalformedRecording(document.file, "", "a row with events in its history")
    return tuple(
        _session(Fields({**row.values, "history": list(_events_in(row.values["history"]))}, row.file, row.line), document)
        for row in held
    )


def _session(whole: Fields, document: Document) -> Recording:
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats))
    value = whole.values.get("instance_id")
    draft.session_id = value if isinstance(value, str) else ""
    draft.cost_usd = whole.nested("metrics").amount("accumulated_cost") if isinstance(whole.values.get("metrics"), dict) else None
    reader = _Reader(draft=draft)
    for event in whole.objects("history"):
        reader.event(event)
    return draft.finish()


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Tells events; remembers which event made which call and which responses were told."""

    draft: Draft
    call_of_event: dict[int, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def event(self, event: Fields) -> None:
        if event.has("action"):
            self.action(event, event.text("action"))
        elif event.has("observation"):
            self.observation(event, event.text("observation"))
        else:
            self.draft.drop("event that is neither action nor observation")

    def action(self, event: Fields, action: str) -> None:
        arguments, source = event.nested("args"), event.text("source")
        if action == "system":
            role = "user" if self.draft.turns else "system"
            self.draft.say(role, texts(arguments.text("content")), event.place)  # type: ignore[arg-type]
        elif action == "condensation":
            self.draft.compaction(
                NativeCompaction(kind="compaction", position=0, trigger="auto", summary=arguments.text("summary"))
            )
        elif action in _SILENT:
            return
        elif source == "user":
            text = arguments.text("content") if action == "message" else event.text("message")
            self.draft.say("user", texts(text), event.place)
        elif source == "agent":
            self.answer(event, action, arguments)
        else:
            self.draft.drop(f"action {action!r} of {source or 'nobody'}")

    def answer(self, event: Fields, action: str, arguments: Fields) -> None:
        metadata = event.nested("tool_call_metadata")
        response = metadata.nested("model_response")
        key = response.text("id")
        message = next((choice.nested("message") for choice in response.objects("choices")), None)
        first = not key or key not in self.told
        self.told.add(key)
        parts: list[Part] = []
        if first:
            parts += content_parts(message, self.draft) if message is not None else texts(_said(action, arguments))
        if metadata.has("tool_call_id") or action != "message":
            parts.append(self.call(event, metadata, message, arguments))
        turn = self.draft.answer(parts, event.place, key=key)
        usage = openai_usage(response.nested("usage")) if response.has("usage") else None
        self.draft.wrote(turn, response.text("model"), usage)

    def call(self, event: Fields, metadata: Fields, message: Fields | None, arguments: Fields) -> ToolCall:
        call_id = metadata.text("tool_call_id") or f"event-{event.count('id')}"
        if event.has("id"):
            self.call_of_event[event.count("id")] = call_id
        for call in message.objects("tool_calls") if message is not None else ():
            if call.text("id") == call_id:
                function = call.nested("function")
                written = arguments_text(function.values.get("arguments"))
                return ToolCall(call_id=call_id, name=function.text("name"), arguments_json=written)
        name = metadata.text("function_name") or event.text("action")
        rest = {key: value for key, value in arguments.values.items() if key != "thought"}
        return ToolCall(call_id=call_id, name=name, arguments_json=compact_json(rest))

    def observation(self, event: Fields, observation: str) -> None:
        call_id = event.nested("tool_call_metadata").text("tool_call_id")
        if not call_id and observation not in _SILENT and event.has("cause"):
            call_id = self.call_of_event.get(event.count("cause"), "")
        failed = observation == "error"
        if call_id:
            self.draft.result(call_id, event.text("content"), event.place, status="error" if failed else "completed")
        elif observation not in _SILENT:
            self.draft.say("user", texts(event.text("content")), event.place)


def _said(action: str, arguments: Fields) -> str:
    return arguments.text("content") if action == "message" else arguments.text("thought")
