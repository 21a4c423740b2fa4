"""File format for sessions of this package. Every event of the log is one row of JSON, so the file is read back without loss.

    {"type": "session", "format": "harness", "version": 1, "id": ..., "task": ..., "model": ..., ...}
    {"type": "message", "id": "2", "timestamp": ..., "step": 0, "role": "system", "parts": [...]}
    {"type": "message", "id": "5", ..., "role": "tool", "parts": [...], "timing": {"started_at_ms": ..., "seconds": ..., ...}}
    {"type": "step-finished", "id": "6", ...}
    {"type": "compaction", "id": "40", "round": 1, "summary": ..., "first_kept_entry_id": "30", ...}

A `compaction` row tells which messages the model sees after the compaction (the view): the system message, the summary as a
message of the user (or of the role `summary_role`), and the messages of the old view from `first_kept_entry_id` on (null: no
messages). The row of a compaction with any other effect (e.g. masking, or markers beside the summary) also has the complete
change in the field `patch`. A program that ignores `patch` computes a longer view: masked messages are whole, and messages
evicted after the first kept entry are present. Attempts that changed nothing are rows of type `compaction-attempt`.

An event of any other kind is a row with the fields of the event; the type of the row is the kind of the event. The rows for the
end of a step, a saved workspace and the end of a sub-agent also have a field `parts`, with the parts of the step as in the SQL
view `parts` of a journal: `step-start`, `step-finish`, `patch` and `subtask`. The field repeats other fields and is not read
back.
"""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from harness.conversation.codec import MAX_WHOLE_NUMBER, build_adapter, parse_event, to_plain
from harness.conversation.events import (
    Compaction,
    Entry,
    Event,
    Insert,
    ItemId,
    MessageAdded,
    Patch,
    RolledBack,
    SessionStarted,
    StepFinished,
    SubAgentEnded,
    WorkspaceSaved,
)
from harness.conversation.messages import Message, Text, ToolCall
from harness.conversation.tokens import Counter, QuarterOfCharacters
from harness.conversation.transcript import parse_arguments
from harness.conversation.view import View, fold, fold_all
from harness.errors import MalformedRecording
from harness.recordings.document import Document, is_object_with, list_children

NAME = "harness"
VERSION = 1
MAX_REFOLDED_ENTRIES = 300_000
_COUNTER: Counter = QuarterOfCharacters()
_ENVELOPE_FIELDS = ("type", "id", "timestamp")


class TimedEntry(NamedTuple):
    """Event of a session's log, with its number and the time at which it was logged."""

    entry: Entry
    at_ms: int
    """Time at which the event was logged, in milliseconds since the epoch."""


def encode_rows(log: Iterable[TimedEntry]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a session file as JSON-ready dicts, one for each event of the session's log."""
    log = tuple(log)
    view, added, entries = View(), set[ItemId](), list[Entry]()
    step_parts = build_step_parts([entry for entry, _ in log])
    for entry, at_ms in log:
        event = entry.event
        entries.append(entry)
        # only a rollback needs the whole log again
        after = fold_all(entries, _COUNTER) if isinstance(event, RolledBack) else fold(view, entry, _COUNTER)
        envelope = {"type": event.kind, "id": str(entry.seq), "timestamp": _format_time(at_ms)}
        match event:
            case SessionStarted():
                named = _encode_fields(event, "session_id")
                yield {**envelope, "type": "session", "format": NAME, "version": VERSION, "id": event.session_id, **named}
            case MessageAdded():
                plain = to_plain(event.message)
                added.add(ItemId(entry.seq))
                timing = {"timing": to_plain(event.timing)} if event.timing else {}
                yield {**envelope, "type": "message", "step": event.step, **plain, **timing}
            case Compaction() if event.status == "applied":
                kept = next((item.item_id for item in after.items[1:] if item.item_id in added), None)
                yield {**envelope, **_encode_compaction(event, view, kept)}
            case Compaction():
                yield {**envelope, **_encode_fields(event), "type": "compaction-attempt"}
            case _:
                parts = {"parts": step_parts[entry.seq]} if entry.seq in step_parts else {}
                yield {**envelope, **_encode_fields(event), **parts}
        view = after


def build_step_parts(entries: Sequence[Entry]) -> dict[int, list[dict[str, Any]]]:
    """Return the parts of each step of a session, such as its start and its end, by number of the log event.

    The parts are JSON-ready data. The event at the end of a step gives its start, too. The prompt of a sub-agent is taken from
    the tool call that sent it.
    """
    snapshots: list[tuple[int, str]] = []
    before: str | None = None
    calls: dict[str, ToolCall] = {}
    parts: dict[int, list[dict[str, Any]]] = {}
    for index, (seq, event) in enumerate(entries):
        newest = snapshots[-1][1] if snapshots else None
        match event:
            case MessageAdded() if event.message.role == "assistant":
                before, calls = newest, {call.call_id: call for call in event.message.calls}
            case StepFinished():
                following = entries[index + 1].event if index + 1 < len(entries) else None
                after = following.tree_id if isinstance(following, WorkspaceSaved) else newest
                parts[seq] = [{"type": "step-start", "snapshot": before}, _encode_step_finish(event, after)]
            case WorkspaceSaved():
                snapshots.append((seq, event.tree_id))
                if event.step > 0 and event.patch_hash != "":
                    parts[seq] = [{"type": "patch", "hash": event.patch_hash, "files": list(event.changed_files)}]
            case SubAgentEnded():
                parts[seq] = [_encode_subtask(event, calls.get(event.call_id))]
            case RolledBack():
                snapshots = [snapshot for snapshot in snapshots if snapshot[0] <= event.to_event]
    return parts


def _encode_step_finish(event: StepFinished, snapshot: str | None) -> dict[str, Any]:
    usage = event.usage
    tokens = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
        "cache": {"read": usage.cache_read_tokens, "write": usage.cache_write_tokens},
    }
    reason = event.finish_reason or ("tool-calls" if event.calls else None)
    return {"type": "step-finish", "reason": reason, "snapshot": snapshot, "tokens": tokens, "cost": event.cost_usd}


