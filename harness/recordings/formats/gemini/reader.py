"""Importer of sessions recorded by Gemini CLI, either as a list of contents (`parts`) or as a session with messages.

Properties of the format:

- Reasoning is in parts flagged `thought`.
- A compressed history begins with a `<state_snapshot>`; the summarized messages are not in the file.
- Recorded outputs may already be masked, and the tool call of a response may be missing.
- In a session, messages hold tool calls with their results. Prompt tokens include tokens read from the cache, and output tokens
  exclude reasoning.
- Later sessions have one message per row.
"""

from collections.abc import Iterator

from harness.conversation.messages import Part, Reasoning, Text
from harness.errors import format_count
from harness.recordings.blocks import build_usage, make_call, make_reasoning_parts, make_text_parts
from harness.recordings.document import Document, Fields, encode_json, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction
from harness.text import replace_surrogates

_SNAPSHOT = "<state_snapshot>"
_MASKED = "<tool_output_masked>"


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
        parts = list(_read_parts(content, draft, waiting))
        role = content.read_text("role")
        if role == "model":
            draft.add_answer(parts, content.place)
        elif role in {"user", "function", "system"}:
            if _begins_with_snapshot(parts):
                text = "\n".join(part.text for part in parts if isinstance(part, Text))
                draft.add_compaction(NativeCompaction(summary=text, in_place=True))
            draft.add_message(role, parts, content.place)
        else:
            raise content.build_error("role", "user, model or function", role)


def _begins_with_snapshot(parts: list[Part]) -> bool:
    return bool(parts) and isinstance(parts[0], Text) and parts[0].text.lstrip().startswith(_SNAPSHOT)


def _read_parts(content: Fields, draft: Draft, waiting: dict[str, list[str]]) -> Iterator[Part]:
    """Yield the texts, reasoning and tool calls of one message, and add its tool results to the recording.

    Args:
        content: JSON object with the parts.
        draft: Recording that is being read.
        waiting: Ids made up for the tool calls whose results have not been read yet, by the name of the tool.
    """
    for number, part in enumerate(content.read_objects("parts")):
        if part.has("functionCall"):
            call = part.read_object("functionCall")
            call_id = call.read_text("id") or f"call-{len(draft.turns)}-{number}"
            if not call.has("id"):
                waiting.setdefault(call.read_text("name"), []).append(call_id)
            yield make_call(call_id, call.read_text("name"), call.values.get("args"))
        elif part.has("functionResponse"):
            response = part.read_object("functionResponse")
            made_up = waiting.get(response.read_text("name"), [])
            call_id = response.read_text("id") or (made_up.pop(0) if made_up else "")
            _read_response(response, call_id, draft, part.place)
        elif part.has("text"):
            yield from (make_reasoning_parts if part.values.get("thought") else make_text_parts)(part.read_text("text"))
        else:
            kind = ", ".join(sorted(map(replace_surrogates, part.values))) or "nothing"
            draft.count_dropped(f"part with {kind[:60]}, left out")


def _read_response(response: Fields, call_id: str, draft: Draft, place: str, status: str = "completed") -> None:
    body = response.read_object("response").values
    has_failed = "error" in body and "output" not in body
    content = body.get("error" if has_failed else "output", dict(body))
    text = replace_surrogates(content) if isinstance(content, str) else encode_json(content)
    if _MASKED in text:
        draft.count_dropped("result that the agent had masked before the file was written")
    draft.add_result(call_id, text, place, status="error" if has_failed else status)


def _read_session(document: Document, draft: Draft) -> None:
    for message in _read_messages(document, draft):
        match message.read_text("type"):
            case "user":
                draft.add_message("user", _read_content(message, draft), message.place)
            case "gemini":
                _read_answer(message, draft)
            case kind:
                draft.count_dropped(f"message of type {kind!r}")


def _read_messages(document: Document, draft: Draft) -> list[Fields]:
    """Return the messages of a session file, which is one JSON object or a list of rows.

    Of several rows with the same id, the last one counts. Messages that the user rewound are left out.
    """
    messages: dict[str, Fields] = {}
    for row in document.list_objects() if len(document.rows) > 1 else [document.read_root()]:
        draft.session_id = draft.session_id or row.read_text("sessionId")
        if row.has("$rewindTo"):
            rewind_to, before = row.read_text("$rewindTo"), len(messages)
            while rewind_to in messages:
                messages.popitem()
            draft.warn(row.place, f"a rewind removed {format_count(before - len(messages), 'message')}")
        for message in row.read_objects("messages"):
            messages[f"{len(messages)} {message.read_text('id')}"] = message
        if row.has("type"):
            messages[row.read_text("id") or f"{len(messages)}"] = row
    return list(messages.values())


def _read_content(message: Fields, draft: Draft) -> Iterator[Part]:
    content = message.values.get("content")
    if isinstance(content, str):
        yield from make_text_parts(message.read_text("content"))
    elif content is not None:
        as_list = content if isinstance(content, list) else [content]
        objects = [{"text": item} if isinstance(item, str) else item for item in as_list]
        yield from _read_parts(Fields({"parts": objects}, message.file, message.line, message.path), draft, {})


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
        _read_response(response, call.read_text("id"), draft, call.place, status)
    if len(responses) > 1:
        draft.warn(call.place, f"{len(responses)} responses to one call; only the first was read")
