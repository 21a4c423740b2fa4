"""Log of one session, in a journal (a SQLite file) or in memory, and storage for tool outputs too long for the log.

The log itself holds only the shortened output. The full output is stored for a week.
"""

import json
import threading
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

from harness.conversation.codec import (
    CALLS_ADAPTER,
    MESSAGE_ADAPTER,
    RESULTS_ADAPTER,
    TIMINGS_ADAPTER,
    build_adapter,
    parse_event,
)
from harness.conversation.events import (
    CallTiming,
    Compaction,
    Entry,
    Event,
    ItemId,
    MessageAdded,
    RolledBack,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    StepFinished,
)
from harness.conversation.messages import Message
from harness.conversation.tokens import Counter, Usage
from harness.conversation.truncation import RETENTION_DAYS, list_locations, name_output
from harness.errors import FileMissing, OutputExpired, StoreError
from harness.protocols import Clock
from harness.store.columns import STEPS
from harness.store.database import Database, build_insert, extract_values, translate_errors
from harness.store.records import UnfinishedStep
from harness.store.texts import Packer, compute_body_digest, detach_texts, list_addresses, parse_stored
from harness.text import replace_surrogates

_INLINE_TOKENS = 128
"""Estimated number of tokens up to which a message is stored as a whole in the row of its event."""

_DRAFT_EVENT_KINDS = frozenset({"message-queued", "message-unqueued", "call-started"})
"""Kinds of events that may be logged during a step while the saved unfinished answer of the step is still valid."""

_USAGE_FIELDS = tuple(field.name for field in fields(Usage))
_STEP_FIELDS = tuple(field.name for field in fields(StepFinished) if field.name not in {"usage", "kind"})
"""Fields of the event `StepFinished` that are columns of the table `step`; with the columns for usage, they hold all of it."""
_STEP_FLAGS = tuple(column.name for column in STEPS if column.dtype == "boolean" and column.name in _STEP_FIELDS)
_STARTED_FIELDS = ("model", "window_tokens", "threshold_tokens", "budget_rule", "sandbox")
_UNSTORED_FIELDS = {
    *("patch", "summary", "summarizer_usage", "failure", "offloaded", "shortfall", "fruitless", "tree_id", "kind"),
    *("started_step", "blocking_seconds"),
}
_COMPACTION_FIELDS = tuple(field.name for field in fields(Compaction) if field.name not in _UNSTORED_FIELDS)
_COMPACTION_SIZES = ("forgotten", "replaced", "inserted", "summary_characters")
_SUMMARIZER_USAGE = tuple(f"summarizer_{name}" for name in _USAGE_FIELDS if name != "reasoning_tokens")
"""Last columns of the table `compaction`, which hold the numbers of tokens that the summarizer used."""

_TIMES = ("call_started_at_ms", "call_seconds", "call_cached_seconds")
"""Columns of the table `event` with the timing of a tool call."""
_NO_TIMING = (None, None, None)
"""Values of the columns of the table `event` that hold the timing of a tool call, for all events but results of calls."""

_STATEMENTS = {
    "text": "INSERT OR IGNORE INTO text (address, characters, head, data) VALUES (?, ?, ?, ?)",
    "event": build_insert(
        "event", ("session", "seq", "kind", "step", "at_ms", "sequence", "role", "tokens", *_TIMES, "body_key")
    ),
    "version": build_insert("version", ("session", "sequence", "seq", "item", "slot", "role", "tokens", "place", "path")),
    "retired": build_insert("retired", ("session", "item", "slot", "seq", "how")),
    "step": build_insert("step", ("session", "seq", *_STEP_FIELDS, *_USAGE_FIELDS)),
    "compaction": build_insert("compaction", ("session", "seq", *_COMPACTION_FIELDS, *_COMPACTION_SIZES, *_SUMMARIZER_USAGE)),
    "rollback": build_insert("rollback", ("session", "seq", "to_event")),
    "started": (
        "UPDATE session SET model = ?, window_tokens = ?, threshold_tokens = ?, budget_rule = ?, sandbox = ?, "
        "status = 'active', reason = NULL, detail = '', ended_at_ms = NULL WHERE key = ?"
    ),
    "ended": "UPDATE session SET status = ?, reason = ?, detail = ?, ended_at_ms = ? WHERE key = ?",
}
"""SQL statements that write logged events to the journal, by the kind of row, such as `event`, in the order of execution."""


