"""Importer of sessions recorded by Gemini CLI, either as a list of contents (`parts`) or as a session with messages.

Properties of the format:

- Reasoning is in parts flagged `thought`.
- A compressed history begins with a `<state_snapshot>`; the summarized messages are not in the file.
- Recorded outputs may already be masked, and the tool call of a response may be missing.
- In a session, messages hold tool calls with their results. Prompt tokens include tokens read from the cache, and output tokens
  exclude reasoning.
- Later sessions have one message per row. `$rewindTo` removes the message that it names and all behind it, `$set` with
  `messages` replaces all messages.

Source of the rows: google-gemini/gemini-cli at 016443b5 (`chatRecordingService.ts`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.conversation.messages import Part, Reasoning, Text
from harness.errors import format_count
from harness.recordings.blocks import build_usage, make_call, make_text_parts, read_gemini_parts, read_gemini_response
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction

_SNAPSHOT = "<state_snapshot>"

FOLDERS = ("~/.gemini/tmp",)
"""Folders in which the agent stores its sessions."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is of Gemini CLI: a list of contents, or a session with a project hash."""
    whole = document.single_value
    if isinstance(whole, list):
        return any(is_object_with(item, "role", "parts") for item in whole)
    return any(is_object_with(value, "sessionId", "projectHash") for _, value in document.rows)


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a file of Gemini CLI as a `Draft`."""
    draft = Draft()
    if isinstance(document.single_value, list):
        _read_contents(document.read_root("contents"), draft)
    else:
        _read_session(document, draft)
    yield draft


def _read_contents(whole: Fields, draft: Draft) -> None:
    waiting: dict[str, list[str]] = {}
    for content in whole.read_objects("contents"):
        parts = list(read_gemini_parts(content, draft, waiting))
        role = content.read_text("role")
        if role == "model":
            draft.add_answer(parts, content.place)
        elif role in {"user", "function", "system"}:
            if _begins_with_snapshot(parts):
                text = "\n".join(part.text for part in parts if isinstance(part, Text))
                draft.add_compaction(NativeCompaction(summary=text, in_place=True))
            draft.add_message(role, parts, content.place)
        else:
            draft.count_dropped(f"content of role {role!r}, whose text is not read")


def _begins_with_snapshot(parts: list[Part]) -> bool:
    return bool(parts) and isinstance(parts[0], Text) and parts[0].text.lstrip().startswith(_SNAPSHOT)


def _read_session(document: Document, draft: Draft) -> None:
    edits = _Edits(draft=draft)
    for row in document.list_objects() if len(document.rows) > 1 else [document.read_root()]:
        edits.read_row(row)
    side = Draft()
    for message in edits.removed:
        _read_message(message, side)
    draft.leave_out(side.turns, "rewound")
    for message in edits.messages.values():
        _read_message(message, draft)


def _read_message(message: Fields, draft: Draft) -> None:
    draft.now_ms = message.read_time_ms("timestamp")
    match message.read_text("type"):
        case "user":
            draft.add_message("user", _read_content(message, draft), message.place)
        case "gemini":
            _read_answer(message, draft)
        case kind:
            draft.count_dropped(f"message of type {kind!r}")


@dataclass(slots=True, kw_only=True)
class _Edits:
    """Reader of the rows of a session file, each of which adds, replaces or removes messages.

    Of several rows with the same id, the last one counts.
    """

    draft: Draft
    messages: dict[str, Fields] = field(default_factory=dict)
    removed: list[Fields] = field(default_factory=list)
    """Messages that a later row removed, such as those that the user rewound."""

    def read_row(self, row: Fields) -> None:
        self.draft.session_id = self.draft.session_id or row.read_text("sessionId")
        if row.has("$rewindTo"):
            count = self.rewind(row.read_text("$rewindTo"))
            self.draft.warn(row.place, f"a rewind removed {format_count(count, 'message')}, whose cost counts")
        elif row.has("$set"):
            self.set_fields(row.read_object("$set"))
        elif row.has("type"):
            self.messages[row.read_text("id") or f"{len(self.messages)}"] = row
        elif row.has("messages"):
            for message in row.read_objects("messages"):
                self.messages[f"{len(self.messages)} {message.read_text('id')}"] = message
        elif not row.has("sessionId"):
            self.draft.count_unread(row, "row without a type")

    def rewind(self, message_id: str) -> int:
        """Remove a message and all behind it, all messages if there is no such message; return the number of removed ones."""
        before = len(self.messages)
        names = list(reversed(self.messages))
        for name in names[: names.index(message_id) + 1 if message_id in self.messages else len(names)]:
            self.removed.append(self.messages.pop(name))
        return before - len(self.messages)

    def set_fields(self, fields: Fields) -> None:
        """Replace all messages, if the row has any; other fields, such as the time of the last change, are no messages."""
        if not fields.has("messages"):
            self.draft.count_unread(fields, "row '$set'")
            return
        kept = {message.read_text("id"): message for message in fields.read_objects("messages")}
        gone = [message for name, message in self.messages.items() if name not in kept]
        self.removed += gone
        self.messages = {name or f"{number}": message for number, (name, message) in enumerate(kept.items())}
        if gone:
            self.draft.warn(
                fields.place, f"the agent replaced its messages; {format_count(len(gone), 'message')} left the context"
            )


def _read_content(message: Fields, draft: Draft) -> Iterator[Part]:
    content = message.values.get("content")
    if isinstance(content, str):
        yield from make_text_parts(message.read_text("content"))
    elif content is not None:
        as_list = content if isinstance(content, list) else [content]
        objects = [{"text": item} if isinstance(item, str) else item for item in as_list]
        yield from read_gemini_parts(Fields({"parts": objects}, message.file, message.line, message.path), draft, {})


def _read_answer(message: Fields, draft: Draft) -> None:
    thoughts = [
        Reasoning(text=f"{thought.read_text('subject')}: {thought.read_text('description')}")
        for thought in message.read_objects("thoughts")
    ]
    calls = list(message.read_objects("toolCalls"))
    tool_calls = [make_call(call.read_text("id"), call.read_text("name"), call.values.get("args")) for call in calls]
    tokens = message.read_object("tokens")
    read, reasoning = tokens.read_count("cached"), tokens.read_count("thoughts")
    uncached = tokens.read_count("input") + tokens.read_count("tool") - read
    usage = build_usage(uncached, tokens.read_count("output") + reasoning, read=read, reasoning=reasoning)
    parts = [*thoughts, *_read_content(message, draft), *tool_calls]
    draft.add_answer(parts, message.place, model=message.read_text("model"), usage=usage)
    for call in calls:
        _read_results(call, draft)


def _read_results(call: Fields, draft: Draft) -> None:
    status = {"error": "error", "cancelled": "interrupted"}.get(call.read_text("status"), "completed")
    if isinstance(call.values.get("result"), str):
        draft.add_result(call.read_text("id"), call.read_text("result"), call.place, status=status)
        return
    responses = [part.read_object("functionResponse") for part in call.read_objects("result") if part.has("functionResponse")]
    for response in responses[:1]:
        read_gemini_response(response, call.read_text("id"), draft, call.place, status)
    if len(responses) > 1:
        draft.warn(call.place, f"{len(responses)} responses to one call; only the first was read")
