"""Importer of sessions logged by the Claude Agent SDK or by `claude --output-format stream-json`, with one message per row.

Properties of the format:

- The first user prompt is not in the log.
- The summary of a compaction has no flag and is recognised by its first words.
- Messages of a sub-agent have a `parent_tool_use_id`.
- The row `result` has the true cost.
- Some logs wrap system and result rows in `message`.
"""

from collections.abc import Iterator

from harness.conversation.messages import Text
from harness.recordings.blocks import read_parts
from harness.recordings.document import Document, Fields
from harness.recordings.draft import Draft
from harness.recordings.formats.claude_code.reader import can_read as is_claude_code
from harness.recordings.formats.claude_code.reader import read_answer, read_boundary

SUMMARY_PREFIX = "This session is being continued from a previous conversation"
"""First words of every summary that Claude Code inserts when it compacts a session; a message that begins so is a summary."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a log of the Claude Agent SDK rather than a session file of Claude Code."""
    return any(_is_sdk_message(value) for _, value in document.rows) and not is_claude_code(document)


def _is_sdk_message(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    message = value.get("message")
    inner = message if isinstance(message, dict) else {}
    if value["type"] in {"user", "assistant"}:
        return inner.get("role") == value["type"] and "content" in inner
    body = value if "subtype" in value else inner
    if value["type"] == "result":
        return "num_turns" in body
    return value["type"] == "system" and body.get("subtype") in ("init", "status", "compact_boundary")


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a log of the Claude Agent SDK, without sub-agents, as an unfinished recording."""
    draft = Draft()
    for row in document.list_objects():
        _read_row(row, draft)
    if draft.turns and draft.turns[0].role == "assistant":
        draft.warn("", "The first user prompt is not in this log.")
    yield draft


def _read_row(row: Fields, draft: Draft) -> None:
    if row.has("parent_tool_use_id"):
        draft.count_dropped("row of a sub-agent")
        return
    match row.read_text("type"):
        case "assistant":
            read_answer(row.read_object("message"), draft, row.place)
        case "user":
            _read_user_row(row.read_object("message"), draft, row.place)
        case "system" | "result" as kind:
            _read_metadata(row if row.has("subtype") else row.read_object("message"), kind, draft)
        case kind:
            draft.count_dropped(f"row of type {kind!r}")


def _read_user_row(message: Fields, draft: Draft, place: str) -> None:
    parts = list(read_parts(message, draft))
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    if text.lstrip().startswith(SUMMARY_PREFIX):
        draft.add_summary(text)
    else:
        draft.add_message("user", parts, place)


def _read_metadata(body: Fields, kind: str, draft: Draft) -> None:
    draft.session_id = draft.session_id or body.read_text("session_id")
    if kind == "result":
        if draft.cost_usd is not None:
            draft.warn(body.place, "a second result: its total cost is taken as the cost of the session")
        cost = body.read_amount("total_cost_usd")
        draft.cost_usd = draft.cost_usd if cost is None else cost
    elif body.read_text("subtype") == "init":
        draft.add_model(body.read_text("model"))
    elif body.read_text("subtype") == "compact_boundary":
        read_boundary(body.read_object("compact_metadata"), draft, "pre_tokens")
