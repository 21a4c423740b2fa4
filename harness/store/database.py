"""Access to one journal, with suitable settings and with error messages that give advice.

A scratch journal holds one trial that can be run again, until another journal imports it. It is never flushed to disk, so that it
survives the death of a process, but not of the machine, and it has no views for other programs. Its header says so, and every
connection to the file keeps to it.
"""

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.files.bounded_input import check_regular, open_input
from harness.store.schema import MIGRATIONS, SCRATCH_MIGRATIONS, is_older, migrate, refuse_newer
from harness.store.sessions.views import build_views
from harness.store.texts import Packer
from harness.text import replace_surrogates

SQLITE_HEADER = b"SQLite format 3\0"
BUSY_TIMEOUT_SECONDS = 60.0
_ADVICE = (
    ("full", "free some space on the disk and run again"),
    ("disk I/O error", "the disk is full or failing: free some space, or use a file on another disk"),
    ("readonly", "make the file and its folder writable"),
    ("locked", f"another process kept the file locked for {BUSY_TIMEOUT_SECONDS:g} s; try again when that process has finished"),
    ("unable to open", "check that the folder exists and is writable"),
    ("not a database", "the file is no journal; specify another path"),
    ("no such column", "check the name; a new column that the journal stores needs a `migration` in harness/store/columns.py"),
    ("malformed", "restore the file from a copy, or save its readable part with `sqlite3 FILE .recover`"),
    ("UNIQUE constraint failed: event", "another process writes the same session; use one session per process"),
)


_SETTINGS = ("page_size = 4096", "journal_mode = WAL", "wal_autocheckpoint = 8000", "foreign_keys = ON")
"""Settings of a connection that writes to a journal, as arguments of SQLite's `PRAGMA`; `synchronous` depends on the journal."""
_SCRATCH_ID = int.from_bytes(b"hscr")
"""Number in the header of a scratch journal that SQLite calls `application_id`; that of other journals is 0."""
_VERSION_BYTES, _SCRATCH_ID_BYTES = slice(60, 64), slice(68, 72)
"""Places of the schema version and of that number in a SQLite file, where they stand in big-endian order."""

_ROWS_AT_ONCE = 20
"""Number of rows that one statement inserts, in two thirds of the time of as many statements."""


