"""Importer of sessions recorded by goose, either exported as JSON or in the JSONL files of versions before the database.

Properties of the format:

- A message has `role`, `created` (seconds) and a list `content`. Results are in messages of the user.
- `metadata` says whether the user and the agent see a message. A compaction hides all messages before it from the agent. It adds
  a summary and an answer that only the agent sees, and repeats the newest message of the user.
- Only totals of tokens are recorded, none of single calls.
- Parts of a result with an audience without `assistant` are not sent to the model.

Source: block/goose at 05132966 (`crates/goose/src/conversation/message.rs`, `tool_result_serde.rs`), dbec1655
(`session/session_manager.rs`), 0fc5e540 (`session/legacy.rs`) and 0036b819 (`context_mgmt/mod.rs`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.conversation.messages import Message, Part, Text, ToolResult
from harness.recordings.blocks import flatten_text, make_call, make_reasoning_parts, make_text_parts
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction

FOLDERS = ("~/.local/share/goose/sessions",)
"""Folders in which the agent stores its sessions."""

_SILENT_TYPES = ("toolConfirmationRequest", "actionRequired", "systemNotification", "conversationCompacted")
_TOTALS = ("input_tokens", "output_tokens", "accumulated_input_tokens", "accumulated_output_tokens")


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a session of goose, recognised by its metadata or, without these, by its messages."""
    values = [value for _, value in document.rows]
    return any(is_object_with(value, "working_dir") and _has_totals(value) for value in values) or any(map(_is_message, values))


def _has_totals(value: dict[str, Any]) -> bool:
    return "conversation" in value or "total_tokens" in value or "message_count" in value


def _is_message(value: Any) -> bool:
    """Return whether a row is a message whose content has parts with the names of goose."""
    if not is_object_with(value, "role", "created", "content") or not isinstance(value["content"], list):
        return False
    return isinstance(value["created"], int) and any(
        is_object_with(part, "type") and part["type"] in {"toolRequest", "toolResponse"} for part in value["content"]
    )


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a file of goose as an unfinished recording."""
    rows = document.list_objects()
    if len(rows) == 1 and "conversation" in rows[0].values:
        [about] = rows = [document.read_root()]
        messages = list(about.read_objects("conversation"))
    else:
        messages = [row for row in rows if "working_dir" not in row.values]
    draft = Draft()
    for row in rows:
        if "working_dir" in row.values:
            _read_metadata(row, draft)
    _read_messages(messages, draft)
    yield draft


def _read_metadata(about: Fields, draft: Draft) -> None:
    draft.session_id = draft.session_id or about.read_text("id")
    draft.add_model(about.read_object("model_config").read_text("model_name"))
    totals = [f"{name} {about.read_count(name):,}" for name in _TOTALS if about.has(name)]
    if totals:
        draft.warn(about.place, f"totals of tokens: {', '.join(totals)}; no call has its own usage")


def _read_messages(messages: Sequence[Fields], draft: Draft) -> None:
    last_summary = max((number for number, message in enumerate(messages) if _is_hidden(message, "user")), default=-1)
    context: list[Message] = []
    newest_text = ""
    for number, message in enumerate(messages):
        draft.now_ms = message.read_time_ms("created")
        parts = list(_read_parts(message, draft))
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        if _is_hidden(message, "user") and not _is_hidden(message, "agent"):
            role = message.read_text("role")
            context.append(Message(role="assistant" if role == "assistant" else "user", parts=tuple(parts) or (Text(text=""),)))
            continue
        if context:
            is_repeated = message.read_text("role") == "user" and text == newest_text
            context += [Message(role="user", parts=(Text(text=text),))] if is_repeated else []
            draft.add_compaction(NativeCompaction(summary=context[0].text, view=tuple(context)))
            context = []
            if is_repeated:
                continue
        if _is_hidden(message, "agent") and number > last_summary:
            draft.count_dropped("message that only the user saw")
            continue
        match message.read_text("role"):
            case "user":
                newest_text = text if text and not any(isinstance(part, ToolResult) for part in parts) else newest_text
                draft.add_message("user", parts, message.place)
            case "assistant":
                draft.add_answer(parts, message.place)
            case role:
                draft.count_unread(message, f"message of role {role!r}")
    if context:
        draft.add_compaction(NativeCompaction(summary=context[0].text, view=tuple(context)))


def _is_hidden(message: Fields, reader: str) -> bool:
    """Return whether a message is hidden from the user or the agent; messages of early versions have no such mark."""
    return message.read_object("metadata").values.get(f"{reader}Visible") is False


def _read_parts(message: Fields, draft: Draft) -> Iterator[Part]:
    for part in message.read_objects("content"):
        match part.read_text("type"):
            case "text":
                yield from make_text_parts(part.read_text("text"))
            case "thinking":
                yield from make_reasoning_parts(part.read_text("thinking"))
            case "reasoning":
                yield from make_reasoning_parts(part.read_text("text"))
            case "redactedThinking":
                draft.count_dropped("thinking without text (encrypted)")
            case "toolRequest" | "frontendToolRequest":
                call = part.read_object("toolCall")
                value = call.read_object("value")
                name = value.read_text("name") or "(invalid call)"
                arguments = value.values.get("arguments") if value.values else {"error": call.read_text("error")}
                yield make_call(part.read_text("id"), name, arguments)
            case "toolResponse":
                yield _read_result(part, draft)
            case "image":
                draft.count_dropped("image in a message, replaced by a mark")
                yield Text(text="(image)")
            case kind if kind not in _SILENT_TYPES:
                draft.count_unread(part, f"part of type {kind!r}")


def _read_result(part: Fields, draft: Draft) -> ToolResult:
    result = part.read_object("toolResult")
    if result.read_text("status") == "error":
        return ToolResult(call_id=part.read_text("id"), name="", output=result.read_text("error"), status="error")
    value = result.values.get("value")
    content = value.get("content") if isinstance(value, dict) else value
    has_failed = isinstance(value, dict) and value.get("isError") is True
    if isinstance(content, list):
        sent = [item for item in content if _is_for_model(item)]
        for _ in range(len(content) - len(sent)):
            draft.count_dropped("part of a result that only the user saw")
        content = sent
    output = flatten_text(Fields({"content": content}, part.file, part.line, part.path), "content", draft)
    return ToolResult(call_id=part.read_text("id"), name="", output=output, status="error" if has_failed else "completed")


def _is_for_model(item: Any) -> bool:
    match item:
        case {"annotations": {"audience": list() as audience}} if audience:
            return "assistant" in audience
    return True
