"""Failures of sessions that could not be written to the journal when they happened, for example because the disk was full.

Such a failure is noted in the lock file of the session, in space that was reserved when the session started. The session is
marked as failed as soon as the journal can be written: by the process of the session, or by the next process that lists or opens
sessions of the journal.
"""

import time
from contextlib import suppress
from pathlib import Path

from harness.conversation.events import StopReason
from harness.errors import StoreError, UsageError
from harness.protocols import Clock
from harness.store.journal import Journal
from harness.store.sessions.locks import NotedFailure, list_notes, lock_session, write_note


def fail_or_note(journal: Journal, session_id: str, *, reason: StopReason, detail: str, clock: Clock = time.time) -> None:
    """Mark a session as failed, as `Journal.fail_session` does; the caller holds the lock of the session.

    Raises:
        StoreError: The journal cannot be written; the failure was noted instead.
    """
    try:
        journal.fail_session(session_id, reason=reason, detail=detail, clock=clock)
    except StoreError:
        write_note(journal.path, NotedFailure(session_id, reason, detail, int(clock() * 1_000)))
        raise


def record_failure(journal: Path, failure: NotedFailure) -> bool:
    """Mark a session as failed in a journal that could not be written when the session failed.

    Nothing is done if the session was continued meanwhile.

    Returns:
        False if the journal still cannot be written, so that the caller has to try again later.
    """
    try:
        with lock_session(journal, failure.session_id), Journal.open(journal) as opened:
            opened.fail_session(
                failure.session_id, reason=failure.reason, detail=failure.detail, clock=lambda: failure.at_ms / 1_000
            )
    except StoreError:
        return False
    except UsageError:
        pass  # the session is running again
    return True


def record_noted_failures(journal: Path) -> None:
    """Mark the sessions of a journal as failed whose failures were noted; without a note, nothing is opened or written."""
    for failure in list_notes(journal):
        with suppress(OSError):
            record_failure(journal, failure)
