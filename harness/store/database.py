"""One SQLite file, opened the way all of ours are, with errors that say what to do."""

import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.store.schema import is_older, migrate
from harness.store.sessions.views import build_views
from harness.store.texts import Packer
from harness.text import replace_surrogates

SQLITE_HEADER = b"SQLite format 3\0"
BUSY_TIMEOUT_SECONDS = 60.0
_ADVICE = (
    ("full", "free some space on its disk and run again"),
    ("disk I/O error", "its disk is full or fails: free some space, or name a file on another one"),
    ("readonly", "make the file and its folder writable"),
    ("locked", f"another process kept it busy for {BUSY_TIMEOUT_SECONDS:g} s; try again when it is done"),
    ("unable to open", "check that its folder exists and can be written"),
    ("not a database", "it is no journal; name another path"),
    ("no such column", "it was written by an older version; `harness run` its experiment again to bring it to the newest form"),
    ("malformed", "restore it from a copy; `sqlite3 FILE .recover` saves what is readable"),
    ("UNIQUE constraint failed: event", "another process writes the same session; give each its own"),
)


_SETTINGS = ("page_size = 4096", "journal_mode = WAL", "wal_autocheckpoint = 8000", "synchronous = NORMAL", "foreign_keys = ON")
"""Settings of a connection that writes, as arguments of SQLite's `PRAGMA`."""


class Database:
    """A connection to a journal file. May change threads, but only one may use it at a time; the opener closes it.

    Of two threads that write nevertheless, since work that was given up still ends in its own, one waits for the other.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.packer = Packer()
        self._shows_whole_texts = False
        self._write_lock = threading.RLock()
        with translate_errors(path):
            self._connection = _open_read_only(path) if read_only else _open_writable(path)
        self.execute = self._connection.execute
        self.executemany = self._connection.executemany

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is there afterwards, or nothing.

        Raises:
            StoreError: nothing was written.
        """
        with self._write_lock, translate_errors(self.path):
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")
                raise

    def fetch(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement over the tables of the file; packed texts stay packed."""
        with translate_errors(self.path):
            return self._connection.execute(sql, parameters).fetchall()

    def query(self, sql: str, *parameters: object) -> list[sqlite3.Row]:
        """The rows of a query, over the tables or over the seeds' views with every text whole."""
        with translate_errors(self.path):
            if not self._shows_whole_texts:
                self._show_whole_texts()
            try:
                return self._query(sql, parameters)
            except sqlite3.OperationalError as error:
                if "decode to UTF-8" not in str(error):
                    raise
            self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
            try:
                return self._query(sql, parameters)
            finally:
                self._connection.text_factory = str

    def _query(self, sql: str, parameters: tuple[object, ...]) -> list[sqlite3.Row]:
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        return list(cursor.execute(sql, parameters))

    def _show_whole_texts(self) -> None:
        self._connection.create_function("unpacked", 1, self._unpack_text, deterministic=True)
        for statement in build_views("CREATE TEMP VIEW IF NOT EXISTS", whole=True):
            self.execute(statement)
        self._shows_whole_texts = True

    def _unpack_text(self, data: str | bytes) -> str:
        return replace_surrogates(self.packer.unpack(data))

    def close(self) -> None:
        """Close the file; idempotent."""
        with translate_errors(self.path):
            self._connection.close()


def is_database(path: Path) -> bool:
    """Whether a path is a readable SQLite file."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except (OSError, ValueError):
        return False


@cache
def _build_empty_journal() -> bytes:
    """A journal that holds nothing, as the bytes of its file; made once a process, since so many tables take their time."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        return connection.serialize()


def _place_empty_journal(path: Path) -> None:
    """Put an empty journal where no file is, if that can be done in one go; whoever opens it makes one where it cannot."""
    temporary_path = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        try:
            temporary_path.write_bytes(_build_empty_journal())
            os.link(temporary_path, path)
        finally:
            temporary_path.unlink(missing_ok=True)


def _open_writable(path: Path) -> sqlite3.Connection:
    if not path.exists():
        _place_empty_journal(path)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_read_only(path: Path) -> sqlite3.Connection:
    """Read beside a writer through the write-ahead log; where there is none, read the file without leaving a trace.

    A file of an older form is read from a copy in memory, which is brought to the newest.
    """
    if not path.is_file():
        raise StoreError(f"there is no journal at {str(path)!r}; run the experiment or the agent first")
    has_write_ahead_log = path.with_name(f"{path.name}-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'' if has_write_ahead_log else '&immutable=1'}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
        return _migrate_copy(connection) if is_older(connection) else connection
    except BaseException:
        connection.close()
        raise


def _migrate_copy(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        connection.backup(copy)
        connection.close()
        migrate(copy)
    except BaseException:
        copy.close()
        raise
    return copy


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
        error_text = str(error)
        advice = next((advice for sign, advice in _ADVICE if sign in error_text), "see the message of SQLite")
        raise StoreError(f"journal {str(path)!r}: {error_text}; {advice}") from error


def build_insert(table: str, names: Sequence[str]) -> str:
    """Return the statement that inserts one row, given its values in the order of the names of columns."""
    columns = ", ".join(f'"{name}"' for name in names)
    return f'INSERT INTO "{table}" ({columns}) VALUES ({", ".join("?" * len(names))})'


def extract_values(record: object, names: Sequence[str]) -> tuple[object, ...]:
    """Return fields of a record as values of columns."""
    values = [getattr(record, name) for name in names]
    return tuple([replace_surrogates(value) if isinstance(value, str) else value for value in values])


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a path beside the file to write to; it takes the place of the file at the end, and is removed after an error."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
