"""pi's session files: rows session, message, compaction, model_change and thinking_level_change.

Pitfalls: an aborted call is an empty assistant row; a compaction keeps a tail, counted in rows; models change within a
session; every call has its own cost; later versions are trees, whose last row names the branch that counts.
"""

from harness.messages import Part, Text
from harness.replay.blocks import content_parts, flat, used
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields, is_object_with
from harness.replay.recording import NativeCompaction, Recording
from harness.tokens import Usage

NAME = "pi"
_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary", "hookMessage")


def recognises(document: Document) -> bool:
    """Whether there is a session row, or a message row with one of pi's roles."""
    return any(
        is_object_with(value, "type")
        and (
            (value["type"] == "session" and "id" in value and "cwd" in value)
            or (value["type"] == "message" and isinstance(value.get("message"), dict) and value["message"].get("role") in _ROLES)
        )
        for _, value in document.rows
    )


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file."""
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats))
    rows = [Fields(value, document.file, f"line {line}") for line, value in document.rows if isinstance(value, dict)]
    on_branch = _branch(rows)
    turn_of_row: list[int] = []
    turn_of_id: dict[str, int] = {}
    for row in rows:
        turn_of_row.append(len(draft.turns))
        turn_of_id[row.text("id")] = len(draft.turns)
        if on_branch is None or row.text("type") == "session" or row.text("id") in on_branch:
            _row(row, draft, turn_of_row, turn_of_id)
        else:
            draft.drop("row of an abandoned branch")
    return (draft.finish(),)


def _branch(rows: list[Fields]) -> set[str] | None:
    """Ids of the rows from the last one up to the root; None for a file that is no tree."""
    parents = {row.text("id"): row.text("parentId") for row in rows if "parentId" in row.values}
    if not parents:
        return None
    branch: set[str] = set()
    at = next(reversed(parents))
    while at and at not in branch:
        branch.add(at)
        at = parents.get(at, "")
    return branch


def _row(row: Fields, draft: Draft, turn_of_row: list[int], turn_of_id: dict[str, int]) -> None:
    match row.text("type"):
        case "session":
            draft.session_id = draft.session_id or row.text("id")
        case "message":
            _message(row.nested("message"), draft, row.place)
        case "custom_message":
            draft.say("user", content_parts(row, draft), row.place)
        case "compaction":
            index, kept_id = row.maybe_count("firstKeptEntryIndex"), row.text("firstKeptEntryId")
            kept = turn_of_row[index] if index is not None and index < len(turn_of_row) else turn_of_id.get(kept_id)
            event = NativeCompaction(
                kind="compaction",
                position=0,
                tokens_before=row.maybe_count("tokensBefore"),
                summary=row.text("summary"),
            )
            draft.compaction(event, kept_from_turn=kept)
        case "model_change" | "thinking_level_change" | "session_info" | "label" | "custom":
            pass
        case kind:
            draft.drop(f"row of type {kind!r}")


def _message(message: Fields, draft: Draft, place: str) -> None:
    match message.text("role"):
        case "user":
            draft.say("user", content_parts(message, draft), place)
        case "assistant":
            turn = draft.answer(content_parts(message, draft), place)
            usage = message.nested("usage")
            draft.wrote(turn, message.text("model"), _usage(usage), usage.nested("cost").amount("total"))
        case "toolResult":
            status = "error" if message.flag("isError") else "completed"
            draft.result(message.text("toolCallId"), flat(message, "content", draft), place, status=status)
        case "bashExecution":
            draft.say("user", _shell(message), place)
        case role:
            draft.drop(f"message of role {role!r}")


def _usage(usage: Fields) -> Usage:
    return used(usage.count("input"), usage.count("output"), read=usage.count("cacheRead"), written=usage.count("cacheWrite"))


def _shell(message: Fields) -> tuple[Part, ...]:
    """A command that the user ran, as the model is told of it."""
    code = message.maybe_count("exitCode")
    ended = "" if code in {None, 0} else f"\n(exit code {code})"
    return (Text(text=f"Ran `{message.text('command')}`\n{message.text('output')}{ended}"),)
