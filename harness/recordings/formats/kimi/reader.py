"""Importer of sessions recorded by Kimi CLI: events of a session (`wire.jsonl`) or its present context (`context.jsonl`).

Properties of the format:

- `wire.jsonl` has the whole session, with the usage of each call, but neither the model nor the summary of a compaction. Texts
  of one answer are merged before they are written. Events of a sub-agent are wrapped in events of the session.
- `context.jsonl` has the messages that the model reads now, with the system prompt. A compaction or a rewind begins a new file.
- The model reads the message of a tool result inside `<system>` marks, before the output.

Source: MoonshotAI/kimi-cli at 4a550eff (`src/kimi_cli/wire/file.py`, `wire/types.py`, `soul/context.py`, `soul/message.py`,
`soul/kimisoul.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.conversation.messages import Part, Text
from harness.recordings.blocks import make_call, make_reasoning_parts, make_text_parts, read_openai_calls, read_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft, Turn
from harness.recordings.recording import NativeCompaction, SubAgentLink

FOLDERS = ("~/.kimi/sessions",)
"""Folders in which the agent stores its sessions."""

_CONTEXT_ROLES = ("_system_prompt", "_checkpoint", "_usage")
_SUMMARY_PREFIX = "<system>Previous context has been compacted."
"""First words of the message with the summary of a compaction."""
_SILENT_EVENTS = ("TurnEnd", "StepBegin", "StepRetry", "MCPLoadingBegin", "MCPLoadingEnd", "HookTriggered", "HookResolved")


def can_read(document: Document) -> bool:
    """Return whether a parsed file has the events or the context of a session of Kimi CLI."""
    return any(_is_wire_row(value) or _is_context_row(value) for _, value in document.rows)


def _is_wire_row(value: Any) -> bool:
    if is_object_with(value, "type", "protocol_version"):
        return bool(value["type"] == "metadata")
    return is_object_with(value, "timestamp", "message") and is_object_with(value["message"], "type", "payload")


def _is_context_row(value: Any) -> bool:
    return is_object_with(value, "role") and value["role"] in _CONTEXT_ROLES


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a file of Kimi CLI as an unfinished recording, and then the sessions of its sub-agents."""
    rows = document.list_objects()
    if any(_is_context_row(row.values) for row in rows):
        draft = Draft()
        for row in rows:
            _read_context_row(row, draft)
        draft.warn("", "the file has the context at its end: what was compacted or rewound before it is in other files")
        yield draft
        return
    readers = {"": _WireReader()}
    for row in rows:
        if row.read_text("type") != "metadata" or row.has("message"):
            _read_wire_row(row, readers)
    main = readers.pop("").finish()
    # the id of the session is the name of its folder, which a copy of the file lacks; the first time is unique on a machine
    first_ms = next((time_ms for row in rows if (time_ms := row.read_time_ms("timestamp")) is not None), None)
    main.session_id = "kimi" if first_ms is None else f"kimi-{first_ms}"
    for call_id, reader in readers.items():
        child = reader.finish()
        child.session_id, child.parent_id = f"{main.session_id}.{call_id}", main.session_id
        main.sub_agents.append(SubAgentLink(session_id=child.session_id, call_id=call_id))
    yield main
    yield from (reader.draft for reader in readers.values() if reader.draft.turns)


def _read_wire_row(row: Fields, readers: dict[str, "_WireReader"]) -> None:
    event, call_id = row.read_object("message"), ""
    while event.read_text("type") == "SubagentEvent":
        payload = event.read_object("payload")
        call_id = payload.read_text("parent_tool_call_id") or payload.read_text("task_tool_call_id") or "agent"
        event = payload.read_object("event")
    reader = readers.setdefault(call_id, _WireReader())
    reader.draft.now_ms = row.read_time_ms("timestamp")
    if event.values:
        reader.read_event(event)
    else:
        reader.draft.count_unread(row, "row without an event")


