"""Our own sessions as JSONL (S2.6): every event of a log is a row, in order, so the file is the log and reads back as it was.

    {"type": "session", "format": "harness", "version": 1, "id": ..., "task": ..., "model": ..., ...}
    {"type": "message", "id": "2", "timestamp": ..., "step": 0, "role": "system", "parts": [...]}
    {"type": "step-finished", "id": "6", ...}
    {"type": "compaction", "id": "40", "round": 1, "summary": ..., "first_kept_entry_id": "30", ...}

A `compaction` row says by itself what the model saw next: the system message, the summary as a message of the user (or of
`summary_role`), and what stood in view from `first_kept_entry_id` on; null = nothing. Of a compaction that did something else
(masking, several cuts, markers beside the summary) the row also has `patch`, which is all of it. A program that does not know
`patch` takes such a session for one with a longer view: of what was masked it shows the whole, of what was dropped out of the
middle it shows what it finds behind the first kept entry. Attempts that changed nothing are rows `compaction-attempt`.

An event of any other kind is a row whose type is its kind, with its fields.
"""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from harness.codec import adapter, to_plain
from harness.errors import MalformedRecording
from harness.events import Compaction, Entry, Event, Insert, ItemId, MessageAdded, Patch, RolledBack, SessionStarted, StepFinished
from harness.messages import Message, Text
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import is_object_with
from harness.replay.recording import NativeCompaction, Recording
from harness.tokens import Counter, QuarterOfCharacters
from harness.view import View, fold, fold_all, lived

NAME = "harness"
VERSION = 1
_COUNTER: Counter = QuarterOfCharacters()
_ROW_NAMES = ("type", "id", "timestamp")
_KINDS: dict[str, Any] = {of.__dataclass_fields__["kind"].default: of for of in get_args(Event)}


class Logged(NamedTuple):
    """An entry of a log and when it was logged."""

    entry: Entry
    at_ms: int
    """Milliseconds since the epoch."""


def rows(log: Iterable[Logged]) -> Iterator[dict[str, Any]]:
    """The rows of a session, ready to be written as JSON, one a line."""
    view, added, told = View(), set[ItemId](), list[Entry]()
    for entry, at_ms in log:
        event = entry.event
        told.append(entry)
        after = _after(view, told)
        own = {"type": event.kind, "id": str(entry.seq), "timestamp": _written_time(at_ms)}
        match event:
            case SessionStarted():
                named = _fields(event, "session_id")
                yield {**own, "type": "session", "format": NAME, "version": VERSION, "id": event.session_id, **named}
            case MessageAdded():
                plain = to_plain(event.message)
                added.add(ItemId(entry.seq))
                yield {**own, "type": "message", "step": event.step, "role": plain["role"], "parts": plain["parts"]}
            case Compaction() if event.status == "applied":
                kept = next((item.item_id for item in after.items[1:] if item.item_id in added), None)
                yield {**own, **_compaction_row(event, view, kept)}
            case Compaction():
                yield {**own, **_fields(event), "type": "compaction-attempt"}
            case _:
                yield {**own, **_fields(event)}
        view = after


def _after(view: View, told: list[Entry]) -> View:
    """The view after the newest of some entries; a rollback goes back to an earlier one."""
    newest = told[-1]
    return fold_all(told, _COUNTER) if isinstance(newest.event, RolledBack) else fold(view, newest, _COUNTER)


def _fields(event: Event, *without: str) -> dict[str, Any]:
    return {name: value for name, value in to_plain(event).items() if name not in {"kind", *without}}


def _compaction_row(event: Compaction, view: View, kept: ItemId | None) -> dict[str, Any]:
    told = {"summary": event.summary, "first_kept_entry_id": None if kept is None else str(kept.event)}
    roles = {insert.message.role for insert in event.patch.insert if insert.stands_for} - {"user"}
    told |= {"summary_role": roles.pop()} if roles else {}
    removed = {"messages_removed": event.messages_before - event.messages_after}
    whole = {} if _meant(told, view, kept) == event.patch else {"patch": to_plain(event.patch)}
    return {**told, **_fields(event, "status", "patch", "summary"), **removed, **whole}


