"""Clean-up of a journal file, which removes old tool outputs, contents that no session refers to, and free space."""

import threading
from typing import NamedTuple

from harness.protocols import Clock
from harness.store.database import locate_log
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.sessions.locks import has_running_session
from harness.store.texts import CONTENT_TABLES, MIN_NAME_CHARACTERS, find_addresses, find_hashes
from harness.store.workspaces import find_file_hashes

CLEANUP_INTERVAL_MS = 60 * 60 * 1_000
"""Time between two removals of old tool outputs while a session runs, in milliseconds; one hour."""


class OutputCleaner:
    """Remover of saved tool outputs older than `RETENTION_MS`. Thread-safe.

    It works at most once per `CLEANUP_INTERVAL_MS`.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal, self._clock = journal, clock
        self._due_at_ms = 0
        self._lock = threading.Lock()

    def remove_if_due(self) -> None:
        """Remove the old tool outputs of all sessions, unless the last removal is less than an hour ago.

        Raises:
            StoreError: The journal cannot be written; the next attempt is due an hour later.
        """
        now_ms = int(self._clock() * 1_000)
        with self._lock:
            if now_ms < self._due_at_ms:
                return
            self._due_at_ms = now_ms + CLEANUP_INTERVAL_MS
        self._journal.remove_outputs(now_ms - RETENTION_MS)


class CleanupResult(NamedTuple):
    """Numbers of items that a clean-up removed from a journal, and the space that it freed."""

    outputs: int
    """Number of saved tool outputs that were removed from the journal because of their age."""
    texts: int
    """Number of stored texts that were removed because no session referred to them any more."""
    files: int | None
    """Number of workspace files that were removed because no session referred to them any more.

    None if a session was running, so that no file was removed.
    """
    freed_bytes: int
    """Number of bytes by which the journal file became smaller."""


def clean(journal: Journal, *, outputs_before_ms: int) -> CleanupResult:
    """Remove old tool outputs and unused contents from a journal, and shrink the file.

    Other processes may read and write the journal meanwhile. Files of workspaces are removed only while no session of the journal
    runs, because a session writes files some time before the event that refers to them.

    Args:
        journal: Journal to clean up, open for writing.
        outputs_before_ms: Time before which saved tool outputs are removed, in milliseconds since the epoch.

    Raises:
        StoreError: The file cannot be written or is locked by another process; data removed before the error stays removed.
    """
    before = _measure_size(journal)
    outputs = journal.remove_outputs(outputs_before_ms)
    database = journal.database
    with database.transaction():
        database.execute("DELETE FROM body WHERE key NOT IN (SELECT body_key FROM event WHERE body_key IS NOT NULL)")
        referenced_addresses, referenced_hashes = _collect_references(journal)
        texts = _remove(journal, "text", referenced_addresses)
        files = None if has_running_session(journal.path) else _remove_workspaces(journal, referenced_hashes)
    database.fetch("VACUUM")
    database.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
    return CleanupResult(outputs, texts, files, max(0, before - _measure_size(journal)))


def _remove_workspaces(journal: Journal, referenced_hashes: set[str]) -> int:
    _remove(journal, "tree", referenced_hashes)
    tree_ids = [row[0] for row in journal.database.execute("SELECT tree_id FROM tree")]
    return _remove(journal, "blob", referenced_hashes | find_file_hashes(journal.database, tree_ids))


def _remove(journal: Journal, table: str, needed: set[str]) -> int:
    """Remove the rows to which nothing refers from a table of texts, files or snapshots; return their number."""
    name = CONTENT_TABLES[table]
    unused = {row[0] for row in journal.database.execute(f"SELECT {name} FROM {table}")} - needed
    journal.database.executemany(f"DELETE FROM {table} WHERE {name} = ?", [(value,) for value in unused])
    return len(unused)


def _measure_size(journal: Journal) -> int:
    return sum(path.stat().st_size for path in (journal.path, locate_log(journal.path)) if path.exists())


def _collect_references(journal: Journal) -> tuple[set[str], set[str]]:
    """Return the addresses of texts, and the hashes of workspaces and files, to which rows of the journal refer."""
    execute = journal.database.execute
    referenced_addresses: set[str] = set()
    referenced_hashes: set[str] = set()
    for (table,) in execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall():
        columns = [row[1] for row in execute(f'PRAGMA table_info("{table}")') if row[2] == "TEXT"]
        for column in columns if table not in CONTENT_TABLES else ():
            for (value,) in execute(f'SELECT "{column}" FROM "{table}" WHERE length("{column}") >= {MIN_NAME_CHARACTERS}'):
                referenced_addresses.update(find_addresses(value))
                referenced_hashes.update(find_hashes(value))
    return referenced_addresses, referenced_hashes
