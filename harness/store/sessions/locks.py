"""Locks that allow only one process at a time to run a session, because two writers would corrupt its log.

The lock file of a session reserves space for a note about a failure that the journal could not store. A lock file with a note is
kept when its lock is released.
"""

import fcntl
import glob
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from harness.conversation.codec import build_adapter
from harness.conversation.events import StopReason
from harness.errors import StoreError, UsageError
from harness.files.bounded_input import check_regular, open_input
from harness.text import replace_surrogates

_SUFFIX = ".lock"
_NOTE_BYTES = 4_096
"""Space in bytes that a lock file reserves for a note, so that the note can be written when the disk is full."""
_DETAIL_CHARACTERS = 400


class NotedFailure(NamedTuple):
    """Failure of a session that could not be written to the journal."""

    session_id: str
    reason: StopReason
    detail: str
    """Explanation for people, for example the message of an error."""
    at_ms: int
    """Time of the failure, in milliseconds since the epoch."""


@contextmanager
def lock_session(journal: Path | None, session_id: str) -> Iterator[None]:
    """Hold the lock of a session during the `with` block, so that no other process runs the session.

    If the process is killed, the operating system releases the lock.

    Args:
        journal: Journal file of the session, beside which the lock file is created. A session in memory (None) needs no lock.
        session_id: Id of the session.

    Raises:
        StoreError: The folder of the lock file cannot be written.
        UsageError: The session is already running, here or in another process.
    """
    if journal is None:
        yield
        return
    path = _locate_lock(journal, session_id)
    busy = (
        f"session {session_id!r} of journal {str(journal)!r} is already running, here or in another process; continue it there, "
        "close it there first, or fork it"
    )
    with closing(acquire_lock(path, busy, "use another journal")) as lock:
        former_note, has_ended = _read_note(path), False
        try:
            _reserve_note(lock, path)
            yield
            has_ended = True
        finally:
            note = _read_note(path)
            if note is None or (has_ended and note == former_note):
                with suppress(OSError):  # a lock file without a lock does no harm
                    path.unlink(missing_ok=True)
            fcntl.flock(lock, fcntl.LOCK_UN)  # a forked worker may hold the file open, too


def write_note(journal: Path, failure: NotedFailure) -> None:
    """Note the failure of a session in its lock file, whose lock this process holds; an error is ignored."""
    failure = failure._replace(detail=replace_surrogates(failure.detail[:_DETAIL_CHARACTERS]))
    with suppress(OSError), _locate_lock(journal, failure.session_id).open("r+b") as file:
        file.write(json.dumps(failure._asdict(), ensure_ascii=False).encode().ljust(_NOTE_BYTES))


def list_notes(journal: Path) -> list[NotedFailure]:
    """Return the noted failures of sessions of a journal that no process runs."""
    return [note for path in _list_locks(journal) if not _is_locked(path) and (note := _read_note(path)) is not None]


def _locate_lock(journal: Path, session_id: str) -> Path:
    file = Path(os.path.realpath(journal))  # a link to the journal has the same lock
    return file.with_name(f"{file.name}.{hashlib.sha256(session_id.encode()).hexdigest()[:12]}{_SUFFIX}")


def _list_locks(journal: Path) -> list[Path]:
    file = Path(os.path.realpath(journal))
    return sorted(path for path in file.parent.glob(f"{glob.escape(file.name)}.*{_SUFFIX}") if path.is_file())


def _reserve_note(lock: IO[str], path: Path) -> None:
    try:
        os.posix_fallocate(lock.fileno(), 0, _NOTE_BYTES)
    except OSError as error:
        raise StoreError(f"cannot write to {str(path.parent)!r}: {error.strerror}; use another journal") from None


def _read_note(path: Path) -> NotedFailure | None:
    try:
        with open_input(path) as file:
            note: NotedFailure = build_adapter(NotedFailure).validate_json(file.read(_NOTE_BYTES).rstrip(b"\0"))
    except (OSError, ValueError):
        return None
    return note


def _is_locked(path: Path) -> bool:
    with suppress(FileNotFoundError), open_input(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def has_running_session(journal: Path) -> bool:
    """Return whether any process, this one included, holds the lock of a session of a journal file."""
    return any(map(_is_locked, _list_locks(journal)))


def acquire_lock(path: Path, busy: str, advice: str) -> IO[str]:
    """Lock a file and return it open; closing the file releases the lock.

    Args:
        path: Path of the lock file, which is created with its folder if needed.
        busy: Error message if another process holds the lock.
        advice: Advice that is added to the error message if the folder cannot be written.

    Raises:
        StoreError: The folder cannot be written.
        UsageError: Another process holds the lock.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                check_regular(path)
            lock = path.open("a")  # a note in the file is kept
        except OSError as error:
            raise StoreError(f"cannot write to {str(path.parent)!r}: {error.strerror}; {advice}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        except FileNotFoundError:
            pass  # the owner removed the file in between: try again
        except BlockingIOError:
            lock.close()
            raise UsageError(busy) from None
        lock.close()
