"""Importer of sessions recorded by Claude Code, whose files (`~/.claude/projects/*/*.jsonl`) have one JSON row per event.

Properties of the format:

- One answer spans several rows with the same `message.id`. Each row repeats `usage`; early `output_tokens` are placeholders.
- Tool results are user rows.
- Rows of sub-agents (`isSidechain`) are mixed with the others.
- Rows that the user rewound stay in the file; all rows are read in file order rather than by `parentUuid`.
- `toolUseResult`, `progress` and snapshots repeat content and are not needed.
- Cleared tool results and the messages before a compaction are still in the file.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from harness.conversation.messages import ToolResult
from harness.recordings.blocks import read_anthropic_usage, read_parts
from harness.recordings.document import Document, Fields
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction

MID_SESSION_TOKENS = 100_000
"""Number of tokens in the first recorded prompt above which a file is assumed to begin in the middle of a session."""
_IGNORED_TYPES = {"progress", "file-history-snapshot", "queue-operation", "summary", "last-prompt", "custom-title", "ai-title"}


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a session file of Claude Code, recognised by the fields of its rows."""
    return any(_is_event(value) for _, value in document.rows)


def _is_event(value: Any) -> bool:
    match value:
        case (
            {"type": "user" | "assistant", "message": _, "sessionId": _}
            | {"type": _, "uuid": _, "sessionId": _, "isSidechain": _}
            | {"type": "summary", "leafUuid": _}
            | {"type": "file-history-snapshot" | "queue-operation"}
        ):
            return True
    return False


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a file of Claude Code as a `Draft`.

    Rows of sub-agents are left out, unless the file has no others.
    """
    draft, rows = Draft(), document.list_objects()
    message_rows = [row for row in rows if row.read_text("type") in {"user", "assistant"}]
    is_sidechain_file = {row.read_flag("isSidechain") for row in message_rows} == {True}
    sessions = Counter(session_id for row in message_rows if (session_id := row.read_text("sessionId")))
    draft.session_id = sessions.most_common(1)[0][0] if sessions else ""
    if len(sessions) > 1:
        draft.warn("", f"rows of {len(sessions)} sessions; the id is that of the session with most rows")
    seen_ids: set[str] = set()
    for row in rows:
        uuid = row.read_text("uuid")
        if uuid and uuid in seen_ids:
            draft.count_dropped("row with a repeated uuid")
        elif row.read_flag("isSidechain") and not is_sidechain_file:
            draft.count_dropped("row of a sub-agent (side chain)")
        else:
            _read_row(row, draft)
        seen_ids.add(uuid)
    yield draft


def _read_row(row: Fields, draft: Draft) -> None:
    match row.read_text("type"):
        case "assistant" if row.read_object("message").read_text("model") == "<synthetic>" or row.read_flag("isApiErrorMessage"):
            draft.count_dropped("answer made up by the client (an API error)")
        case "assistant":
            read_answer(row.read_object("message"), draft, row.place)
        case "user":
            _read_user_row(row, draft)
        case "system":
            _read_system_row(row, draft)
        case kind if kind not in _IGNORED_TYPES:
            draft.count_dropped(f"row of type {kind!r}")


def read_answer(message: Fields, draft: Draft, place: str) -> None:
    """Add one row of a model's answer to the recording; rows with the same message id form one answer."""
    first = not any(turn.role == "assistant" for turn in draft.turns)
    usage = read_anthropic_usage(message.read_object("usage"))
    draft.add_answer(
        read_parts(message, draft), place, key=message.read_text("id"), model=message.read_text("model"), usage=usage
    )
    if first and usage.prompt_tokens > MID_SESSION_TOKENS:
        draft.warn(
            place, f"the first recorded prompt has {usage.prompt_tokens} tokens: the file begins in the middle of a session"
        )


def _read_user_row(row: Fields, draft: Draft) -> None:
    message = row.read_object("message")
    if row.read_flag("isCompactSummary"):
        draft.add_summary("\n".join(getattr(part, "text", "") for part in read_parts(message, draft)))
    elif row.read_flag("isVisibleInTranscriptOnly"):
        draft.count_dropped("row shown to the user only")
    else:
        parts, outcome = list(read_parts(message, draft)), row.values.get("toolUseResult")
        if isinstance(outcome, dict) and outcome.get("interrupted") is True:
            parts = [replace(part, status="interrupted") if isinstance(part, ToolResult) else part for part in parts]
        draft.add_message("user", parts, row.place)


def _read_system_row(row: Fields, draft: Draft) -> None:
    match row.read_text("subtype"):
        case "compact_boundary":
            read_boundary(row.read_object("compactMetadata"), draft, "preTokens")
        case "microcompact_boundary":
            about = row.read_object("microcompactMetadata")
            event = NativeCompaction(
                kind="microcompaction",
                trigger=_read_trigger(about),
                tokens_before=about.read_optional_count("preTokens"),
                tokens_saved=about.read_optional_count("tokensSaved"),
                cleared=tuple(about.read_texts("compactedToolIds")),
            )
            draft.add_compaction(event)


def read_boundary(about: Fields, draft: Draft, tokens_field: str) -> None:
    """Add a compaction that Claude Code made during the session to the recording.

    The row that marks a compaction has no summary; the summary is in the next user row.

    Args:
        about: JSON object with the metadata of the compaction.
        draft: Recording that is being read.
        tokens_field: Name of the field with the number of tokens before the compaction.
    """
    tokens_before = about.read_optional_count(tokens_field)
    draft.add_compaction(NativeCompaction(trigger=_read_trigger(about), tokens_before=tokens_before))


def _read_trigger(about: Fields) -> Literal["auto", "manual", "unknown"]:
    match about.read_text("trigger"):
        case "auto" | "manual" as trigger:
            return trigger
    return "unknown"