def _meant(row: Mapping[str, Any], view: View, kept: ItemId | None) -> Patch | None:
    """The patch that a row without `patch` stands for; None where there is none."""
    ids = [item.item_id for item in view.items]
    if not ids or view.items[0].message.role != "system" or (kept is not None and kept not in ids[1:]):
        return None
    forgotten = tuple(ids[1:] if kept is None else ids[1 : ids.index(kept)])
    message = Message(role=row.get("summary_role", "user"), parts=(Text(text=row["summary"]),))
    return Patch(forget=forgotten, insert=(Insert(message=message, after=ids[0], stands_for=forgotten),))


def recognises(document: Document) -> bool:
    """Whether its first row begins a session of ours."""
    first: Any = document.rows[0].value if document.rows else None
    return is_object_with(first, "type", "format") and first["type"] == "session" and first["format"] == NAME


def read_log(document: Document) -> tuple[Logged, ...]:
    """The log of a file, as it was exported. Ids may be any texts, as long as no two rows share one.

    Raises:
        MalformedRecording: a row is none of ours; names its line.
    """
    reader = _Reader(document.file)
    for line, value in document.rows:
        reader.read(value, f"line {line}")
    return tuple(reader.log)


@dataclass(slots=True)
class _Reader:
    """Reads row after row; the view so far says what a compaction row means."""

    file: str
    log: list[Logged] = field(default_factory=list)
    told: list[Entry] = field(default_factory=list)
    seqs: dict[str, int] = field(default_factory=dict)
    view: View = field(default_factory=View)

    def read(self, value: Any, place: str) -> None:
        """Take in one row."""
        if not is_object_with(value, "type") or not isinstance(value["type"], str):
            raise MalformedRecording(self.file, place, "an object with a type")
        if (value["type"] == "session") != (not self.log):
            raise MalformedRecording(self.file, place, "the row of the session first and nowhere else")
        entry = Entry(len(self.log) + 1, self._event(value, place))
        name = str(value.get("id", entry.seq))
        if name in self.seqs:
            raise MalformedRecording(self.file, place, "an id that no other row has", repr(name)[:80])
        self.seqs[name] = entry.seq
        self.log.append(Logged(entry, self._time(value, place)))
        self.told.append(entry)
        self.view = _after(self.view, self.told)

    def _event(self, row: Mapping[str, Any], place: str) -> Event:
        plain = {name: value for name, value in row.items() if name not in _ROW_NAMES}
        kind = row["type"]
        try:
            match kind:
                case "session":
                    self._refuse_newer(row, place)
                    session = {name: value for name, value in plain.items() if name not in {"format", "version"}}
                    found = adapter(SessionStarted).validate_python({**session, "session_id": row.get("id")})
                case "message":
                    message = adapter(Message).validate_python({"role": plain.get("role"), "parts": plain.get("parts")})
                    found = adapter(MessageAdded).validate_python({"message": message, "step": plain.get("step", 0)})
                case "compaction":
                    found = adapter(Compaction).validate_python(self._compaction(plain, place))
                case _:
                    known = _KINDS.get("compaction" if kind == "compaction-attempt" else kind)
                    if known is None:
                        raise MalformedRecording(self.file, place, "a row of a kind that this version knows", repr(kind)[:40])
                    found = adapter(known).validate_python(plain)
        except ValidationError as error:
            raise MalformedRecording(self.file, place, f"a row {kind!r:.40} of a session", _first(error)) from None
        event: Event = found
        return event

    def _refuse_newer(self, row: Mapping[str, Any], place: str) -> None:
        if row.get("version") != VERSION:
            raise MalformedRecording(self.file, place, f"version {VERSION}", repr(row.get("version"))[:40])

    def _compaction(self, plain: Mapping[str, Any], place: str) -> dict[str, Any]:
        rest = ("first_kept_entry_id", "summary_role", "messages_removed", "status")
        fields = {name: value for name, value in plain.items() if name not in rest}
        if "patch" not in fields:
            fields["patch"] = self._plainly(plain, place)
        return {**fields, "status": "applied"}

    def _plainly(self, plain: Mapping[str, Any], place: str) -> Patch:
        name, role = plain.get("first_kept_entry_id"), plain.get("summary_role", "user")
        if not isinstance(plain.get("summary"), str) or role not in {"system", "user", "assistant"}:
            raise MalformedRecording(self.file, place, "a summary, and a role for it")
        if "first_kept_entry_id" not in plain:
            raise MalformedRecording(self.file, place, "a first_kept_entry_id, null where nothing was kept")
        kept = None if name is None else ItemId(self.seqs.get(str(name), 0))
        meant = _meant(plain, self.view, kept)
        if meant is None:
            raise MalformedRecording(self.file, place, "a first_kept_entry_id that stands in view", repr(name)[:80])
        return meant

    def _time(self, row: Mapping[str, Any], place: str) -> int:
        told = row.get("timestamp")
        try:
            when = dt.datetime.fromisoformat(told)  # type: ignore[arg-type]
            return round(when.replace(tzinfo=when.tzinfo or dt.UTC).timestamp() * 1000)
        except (TypeError, ValueError, OverflowError):
            raise MalformedRecording(self.file, place, "a timestamp in the form of ISO 8601", repr(told)[:80]) from None


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"[:200]


