"""Tests of opening finished sessions from every kind of source, and of the messages about ambiguous sources."""

import pytest

from harness.conversation.events import MessageAdded, SessionEnded, SessionStarted, StepFinished
from harness.errors import StoreError, UsageError
from harness.inspection.import_export import export_session
from harness.inspection.open_session import open_recorded_session
from harness.inspection.sample_run import build_sample_log
from harness.store.journal import Journal
from harness.store.sessions.lookup import find_session
from tests.recordings.outline import FIXTURES


@pytest.fixture
def log():
    return build_sample_log(5_000)


def kept(path, log, *names):
    with Journal.open(path) as journal:
        for name in names:
            journal.open_session_log(name, created_at_ms=0, clock=lambda: 0.0).append([entry.event for entry in log])
    return path


def test_a_session_of_a_journal_file_is_its_log(tmp_path, log):
    session = open_recorded_session(kept(tmp_path / "one.sqlite", log, "alone"))
    assert (session.name, session.entries) == ("alone", log)
    assert isinstance(session.start_event, SessionStarted)


def test_a_session_of_an_experiment_is_opened_by_a_prefix_of_its_id(tmp_path, log):
    kept(tmp_path / "output" / "journal.sqlite", log, "abc1", "abd2")
    kept(tmp_path / "output" / "journals" / "running.sqlite", log, "xyz")
    assert open_recorded_session(tmp_path, "abd").name == "abd2"
    assert open_recorded_session(str(tmp_path / "output"), "x").name == "xyz"


def test_a_name_that_begins_another_is_taken_whole(tmp_path, log):
    assert open_recorded_session(kept(tmp_path / "j.sqlite", log, "abc", "abcd"), "abc").name == "abc"


def test_a_journal_with_several_sessions_requires_the_name_of_one(tmp_path, log):
    path = kept(tmp_path / "j.sqlite", log, *(f"session-{number}" for number in range(7)))
    with pytest.raises(UsageError, match=r"7 sessions: session-0 .*; specify one of them"):
        open_recorded_session(path)
    with pytest.raises(UsageError, match="begins or ends with 'session_1'"):
        open_recorded_session(path, "session_1")


@pytest.mark.parametrize("file", ["pi.jsonl", "swe-agent-calls.traj", "codex.jsonl"])
def test_a_recording_of_another_agent_is_a_session(file):
    session = open_recorded_session(FIXTURES[file])
    assert file in session.name
    kinds = {type(entry.event) for entry in session.entries}
    assert {SessionStarted, MessageAdded, StepFinished, SessionEnded} <= kinds


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_task_is_run_by_its_scripted_agent_without_any_compaction():
    session = open_recorded_session("long-march")
    assert session.oracle is not None
    assert [entry.event.reason for entry in session.entries if isinstance(entry.event, SessionEnded)] == ["replied"]


@pytest.mark.parametrize(
    ("source", "session_id", "explanation"),
    [
        ("flashcard", None, "no such file or folder, and no such task: 'flashcard'; did you mean 'flashcards'"),
        ("no/such/file", None, "no such file or folder"),
        ("sample", "abc", "no journal or folder 'sample' to look for session 'abc'"),
    ],
)
def test_a_name_of_nothing_is_refused(source, session_id, explanation):
    with pytest.raises(UsageError, match=explanation):
        open_recorded_session(source, session_id)


def test_a_folder_without_a_journal_is_refused(tmp_path):
    with pytest.raises(StoreError, match="journal"):
        open_recorded_session(tmp_path)


def test_a_journal_without_a_session_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there are no sessions"):
        open_recorded_session(kept(tmp_path / "j.sqlite", ()))


def test_a_session_that_was_exported_is_read_back(tmp_path, log):
    path = kept(tmp_path / "j.sqlite", log, "alone")
    export_session(find_session("", (path,)), tmp_path / "alone.jsonl")
    assert open_recorded_session(tmp_path / "alone.jsonl").entries == log