_DIGESTS_AT_ONCE = 16
_BODY_STATEMENT = f"SELECT data, key FROM body WHERE digest IN ({', '.join('?' * _DIGESTS_AT_ONCE)})"
"""SQL query for bodies with some digests; SQLite prepares it faster than a join with `json_each`, as short sessions show."""

_DRAFT_STATEMENT = build_insert(
    "draft",
    ("session", "step", "at_ms", "text", "reasoning", "calls", "results", "tree_id", "timings"),
    replaces=True,
)


@dataclass(slots=True)
class _PendingRows:
    """Rows for all tables of the journal that are written together."""

    at_ms: int
    by_statement: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {name: [] for name in _STATEMENTS})
    bodies: list[str | None] = field(default_factory=list)
    """JSON of each event in `by_statement`, whose row is completed by the key of the JSON; None for the end of a step."""
    texts: dict[str, tuple[str, bool]] = field(default_factory=dict)

    def add(self, newer: "_PendingRows") -> None:
        """Add the rows of newer events."""
        for name, rows in newer.by_statement.items():
            self.by_statement[name] += rows
        self.bodies += newer.bodies
        self.texts |= newer.texts


class SessionLog:
    """Append-only log of one session in a journal file; `Journal.open_session_log` creates it. Not thread-safe."""

    def __init__(
        self, database: Database, key: int, *, is_new: bool, clock: Clock, counter: Counter, write_interval_seconds: float = 0.0
    ) -> None:
        self._database, self._key, self._clock, self._counter = database, key, clock, counter
        self._write_interval_seconds, self._written_at = write_interval_seconds, float("-inf")
        self._unwritten: _PendingRows | None = None
        self._load_state(is_new=is_new)

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """Append events to the log in one transaction and return them with their numbers.

        With a write interval, several calls share a transaction: the events are written by the first call after the interval,
        with the end of the session, or before anything else is read or written through the same connection.

        Raises:
            StoreError: The journal cannot be written; neither these events nor earlier ones that waited are in the log.
        """
        now = self._clock()
        rows = _PendingRows(int(now * 1000))
        try:
            entries = tuple([self._add(rows, event) for event in events])
        except BaseException:
            self._database.write_deferred()
            self._load_state()
            raise
        if self._unwritten is None:
            self._unwritten = rows
            self._database.defer(self._write_rows)
        else:
            self._unwritten.add(rows)
        is_due = not 0 <= now - self._written_at < self._write_interval_seconds  # also true if the clock was set back
        if is_due or rows.by_statement["ended"]:
            self._written_at = now
            self._database.write_deferred()
        return entries

    def entries(self) -> Iterator[Entry]:
        """Yield all events of the session with their numbers, in the order in which they were logged."""
        return read_entries(self._database, self._key) if self._seq else iter(())

    @property
    def length(self) -> int:
        """Number of events in the log of the session."""
        return self._seq

    def save_draft(self, draft: UnfinishedStep) -> None:
        """Store what the model has answered so far, until the agent's next message or step is logged.

        Raises:
            StoreError: The journal cannot be written.
        """
        calls = json.dumps(CALLS_ADAPTER.dump_python(draft.calls))
        row = (
            self._key,
            draft.step,
            int(self._clock() * 1000),
            replace_surrogates(draft.text),
            replace_surrogates(draft.reasoning),
            calls,
            replace_surrogates(json.dumps(RESULTS_ADAPTER.dump_python(draft.results))),
            draft.tree_id,
            json.dumps(TIMINGS_ADAPTER.dump_python(draft.timings)),
        )
        with self._database.transaction():
            self._database.execute(_DRAFT_STATEMENT, row)
        self._has_draft = True

    def close(self) -> None:
        """Write the events that are not in the journal yet; the code that opened the journal closes it."""
        self._database.write_deferred()

    def _load_state(self, *, is_new: bool = False) -> None:
        """Read what is needed to append events, such as the last event's number and the messages in view."""
        execute, key = self._database.execute, (self._key,)
        with translate_errors(self._database.path):
            last_sql = "SELECT coalesce(max(seq), 0) FROM event WHERE session = ?"
            self._seq: int = 0 if is_new else execute(last_sql, key).fetchone()[0]
            self._sequence: int = 0
            self._places: dict[ItemId, str | None] = {}
            self._forgotten: dict[ItemId, int] = {}
            self._has_draft = False
            if not self._seq:
                return
            items = execute("SELECT sequence, item, slot, place FROM item WHERE session = ? ORDER BY sequence", key).fetchall()
            gone = execute("SELECT item, slot, seq FROM retired WHERE session = ? AND how = 'forgotten'", key).fetchall()
            rollbacks = execute("SELECT seq, to_event FROM rollback WHERE session = ? ORDER BY seq", key).fetchall()
            self._has_draft = execute("SELECT count(*) FROM draft WHERE session = ?", key).fetchone()[0] > 0
        self._sequence = max((row[0] for row in items), default=0)
        self._places = {ItemId(item, slot): place for _, item, slot, place in items}
        self._forgotten = {ItemId(item, slot): seq for item, slot, seq in gone}
        for seq, to_event in rollbacks:
            self._roll_back(seq, to_event)

    def _roll_back(self, seq: int, to_event: int) -> None:
        """Undo what the events between `to_event` and the rollback `seq` changed in the list of visible messages."""
        self._places = {item: place for item, place in self._places.items() if not to_event < item.event < seq}
        self._forgotten = {
            item: forgotten_by for item, forgotten_by in self._forgotten.items() if not to_event < forgotten_by < seq
        }

    def _is_in_view(self, item: ItemId) -> bool:
        return item in self._places and item not in self._forgotten

    def _write_rows(self) -> None:
        rows, self._unwritten = self._unwritten, None
        assert rows is not None
        try:
            self._write(rows)
        except BaseException:
            self._load_state()
            raise

    def _write(self, rows: _PendingRows) -> None:
        database = self._database
        pack = database.packer.pack
        rows.by_statement["text"] = [pack(address, text, compress=packed) for address, (text, packed) in rows.texts.items()]
        ends_draft = self._has_draft and any(kind not in _DRAFT_EVENT_KINDS for _, _, kind, *_ in rows.by_statement["event"])
        with database.transaction():
            keys = self._store_bodies([body for body in rows.bodies if body is not None])
            events = zip(rows.by_statement["event"], rows.bodies, strict=True)
            rows.by_statement["event"] = [(*row, None if body is None else keys[body]) for row, body in events]
            for name, statement in _STATEMENTS.items():
                if values := rows.by_statement[name]:
                    database.executemany(statement, values)
            if ends_draft:
                database.execute("DELETE FROM draft WHERE session = ?", (self._key,))
        self._has_draft = self._has_draft and not ends_draft

    def _store_bodies(self, bodies: Iterable[str]) -> dict[str, int]:
        """Store the JSON of events, unless the journal has it already, and return its keys."""
        execute = self._database.execute
        digests = {body: compute_body_digest(body) for body in bodies}
        keys: dict[str, int] = {}
        first_key: int = execute("SELECT coalesce(max(key), 0) + 1 FROM body").fetchone()[0]
        unknown = list(digests.values()) if first_key > 1 else []
        for start in range(0, len(unknown), _DIGESTS_AT_ONCE):
            batch = unknown[start : start + _DIGESTS_AT_ONCE]
            keys.update(execute(_BODY_STATEMENT, batch + [None] * (_DIGESTS_AT_ONCE - len(batch))).fetchall())
        rows = [(key, digests[body], body) for key, body in enumerate((body for body in digests if body not in keys), first_key)]
        self._database.executemany("INSERT INTO body (key, digest, data) VALUES (?, ?, ?)", rows)
        return keys | {body: key for key, _, body in rows}

    def _add(self, rows: _PendingRows, event: Event) -> Entry:
        self._seq += 1
        seq = self._seq
        match event:
            case MessageAdded():
                self._add_message(rows, seq, event)
                return Entry(seq, event)
            case StepFinished():
                values = (*extract_values(event, _STEP_FIELDS), *extract_values(event.usage, _USAGE_FIELDS))
                rows.by_statement["step"].append((self._key, seq, *values))
            case Compaction():
                self._add_compaction(rows, seq, event)
            case SessionStarted() | SessionResumed():
                rows.by_statement["started"].append((*extract_values(event, _STARTED_FIELDS), self._key))
            case SessionEnded():
                end = extract_values(event, ("status", "reason", "detail"))
                rows.by_statement["ended"].append((*end, rows.at_ms, self._key))
            case RolledBack():
                self._roll_back(seq, event.to_event)
                rows.by_statement["rollback"].append((self._key, seq, event.to_event))
        place = (self._key, seq, event.kind, getattr(event, "step", None), rows.at_ms)
        rows.by_statement["event"].append((*place, None, None, None, *_NO_TIMING))
        rows.bodies.append(None if isinstance(event, StepFinished) else _encode_body(event, rows.texts))
        return Entry(seq, event)

    def _add_message(self, rows: _PendingRows, seq: int, event: MessageAdded) -> None:
        self._sequence += 1
        self._places[ItemId(seq)] = None
        tokens = self._counter.count(event.message)
        body = _encode_inline(event.message) if tokens <= _INLINE_TOKENS else None
        body = body or _encode_body(event.message, rows.texts)
        place = (self._key, seq, event.kind, event.step, rows.at_ms)
        timing = event.timing
        times = (timing.started_at_ms, timing.seconds, timing.cached_seconds) if timing else _NO_TIMING
        rows.by_statement["event"].append((*place, self._sequence, event.message.role, tokens, *times))
        rows.bodies.append(body)

    def _add_version(self, rows: _PendingRows, seq: int, item: ItemId, message: Message, path: str) -> None:
        self._sequence += 1
        tokens, place = self._counter.count(message), self._places[item]
        rows.by_statement["version"].append((self._key, self._sequence, seq, *item, message.role, tokens, place, path))

    def _add_compaction(self, rows: _PendingRows, seq: int, event: Compaction) -> None:
        """Add the row of a compaction and, if it was applied, the end of each replaced or forgotten message and each new one."""
        usage, patch = event.summarizer_usage, event.patch
        sizes = (len(patch.forget), len(patch.replace), len(patch.insert), len(event.summary))
        tokens = [getattr(usage, name.removeprefix("summarizer_"), None) for name in _SUMMARIZER_USAGE]
        rows.by_statement["compaction"].append((self._key, seq, *extract_values(event, _COMPACTION_FIELDS), *sizes, *tokens))
        if event.status != "applied":
            return
        # The place of an item is a text by which the view is sorted: an insert follows its parent, and newer inserts come first.
        after = [insert.after for insert in patch.insert if self._is_in_view(insert.after)]
        parents = {item: self._places[item] or f"{item.event:08d}" for item in after}
        forgotten = {item for item in patch.forget if self._is_in_view(item)}
        newest = {change.item: index for index, change in enumerate(patch.replace)}
        for item, index in newest.items():
            if self._is_in_view(item) and item not in forgotten:
                rows.by_statement["retired"].append((self._key, *item, seq, "replaced"))
                self._add_version(rows, seq, item, patch.replace[index].message, f"$.patch.replace[{index}].message")
        for item in forgotten:
            rows.by_statement["retired"].append((self._key, *item, seq, "forgotten"))
            self._forgotten[item] = seq
        for slot, insert in enumerate(patch.insert):
            if insert.after in parents:
                item = ItemId(seq, slot)
                self._places[item] = f"{parents[insert.after]}~{99_999_999 - seq:08d}.{slot:04d}"
                self._add_version(rows, seq, item, insert.message, f"$.patch.insert[{slot}].message")


