"""Sessions that are put away: each as a file of its own, compressed with zstd, and out of the journal (S3.13, S3.14).

Such a file is a whole journal of one session, with the texts, conduct and saved outputs that belong to it. It is written, flushed
and read back before anything is deleted; whatever breaks in between, the session is in the journal still, and putting it away
again replaces the file.

A session that belongs to a trial takes the trial along: tables never show a trial without its steps. The experiment then has not
run it.
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
"""Beside the journal; in it each journal of the folder has its own."""
SUFFIX = ".sqlite.zst"
_MAX_NAME_CHARACTERS = 240
_LEVEL = 9


class ArchivedSession(NamedTuple):
    """A session that was put away."""

    session_id: str
    file: Path
    size_bytes: int


class DueSessions(NamedTuple):
    """Sessions that are old enough, and those of them that stay because they belong to trials."""

    sessions: tuple[queries.SessionRow, ...]
    trial_sessions: tuple[queries.SessionRow, ...]


def locate_archive(journal: Path) -> Path:
    """Where the sessions of a journal file are put; not where those of its neighbours are, which may have the same names."""
    return journal.parent / FOLDER / journal.name


def list_archived(journal: Path) -> tuple[ArchivedSession, ...]:
    """What was put away of a journal file, by name."""
    files = sorted(locate_archive(journal).glob(f"*{SUFFIX}"))
    return tuple(ArchivedSession(unquote(file.name.removesuffix(SUFFIX)), file, file.stat().st_size) for file in files)


def find_due_sessions(journal: Journal, before_ms: int, *, with_trials: bool) -> DueSessions:
    """The sessions of which nothing was logged since a time, newest first."""
    old = [row for row in queries.list_sessions(journal) if row.updated_at_ms < before_ms]
    trial_sessions = [row for row in old if row.trial_id and not with_trials]
    return DueSessions(tuple([row for row in old if row not in trial_sessions]), tuple(trial_sessions))


def archive_sessions(journal: Journal, session_ids: Sequence[str]) -> tuple[ArchivedSession, ...]:
    """Put sessions into files and take them out of the journal; texts that nobody else has go with `cleanup.clean`.

    Raises:
        StoreError: a file cannot be written, or a name cannot be that of a file; sessions before it are put away.
    """
    return tuple([_archive_session(journal, session_id) for session_id in session_ids])


def _archive_session(journal: Journal, session_id: str) -> ArchivedSession:
    file = locate_archive(journal.path) / f"{quote(session_id, safe='')}{SUFFIX}"
    if len(file.name) > _MAX_NAME_CHARACTERS:
        raise StoreError(f"session {session_id[:40]!r}… cannot be put away: its name is too long for a file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".at-work-") as work:
            whole = Path(work) / "one.sqlite"
            with Journal.open(whole) as single_journal:
                merge(journal.path, single_journal, only=session_id)
            _write(file, whole.read_bytes())
    except OSError as error:
        raise StoreError(f"cannot write to {str(file.parent)!r}: {error.strerror}; free space or make it writable") from None
    with journal.database.transaction():
        execute = journal.database.execute
        execute('DELETE FROM "check" WHERE trial_id IN (SELECT trial_id FROM trial WHERE session_id = ?)', (session_id,))
        execute("DELETE FROM trial WHERE session_id = ?", (session_id,))
        execute("DELETE FROM session WHERE id = ?", (session_id,))
    return ArchivedSession(session_id, file, file.stat().st_size)


def _write(file: Path, data: bytes) -> None:
    """Write a compressed file, make sure that it is on the disk, and that it reads back as it was."""
    with replace_file(file) as unfinished:
        with unfinished.open("wb") as opened:
            opened.write(zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data))
            opened.flush()
            os.fsync(opened.fileno())
        if _read(unfinished) != data:
            raise StoreError(f"{str(file)!r} does not read back as it was written; nothing was put away")


def _read(file: Path) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(file.read_bytes())
    except (OSError, zstandard.ZstdError) as error:
        raise StoreError(f"cannot read the archived session {str(file)!r}: {error}; restore it from a copy") from None


def restore(journal: Journal, session_ids: Iterable[str]) -> tuple[str, ...]:
    """Bring archived sessions back into a journal and delete their files; returns their names.

    Raises:
        StoreError: one was not put away, cannot be read, or is in the journal already; those before it are back.
    """
    archived_by_id = {one.session_id: one for one in list_archived(journal.path)}
    restored_ids = []
    for session_id in session_ids:
        if session_id not in archived_by_id:
            raise StoreError(f"session {session_id!r} is not in {str(locate_archive(journal.path))!r}")
        if session_id in journal.list_session_ids():
            raise StoreError(
                f"session {session_id!r} is in the journal already; {str(archived_by_id[session_id].file)!r} was left alone"
            )
        with tempfile.TemporaryDirectory(prefix="harness-restore-") as work:
            whole = Path(work) / "one.sqlite"
            whole.write_bytes(_read(archived_by_id[session_id].file))
            merge(whole, journal)
        archived_by_id[session_id].file.unlink()
        restored_ids.append(session_id)
    return tuple(restored_ids)