@dataclass(slots=True)
class _WireReader:
    """Reader of the events of one session or sub-agent."""

    draft: Draft = field(default_factory=Draft)
    answer: Turn | None = None
    """Answer to which the next text or call belongs; None if these begin a new answer."""
    typed: tuple[list[Part], str, int | None] | None = None
    """Newest message of the user with place and time, which is a command and no message if a compaction follows it."""
    context_tokens: int | None = None
    compaction_start_ms: int | None = None
    is_manual: bool = False

    def finish(self) -> Draft:
        """Return the draft, with what the user typed last."""
        self.add_typed()
        return self.draft

    def add_typed(self) -> None:
        """Add the newest message of the user, which turned out to be no command."""
        if self.typed is not None:
            parts, place, at_ms = self.typed
            now_ms, self.draft.now_ms, self.typed = self.draft.now_ms, at_ms, None
            self.draft.add_message("user", parts, place)
            self.draft.now_ms = now_ms

    def read_event(self, event: Fields) -> None:
        """Read one event."""
        payload, kind = event.read_object("payload"), event.read_text("type")
        if kind == "CompactionBegin":
            self.is_manual = self.typed is not None and _is_command(self.typed[0])
            self.typed = None if self.is_manual else self.typed
        if kind not in {"StepBegin", "StatusUpdate", "CompactionEnd"}:
            self.add_typed()
        match kind:
            case "TurnBegin" | "SteerInput":
                self.answer = None
                self.typed = (list(_read_content(payload, "user_input", self.draft)), event.place, self.draft.now_ms)
            case "StepBegin" | "StepInterrupted":
                self.answer = None
            case "ContentPart":
                self.extend_answer(list(_read_part(payload, self.draft)), event)
            case "ToolCall":
                function = payload.read_object("function")
                arguments = function.values.get("arguments") or "{}"
                self.extend_answer([make_call(payload.read_text("id"), function.read_text("name"), arguments)], event)
            case "ToolCallPart":
                self.draft.count_dropped("piece of the arguments of a call, left out")
            case "ToolResult":
                _read_result(payload, self.draft, event.place)
            case "StatusUpdate":
                self.read_status(payload, event.place)
            case "CompactionBegin":
                self.compaction_start_ms = self.draft.now_ms
            case "CompactionEnd":
                self.read_compaction()
            case _ if kind not in _SILENT_EVENTS:
                self.draft.count_unread(payload if payload.values else event, f"event of type {kind!r}")

    def extend_answer(self, parts: list[Part], event: Fields) -> None:
        """Add parts to the answer of the present step."""
        if self.answer is None:
            self.answer = self.draft.add_answer([], event.place)
        self.answer.parts += parts
        self.answer.at_ms = self.draft.now_ms

    def read_status(self, payload: Fields, place: str) -> None:
        """Read the usage of the answer that just ended, and the size of the context."""
        self.context_tokens = payload.read_optional_count("context_tokens") or self.context_tokens
        if payload.has("token_usage"):
            names = ("input_other", "output", "input_cache_read", "input_cache_creation")
            usage = read_usage(payload.read_object("token_usage"), *names)
            answer = self.answer or self.draft.add_answer([], place)
            answer.request_key = payload.read_text("message_id")
            self.draft.annotate_answer(answer, "", usage)
            self.answer = None

    def read_compaction(self) -> None:
        """Add the compaction that just ended; the file does not say what it kept."""
        self.add_typed()
        start, end = self.compaction_start_ms, self.draft.now_ms
        event = NativeCompaction(
            trigger="manual" if self.is_manual else "auto",
            tokens_before=self.context_tokens,
            seconds=None if start is None or end is None else max(0, end - start) / 1000,
        )
        self.draft.add_compaction(event)
        self.answer = None


def _is_command(parts: list[Part]) -> bool:
    return len(parts) == 1 and isinstance(parts[0], Text) and parts[0].text.lstrip().startswith("/compact")


def _read_content(owner: Fields, name: str, draft: Draft) -> Iterator[Part]:
    if isinstance(owner.values.get(name), str):
        yield from make_text_parts(owner.read_text(name))
        return
    for part in owner.read_objects(name):
        yield from _read_part(part, draft)


def _read_part(part: Fields, draft: Draft) -> Iterator[Part]:
    match part.read_text("type"):
        case "text":
            yield from make_text_parts(part.read_text("text"))
        case "think":
            yield from make_reasoning_parts(part.read_text("think"))
        case "image_url" | "audio_url" | "video_url" as kind:
            draft.count_dropped(f"{kind} in a message, replaced by a mark")
            yield Text(text=f"({kind})")
        case kind:
            draft.count_unread(part, f"part of type {kind!r}")


def _read_result(payload: Fields, draft: Draft, place: str) -> None:
    value = payload.read_object("return_value")
    has_failed, note = value.read_flag("is_error"), value.read_text("message")
    texts = [f"<system>ERROR: {note}</system>" if has_failed else f"<system>{note}</system>"] if note else []
    texts += [part.text for part in _read_content(value, "output", draft) if isinstance(part, Text)]
    output = "\n".join(texts) or "<system>Tool output is empty.</system>"
    draft.add_result(payload.read_text("tool_call_id"), output, place, status="error" if has_failed else "completed")


def _read_context_row(row: Fields, draft: Draft) -> None:
    parts = list(_read_content(row, "content", draft))
    match row.read_text("role"):
        case "_system_prompt":
            draft.add_message("system", parts, row.place)
        case "user" | "system":
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            if text.startswith(_SUMMARY_PREFIX):
                draft.add_compaction(NativeCompaction(summary=text, in_place=True))
            draft.add_message("user", parts, row.place)
        case "assistant":
            draft.add_answer([*parts, *read_openai_calls(row)], row.place)
        case "tool":
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            status = "error" if text.startswith("<system>ERROR:") else "completed"
            draft.add_result(row.read_text("tool_call_id"), text, row.place, status=status)
        case "_checkpoint" | "_usage":
            pass
        case role:
            draft.count_unread(row, f"row of role {role!r}")