_to_json = json.JSONEncoder(separators=(",", ":")).encode


def _encode_inline(message: Message) -> str | None:
    """Return a message as JSON; None if one of its strings cannot be encoded as UTF-8."""
    try:
        return MESSAGE_ADAPTER.serializer.to_json(message).decode()
    except ValueError:
        return None


def _encode_body(value: Event | Message, texts: dict[str, tuple[str, bool]]) -> str:
    """Return a value as JSON in which addresses replace long strings; these are added to `texts`."""
    return _to_json(detach_texts(build_adapter(cast("Hashable", type(value))).serializer.to_python(value), texts))


def read_entries(
    database: Database, key: int, known_messages: dict[str, Message] | None = None, kinds: Collection[str] = ()
) -> Iterator[Entry]:
    """Yield the events of a session with their numbers, a few hundred rows at a time.

    Args:
        database: Connection to the journal that holds the session.
        key: Integer key of the session in the tables of the journal.
        known_messages: Messages that earlier calls have decoded, by their stored JSON text. These are not decoded again, so equal
            messages of several sessions are one object; new messages are added to the dict. None decodes every message.
        kinds: Kinds of the events to read, e.g. `session-ended`. Default: all.

    Raises:
        StoreError: A row holds no event that this version of the package can read.
    """
    last_seq, known = 0, {} if known_messages is None else known_messages
    chosen = f"AND kind IN ({', '.join(map(repr, kinds))})" if kinds else ""
    columns = ", ".join(("seq", "kind", "step", "body", *_TIMES))
    sql = f"SELECT {columns} FROM whole_event WHERE session = ? AND seq > ? {chosen} ORDER BY seq LIMIT 500"
    while rows := database.fetch(sql, key, last_seq):
        texts = load_texts(database, [body for _, _, _, body, *_ in rows if body and body not in known])
        steps = _read_steps(database, key, rows[0][0], rows[-1][0])
        for seq, kind, step, body, *times in rows:
            if body is None:
                yield Entry(seq, steps[seq])
            elif body in known:
                yield Entry(seq, MessageAdded(message=known[body], step=step or 0, timing=_read_timing(times)))
            else:
                event = _decode_event(database, (seq, kind, step or 0, body, _read_timing(times)), texts)
                if known_messages is not None and isinstance(event, MessageAdded):
                    known_messages[body] = event.message
                yield Entry(seq, event)
        last_seq = rows[-1][0]


