"""Logs of the Claude Agent SDK and of `claude --output-format stream-json`: Claude Code's messages without its bookkeeping.

Pitfalls: the first user prompt is not logged; a compaction's summary has no flag and is known by its first words; what a
sub-agent says carries `parent_tool_use_id`; `result` has the true cost; some logs wrap system and result rows in `message`.
"""

from harness.messages import Text
from harness.replay.blocks import content_parts, say_all
from harness.replay.claude_code import recognises as is_claude_code
from harness.replay.claude_code import tell_answer, tell_boundary, tell_summary
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields
from harness.replay.recording import Recording

NAME = "claude-sdk"
SUMMARY_BEGINS = "This session is being continued from a previous conversation"
"""The first words of every summary that Claude Code makes."""


def recognises(document: Document) -> bool:
    """Whether rows are a stream of SDK messages and not a session file."""
    return any(_is_ours(value) for _, value in document.rows) and not is_claude_code(document)


def _is_ours(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    message = value.get("message")
    inner = message if isinstance(message, dict) else {}
    if value["type"] in {"user", "assistant"}:
        return inner.get("role") == value["type"] and "content" in inner
    told = value if "subtype" in value else inner
    if value["type"] == "result":
        return "num_turns" in told
    return value["type"] == "system" and told.get("subtype") in ("init", "status", "compact_boundary")


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a log; sub-agents are left out."""
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats))
    for line, value in document.rows:
        if isinstance(value, dict):
            _row(Fields(value, document.file, f"line {line}"), draft)
    if draft.turns and draft.turns[0].role == "assistant":
        draft.warn("", "The first user prompt is not in this log.")
    return (draft.finish(),)


def _row(row: Fields, draft: Draft) -> None:
    if row.has("parent_tool_use_id"):
        draft.drop("row of a sub-agent")
        return
    match row.text("type"):
        case "assistant":
            tell_answer(row.nested("message"), draft, row.place)
        case "user":
            _user(row.nested("message"), draft, row.place)
        case "system" | "result" as kind:
            _about(row if row.has("subtype") else row.nested("message"), kind, draft)
        case kind:
            draft.drop(f"row of type {kind!r}")


def _user(message: Fields, draft: Draft, place: str) -> None:
    parts = list(content_parts(message, draft))
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    if text.lstrip().startswith(SUMMARY_BEGINS):
        tell_summary(text, draft)
    else:
        say_all(draft, iter(parts), place)


def _about(body: Fields, kind: str, draft: Draft) -> None:
    draft.session_id = draft.session_id or body.text("session_id")
    if kind == "result":
        if draft.cost_usd is not None:
            draft.warn(body.place, "a second result: its total stands for the session")
        cost = body.amount("total_cost_usd")
        draft.cost_usd = draft.cost_usd if cost is None else cost
    elif body.text("subtype") == "init":
        draft.uses(body.text("model"))
    elif body.text("subtype") == "compact_boundary":
        tell_boundary(body.nested("compact_metadata"), draft, "pre_tokens")
