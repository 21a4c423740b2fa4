"""Who runs a session: one at a time, whichever process it is in. Two that wrote one log would each spoil what the other has."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from harness.errors import StoreError, UsageError


@contextmanager
def lock_session(journal: Path | None, session_id: str) -> Iterator[None]:
    """Keep everybody else from running a session; a process that dies owns nothing any more.

    Args:
        journal: the file that the session is logged in, beside which a lock lies meanwhile; None = memory, where nobody finds it.
        session_id: its name there.

    Raises:
        StoreError: the folder cannot be written.
        UsageError: somebody runs it.
    """
    if journal is None:
        yield
        return
    path = journal.with_name(f"{journal.name}.{hashlib.sha256(session_id.encode()).hexdigest()[:12]}.lock")
    busy = (
        f"session {session_id!r} of journal {str(journal)!r} runs already, here or in another process; go on with it there, "
        "close it there first, or fork it"
    )
    with closing(acquire_lock(path, busy, "name another journal")) as lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            fcntl.flock(lock, fcntl.LOCK_UN)  # a forked worker may hold the file too


def acquire_lock(path: Path, busy: str, advice: str) -> IO[str]:
    """Return the lock file, held until it is closed: the file at that path, not one that its owner has just removed.

    Args:
        path: of the file; it is created with its folder.
        busy: message where somebody else holds the lock.
        advice: what to do where the folder cannot be written.

    Raises:
        StoreError: the folder cannot be written.
        UsageError: somebody else holds the lock.
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
            pass  # removed in between: another try
        except BlockingIOError:
            lock.close()
            raise UsageError(busy) from None
        lock.close()
