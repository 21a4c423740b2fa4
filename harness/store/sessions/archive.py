"""Archive of sessions, each of which is moved from its journal to a file of its own, compressed with zstd.

The file is a complete journal of one session, with its texts, metrics and saved outputs. The file is written, flushed and read
back before anything is deleted from the journal. If archiving fails midway, the session is still in the journal, and archiving it
again replaces the file.

Archiving a session of a trial also moves the record of the trial, because tables never show a trial without its steps. The
experiment then treats the trial as not run.
"""

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import zstandard

from harness.errors import StoreError
from harness.store.database import replace_file
from harness.store.journal import Journal
from harness.store.merge import merge
from harness.store.sessions import queries

FOLDER = "archive"
"""Name of the archive folder beside a journal file, which holds one subfolder per journal."""
SUFFIX = ".sqlite.zst"
_MAX_NAME_CHARACTERS = 240
_LEVEL = 9


class ArchivedSession(NamedTuple):
    """Archived session, with the compressed file that holds it."""

    session_id: str
    file: Path
    size_bytes: int


class DueSessions(NamedTuple):
    """Sessions that are old enough to be archived, and old sessions that are kept because they belong to trials."""

    sessions: tuple[queries.SessionRow, ...]
    trial_sessions: tuple[queries.SessionRow, ...]


def locate_archive(journal: Path) -> Path:
    """Return the folder that holds the archived sessions of a journal file; every journal has a folder of its own."""
    return journal.parent / FOLDER / journal.name


def list_archived(journal: Path) -> tuple[ArchivedSession, ...]:
    """Return the archived sessions of a journal file, sorted by file name."""
    files = sorted(locate_archive(journal).glob(f"*{SUFFIX}"))
    return tuple(ArchivedSession(unquote(file.name.removesuffix(SUFFIX)), file, file.stat().st_size) for file in files)


def find_due_sessions(journal: Journal, before_ms: int, *, with_trials: bool) -> DueSessions:
    """Return the sessions whose last event was logged before a time, newest first.

    Args:
        journal: journal to search.
        before_ms: time in milliseconds since the epoch, before which the last event must have been logged.
        with_trials: whether sessions of trials are returned for archiving, too, instead of being kept.
    """
    old = [row for row in queries.list_sessions(journal) if row.updated_at_ms < before_ms]
    trial_sessions = [row for row in old if row.trial_id and not with_trials]
    return DueSessions(tuple([row for row in old if row not in trial_sessions]), tuple(trial_sessions))


def archive_sessions(journal: Journal, session_ids: Sequence[str]) -> tuple[ArchivedSession, ...]:
    """Move sessions from a journal to archive files. Texts used by no other session stay in the journal until `cleanup.clean`.

    Raises:
        StoreError: a file cannot be written, or a session id is too long for a file name; earlier sessions stay archived.
    """
    return tuple([_archive_session(journal, session_id) for session_id in session_ids])


def _archive_session(journal: Journal, session_id: str) -> ArchivedSession:
    file = locate_archive(journal.path) / f"{quote(session_id, safe='')}{SUFFIX}"
    if len(file.name) > _MAX_NAME_CHARACTERS:
        raise StoreError(f"session {session_id[:40]!r}… cannot be archived: its id is too long for a file name")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".at-work-") as work:
            whole = Path(work) / "one.sqlite"
            with Journal.open(whole) as single_journal:
                merge(journal.path, single_journal, only=session_id)
            _write(file, whole.read_bytes())
    except OSError as error:
        raise StoreError(
            f"cannot write to {str(file.parent)!r}: {error.strerror}; free some space or make the folder writable"
        ) from None
    with journal.database.transaction():
        execute = journal.database.execute
        execute('DELETE FROM "check" WHERE trial_id IN (SELECT trial_id FROM trial WHERE session_id = ?)', (session_id,))
        execute("DELETE FROM trial WHERE session_id = ?", (session_id,))
        execute("DELETE FROM session WHERE id = ?", (session_id,))
    return ArchivedSession(session_id, file, file.stat().st_size)


def _write(file: Path, data: bytes) -> None:
    """Write data to a compressed file, flush the file to the disk, and check that it reads back unchanged."""
    with replace_file(file) as unfinished:
        with unfinished.open("wb") as opened:
            opened.write(zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data))
            opened.flush()
            os.fsync(opened.fileno())
        if _read(unfinished) != data:
            raise StoreError(f"{str(file)!r} does not read back as it was written; the session was not archived")


def _read(file: Path) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(file.read_bytes())
    except (OSError, zstandard.ZstdError) as error:
        raise StoreError(f"cannot read the archived session {str(file)!r}: {error}; restore it from a copy") from None


def restore(journal: Journal, session_ids: Iterable[str]) -> tuple[str, ...]:
    """Move archived sessions back into a journal, delete their archive files, and return the ids of the sessions.

    Raises:
        StoreError: a session is not archived, cannot be read, or is in the journal already; earlier sessions stay restored.
    """
    archived_by_id = {one.session_id: one for one in list_archived(journal.path)}
    restored_ids = []
    for session_id in session_ids:
        if session_id not in archived_by_id:
            raise StoreError(f"session {session_id!r} is not archived in {str(locate_archive(journal.path))!r}")
        if session_id in journal.list_session_ids():
            raise StoreError(
                f"session {session_id!r} is in the journal already; {str(archived_by_id[session_id].file)!r} was not changed"
            )
        with tempfile.TemporaryDirectory(prefix="harness-restore-") as work:
            whole = Path(work) / "one.sqlite"
            whole.write_bytes(_read(archived_by_id[session_id].file))
            merge(whole, journal)
        archived_by_id[session_id].file.unlink()
        restored_ids.append(session_id)
    return tuple(restored_ids)
