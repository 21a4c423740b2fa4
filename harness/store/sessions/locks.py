"""Locks that allow only one process at a time to run a session, because two writers would corrupt its log."""

import fcntl
import glob
import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

from harness.errors import StoreError, UsageError

_SUFFIX = ".lock"


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
    file = Path(os.path.realpath(journal))  # a link to the journal has the same lock
    path = file.with_name(f"{file.name}.{hashlib.sha256(session_id.encode()).hexdigest()[:12]}{_SUFFIX}")
    busy = (
        f"session {session_id!r} of journal {str(journal)!r} is already running, here or in another process; continue it there, "
        "close it there first, or fork it"
    )
    with closing(acquire_lock(path, busy, "use another journal")) as lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            fcntl.flock(lock, fcntl.LOCK_UN)  # a forked worker may hold the file open, too


def has_running_session(journal: Path) -> bool:
    """Return whether any process, this one included, holds the lock of a session of a journal file."""
    file = Path(os.path.realpath(journal))
    for path in file.parent.glob(f"{glob.escape(file.name)}.*{_SUFFIX}"):
        with suppress(FileNotFoundError), path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


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
            lock = path.open("w")
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