def _encode_subtask(event: SubAgentEnded, call: ToolCall | None) -> dict[str, Any]:
    return {
        "type": "subtask",
        "agent": "explore",
        "prompt": parse_arguments(call).get("question") if call else None,
        "session": event.session_id,
        "steps": event.steps,
        "tokens": {"input": event.prompt_tokens, "output": event.output_tokens},
        "cost": event.cost_usd,
    }


def _encode_fields(event: Event, *without: str) -> dict[str, Any]:
    return {name: value for name, value in to_plain(event).items() if name not in {"kind", *without}}


def _encode_compaction(event: Compaction, view: View, kept: ItemId | None) -> dict[str, Any]:
    row = {"summary": event.summary, "first_kept_entry_id": None if kept is None else str(kept.event)}
    roles = {insert.message.role for insert in event.patch.insert if insert.stands_for} - {"user"}
    row |= {"summary_role": roles.pop()} if roles else {}
    removed = {"messages_removed": event.messages_removed}
    whole = {} if _infer_patch(row, view, kept) == event.patch else {"patch": to_plain(event.patch)}
    return {**row, **_encode_fields(event, "status", "patch", "summary"), **removed, **whole}


def _infer_patch(row: Mapping[str, Any], view: View, kept: ItemId | None) -> Patch | None:
    """Return how a compaction row without a field `patch` changed the messages; None if the row does not say it.

    Such a compaction evicts the messages before `kept` and inserts one summary.

    Args:
        row: Compaction row, with its summary.
        view: Messages that the model saw before the compaction.
        kept: Id of the first message that the compaction retained; None if it retained only the system message.
    """
    ids = [item.item_id for item in view.items]
    if not ids or view.items[0].message.role != "system" or (kept is not None and kept not in ids[1:]):
        return None
    forgotten = tuple(ids[1:] if kept is None else ids[1 : ids.index(kept)])
    message = Message(role=row.get("summary_role", "user"), parts=(Text(text=row["summary"]),))
    return Patch(forget=forgotten, insert=(Insert(message=message, after=ids[0], stands_for=forgotten),))


def read_log(document: Document) -> tuple[TimedEntry, ...]:
    """Return the events of a session file of this package, with the times at which they were logged.

    The ids of the rows may be any strings, as long as no two are equal.

    Raises:
        MalformedRecording: A row is invalid; the message gives its line.
    """
    reader = _Reader(document.file)
    for line, value in document.rows:
        reader.read(value, f"line {line}")
    return tuple(reader.log)


