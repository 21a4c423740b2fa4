"""Storage for the effects of commands and the verdicts of graders, in one SQLite file that all processes of a user share.

A failure of the cache never leads to a wrong result or an error of a trial; the command is then run as if it were not cached.
Each entry has a digest that is verified on reading. Processes may be killed at any time, so each write is one transaction. When
the cache exceeds its maximum size, the least recently used entries are deleted.
"""

import contextlib
import fcntl
import functools
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import platformdirs

from harness.errors import StoreError
from harness.files.object_store import ObjectStore
from harness.protocols import SandboxInfo
from harness.sandboxes.action_cache.entry import CacheEntry, pack_entry, unpack_entry

T = TypeVar("T")
CACHE_FILE = "actions.sqlite"
LOCK_FILE = "actions.lock"
SCHEMA_VERSION = 1
"""Version of the tables in the cache file; a file with another version is deleted."""
MAX_BYTES = 2 * 2**30
EVICTION_TARGET_SHARE = 0.9
"""Share of the maximum size to which a cache that is too large is reduced, so that entries are deleted in batches."""
MAX_ENTRY_SHARE = 1 / 8
"""Maximum size of one cache entry, as a share of the maximum size of the whole cache; larger entries are not stored."""
BUSY_SECONDS = 10.0
COMMAND_PREVIEW_CHARACTERS = 200
_SCHEMA = (
    """
    CREATE TABLE entry (
      id INTEGER PRIMARY KEY,
      key BLOB NOT NULL UNIQUE,
      task TEXT NOT NULL,
      command TEXT NOT NULL, -- beginning of the command, for display
      bytes INTEGER NOT NULL,
      hits INTEGER NOT NULL DEFAULT 0,
      used_at REAL NOT NULL, -- seconds since the epoch
      data BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX entry_used_at ON entry (used_at)",
    "CREATE TABLE total (bytes INTEGER NOT NULL) STRICT",
    "INSERT INTO total VALUES (0)",
    "CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN UPDATE total SET bytes = bytes + new.bytes; END",
    "CREATE TRIGGER entry_gone AFTER DELETE ON entry BEGIN UPDATE total SET bytes = bytes - old.bytes; END",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySummary:
    """Summary of one entry of the action cache, for display."""

    task: str
    command: str
    """Beginning of the cached command, for display."""
    size_bytes: int
    """Compressed size of the cache entry in bytes."""
    hits: int
    used_at: float
    """Time at which the cache entry was last used, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSummary:
    """Summary of the whole action cache, for display."""

    folder: Path
    entries: int
    size_bytes: int
    """Compressed size of all entries of the cache, in bytes."""
    hits: int
    """Number of commands whose result was taken from the cache, counted over the entries that still exist."""


def find_default_folder() -> Path:
    """Return the default folder of the action cache, which is inside the cache folder of the user."""
    return platformdirs.user_cache_path("harness") / "actions"


def has_cache(folder: Path) -> bool:
    """Return whether a folder contains an action cache.

    The result is True for an unreadable folder, so that opening the cache reports the reason.
    """
    try:
        (folder / CACHE_FILE).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@functools.cache
def open_cache(folder: Path, max_bytes: int = MAX_BYTES, store: str = "") -> "ActionCache":
    """Return the action cache in a folder; a process has one object for each folder, which need not be closed."""
    return ActionCache(folder, max_bytes, store)


class ActionCache:
    """Storage of the effects of commands, each under a key.

    Thread-safe. Any number of processes may share the folder of the cache.

    A store that several machines share can be added. An entry that the folder lacks is then looked up in the store, and each new
    entry is written to both. A store that cannot be reached counts as empty.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES, store: str = "") -> None:
        """Open the action cache in a folder; the folder is created if it is missing.

        Args:
            folder: Folder of the cache.
            max_bytes: Maximum size of the folder's entries in bytes; the store has no limit.
            store: URL of a store that several machines share; empty if there is none.

        Raises:
            StoreError: The folder cannot be created or written, or belongs to another user.
        """
        self.folder, self.max_bytes = folder, max_bytes
        self._shared = ObjectStore(store) if store else None
        self._lock = threading.Lock()
        self._recent_uses: dict[bytes, tuple[float, int]] = {}
        self.infos: dict[Hashable, SandboxInfo] = {}
        """Backend, image and limits of each kind of sandbox that this process has opened; kept in memory only."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.folder.stat().st_uid != os.geteuid():
                raise PermissionError("the folder belongs to another user")
            self._connection = self._open()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the action cache in {str(folder)!r} cannot be used: {error}; name another folder") from None

    def get(self, key: bytes) -> CacheEntry | None:
        """Return the effect of the command with a key, or None if the cache entry is missing or damaged."""
        return self.find(key, unpack_entry)

    def put(self, key: bytes, entry: CacheEntry, *, task: str, command: str) -> None:
        """Store the effect of a command, replacing an earlier entry with the same key.

        A very large entry is not stored.
        """
        self.store(key, pack_entry(key, entry), task=task, command=command)

    def find(self, key: bytes, unpack: Callable[[bytes, bytes], T | None]) -> T | None:
        """Return the content of the cache entry with a key, or None if the entry is missing or damaged.

        Args:
            key: Key of the entry.
            unpack: Function that takes a key and packed bytes and returns their content, or None if the bytes are damaged.
        """
        entry: T | None = None
        with self._suppress_errors():
            row = self._connection.execute("SELECT data FROM entry WHERE key = ?", (key,)).fetchone()
            entry = None if row is None else unpack(key, row[0])
            if entry is not None:
                self._recent_uses[key] = (time.time(), self._recent_uses.get(key, (0.0, 0))[1] + 1)
            elif row is not None:
                self._connection.execute("DELETE FROM entry WHERE key = ?", (key,))
        if entry is None and self._shared is not None:
            entry = self._find_shared(key, unpack)
        return entry

    def _find_shared(self, key: bytes, unpack: Callable[[bytes, bytes], T | None]) -> T | None:
        """Return an entry of the shared store, and copy it to the folder; None if it is missing or damaged."""
        assert self._shared is not None
        with contextlib.suppress(StoreError, ValueError):
            header, separator, data = (
                self._shared.read(_name_shared(key), int(self.max_bytes * MAX_ENTRY_SHARE)) or b""
            ).partition(b"\n")
            entry = unpack(key, data) if separator else None
            if entry is not None:
                about = json.loads(header)
                self._store_locally(key, data, task=str(about["task"]), command=str(about["command"]))
            return entry
        return None

    def store(self, key: bytes, data: bytes, *, task: str, command: str) -> None:
        """Store packed bytes as a cache entry, replacing an earlier entry with the same key.

        A very large entry is not stored.

        Args:
            key: Key of the entry.
            data: Content of the entry, as returned by `pack_bytes`.
            task: Name of the task to which the entry belongs, for display.
            command: Command whose effect is stored, for display.
        """
        if len(data) > self.max_bytes * MAX_ENTRY_SHARE:
            return
        self._store_locally(key, data, task=task, command=command)
        if self._shared is not None:
            header = json.dumps({"task": task, "command": command[:COMMAND_PREVIEW_CHARACTERS]}).encode()
            with contextlib.suppress(StoreError):
                self._shared.write(_name_shared(key), header + b"\n" + data)

    def _store_locally(self, key: bytes, data: bytes, *, task: str, command: str) -> None:
        preview = command[:COMMAND_PREVIEW_CHARACTERS].encode("utf-8", "replace").decode()
        with self._suppress_errors(), self._begin_transaction():
            self._connection.execute("DELETE FROM entry WHERE key = ?", (key,))
            sql = "INSERT INTO entry (key, task, command, bytes, used_at, data) VALUES (?, ?, ?, ?, ?, ?)"
            self._connection.execute(sql, (key, task, preview, len(data), time.time(), data))
            self._evict_entries()

    def flush(self) -> None:
        """Write to the file when and how often entries were used.

        The times decide which entries are deleted first.
        """
        with self._suppress_errors():
            used, self._recent_uses = self._recent_uses, {}
            if used:
                rows = [(used_at, hits, key) for key, (used_at, hits) in used.items()]
                sql = "UPDATE entry SET used_at = max(used_at, ?), hits = hits + ? WHERE key = ?"
                with self._begin_transaction():
                    self._connection.executemany(sql, rows)

    def read_summary(self) -> CacheSummary:
        """Return the number of entries in the folder of the cache, their total size, and how often they were used."""
        sql = "SELECT count(*) entries, coalesce(sum(bytes), 0) size_bytes, coalesce(sum(hits), 0) hits FROM entry"
        with self._translate_errors():
            return CacheSummary(folder=self.folder, **self._connection.execute(sql).fetchone())

    def list_largest(self, limit: int, *, task: str | None = None) -> tuple[EntrySummary, ...]:
        """Return summaries of the largest entries of the cache, the largest first.

        If `task` is given, only entries of this task are listed.
        """
        sql = "SELECT task, command, bytes size_bytes, hits, used_at FROM entry"
        sql += " WHERE ?1 IS NULL OR task = ?1 ORDER BY bytes DESC, id LIMIT ?2"
        with self._translate_errors():
            return tuple(EntrySummary(**row) for row in self._connection.execute(sql, (task, limit)))

    def list_tasks(self) -> tuple[str, ...]:
        """Return the names of the tasks that have entries in the cache, sorted."""
        with self._translate_errors():
            return tuple(name for (name,) in self._connection.execute("SELECT DISTINCT task FROM entry ORDER BY task"))

    def clear(self) -> None:
        """Delete all entries of the cache. Other processes may continue to use the cache and fill it again."""
        with self._translate_errors():
            with self._begin_transaction():
                self._connection.execute("DELETE FROM entry")
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the cache file; may be called more than once."""
        self.flush()
        with self._lock:
            self._connection.close()

    def _evict_entries(self) -> None:
        execute = self._connection.execute
        (total,) = execute("SELECT bytes FROM total").fetchone()
        if total <= self.max_bytes:
            return
        evicted_rows, excess_bytes = [], total - int(self.max_bytes * EVICTION_TARGET_SHARE)
        for number, size in execute("SELECT id, bytes FROM entry ORDER BY used_at, id"):
            if excess_bytes <= 0:
                break
            evicted_rows.append((number,))
            excess_bytes -= size
        self._connection.executemany("DELETE FROM entry WHERE id = ?", evicted_rows)
        execute("PRAGMA incremental_vacuum").fetchall()

    @contextlib.contextmanager
    def _suppress_errors(self) -> Iterator[None]:
        """Suppress SQLite errors in a `with` block, and replace the cache file if it is damaged."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                if _is_corruption(error):
                    with contextlib.suppress(OSError, sqlite3.Error):
                        self._connection.close()
                        self._connection = self._open(replace=True)

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise StoreError(f"the action cache in {str(self.folder)!r} cannot be read: {error}") from error

    @contextlib.contextmanager
    def _begin_transaction(self) -> Iterator[None]:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def _open(self, *, replace: bool = False) -> sqlite3.Connection:
        """Return a connection to the cache file; a file that is damaged or has another version is first replaced."""
        path = self.folder / CACHE_FILE
        with os.fdopen(os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)) as lock:
            # Only one process at a time checks and replaces the file. Another process may still use the deleted file, which does
            # no harm, because no process opens it again.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if replace and not _is_intact(path):
                _remove(path)
            try:
                return _connect(path)
            except sqlite3.Error as error:
                if not _is_corruption(error):
                    raise
                _remove(path)
                return _connect(path)


def _name_shared(key: bytes) -> str:
    # Keys with the same first byte share a folder, which keeps listings short.
    return f"actions/{key.hex()[:2]}/{key.hex()}"


def _is_corruption(error: sqlite3.Error) -> bool:
    codes = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH}
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


def _is_intact(path: Path) -> bool:
    try:
        with contextlib.closing(_connect(path)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # the -wal and -shm files inherit the mode
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in {0, SCHEMA_VERSION}:
            error = sqlite3.DatabaseError(f"unknown schema version {version}")
            error.sqlite_errorcode = sqlite3.SQLITE_MISMATCH
            raise error
        if version == 0:
            _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of the cache file; the caller must hold the lock of the folder."""
    with connection:
        for statement in ("BEGIN IMMEDIATE", *_SCHEMA, f"PRAGMA user_version = {SCHEMA_VERSION}"):
            connection.execute(statement)
