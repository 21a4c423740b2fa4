"""Failures that a journal could not store (S0.9): noted when they happen, and marked once the journal can be written."""

import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.events import SessionEnded
from harness.errors import StoreError
from harness.store.journal import Journal
from harness.store.sessions.failures import fail_or_note, record_failure, record_noted_failures
from harness.store.sessions.locks import NotedFailure, list_notes, lock_session, write_note
from harness.store.sessions.lookup import SessionLocation, find_session
from tests.store.samples import begun, opening, plain

STATUSES = "SELECT id, status, reason FROM session ORDER BY id"
FAILURE = NotedFailure("s", "store_error", "the disk is full", 5_000)


@contextmanager
def refuse_writes(path: Path):
    """Let every write of an event fail, as on a full disk."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
        try:
            yield
        finally:
            connection.execute("DROP TRIGGER full")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with a session that has begun, its sub-agent, and another session."""
    with Journal.open(tmp_path / "j.sqlite") as journal:
        for name in ("s", "s.child", "s2"):
            begun(journal, name).append(opening(name))
    return tmp_path / "j.sqlite"


def note_failure(path: Path) -> None:
    """Note that the session `s` failed, as its process does on a full disk."""
    with lock_session(path, "s"), Journal.open(path) as journal, refuse_writes(path):
        with pytest.raises(StoreError):
            fail_or_note(journal, "s", reason="store_error", detail="the disk is full", clock=lambda: 5.0)
        assert list_notes(path) == [], "the session still runs"


def test_a_noted_failure_is_marked_by_the_next_process_that_looks_for_sessions(path: Path) -> None:
    note_failure(path)
    assert list_notes(path) == [FAILURE]
    assert {status for _, status, _ in plain(path, STATUSES)} == {"active"}
    assert find_session("s2", path).session_id == "s2"
    failed = ("failed", "store_error")
    assert plain(path, STATUSES) == [("s", *failed), ("s.child", *failed), ("s2", "active", None)]
    assert plain(path, "SELECT ended_at_ms FROM session WHERE id = 's'") == [(5_000,)]
    entries = SessionLocation(path, "s", "").read_entries()
    assert entries[-1].event == SessionEnded(status="failed", reason="store_error", detail="the disk is full")
    assert list(path.parent.glob("*.lock")) == []
    record_noted_failures(path)
    assert SessionLocation(path, "s", "").read_entries() == entries


def test_a_note_stays_while_the_journal_cannot_be_written(path: Path) -> None:
    note_failure(path)
    with refuse_writes(path):
        assert not record_failure(path, FAILURE)
        record_noted_failures(path)
        with pytest.raises(RuntimeError), lock_session(path, "s"):
            raise RuntimeError("the session was reopened too early")
    assert list_notes(path) == [FAILURE]
    record_noted_failures(path)
    assert plain(path, STATUSES)[0] == ("s", "failed", "store_error")


def test_a_session_that_runs_again_is_not_marked_and_its_note_goes(path: Path) -> None:
    note_failure(path)
    with lock_session(path, "s"):
        record_noted_failures(path)
        assert record_failure(path, FAILURE)
    assert {status for _, status, _ in plain(path, STATUSES)} == {"active"}
    assert list(path.parent.glob("*.lock")) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 4_096, b"{", b"[" * 4_096, b'{"session_id": "s", "reason": "bored"}'])
def test_a_lock_file_without_a_readable_note_marks_nothing(content: bytes, path: Path) -> None:
    note_failure(path)
    [lock] = path.parent.glob("*.lock")
    lock.write_bytes(content)
    record_noted_failures(path)
    assert {status for _, status, _ in plain(path, STATUSES)} == {"active"}


@given(
    st.text(st.characters(), max_size=800) | st.text("\0\udc80😀", min_size=400, max_size=600), st.text(min_size=1, max_size=200)
)
def test_any_detail_is_noted_in_the_space_that_the_lock_file_has_reserved(detail: str, session_id: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "j.sqlite"
        with suppress(RuntimeError), lock_session(path, session_id):
            [lock] = path.parent.iterdir()
            before = lock.stat()
            assert before.st_blocks * 512 >= before.st_size > 0
            write_note(path, NotedFailure(session_id, "store_error", detail, 1))
            assert lock.stat().st_size == before.st_size
            raise RuntimeError
        [note] = list_notes(path)
        assert (note.session_id, note.reason, note.at_ms) == (session_id, "store_error", 1)
        assert len(note.detail) == min(len(detail), 400)
