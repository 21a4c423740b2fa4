"""Importer of session files of this package, which `harness export` writes; `harness.recordings.session_file` describes them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.conversation.events import Compaction, Entry, ItemId, MessageAdded, SessionStarted, StepFinished
from harness.conversation.view import drop_rolled_back
from harness.recordings.document import Document, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction
from harness.recordings.session_file import NAME, read_log


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a session file of this package, recognised by its first row."""
    first: Any = document.rows[0].value if document.rows else None
    return is_object_with(first, "type", "format") and first["type"] == "session" and first["format"] == NAME


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a file that this package exported, as a `Draft`.

    Events that a rollback undid are left out.
    """
    log, draft = [logged.entry for logged in read_log(document)], Draft()
    steps = {entry.event.step: entry.event for entry in log if isinstance(entry.event, StepFinished)}
    turns: dict[ItemId, int] = {}
    live_seqs = {entry.seq for entry in drop_rolled_back(log)}
    for (seq, event), (line, _) in zip(log, document.rows, strict=True):
        if seq not in live_seqs:
            continue
        turns[ItemId(seq)] = len(draft.turns)
        if isinstance(event, SessionStarted):
            draft.session_id = event.session_id
            draft.add_model(event.model)
        elif isinstance(event, MessageAdded):
            _add_message(event, draft, f"line {line}", steps)
        elif isinstance(event, Compaction) and event.status == "applied":
            _add_compaction(event, draft, turns, log[: seq - 1])
    yield draft


def _add_message(event: MessageAdded, draft: Draft, place: str, steps: Mapping[int, StepFinished]) -> None:
    message = event.message
    if message.role == "assistant":
        finished = steps.get(event.step)
        usage, cost_usd = (None, None) if finished is None else (finished.usage, finished.cost_usd)
        draft.add_answer(message.parts, place, usage=usage, cost_usd=cost_usd)
    else:
        draft.add_message(message.role, message.parts, place)


def _add_compaction(event: Compaction, draft: Draft, turns: Mapping[ItemId, int], before: Sequence[Entry]) -> None:
    forgotten_ids = set(event.patch.forget)
    kept = next((item for item in turns if item > max(forgotten_ids, default=ItemId(0)) and item.event <= len(before)), None)
    compaction = NativeCompaction(
        kind="compaction" if event.summary else "microcompaction",
        trigger="auto",
        tokens_before=event.tokens_before,
        tokens_saved=event.tokens_before - event.tokens_after,
        summary=event.summary,
    )
    draft.add_compaction(compaction, kept_from_turn=None if kept is None else turns[kept])