@dataclass(slots=True)
class _Reader:
    """Reader of a session file, which tracks the messages that the model saw, since compaction rows refer to them."""

    file: str
    log: list[TimedEntry] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    seqs: dict[str, int] = field(default_factory=dict)
    view: View = field(default_factory=View)
    folded_entries: int = 0
    """Number of log entries that `view` takes into account; later entries are added when a compaction needs the view."""
    refolded_entries: int = 0
    """Total number of log entries that were read again to compute the view, because rollbacks had made it invalid."""

    def read(self, value: Any, place: str) -> None:
        """Convert one row of a session file to an event and append it to the log being read."""
        if not is_object_with(value, "type") or not isinstance(value["type"], str):
            raise MalformedRecording(self.file, place, "an object with a type")
        if (value["type"] == "session") != (not self.log):
            raise MalformedRecording(self.file, place, "a row of type 'session' first, and only there")
        if _has_large_number(value):
            raise MalformedRecording(self.file, place, "whole numbers of at most 64 bits")
        entry = Entry(len(self.log) + 1, self._read_event(value, place))
        name = str(value.get("id", entry.seq))
        if name in self.seqs:
            raise MalformedRecording(self.file, place, "an id that no other row has", repr(name)[:80])
        self.seqs[name] = entry.seq
        self.log.append(TimedEntry(entry, self._parse_time_ms(value, place)))
        self.entries.append(entry)

    def _read_event(self, row: Mapping[str, Any], place: str) -> Event:
        plain = {name: value for name, value in row.items() if name not in _ENVELOPE_FIELDS}
        kind = row["type"]
        try:
            match kind:
                case "session":
                    if row.get("version") != VERSION:
                        raise MalformedRecording(self.file, place, f"version {VERSION}", repr(row.get("version"))[:40])
                    session = {name: value for name, value in plain.items() if name not in {"format", "version"}}
                    parsed_event = build_adapter(SessionStarted).validate_python({**session, "session_id": row.get("id")})
                case "message":
                    message = build_adapter(Message).validate_python({"role": plain.get("role"), "parts": plain.get("parts")})
                    rest = {"step": plain.get("step", 0), "timing": plain.get("timing")}
                    parsed_event = build_adapter(MessageAdded).validate_python({"message": message, **rest})
                case "compaction":
                    parsed_event = build_adapter(Compaction).validate_python(self._complete_compaction(plain, place))
                case _:
                    parsed_event = parse_event("compaction" if kind == "compaction-attempt" else kind, plain)
        except KeyError:
            raise MalformedRecording(self.file, place, "a type of row that this version knows", repr(kind)[:40]) from None
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            explanation = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"[:200]
            raise MalformedRecording(self.file, place, f"a row {kind!r:.40} of a session", explanation) from None
        event: Event = parsed_event
        return event

    def _complete_compaction(self, plain: Mapping[str, Any], place: str) -> dict[str, Any]:
        rest = ("first_kept_entry_id", "summary_role", "messages_removed", "status")
        fields = {name: value for name, value in plain.items() if name not in rest}
        if "patch" not in fields:
            fields["patch"] = self._read_plain_patch(plain, place)
        return {**fields, "status": "applied"}

    def _read_plain_patch(self, plain: Mapping[str, Any], place: str) -> Patch:
        name, role = plain.get("first_kept_entry_id"), plain.get("summary_role", "user")
        if not isinstance(plain.get("summary"), str) or role not in {"system", "user", "assistant"}:
            raise MalformedRecording(self.file, place, "a summary and a valid summary_role")
        if "first_kept_entry_id" not in plain:
            raise MalformedRecording(self.file, place, "a first_kept_entry_id (null if no message was kept)")
        kept = None if name is None else ItemId(self.seqs.get(str(name), 0))
        patch = _infer_patch(plain, self._fold_view(place), kept)
        if patch is None:
            raise MalformedRecording(self.file, place, "a first_kept_entry_id of a message in view", repr(name)[:80])
        return patch

    def _fold_view(self, place: str) -> View:
        """Return the view, after all log entries so far."""
        new_entries, self.folded_entries = self.entries[self.folded_entries :], len(self.entries)
        if any(isinstance(entry.event, RolledBack) for entry in new_entries):
            self.refolded_entries += len(self.entries)
            if self.refolded_entries > MAX_REFOLDED_ENTRIES:
                raise MalformedRecording(self.file, place, "fewer compactions after rollbacks in a session of this length")
            self.view = fold_all(self.entries, _COUNTER)
        else:
            for entry in new_entries:
                self.view = fold(self.view, entry, _COUNTER)
        return self.view

    def _parse_time_ms(self, row: Mapping[str, Any], place: str) -> int:
        timestamp = row.get("timestamp")
        try:
            time = dt.datetime.fromisoformat(timestamp)  # type: ignore[arg-type]
            return round(time.replace(tzinfo=time.tzinfo or dt.UTC).timestamp() * 1000)
        except (TypeError, ValueError, OverflowError):
            raise MalformedRecording(self.file, place, "a timestamp in ISO 8601 format", repr(timestamp)[:80]) from None


def _format_time(at_ms: int) -> str:
    whole, rest = divmod(at_ms, 1000)
    return dt.datetime.fromtimestamp(whole, tz=dt.UTC).replace(microsecond=1000 * rest).isoformat(timespec="milliseconds")


def _has_large_number(value: Any) -> bool:
    # A journal cannot store larger whole numbers.
    if isinstance(value, int):
        return not -MAX_WHOLE_NUMBER <= value <= MAX_WHOLE_NUMBER
    return any(map(_has_large_number, list_children(value)))


def encode_lines(log: Iterable[TimedEntry]) -> Iterator[str]:
    """Yield the lines of a session file, one for each event of the log, each ending with a newline."""
    for row in encode_rows(log):
        yield json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n"
