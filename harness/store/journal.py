"""Journal of sessions, trials and checks in one SQLite file. All writing to stored sessions goes through this module."""

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from harness.conversation.codec import CALLS_ADAPTER, RESULTS_ADAPTER, TIMINGS_ADAPTER
from harness.conversation.events import Entry, SessionEnded, StopReason
from harness.conversation.messages import Message
from harness.conversation.tokens import Counter, QuarterOfCharacters
from harness.errors import StoreError, UsageError
from harness.protocols import Clock
from harness.store.columns import STEP_COUNTS, STEP_COUNTS_TABLE
from harness.store.database import Database, build_getter, build_insert, extract_values, translate_errors
from harness.store.log import SavedOutputs, SessionLog, read_entries
from harness.store.records import (
    CheckRecord,
    FactRecord,
    ProbeRecord,
    Probes,
    SessionMetrics,
    SessionRecord,
    StepActions,
    TrialRecord,
    UnfinishedStep,
)
from harness.text import replace_surrogates

_TRIAL_COLUMNS = tuple(field.name for field in fields(TrialRecord))
_SESSION_RECORD_COLUMNS = tuple(field.name for field in fields(SessionRecord))
_CHECK_COLUMNS = tuple(field.name for field in fields(CheckRecord))
_METRICS_COLUMNS = tuple(field.name for field in fields(SessionMetrics) if field.name != "steps")
_FACT_COLUMNS = tuple(field.name for field in fields(FactRecord))
_PROBE_COLUMNS = tuple(field.name for field in fields(ProbeRecord))

_RECORD_TABLES = ("trial", "conduct", STEP_COUNTS_TABLE, "fact", "probe")
"""Tables of the journal with records that are computed from logs."""


class MeasuredSession(NamedTuple):
    """Session outside of trials with its record, metrics and probes, all computed from its log."""

    record: SessionRecord
    metrics: SessionMetrics
    probes: Probes