def load_texts(database: Database, bodies: Iterable[str]) -> dict[str, str]:
    """Load the long texts of stored events, whose JSON holds only their addresses; return them by address."""
    addresses_json = json.dumps(sorted({address for body in bodies for address in list_addresses(body)}))
    unpack = database.packer.unpack
    sql = "SELECT t.address, t.data FROM json_each(?) AS j CROSS JOIN text AS t ON t.address = j.value"
    return {address: unpack(data) for address, data in database.fetch(sql, addresses_json)}


def _decode_event(database: Database, row: tuple[int, str, int, str, CallTiming | None], texts: dict[str, str]) -> Event:
    seq, kind, step, body, timing = row
    try:
        plain = parse_stored(body, texts)
        if kind == "message-added":
            return MessageAdded(message=MESSAGE_ADAPTER.validate_python(plain, strict=False), step=step, timing=timing)
        return parse_event(kind, plain)
    except (ValueError, KeyError) as error:
        raise StoreError(f"journal {str(database.path)!r}: event {seq} cannot be read by this version ({error})") from error


def _read_timing(times: Sequence[Any]) -> CallTiming | None:
    started_at_ms, seconds, cached_seconds = times
    if started_at_ms is None:
        return None
    return CallTiming(started_at_ms=started_at_ms, seconds=seconds, cached_seconds=cached_seconds)


