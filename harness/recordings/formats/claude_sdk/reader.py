"""Importer of sessions logged by the Claude Agent SDK or by `claude --output-format stream-json`, with one message per row.

Properties of the format:

- The first user prompt is not in the log.
- The summary of a compaction has no flag and is recognised by its first words.
- Messages of a sub-agent have a `parent_tool_use_id`.
- Each row `result` has the true cost of one run; a log of several runs has several.
- Some logs wrap system and result rows in `message`.
"""

from collections.abc import Iterator

from harness.conversation.messages import Text
from harness.recordings.blocks import read_parts
from harness.recordings.document import Document, Fields
from harness.recordings.draft import Draft
from harness.recordings.formats.claude_code.reader import BoundaryNames, read_answer, read_boundary
from harness.recordings.formats.claude_code.reader import can_read as is_claude_code
from harness.recordings.recording import SubAgentLink

_NAMES = BoundaryNames("pre_tokens", "post_tokens", "duration_ms")
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
    """Yield the session in a log of the Claude Agent SDK as an unfinished recording, and then the sessions of its sub-agents."""
    drafts = {"": Draft()}
    run_ids: set[str] = set()
    for row in document.list_objects():
        call_id = row.read_text("parent_tool_use_id")
        draft = drafts.setdefault(call_id, Draft())
        draft.now_ms = row.read_time_ms("timestamp")
        _read_row(row, draft, run_ids)
    main = drafts.pop("")
    if main.turns and main.turns[0].role == "assistant":
        main.warn("", "The first user prompt is not in this log.")
    for call_id, draft in drafts.items():
        draft.session_id, draft.parent_id = f"{main.session_id}.{call_id}", main.session_id
        draft.cost_in_parent = main.cost_usd is not None  # the cost of a run includes its sub-agents
        main.sub_agents.append(SubAgentLink(session_id=draft.session_id, call_id=call_id))
    if len(run_ids) > 1:
        main.warn("", f"the cost is the sum over {len(run_ids)} runs, each of which logged a result")
    yield main
    yield from drafts.values()


def _read_row(row: Fields, draft: Draft, run_ids: set[str]) -> None:
    match row.read_text("type"):
        case "assistant":
            read_answer(row.read_object("message"), draft, row)
        case "user":
            _read_user_row(row.read_object("message"), draft, row.place)
        case "system" | "result" as kind:
            _read_metadata(row if row.has("subtype") else row.read_object("message"), kind, draft, run_ids)
        case kind:
            draft.count_unread(row, f"row of type {kind!r}")


def _read_user_row(message: Fields, draft: Draft, place: str) -> None:
    parts = list(read_parts(message, draft))
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    if text.lstrip().startswith(SUMMARY_PREFIX):
        draft.add_summary(text)
    else:
        draft.add_message("user", parts, place)


def _read_metadata(body: Fields, kind: str, draft: Draft, run_ids: set[str]) -> None:
    draft.session_id = draft.session_id or body.read_text("session_id")
    if kind == "result":
        _read_result(body, draft, run_ids)
        return
    match body.read_text("subtype"):
        case "init":
            draft.add_model(body.read_text("model"))
        case "compact_boundary":
            read_boundary(body.read_object("compact_metadata"), draft, _NAMES)
        case subtype:
            draft.count_unread(body, f"row of type 'system' and subtype {subtype!r}")


def _read_result(body: Fields, draft: Draft, run_ids: set[str]) -> None:
    """Add the cost of one run of the session, which its result gives, to the cost of the session."""
    run_id = body.read_text("uuid") or body.place
    cost = body.read_amount("total_cost_usd")
    if cost is not None and run_id not in run_ids:
        run_ids.add(run_id)
        draft.cost_usd = (draft.cost_usd or 0) + cost
    text = body.values.get("result")
    answers = [part.text for turn in draft.turns if turn.role == "assistant" for part in turn.parts if isinstance(part, Text)]
    if isinstance(text, str) and text not in "\n".join(answers):
        draft.count_unread(body, "row of type 'result'")