class Journal(AbstractContextManager["Journal"]):
    """Journal file (SQLite) that was opened to read or store sessions and trials. Several processes may write at once.

    Each call is one transaction. Several threads may use the object, but only one at a time. Use the object in a `with` block or
    call `close`.

    Args:
        database: Connection to the journal file; `Journal.open` creates both.

    Example:
        >>> from harness import Journal
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Journal.open(f"{folder}/journal.sqlite") as journal:
        ...     journal.list_session_ids()
        ()
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False, is_scratch: bool = False) -> "Journal":
        """Open a journal file. A missing file is created, and so is its folder.

        Args:
            path: Path of the journal file.
            read_only: Whether to open the file for reading only; then no file is created or changed. Default: False.
            is_scratch: Whether a missing file is created for work that can be done again. Such a file is never flushed to disk,
                so it survives the death of a process, but not of the machine, and it has no views for other programs until it
                is merged into another journal. Default: False.

        Raises:
            StoreError: The file cannot be written, is no journal, or was written by a newer version.
        """
        path = Path(path)
        if not read_only:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(
                    f"cannot create the folder of journal {str(path)!r}: {error.strerror}; specify another path"
                ) from error
        try:
            return cls(Database(path, read_only=read_only, is_scratch=is_scratch))
        except OSError as error:
            raise StoreError(f"cannot open journal {str(path)!r}: {error.strerror}; specify another path") from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """Path of the journal's SQLite file."""
        return self.database.path

    def close(self) -> None:
        """Close the journal file; closing again has no effect.

        The last connection merges the write-ahead log into the file.
        """
        self.database.close()

    def open_session_log(
        self,
        session_id: str,
        *,
        created_at_ms: int,
        clock: Clock,
        counter: Counter | None = None,
        write_interval_seconds: float = 0.0,
    ) -> SessionLog:
        """Open the log of a session to append events; a session that the journal lacks is created.

        Args:
            session_id: Id of the session, which is any text without `/` and unique in the journal.
            created_at_ms: Creation time of a new session, in milliseconds since the epoch; ignored if the session exists.
            clock: Source of the time of each event.
            counter: Token counter that estimates the size of each message; None estimates a quarter of the characters.
            write_interval_seconds: Time for which events may wait to be written together, so that a killed process loses the
                newest events. Reads through this journal object show all events. Default: 0.0, which writes each event at once.
        """
        statement = "INSERT OR IGNORE INTO session (id, created_at_ms) VALUES (?, ?)"
        with self.database.transaction():
            created = self.database.execute(statement, (session_id, created_at_ms))
        is_new = created.rowcount > 0
        return SessionLog(
            self.database,
            created.lastrowid if is_new and created.lastrowid else self.find_key(session_id),
            is_new=is_new,
            clock=clock,
            counter=counter or QuarterOfCharacters(),
            write_interval_seconds=write_interval_seconds,
        )

    def fail_session(self, session_id: str, *, reason: StopReason, detail: str, clock: Clock) -> None:
        """Mark a session and its sub-agents as failed if they are still active.

        If a session has logged events, its end is logged with the reason.

        Args:
            session_id: Id of the session; nothing happens if the journal has no such session.
            reason: Reason of the failure.
            detail: Explanation for people, for example the message of an error.
            clock: Source of the time at which the session ended.

        Raises:
            StoreError: The journal cannot be written; the session is still active.
        """
        family_sql = "id = ?1 OR (id > ?1 || '.' AND id < ?1 || '/')"  # '/' follows '.' in ASCII
        rows = self.database.fetch(f"SELECT id, key FROM session WHERE status = 'active' AND ({family_sql})", session_id)
        statement = "UPDATE session SET status = 'failed', reason = ?, detail = ?, ended_at_ms = ? WHERE key = ?"
        for active_id, key in rows:
            now_ms = int(clock() * 1000)
            log = self.open_session_log(active_id, created_at_ms=now_ms, clock=clock)
            if log.length:
                log.append((SessionEnded(status="failed", reason=reason, detail=detail),))
                continue
            with self.database.transaction():
                self.database.execute(statement, (reason, replace_surrogates(detail), now_ms, key))

    def list_session_ids(self) -> tuple[str, ...]:
        """Return the ids of all sessions in the journal, oldest first."""
        return tuple(row[0] for row in self.query("SELECT id FROM session ORDER BY created_at_ms, key"))

    def read_entries(
        self, session_id: str, known_messages: dict[str, Message] | None = None, kinds: Collection[str] = ()
    ) -> Iterator[Entry]:
        """Return the events of a session, each with its number, in the order in which they were logged.

        Args:
            session_id: Id of the session.
            known_messages: Messages that earlier calls have decoded, by their stored JSON text. These are not decoded again; new
                messages are added to the dict. None decodes every message. Default: `None`.
            kinds: Kinds of the events to return, e.g. `session-ended`. Default: all.

        Raises:
            StoreError: The journal has no such session.
        """
        return read_entries(self.database, self.find_key(session_id), known_messages, kinds)

    def read_draft(self, session_id: str) -> UnfinishedStep | None:
        """Return the unfinished answer of a session's model, as last saved; None if there is none.

        Raises:
            StoreError: The journal has no such session.
        """
        rows = self.query(
            "SELECT step, text, reasoning, calls, results, tree_id, timings FROM draft WHERE session = ?",
            self.find_key(session_id),
        )
        if not rows:
            return None
        step, text, reasoning, calls, results, tree_id, timings = rows[0]
        return UnfinishedStep(
            step,
            text,
            reasoning,
            CALLS_ADAPTER.validate_json(calls),
            RESULTS_ADAPTER.validate_json(results),
            tree_id,
            TIMINGS_ADAPTER.validate_json(timings),
        )

    def find_key(self, session_id: str) -> int:
        """Return the integer key that identifies a session in the tables of the journal.

        Raises:
            StoreError: The journal has no such session.
        """
        rows = self.database.fetch("SELECT key FROM session WHERE id = ?", session_id)
        if not rows:
            raise StoreError(
                f"journal {str(self.path)!r} has no session {session_id!r}; `harness sessions list` shows all sessions"
            )
        return int(rows[0][0])

    def remove_session(self, session_id: str) -> None:
        """Delete a session with its events and its trial; texts that no session refers to any more are deleted by a cleanup."""
        with self.database.transaction():
            execute = self.database.execute
            execute('DELETE FROM "check" WHERE trial_id IN (SELECT trial_id FROM trial WHERE session_id = ?)', (session_id,))
            execute("DELETE FROM trial WHERE session_id = ?", (session_id,))
            execute("DELETE FROM session WHERE id = ?", (session_id,))

    def mark_session(self, session_id: str, success: bool | None, checks: Sequence[tuple[str, bool]] = ()) -> None:
        """Store whether a session outside of trials is a success, in place of an earlier mark.

        Args:
            session_id: Id of the session.
            success: Whether the session is a success; None removes the mark.
            checks: Title of each check of the session's task, and whether it passed, if checks decided. Default: none.

        Raises:
            StoreError: The journal has no such session or cannot be written.
            UsageError: The session belongs to a trial, whose checks say how it ended.
        """
        key = self.find_key(session_id)
        score = sum(passed for _, passed in checks) / len(checks) if checks else None
        failed = replace_surrogates("; ".join(title for title, passed in checks if not passed)) if checks else None
        with self.database.transaction():
            if self.query("SELECT 1 FROM trial WHERE session_id = ?", session_id):
                raise UsageError(f"session {session_id!r} belongs to a trial, whose checks say how it ended; it cannot be marked")
            self.database.execute(
                "UPDATE session SET marked_success = ?, marked_score = ?, marked_failed_checks = ? WHERE key = ?",
                (success, score, failed, key),
            )

    def query(self, sql: str, *parameters: object) -> list[sqlite3.Row]:
        """Return the rows of a SQL query over the journal's tables and views; views show compressed texts in full."""
        return self.database.query(sql, *parameters)

    def record_trial(self, trial: TrialRecord, checks: Iterable[CheckRecord] = ()) -> None:
        """Store the record of a trial and the results of its checks, replacing an earlier record of the trial."""
        with self.database.transaction():
            self.database.execute("DELETE FROM trial WHERE trial_id = ?", (trial.trial_id,))  # and its checks
            self.database.execute(build_insert("trial", _TRIAL_COLUMNS), extract_values(trial, _TRIAL_COLUMNS))
            self.database.insert("check", _CHECK_COLUMNS, [extract_values(check, _CHECK_COLUMNS) for check in checks])

    def record_metrics(self, session_id: str, metrics: SessionMetrics, probes: Probes) -> None:
        """Store the metrics of a session and its probes, replacing those that were stored before.

        A probe records whether a compaction kept a fact among the messages that the model sees.

        Raises:
            StoreError: The journal has no such session or cannot be written.
        """
        with self.database.transaction():
            self._write_metrics(self.find_key(session_id), metrics, probes)

    def _write_metrics(self, key: int, metrics: SessionMetrics, probes: Probes) -> None:
        counts = tuple(sorted(STEP_COUNTS))
        tables: tuple[tuple[str, Sequence[str], Iterable[Sequence[object]]], ...] = (
            ("conduct", _METRICS_COLUMNS, [extract_values(metrics, _METRICS_COLUMNS)]),
            (STEP_COUNTS_TABLE, ("step", *counts), ((step.step, *map(step.counts.get, counts)) for step in metrics.steps)),
            ("fact", _FACT_COLUMNS, [extract_values(fact, _FACT_COLUMNS) for fact in probes.facts]),
            ("probe", _PROBE_COLUMNS, map(build_getter(_PROBE_COLUMNS), probes.rows)),  # numbers and fixed words
        )
        if self.database.execute("DELETE FROM conduct WHERE session = ?", (key,)).rowcount:  # all tables were written with it
            for table, *_ in tables[1:]:
                self.database.execute(f"DELETE FROM {table} WHERE session = ?", (key,))
        for table, names, rows in tables:
            self.database.insert(table, ("session", *names), ((key, *row) for row in rows))

    def show_measured_sessions(self, sessions: Iterable[MeasuredSession]) -> None:
        """Show records of sessions outside of trials among the trials, as long as this object is open.

        The file is neither changed nor locked: temporary tables in memory, which SQLite prefers to tables of the same name in
        the file, hold the rows of the file and the records.

        Args:
            sessions: Sessions of this journal without a trial, with their metrics and probes; a session that was deleted since
                is left out.
        """
        keys = dict(self.database.fetch("SELECT id, key FROM session"))
        with translate_errors(self.path):
            for table in _RECORD_TABLES:
                self.database.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM main.{table}")
            revision = self.database.fetch("SELECT coalesce(max(revision), 0) FROM trial")[0][0]
            for session in sessions:
                record = session.record
                if record.session_id not in keys:
                    continue
                revision += 1
                values = (revision, *extract_values(record, _SESSION_RECORD_COLUMNS))
                self.database.execute(build_insert("trial", ("revision", *_SESSION_RECORD_COLUMNS)), values)
                self._write_metrics(keys[record.session_id], session.metrics, session.probes)

    def record_actions(self, session_id: str, actions: Iterable[StepActions]) -> None:
        """Store for each step how many commands were run and how many the action cache answered."""
        key = self.find_key(session_id)
        with self.database.transaction():
            statement = build_insert("action", ("session", *StepActions._fields), replaces=True)
            self.database.executemany(statement, [(key, *action) for action in actions])

    def open_outputs(self, session_id: str, clock: Clock) -> SavedOutputs:
        """Return a store for those tool outputs of a session that are too long for its log.

        Args:
            session_id: Id of the session whose tool outputs are stored.
            clock: Source of the time at which each output is saved.

        Raises:
            StoreError: The journal has no such session.
        """
        return SavedOutputs(self.database, self.find_key(session_id), clock)

    def list_saved_outputs(self, session_id: str) -> frozenset[str]:
        """Return the names of a session's saved tool outputs that were not deleted.

        Raises:
            StoreError: The journal has no such session.
        """
        rows = self.query("SELECT name FROM saved_output WHERE session = ?", self.find_key(session_id))
        return frozenset(name for (name,) in rows)

    def remove_outputs(self, before_ms: int) -> int:
        """Delete the tool outputs saved before a time (milliseconds since the epoch), and return their number."""
        with self.database.transaction():
            return self.database.execute("DELETE FROM saved_output WHERE created_at_ms < ?", (before_ms,)).rowcount

    def list_trials(self) -> tuple[TrialRecord, ...]:
        """Return the records of all trials in the journal, in the order in which they were stored."""
        rows = self.query("SELECT * FROM trial ORDER BY revision")
        return tuple(TrialRecord(**{**_select_columns(row, _TRIAL_COLUMNS), "success": bool(row["success"])}) for row in rows)

    def list_statuses(self) -> dict[str, tuple[str, str]]:
        """Return the status and the stop reason of each trial in the journal, by trial id, without reading the whole records."""
        return {
            trial_id: (status, reason) for trial_id, status, reason in self.query("SELECT trial_id, status, reason FROM trial")
        }

    def list_probes(self, trial_ids: Iterable[str]) -> list[tuple[str, str, bool, bool]]:
        """Return whether compactions kept the facts among the messages that the model sees.

        Args:
            trial_ids: Ids of the trials; a trial without such records (probes) has no rows.

        Returns:
            One row for each fact and compaction, with the trial id, the kind of the fact, and whether the fact was visible before
            and after the compaction.
        """
        rows = self.query(
            "SELECT t.trial_id, f.kind, p.seen_before, p.seen_after FROM trial AS t JOIN session AS s ON s.id = t.session_id"
            " JOIN probe AS p ON p.session = s.key JOIN fact AS f ON f.session = p.session AND f.number = p.fact"
            " WHERE t.trial_id IN (SELECT value FROM json_each(?))",
            json.dumps(list(trial_ids)),
        )
        return [(trial_id, kind, bool(before), bool(after)) for trial_id, kind, before, after in rows]

    def list_failed_checks(self, trial_ids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
        """Return names and titles of the failed checks of trials, sorted by name; trials without failed checks are left out.

        Args:
            trial_ids: Ids of the trials.
        """
        rows = self.query(
            'SELECT trial_id, "check", title FROM "check" WHERE NOT passed AND trial_id IN (SELECT value FROM json_each(?))'
            ' ORDER BY trial_id, "check"',
            json.dumps(list(trial_ids)),
        )
        failed: dict[str, list[tuple[str, str]]] = {}
        for trial_id, name, title in rows:
            failed.setdefault(trial_id, []).append((name, title))
        return failed

    def list_checks(self, trial_id: str) -> tuple[CheckRecord, ...]:
        """Return the results of a trial's checks, sorted by the name of the check."""
        rows = self.query('SELECT * FROM "check" WHERE trial_id = ? ORDER BY "check"', trial_id)
        return tuple(CheckRecord(**{**_select_columns(row, _CHECK_COLUMNS), "passed": bool(row["passed"])}) for row in rows)


def _select_columns(row: sqlite3.Row, names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}
