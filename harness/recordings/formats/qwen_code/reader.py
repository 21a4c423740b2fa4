"""Importer of sessions recorded by Qwen Code, whose files have one JSON row per message with contents of Google's API.

Properties of the format:

- Each row names its parent. The session is the chain of parents of the last row; rows on other branches were rewound.
- Tool results are rows of their own (`tool_result`), with a `functionResponse`.
- A row `chat_compression` has the whole history that the model saw after the compression.
- Prompt tokens include tokens read from the cache. Output tokens include reasoning if the total says so.
- Rows of a sub-agent have `isSidechain` and the agent's id; they may be in a file of their own.

Source: QwenLM/qwen-code at 015346f1 (`packages/core/src/services/chatRecordingService.ts`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.conversation.messages import Message
from harness.conversation.tokens import Usage
from harness.recordings.blocks import build_usage, read_gemini_parts
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction, SubAgentLink

FOLDERS = ("~/.qwen",)
"""Folders in which the agent stores its sessions."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a session file of Qwen Code, recognised by rows with contents or system payloads."""
    return any(_is_row(value) for _, value in document.rows)


def _is_row(value: Any) -> bool:
    if not is_object_with(value, "uuid", "sessionId", "type"):
        return False
    return is_object_with(value.get("message"), "role", "parts") or (value["type"] == "system" and "systemPayload" in value)


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a file of Qwen Code as an unfinished recording, and then the sessions of its sub-agents."""
    main: list[Fields] = []
    side: dict[str, list[Fields]] = {}
    for row in document.list_objects():
        if row.read_flag("isSidechain"):
            side.setdefault(row.read_text("agentId") or "agent", []).append(row)
        else:
            main.append(row)
    draft = Draft()
    _read_rows(main, draft)
    drafts = []
    for agent, rows in side.items():
        session_id = rows[0].read_text("sessionId")
        child = Draft(session_id=f"{session_id}.{agent}", parent_id=session_id)
        _read_rows(rows, child)
        drafts.append(child)
        draft.sub_agents.append(SubAgentLink(session_id=child.session_id, call_id=""))
    if draft.turns or not drafts:
        yield draft
    yield from drafts


def _read_rows(rows: Sequence[Fields], draft: Draft) -> None:
    chain = _find_chain(rows)
    abandoned, waiting = Draft(), dict[str, list[str]]()
    for row in rows:
        draft.session_id = draft.session_id or row.read_text("sessionId")
        if row.read_text("uuid") in chain or not row.has("uuid"):
            _read_row(row, draft, waiting)
        else:
            draft.count_dropped("row of a branch that the user rewound")
            _read_row(row, abandoned, {})
    draft.leave_out(abandoned.turns, "rewound")


def _find_chain(rows: Sequence[Fields]) -> set[str]:
    """Return the ids of the rows from the root of the session's tree to its last row."""
    parents = {row.read_text("uuid"): row.read_text("parentUuid") for row in rows if row.has("uuid")}
    chain: set[str] = set()
    uuid = next(reversed(parents), "")
    while uuid and uuid not in chain:
        chain.add(uuid)
        uuid = parents.get(uuid, "")
    return chain


def _read_row(row: Fields, draft: Draft, waiting: dict[str, list[str]]) -> None:
    draft.now_ms = row.read_time_ms("timestamp")
    origin = row.read_object("forkedFrom")
    draft.forked_from = draft.forked_from or origin.read_text("sessionId")
    message = row.read_object("message")
    match row.read_text("type"):
        case "user" | "tool_result":
            draft.add_message("user", list(read_gemini_parts(message, draft, waiting)), row.place)
        case "assistant":
            parts = list(read_gemini_parts(message, draft, waiting))
            usage = _read_usage(row.read_object("usageMetadata"))
            turn = draft.add_answer(parts, row.place, key=row.read_text("uuid"), model=row.read_text("model"), usage=usage)
            turn.request_key, turn.copied = origin.read_text("messageUuid") or row.read_text("uuid"), row.has("forkedFrom")
        case "system" if row.read_text("subtype") == "chat_compression":
            _read_compression(row.read_object("systemPayload"), draft)
        case "system":
            draft.count_unread(row.read_object("systemPayload"), f"row of subtype {row.read_text('subtype')!r}")
        case kind:
            draft.count_unread(row, f"row of type {kind!r}")


def _read_usage(report: Fields) -> Usage:
    prompt, output = report.read_count("promptTokenCount"), report.read_count("candidatesTokenCount")
    read, reasoning = report.read_count("cachedContentTokenCount"), report.read_count("thoughtsTokenCount")
    # providers in the form of OpenAI count reasoning among the output, Google does not
    if report.read_count("totalTokenCount") == prompt + output + reasoning:
        output += reasoning
    return build_usage(prompt - read, output, read=read, reasoning=reasoning)


def _read_compression(payload: Fields, draft: Draft) -> None:
    info, history = payload.read_object("info"), Draft()
    for content in payload.read_objects("compressedHistory"):
        parts = list(read_gemini_parts(content, history, {}))
        if content.read_text("role") == "model":
            history.add_answer(parts, content.place)
        else:
            history.add_message("user", parts, content.place)
    view = tuple([Message(role=turn.role, parts=tuple(turn.parts)) for turn in history.turns])
    event = NativeCompaction(
        tokens_before=info.read_optional_count("originalTokenCount"),
        tokens_after=info.read_optional_count("newTokenCount"),
        summary=view[0].text if view and view[0].role == "user" else "",
        view=view or None,
    )
    draft.add_compaction(event)