def _written_time(at_ms: int) -> str:
    whole, rest = divmod(at_ms, 1000)
    return dt.datetime.fromtimestamp(whole, tz=dt.UTC).replace(microsecond=1000 * rest).isoformat(timespec="milliseconds")


def lines(log: Iterable[Logged]) -> Iterator[str]:
    """The lines of the file of a session, each with its end."""
    for row in rows(log):
        yield json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n"


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file as a recording, for whoever compacts it anew; without what was rolled back."""
    log = [logged.entry for logged in read_log(document)]
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats))
    usage = {entry.event.step: entry.event for entry in log if isinstance(entry.event, StepFinished)}
    turns: dict[ItemId, int] = {}
    counts = {entry.seq for entry in lived(log)}
    for (seq, event), (line, _) in zip(log, document.rows, strict=True):
        if seq not in counts:
            continue
        turns[ItemId(seq)] = len(draft.turns)
        if isinstance(event, SessionStarted):
            draft.session_id = event.session_id
            draft.uses(event.model)
        elif isinstance(event, MessageAdded):
            _tell(event, draft, f"line {line}", usage)
        elif isinstance(event, Compaction) and event.status == "applied":
            _tell_compaction(event, draft, turns, log[: seq - 1])
    return (draft.finish(),)


def _tell(event: MessageAdded, draft: Draft, place: str, usage: Mapping[int, StepFinished]) -> None:
    message = event.message
    if message.role == "assistant":
        turn, finished = draft.answer(message.parts, place), usage.get(event.step)
        if finished is not None:
            draft.wrote(turn, "", finished.usage, finished.cost_usd)
    elif message.role == "tool":
        for result in message.results:
            draft.result(result.call_id, result.output, place, status=result.status)
    else:
        draft.say(message.role, message.parts, place)


def _tell_compaction(event: Compaction, draft: Draft, turns: Mapping[ItemId, int], before: Sequence[Entry]) -> None:
    gone = set(event.patch.forget)
    kept = next((item for item in turns if item > max(gone, default=ItemId(0)) and item.event <= len(before)), None)
    told = NativeCompaction(
        kind="compaction" if event.summary else "microcompaction",
        position=0,
        trigger="auto",
        tokens_before=event.tokens_before,
        tokens_saved=event.tokens_before - event.tokens_after,
        summary=event.summary,
    )
    draft.compaction(told, kept_from_turn=None if kept is None else turns[kept])