class Database:
    """Connection to a journal, to be closed by the code that opened it.

    Several threads may use a connection, but only one at a time. If an interrupted call still writes in a thread of its own, the
    other thread waits.
    """

    def __init__(self, path: Path, *, read_only: bool = False, is_scratch: bool = False) -> None:
        with suppress(FileNotFoundError):
            check_regular(path)  # SQLite opens devices and pipes, and creates files beside them
        self.path = path
        self.packer = Packer(path)
        self._shows_whole_texts = False
        self._deferred_writes: list[Callable[[], None]] = []
        self._write_lock = threading.RLock()
        self._unlocked_file = _find_unlocked_file(path) if read_only else None
        """State of the file before it was opened, if it is read without locks; None if SQLite protects the reader."""
        with self._translate_errors():
            is_locked = self._unlocked_file is None
            self._connection = (
                _open_read_only(path, is_locked=is_locked) if read_only else _open_writable(path, is_scratch=is_scratch)
            )
        self.execute = self._connection.execute
        self.executemany = self._connection.executemany

    def defer(self, write: Callable[[], None]) -> None:
        """Call a function later that writes to the journal: before the next read, transaction or close of this connection."""
        with self._write_lock:
            self._deferred_writes.append(write)

    def write_deferred(self) -> None:
        """Call the functions that `defer` has collected, so that the journal contains what they write.

        Raises:
            StoreError: The journal cannot be written.
        """
        if self._deferred_writes:
            with self._write_lock:
                while self._deferred_writes:
                    self._deferred_writes.pop(0)()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the `with` block as one transaction, so that either all of its writes take effect or none.

        Raises:
            StoreError: The transaction failed, and nothing was written.
        """
        self.write_deferred()
        with self._write_lock, translate_errors(self.path):
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")
                raise

    def insert(self, table: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Insert rows into a table, within a transaction; `names` are the columns in the order of the values."""
        remaining = iter(rows)  # few are in memory at a time, so that the search for garbage does not begin
        batch = list(islice(remaining, _ROWS_AT_ONCE))

        def join_batches() -> Iterator[tuple[object, ...]]:
            nonlocal batch
            while len(batch) == _ROWS_AT_ONCE:
                yield tuple(chain.from_iterable(batch))
                batch = list(islice(remaining, _ROWS_AT_ONCE))

        if len(batch) == _ROWS_AT_ONCE:
            self.executemany(build_insert(table, names, rows=_ROWS_AT_ONCE), join_batches())
        if batch:  # SQLite takes as long to prepare a statement as to insert a few rows
            self.executemany(build_insert(table, names), batch)

    def fetch(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a SQL statement over the journal's tables; compressed texts stay compressed."""
        self.write_deferred()
        with self._translate_errors():
            return self._connection.execute(sql, parameters).fetchall()

    def query(self, sql: str, *parameters: object) -> list[sqlite3.Row]:
        """Return the rows of a SQL query over the journal's tables and views; views show compressed texts in full."""
        self.write_deferred()
        with self._translate_errors():
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

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Run the `with` block, which reads from the journal, with errors that give advice.

        Raises:
            StoreError: SQLite failed, or the file is read without locks and another process has changed it.
        """
        with translate_errors(self.path):
            try:
                yield
            finally:
                if self._unlocked_file is not None and _has_changed(self.path, self._unlocked_file):
                    raise StoreError(
                        f"journal {str(self.path)!r}: another process changed the file while it was read; read it again"
                    )

    def _show_whole_texts(self) -> None:
        self._connection.create_function("unpacked", 1, self._unpack_text, deterministic=True)
        for statement in build_views("CREATE TEMP VIEW IF NOT EXISTS", whole=True):
            self.execute(statement)
        self._shows_whole_texts = True

    def _unpack_text(self, data: str | bytes) -> str:
        return replace_surrogates(self.packer.unpack(data))

    def close(self) -> None:
        """Close the connection to the journal; closing again has no effect."""
        try:
            self.write_deferred()
        finally:
            with translate_errors(self.path):
                self._connection.close()


def locate_log(journal: Path) -> Path:
    """Return the path of a journal's write-ahead log, which SQLite writes beside the file itself, not beside a link to it."""
    file = Path(os.path.realpath(journal)) if journal.is_symlink() else journal
    return file.with_name(f"{file.name}-wal")


def is_database(path: Path) -> bool:
    """Return whether a path is a readable SQLite file, judged by its first bytes."""
    try:
        with open_input(path) as file:
            return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except OSError:
        return False


_WAL_VERSIONS = b"\2\2"
"""Bytes 18 and 19 of a SQLite file that has a write-ahead log: the versions of the format for writing and for reading."""


def has_newest_form(path: Path) -> bool:
    """Return whether a file is a journal of the newest schema version; False if its write-ahead log alone says so."""
    try:
        header = _read_header(path)
    except OSError:
        return False
    return header.startswith(SQLITE_HEADER) and int.from_bytes(header[_VERSION_BYTES]) == len(MIGRATIONS)


def _read_header(path: Path) -> bytes:
    with open_input(path) as file:
        return file.read(_SCRATCH_ID_BYTES.stop)


def may_be_incomplete(path: Path) -> bool:
    """Return whether a journal may lack data: it is a scratch journal, and the machine has started since it was written."""
    try:
        is_scratch = int.from_bytes(_read_header(path)[_SCRATCH_ID_BYTES]) == _SCRATCH_ID
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # outside of Linux, perhaps without the time asleep
        return is_scratch and path.stat().st_mtime < time.time() - time.clock_gettime(clock)
    except OSError:
        return False  # a reader of the journal gets an error with advice


@cache
def _build_empty_journal(*, is_scratch: bool) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, SCRATCH_MIGRATIONS if is_scratch else MIGRATIONS)  # slow, hence the cache
        connection.execute(f"PRAGMA application_id = {_SCRATCH_ID if is_scratch else 0}")
        image = bytearray(connection.serialize())
    image[18:20] = _WAL_VERSIONS  # SQLite would change them in a transaction with four flushes to disk
    return bytes(image)


