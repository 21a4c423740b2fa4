"""The journal: one SQLite file that holds sessions, trials and checks. The door of this room for who writes."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.codec import CALLS_ADAPTER
from harness.errors import StoreError
from harness.events import Entry
from harness.protocols import Clock
from harness.store.database import Database, build_insert, extract_values
from harness.store.log import SavedOutputs, SessionLog, read_entries
from harness.store.records import (
    CheckRecord,
    Draft,
    FactRecord,
    ProbeRecord,
    Probes,
    SessionMetrics,
    StepActions,
    StepMetrics,
    TrialRecord,
)
from harness.tokens import Counter, QuarterOfCharacters

_TRIAL_COLUMNS = tuple(field.name for field in fields(TrialRecord))
_CHECK_COLUMNS = tuple(field.name for field in fields(CheckRecord))
_METRICS_COLUMNS = tuple(field.name for field in fields(SessionMetrics) if field.name != "steps")
_STEP_METRICS_COLUMNS = tuple(field.name for field in fields(StepMetrics))
_FACT_COLUMNS = tuple(field.name for field in fields(FactRecord))
_PROBE_COLUMNS = tuple(field.name for field in fields(ProbeRecord))


class Journal(AbstractContextManager["Journal"]):
    """An open journal file: write-ahead log, one transaction for each call, several processes may write at once.

    The object may change threads, but only one thread may use it at a time. Use it in a `with` block, or `close` it.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> "Journal":
        """Open a journal file; a new one is made with its folder.

        Args:
            path: of the file.
            read_only: read what is there; nothing is made or changed. A file that nobody is writing is read as it stands.

        Raises:
            StoreError: it cannot be written, is no journal, or was written by a newer version.
        """
        path = Path(path)
        if not read_only:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot make the folder of journal {str(path)!r}: {error.strerror}; name another") from error
        return cls(Database(path, read_only=read_only))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The file."""
        return self.database.path

    def close(self) -> None:
        """Close the file; idempotent. The last one to close it folds the write-ahead log in."""
        self.database.close()

    def open_session_log(
        self, session_id: str, *, created_at_ms: int, clock: Clock, counter: Counter | None = None
    ) -> SessionLog:
        """The log of a session, begun now or carried on where it stopped.

        Args:
            session_id: any text without `/`, unique in this file.
            created_at_ms: kept when the session is new.
            clock: the time of each event.
            counter: estimates the `token_count` of a message; by default characters / 4.
        """
        with self.database.transaction():
            self.database.execute("INSERT OR IGNORE INTO session (id, created_at_ms) VALUES (?, ?)", (session_id, created_at_ms))
        return SessionLog(self.database, self.find_key(session_id), clock=clock, counter=counter or QuarterOfCharacters())

    def list_session_ids(self) -> tuple[str, ...]:
        """All sessions, oldest first."""
        return tuple(row[0] for row in self.query("SELECT id FROM session ORDER BY created_at_ms, key"))

    def read_entries(self, session_id: str) -> Iterator[Entry]:
        """The log of a session, for reading only.

        Raises:
            StoreError: no such session.
        """
        return read_entries(self.database, self.find_key(session_id))

    def read_draft(self, session_id: str) -> Draft | None:
        """What the model had written of an answer that was not logged; None = every answer was.

        Raises:
            StoreError: no such session.
        """
        rows = self.query("SELECT step, text, reasoning, calls FROM draft WHERE session = ?", self.find_key(session_id))
        if not rows:
            return None
        step, text, reasoning, calls = rows[0]
        return Draft(step, text, reasoning, CALLS_ADAPTER.validate_json(calls))

    def find_key(self, session_id: str) -> int:
        """Return the key of a session in the tables of this file.

        Raises:
            StoreError: no such session.
        """
        rows = self.database.fetch("SELECT key FROM session WHERE id = ?", session_id)
        if not rows:
            raise StoreError(f"journal {str(self.path)!r} has no session {session_id!r}; `harness sessions list` shows them")
        return int(rows[0][0])

    def query(self, sql: str, *parameters: object) -> list[sqlite3.Row]:
        """The rows of a query over the tables and views of `harness.store.schema`; packed texts are shown whole."""
        return self.database.query(sql, *parameters)

    def record_trial(self, trial: TrialRecord, checks: Iterable[CheckRecord] = ()) -> None:
        """Keep a trial and its checks together; takes the place of an earlier record of the same trial."""
        with self.database.transaction():
            self.database.execute('DELETE FROM "check" WHERE trial_id = ?', (trial.trial_id,))
            self.database.execute("DELETE FROM trial WHERE trial_id = ?", (trial.trial_id,))
            self.database.execute(build_insert("trial", _TRIAL_COLUMNS), extract_values(trial, _TRIAL_COLUMNS))
            self.database.executemany(
                build_insert("check", _CHECK_COLUMNS), [extract_values(check, _CHECK_COLUMNS) for check in checks]
            )

    def record_metrics(self, session_id: str, metrics: SessionMetrics, probes: Probes) -> None:
        """Keep how a session behaved; takes the place of what was kept of it before.

        Raises:
            StoreError: no such session, or nothing could be written.
        """
        key = self.find_key(session_id)
        tables: tuple[tuple[str, Sequence[str], Sequence[Any]], ...] = (
            ("conduct", _METRICS_COLUMNS, (metrics,)),
            ("step_conduct", _STEP_METRICS_COLUMNS, metrics.steps),
            ("fact", _FACT_COLUMNS, probes.facts),
            ("probe", _PROBE_COLUMNS, probes.rows),
        )
        with self.database.transaction():
            for table, names, records in tables:
                self.database.execute(f"DELETE FROM {table} WHERE session = ?", (key,))
                rows = [(key, *extract_values(record, names)) for record in records]
                self.database.executemany(build_insert(table, ("session", *names)), rows)

    def record_actions(self, session_id: str, actions: Iterable[StepActions]) -> None:
        """Keep beside the log of a session how the commands of its steps came by their results."""
        key = self.find_key(session_id)
        with self.database.transaction():
            self.database.executemany("INSERT OR REPLACE INTO action VALUES (?, ?, ?, ?)", [(key, *one) for one in actions])

    def open_outputs(self, session_id: str, clock: Clock) -> SavedOutputs:
        """Where a session keeps tool outputs that are too long for its log.

        Raises:
            StoreError: no such session.
        """
        return SavedOutputs(self.database, self.find_key(session_id), clock)

    def remove_outputs(self, before_ms: int) -> int:
        """Forget the outputs that were saved before a time (S3.1); returns how many."""
        with self.database.transaction():
            return self.database.execute("DELETE FROM saved_output WHERE created_at_ms < ?", (before_ms,)).rowcount

    def list_trials(self) -> tuple[TrialRecord, ...]:
        """All recorded trials, in the order of recording."""
        rows = self.query("SELECT * FROM trial ORDER BY revision")
        return tuple(TrialRecord(**{**_select_columns(row, _TRIAL_COLUMNS), "success": bool(row["success"])}) for row in rows)

    def list_checks(self, trial_id: str) -> tuple[CheckRecord, ...]:
        """The checks of a trial by name."""
        rows = self.query('SELECT * FROM "check" WHERE trial_id = ? ORDER BY "check"', trial_id)
        return tuple(CheckRecord(**{**_select_columns(row, _CHECK_COLUMNS), "passed": bool(row["passed"])}) for row in rows)


def _select_columns(row: sqlite3.Row, names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}