def _read_steps(database: Database, key: int, first: int, last: int) -> dict[int, StepFinished]:
    sql = f"SELECT seq, {', '.join((*_STEP_FIELDS, *_USAGE_FIELDS))} FROM step WHERE session = ? AND seq BETWEEN ? AND ?"
    steps: dict[int, StepFinished] = {}
    for seq, *values in database.fetch(sql, key, first, last):
        usage = Usage(**dict(zip(_USAGE_FIELDS, values[len(_STEP_FIELDS) :], strict=True)))
        step = dict(zip(_STEP_FIELDS, values, strict=False))
        flags = {name: bool(step[name]) for name in _STEP_FLAGS if step[name] is not None}  # SQLite stores them as integers
        steps[seq] = StepFinished(usage=usage, **step | flags)
    return steps


RETENTION_MS = RETENTION_DAYS * 24 * 60 * 60 * 1_000
"""Time for which a saved tool output is kept, in milliseconds."""


_OUTPUT_STATEMENT = build_insert("saved_output", ("session", "name", "created_at_ms", "characters", "data"), replaces=True)


class SavedOutputs:
    """Store in a journal for the full tool outputs of one session.

    Thread-safe if nothing else uses the journal meanwhile.
    """

    def __init__(self, database: Database, session: int, clock: Clock) -> None:
        """Create the store; call `Journal.open_outputs` instead."""
        self._database, self._session, self._clock = database, session, clock
        self._lock = threading.Lock()

    def save(self, text: str) -> str:
        """Save a tool output in the journal and return the name by which it can be loaded."""
        name = name_output(text)
        data = Packer(self._database.path).pack(name, text, compress=True).data
        row = (self._session, name, int(self._clock() * 1_000), len(text), data)
        with self._lock, self._database.transaction():
            self._database.execute(_OUTPUT_STATEMENT, row)
        return name

    def load(self, name: str) -> str:
        """Return the full text of the tool output that was saved under a name.

        Raises:
            FileMissing: No output was saved under that name.
            OutputExpired: The output was deleted because of its age.
        """
        with self._lock:
            row: Any = self._database.execute(
                "SELECT data FROM saved_output WHERE session = ? AND name = ?", (self._session, name)
            ).fetchone()
            if row is None:
                raise OutputExpired(name, RETENTION_DAYS) if self._is_named_in_log(name) else FileMissing(name)
        return Packer(self._database.path).unpack(row[0])

    def _is_named_in_log(self, name: str) -> bool:
        """Return whether the log of the session says that an output was saved under a name."""
        for _, event in read_entries(self._database, self._session, kinds=("message-added", "compaction")):
            if isinstance(event, Compaction):
                if name in event.offloaded:
                    return True
            elif isinstance(event, MessageAdded) and any(name in list_locations(part.output) for part in event.message.results):
                return True
        return False

    def list_texts(self) -> list[str]:
        """Return the full texts of all saved tool outputs of the session."""
        with self._lock:
            rows: Any = self._database.execute(
                "SELECT data FROM saved_output WHERE session = ? ORDER BY name", (self._session,)
            ).fetchall()
        unpack = Packer(self._database.path).unpack
        return [unpack(data) for (data,) in rows]


class MemoryOutputs:
    """Store for the full tool outputs of one session in memory. Thread-safe."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def save(self, text: str) -> str:
        """Save a tool output in memory and return the name by which it can be loaded."""
        name = name_output(text)
        self._texts[name] = text
        return name

    def load(self, name: str) -> str:
        """Return the full text of the tool output that was saved under a name.

        Raises:
            FileMissing: No output of that name is stored.
        """
        if name not in self._texts:
            raise FileMissing(name)
        return self._texts[name]

    def list_texts(self) -> list[str]:
        """Return the full texts of all saved tool outputs."""
        return list(self._texts.values())


class MemoryLog:
    """Log of one session in memory, which is lost with the object. Not thread-safe."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """Append events to the log and return them with their numbers."""
        new = tuple(Entry(seq, event) for seq, event in enumerate(events, len(self._entries) + 1))
        self._entries += new
        return new

    def entries(self) -> tuple[Entry, ...]:
        """Return all events of the session with their numbers, in the order in which they were logged."""
        return tuple(self._entries)

    def close(self) -> None:
        """Do nothing, because a log in memory has no file to close."""