def _place_empty_journal(path: Path, *, is_scratch: bool) -> None:
    temporary_path = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):  # SQLite creates the file if this fails
        try:
            temporary_path.write_bytes(_build_empty_journal(is_scratch=is_scratch))
            os.link(temporary_path, path)
        finally:
            temporary_path.unlink(missing_ok=True)


def _open_writable(path: Path, *, is_scratch: bool) -> sqlite3.Connection:
    # If the log of a deleted journal is still there, SQLite removes it only beside a file that it creates itself.
    if not path.exists() and not locate_log(path).exists():
        _place_empty_journal(path, is_scratch=is_scratch)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        is_flushed = connection.execute("PRAGMA application_id").fetchone()[0] != _SCRATCH_ID
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if is_flushed else 'OFF'}")
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _find_unlocked_file(path: Path) -> os.stat_result | None:
    """Return the state of a journal that no process has open for writing; None if one may have, or if there is no such file.

    SQLite can lock such a journal only by creating files beside it, which a reader must not do.
    """
    try:
        return path.stat() if path.is_file() and not locate_log(path).exists() else None
    except FileNotFoundError:
        return None


def _has_changed(path: Path, before: os.stat_result) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:  # SQLite still reads the deleted file
        return False
    return status.st_ino == before.st_ino and (status.st_size, status.st_mtime_ns) != (before.st_size, before.st_mtime_ns)


def _open_read_only(path: Path, *, is_locked: bool) -> sqlite3.Connection:
    """Open a journal without creating or changing any file; an older journal is migrated in memory."""
    if not path.is_file():
        raise StoreError(f"there is no journal at {str(path)!r}; run the experiment or the agent first")
    uri = f"{path.absolute().as_uri()}?mode=ro{'' if is_locked else '&immutable=1'}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
        refuse_newer(connection)
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
    """Replace an error of SQLite inside the `with` block by a `StoreError` with advice on what to do."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
        error_text = str(error)
        advice = next((advice for sign, advice in _ADVICE if sign in error_text), "this is an error of SQLite")
        raise StoreError(f"journal {str(path)!r}: {error_text}; {advice}") from error


def build_insert(table: str, names: Sequence[str], *, replaces: bool = False, rows: int = 1) -> str:
    """Return the SQL statement that inserts rows into a table, with a placeholder for each column of each row.

    Args:
        table: Name of the table.
        names: Names of the columns, in the order of the values.
        replaces: Whether a row replaces a row with the same key, which is otherwise an error. Default: False.
        rows: Number of rows. Default: 1.
    """
    columns = ", ".join(f'"{name}"' for name in names)
    verb = "INSERT OR REPLACE" if replaces else "INSERT"
    row = f"({', '.join('?' * len(names))})"
    return f'{verb} INTO "{table}" ({columns}) VALUES {", ".join([row] * rows)}'


def extract_values(record: object, names: Sequence[str]) -> tuple[object, ...]:
    """Return the named fields of a record for an SQL statement, with lone surrogates replaced."""
    values = build_getter(tuple(names))(record)
    return tuple([replace_surrogates(value) if isinstance(value, str) else value for value in values])


@cache
def build_getter(names: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    """Return a function that reads all named attributes at once, which takes less time than one after the other."""
    return attrgetter(*names) if len(names) > 1 else lambda record: tuple(getattr(record, name) for name in names)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Replace a file in a single step, so that no other process sees a half-written file.

    Write the new file to the path that the `with` block gets. It replaces `path` at the end of the block, or is deleted after an
    error.

    Raises:
        OSError: The path names something else than a regular file, such as a device.
    """
    with suppress(FileNotFoundError):
        check_regular(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
