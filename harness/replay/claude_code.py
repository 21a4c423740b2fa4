"""Claude Code's session files (`~/.claude/projects/*/*.jsonl`): one row an event.

Pitfalls: one answer is several rows with the same `message.id` and a repeated `usage`, whose early `output_tokens` are
placeholders; results are user rows; rows of sub-agents (`isSidechain`) stand among the others; rewinds leave their rows, so
the order of the file is read, not `parentUuid`; `toolUseResult`, `progress` and snapshots repeat content; the text of cleared
results stays in the file, and so do the messages before a compaction.
"""

from collections import Counter
from dataclasses import replace
from typing import Literal

from harness.messages import ToolResult
from harness.replay.blocks import anthropic_usage, content_parts, say_all
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields, is_object_with
from harness.replay.recording import NativeCompaction, Recording

NAME = "claude-code"
MID_SESSION_TOKENS = 100_000
"""A first prompt above this is not the beginning of a session."""
_OURS = ("file-history-snapshot", "queue-operation")
_BESIDES = {
    "progress",
    "system",
    "file-history-snapshot",
    "queue-operation",
    "summary",
    "last-prompt",
    "custom-title",
    "ai-title",
}


def recognises(document: Document) -> bool:
    """Whether rows are events with uuids, or the bookkeeping that only this format has."""
    return any(
        (is_object_with(value, "type", "message", "sessionId") and value["type"] in ("user", "assistant"))
        or (is_object_with(value, "type", "uuid", "sessionId", "isSidechain"))
        or (is_object_with(value, "type", "leafUuid") and value["type"] == "summary")
        or (is_object_with(value, "type") and value["type"] in _OURS)
        for _, value in document.rows
    )


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file; sub-agents are left out, unless the file holds nothing else."""
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats))
    rows = [Fields(value, document.file, f"line {line}") for line, value in document.rows if isinstance(value, dict)]
    spoken = [row for row in rows if row.text("type") in {"user", "assistant"}]
    apart = {row.flag("isSidechain") for row in spoken} == {True}
    sessions = Counter(found for row in spoken if (found := row.text("sessionId")))
    draft.session_id = sessions.most_common(1)[0][0] if sessions else ""
    if len(sessions) > 1:
        draft.warn("", f"rows of {len(sessions)} sessions; named after the one with most")
    seen: set[str] = set()
    for row in rows:
        uuid = row.text("uuid")
        if uuid and uuid in seen:
            draft.drop("row with a uuid that was there before")
        elif row.flag("isSidechain") and not apart:
            draft.drop("row of a sub-agent (side chain)")
        else:
            _row(row, draft)
        seen.add(uuid)
    recording = draft.finish()
    return (recording,)


def _row(row: Fields, draft: Draft) -> None:
    match row.text("type"):
        case "assistant":
            _assistant(row, draft)
        case "user":
            _user(row, draft)
        case "system":
            _system(row, draft)
        case kind if kind not in _BESIDES:
            draft.drop(f"row of type {kind!r}")


def _assistant(row: Fields, draft: Draft) -> None:
    message = row.nested("message")
    if message.text("model") == "<synthetic>" or row.flag("isApiErrorMessage"):
        draft.drop("answer made up by the client (an API error)")
        return
    tell_answer(message, draft, row.place)


def tell_answer(message: Fields, draft: Draft, place: str) -> None:
    """One row of an answer; rows with the same message id are one."""
    first = not any(turn.role == "assistant" for turn in draft.turns)
    turn = draft.answer(content_parts(message, draft), place, key=message.text("id"))
    usage = anthropic_usage(message.nested("usage")) if message.has("usage") else None
    draft.wrote(turn, message.text("model"), usage)
    if first and usage is not None and usage.prompt_tokens > MID_SESSION_TOKENS:
        draft.warn(place, f"the first recorded prompt has {usage.prompt_tokens} tokens: the file begins in mid-session")


def _user(row: Fields, draft: Draft) -> None:
    message = row.nested("message")
    if row.flag("isCompactSummary"):
        tell_summary("\n".join(getattr(part, "text", "") for part in content_parts(message, draft)), draft)
    elif row.flag("isVisibleInTranscriptOnly"):
        draft.drop("row shown to the user only")
    else:
        before = len(draft.turns)
        say_all(draft, content_parts(message, draft), row.place)
        if _was_interrupted(row):
            _mark_interrupted(draft, before)


def _was_interrupted(row: Fields) -> bool:
    outcome = row.values.get("toolUseResult")
    return isinstance(outcome, dict) and outcome.get("interrupted") is True


def _mark_interrupted(draft: Draft, since: int) -> None:
    for turn in draft.turns[since:]:
        if turn.role == "tool":
            turn.parts = [replace(part, status="interrupted") for part in turn.parts if isinstance(part, ToolResult)]


def tell_summary(summary: str, draft: Draft) -> None:
    """The summary that follows a compaction boundary, or stands alone where the boundary is missing."""
    if not draft.last_summary:
        draft.compaction(NativeCompaction(kind="compaction", position=0))
    draft.revise(lambda event: replace(event, summary=summary))


def _system(row: Fields, draft: Draft) -> None:
    match row.text("subtype"):
        case "compact_boundary":
            tell_boundary(row.nested("compactMetadata"), draft, "preTokens")
        case "microcompact_boundary":
            about = row.nested("microcompactMetadata")
            told = about.values.get("compactedToolIds")
            cleared = tuple(found for found in told if isinstance(found, str)) if isinstance(told, list) else ()
            event = NativeCompaction(
                kind="microcompaction",
                position=0,
                trigger=_trigger(about),
                tokens_before=about.maybe_count("preTokens"),
                tokens_saved=about.maybe_count("tokensSaved"),
                cleared=cleared,
            )
            draft.compaction(event)


def tell_boundary(about: Fields, draft: Draft, tokens: str) -> None:
    """A compaction boundary; its summary comes in the next user row."""
    event = NativeCompaction(kind="compaction", position=0, trigger=_trigger(about), tokens_before=about.maybe_count(tokens))
    draft.compaction(event)


def _trigger(about: Fields) -> Literal["auto", "manual", "unknown"]:
    match about.text("trigger"):
        case "auto":
            return "auto"
        case "manual":
            return "manual"
    return "unknown"
