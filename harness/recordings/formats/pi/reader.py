"""Importer of sessions recorded by the agent pi, whose files have one JSON row per event, e.g. a message or a compaction.

Properties of the format:

- The row of an aborted model call is an assistant message without content.
- The row of a compaction gives the first row that was retained.
- The model may change within a session, and each model call has its own cost.
- In files of later versions, a row may have several successors (branches). Only the branch that ends in the last row is read; the
  calls of the others still cost. A row `branch_summary` is a summary of another branch that the model reads; the words that the
  agent sends around it are not in the file.
- A fork is a file of its own, which begins with copies of rows.
"""

from collections.abc import Iterator
from typing import Any

from harness.conversation.messages import Part, Text
from harness.recordings.blocks import flatten_text, make_text_parts, read_parts, read_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction

_ROW_TYPES = (
    "message",
    "custom_message",
    "compaction",
    "model_change",
    "thinking_level_change",
    "session_info",
    "label",
    "custom",
)
_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary", "hookMessage")

FOLDERS = ("~/.pi/agent/sessions",)
"""Folders in which the agent stores its sessions."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a session file of pi, recognised by its session row.

    A file without a session row, which was cut at its beginning, is recognised if pi writes all its rows.
    """
    values = [value for _, value in document.rows if isinstance(value, dict)]
    if any(is_object_with(value, "id", "cwd") and value.get("type") == "session" for value in values):
        return True
    return any(_is_message(value) for value in values) and all(value.get("type") in _ROW_TYPES for value in values)


def _is_message(value: Any) -> bool:
    match value:
        case {"type": "message", "message": {"role": role}}:
            return role in _ROLES
    return False


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a session file of the agent pi as a `Draft`."""
    draft, abandoned, rows = Draft(), Draft(), document.list_objects()
    on_branch = _find_branch(rows)
    turn_of_row: list[int] = []
    turn_of_id: dict[str, int] = {}
    for row in rows:
        turn_of_row.append(len(draft.turns))
        turn_of_id[row.read_text("id")] = len(draft.turns)
        if on_branch is None or row.read_text("type") == "session" or row.read_text("id") in on_branch:
            _read_row(row, draft, turn_of_row, turn_of_id)
        else:
            draft.count_dropped("row of an abandoned branch, whose cost counts")
            _read_row(row, abandoned, turn_of_row, turn_of_id)
    draft.leave_out(abandoned.turns, "rewound")
    yield draft


def _find_branch(rows: list[Fields]) -> set[str] | None:
    """Return the ids of the rows from the root of the session tree to the last row; None for a plain list."""
    parents = {row.read_text("id"): row.read_text("parentId") for row in rows if "parentId" in row.values}
    if not parents:
        return None
    branch: set[str] = set()
    row_id = next(reversed(parents))
    while row_id and row_id not in branch:
        branch.add(row_id)
        row_id = parents.get(row_id, "")
    return branch


def _read_row(row: Fields, draft: Draft, turn_of_row: list[int], turn_of_id: dict[str, int]) -> None:
    draft.now_ms = row.read_time_ms("timestamp")
    match row.read_text("type"):
        case "session":
            draft.session_id = draft.session_id or row.read_text("id")
        case "message":
            key = f"{row.read_text('id')} {row.read_text('timestamp')}" if row.has("id") else ""
            _read_message(row.read_object("message"), draft, row.place, key)
        case "custom_message":
            draft.add_message("user", read_parts(row, draft), row.place)
        case "branch_summary":
            draft.add_message("user", make_text_parts(row.read_text("summary")), row.place)
        case "compaction":
            index, kept_id = row.read_optional_count("firstKeptEntryIndex"), row.read_text("firstKeptEntryId")
            kept_from_turn = turn_of_row[index] if index is not None and index < len(turn_of_row) else turn_of_id.get(kept_id)
            event = NativeCompaction(tokens_before=row.read_optional_count("tokensBefore"), summary=row.read_text("summary"))
            draft.add_compaction(event, kept_from_turn=kept_from_turn)
        case kind:
            draft.count_unread(row, f"row of type {kind!r}")


def _read_message(message: Fields, draft: Draft, place: str, key: str) -> None:
    match message.read_text("role"):
        case "user":
            draft.add_message("user", read_parts(message, draft), place)
        case "assistant":
            usage = message.read_object("usage")
            answer = draft.add_answer(
                read_parts(message, draft),
                place,
                model=message.read_text("model"),
                usage=read_usage(usage, "input", "output", "cacheRead", "cacheWrite"),
                cost_usd=usage.read_object("cost").read_amount("total"),
            )
            answer.request_key = key  # a fork copies rows with their ids and times
        case "toolResult":
            status = "error" if message.read_flag("isError") else "completed"
            draft.add_result(message.read_text("toolCallId"), flatten_text(message, "content", draft), place, status=status)
        case "bashExecution":
            draft.add_message("user", _render_shell(message), place)
        case role:
            draft.count_dropped(f"message of role {role!r}")


def _render_shell(message: Fields) -> tuple[Part, ...]:
    """Return the text that the model reads about a shell command of the user and its output."""
    code = message.read_optional_count("exitCode")
    ended = "" if code in {None, 0} else f"\n(exit code {code})"
    return (Text(text=f"Ran `{message.read_text('command')}`\n{message.read_text('output')}{ended}"),)
