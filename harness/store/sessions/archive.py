"""Archive of sessions: each archived session is moved from its journal to a file of its own, compressed with zstd.

The file is a complete journal of one session, with its texts, metrics and saved outputs. It is written, flushed and read back
before anything is deleted from the journal. If archiving fails midway, the session is still in the journal, and archiving it
again replaces the file.

Archiving a session of a trial also moves the record of the trial, because tables never show a trial without its steps. The
experiment then treats the trial as not run.
"""

import filecmp
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import zstandard

from harness.errors import StoreError
from harness.files.bounded_input import open_input
from harness.store.database import replace_file
from harness.store.journal import Journal
from harness.store.merge import merge
from harness.store.sessions import queries
from harness.store.sessions.locks import lock_session
from harness.store.texts import check_unpacked_size

FOLDER = "archive"
"""Name of the folder for archived sessions, next to the journal files; it has one subfolder per journal."""
SUFFIX = ".sqlite.zst"
_MAX_NAME_CHARACTERS = 240
MAX_JOURNAL_BYTES = 2**30
"""Maximum size of the journal of one archived session, before compression, in bytes."""
_LEVEL = 9
_HEADER_BYTES = 18
_PIECE_BYTES = 2**20
_MAX_WINDOW_BYTES = 2**27


class ArchivedSession(NamedTuple):
    """Record of an archived session: its id, and the compressed file that contains it."""

    session_id: str
    file: Path
    size_bytes: int


class DueSessions(NamedTuple):
    """Old sessions of a journal: those to archive, and those that are kept because they belong to trials."""

    sessions: tuple[queries.SessionRow, ...]
    trial_sessions: tuple[queries.SessionRow, ...]


def locate_archive(journal: Path) -> Path:
    """Return the folder for the archived sessions of a journal file; every journal has its own."""
    return journal.parent / FOLDER / journal.name


def list_archived(journal: Path) -> tuple[ArchivedSession, ...]:
    """Return the archived sessions of a journal file, sorted by file name."""
    files = sorted(locate_archive(journal).glob(f"*{SUFFIX}"))
    return tuple(ArchivedSession(unquote(file.name.removesuffix(SUFFIX)), file, file.stat().st_size) for file in files)


def find_due_sessions(journal: Journal, before_ms: int, *, with_trials: bool) -> DueSessions:
    """Find the sessions that are old enough to be archived, newest first.

    Args:
        journal: Journal to search.
        before_ms: Time in milliseconds since the epoch. A session is old if its last event was logged earlier.
        with_trials: Whether to archive old sessions of trials and of their sub-agents, too, instead of keeping them.
    """
    rows = queries.list_sessions(journal)
    of_trials = {row.session_id for row in rows if row.trial_id}
    due_sessions, trial_sessions = list[queries.SessionRow](), list[queries.SessionRow]()
    for row in rows:
        if row.updated_at_ms < before_ms:
            is_of_trial = not of_trials.isdisjoint({row.session_id, row.session_id.rpartition(".")[0]})  # a sub-agent: TRIAL.NAME
            (trial_sessions if is_of_trial and not with_trials else due_sessions).append(row)
    return DueSessions(tuple(due_sessions), tuple(trial_sessions))


def archive_sessions(journal: Journal, session_ids: Sequence[str]) -> tuple[ArchivedSession, ...]:
    """Move sessions from a journal to archive files.

    The long texts of the sessions stay in the journal until `cleanup.clean` removes them.

    Raises:
        StoreError: A file cannot be written, or a session id is too long for a file name; earlier sessions stay archived.
        UsageError: A session is running; earlier sessions stay archived.
    """
    archived = []
    for session_id in session_ids:
        with lock_session(journal.path, session_id):
            archived.append(_archive_session(journal, session_id))
    return tuple(archived)


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
            _write(file, whole)
    except OSError as error:
        raise StoreError(
            f"cannot write to {str(file.parent)!r}: {error.strerror}; free some space or make the folder writable"
        ) from None
    journal.remove_session(session_id)
    return ArchivedSession(session_id, file, file.stat().st_size)


def _write(file: Path, whole: Path) -> None:
    """Write a compressed copy of a journal, flush it to the disk, and check that it reads back unchanged."""
    size_bytes = whole.stat().st_size
    if size_bytes > MAX_JOURNAL_BYTES:
        raise StoreError(f"the session takes {size_bytes:,} bytes; at most {MAX_JOURNAL_BYTES:,} bytes can be archived")
    with replace_file(file) as unfinished:
        with whole.open("rb") as source, unfinished.open("wb") as target:
            compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
            compressor.copy_stream(source, target, size=size_bytes)
            target.flush()
            os.fsync(target.fileno())
        copy = whole.with_suffix(".copy")
        _unpack(unfinished, copy)
        if not filecmp.cmp(whole, copy, shallow=False):
            raise StoreError(f"{str(file)!r} does not read back as it was written; the session was not archived")


def _unpack(file: Path, target: Path) -> None:
    """Write the journal in a compressed file to a new file.

    Raises:
        StoreError: The file cannot be read, or its content is larger than `MAX_JOURNAL_BYTES` or than its header says.
    """
    try:
        with open_input(file) as opened, target.open("wb") as unpacked:
            head = opened.read(_HEADER_BYTES)
            check_unpacked_size(head, MAX_JOURNAL_BYTES, "its content")
            remaining_bytes = zstandard.frame_content_size(head)
            opened.seek(0)
            with zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).stream_reader(opened) as reader:
                while piece := reader.read(_PIECE_BYTES):
                    remaining_bytes -= len(piece)
                    if remaining_bytes < 0:
                        break
                    unpacked.write(piece)
            if remaining_bytes != 0:
                raise StoreError("the file is damaged, since its content does not have the size that its header states")
    except (OSError, zstandard.ZstdError, StoreError) as error:
        problem = getattr(error, "strerror", None) or error
        raise StoreError(f"cannot read the archived session {str(file)!r}: {problem}; restore it from a copy") from None


def restore(journal: Journal, session_ids: Iterable[str]) -> tuple[str, ...]:
    """Move archived sessions back into a journal, delete their archive files, and return the ids of the sessions.

    Raises:
        StoreError: A session is not archived, cannot be read, or is in the journal already; earlier sessions stay restored.
    """
    archived_by_id = {session.session_id: session for session in list_archived(journal.path)}
    known_ids = set(journal.list_session_ids())
    restored_ids = []
    for session_id in session_ids:
        if session_id not in archived_by_id:
            raise StoreError(f"session {session_id!r} is not archived in {str(locate_archive(journal.path))!r}")
        if session_id in known_ids:
            raise StoreError(
                f"session {session_id!r} is in the journal already; {str(archived_by_id[session_id].file)!r} was not changed"
            )
        with tempfile.TemporaryDirectory(prefix="harness-restore-") as work:
            whole = Path(work) / "one.sqlite"
            _unpack(archived_by_id[session_id].file, whole)
            merge(whole, journal)
        archived_by_id[session_id].file.unlink()
        known_ids.add(session_id)
        restored_ids.append(session_id)
    return tuple(restored_ids)
