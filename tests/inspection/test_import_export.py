"""Tests of import and export: a session that moves through a file into another journal is unchanged."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from harness.conversation.events import CallTiming, MessageAdded
from harness.conversation.view import fold_all
from harness.errors import MalformedRecording, StoreError, UsageError
from harness.inspection.import_export import export_session, import_session, read_timed_log
from harness.store.journal import Journal
from harness.store.sessions.lookup import SessionLocation
from tests.inspection.test_timeline import LOGS
from tests.recordings.outline import FIXTURES
from tests.store.samples import begun, opening, step

TIMING = "call_started_at_ms, call_seconds, call_cached_seconds"
EVENTS = f"SELECT seq, kind, step, at_ms, sequence, role, tokens, {TIMING} FROM event ORDER BY seq"
SESSION = (
    "SELECT id, created_at_ms, status, reason, detail, ended_at_ms, model, window_tokens, threshold_tokens, sandbox FROM session"
)


@pytest.mark.slow
@settings(max_examples=25)
@given(LOGS)
def test_a_session_goes_out_and_comes_in_as_it_was(log):
    with TemporaryDirectory() as folder:
        here, there, file = Path(folder, "a.sqlite"), Path(folder, "b.sqlite"), Path(folder, "s.jsonl")
        with Journal.open(here) as journal:
            stored_log = begun(journal, "made", created_at_ms=1_000_000)
            for start in range(0, len(log), 3):
                stored_log.append([entry.event for entry in log[start : start + 3]])
            before = [journal.query(sql) for sql in (EVENTS, SESSION)]
        out = SessionLocation(here, "made", "")
        assert export_session(out, file) == len(log)
        assert import_session(file, there) == ("made", len(log), "harness", ())
        back = SessionLocation(there, "made", "")
        with Journal.open(there) as journal:
            after = [journal.query(sql) for sql in (EVENTS, SESSION)]
        assert [[tuple(row) for row in rows] for rows in after] == [[tuple(row) for row in rows] for rows in before]
        assert read_timed_log(back) == read_timed_log(out)
        assert fold_all(back.read_entries()) == fold_all(log)


@pytest.fixture
def location(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        begun(journal, "s").append([*opening(), *step(1)])
    return SessionLocation(tmp_path / "j.sqlite", "s", "")


def test_a_recorded_session_of_another_agent_is_logged_under_its_name(tmp_path):
    done = import_session(FIXTURES["pi.jsonl"], tmp_path / "new" / "j.sqlite")
    assert (done.session_id, done.format_name) == ("session-garden", "pi")
    assert any("no result" in caveat for caveat in done.caveats)
    with Journal.open(tmp_path / "new" / "j.sqlite") as journal:
        assert journal.query("SELECT count(*) FROM messages")[0][0] > 5
        assert list(journal.list_session_ids()) == ["session-garden"]


def test_an_imported_call_has_the_times_of_the_file_and_none_if_the_file_has_none(tmp_path):
    times = []
    for name in ("codex.jsonl", "mini-swe-agent-2.traj.json"):
        import_session(FIXTURES[name], tmp_path / f"{name}.sqlite")
        with Journal.open(tmp_path / f"{name}.sqlite") as journal:
            rows = journal.query("SELECT data_json FROM parts WHERE type = 'tool'")
            times.append([json.loads(row[0])["time"]["start"] for row in rows])
    assert times == [[1767607200000] * 2, [None] * 3]


def test_the_times_of_calls_go_out_and_come_in_as_they_were(tmp_path):
    timing = CallTiming(started_at_ms=1_000_250, seconds=2.5, cached_seconds=0.125)
    with Journal.open(tmp_path / "a.sqlite") as journal:
        asked, answered, finished = step(1)
        assert isinstance(answered, MessageAdded)
        begun(journal, "s").append([*opening(), asked, replace(answered, timing=timing), finished])
    export_session(SessionLocation(tmp_path / "a.sqlite", "s", ""), tmp_path / "s.jsonl")
    import_session(tmp_path / "s.jsonl", tmp_path / "b.sqlite")
    entries = SessionLocation(tmp_path / "b.sqlite", "s", "").read_entries()
    timings = [entry.event.timing for entry in entries if isinstance(entry.event, MessageAdded)]
    assert timings == [None, None, None, timing]


def test_a_name_that_is_taken_or_missing_is_refused_and_another_can_be_given(location, tmp_path):
    file = tmp_path / "s.jsonl"
    export_session(location, file)
    with pytest.raises(UsageError, match="already contains a session 's'; choose another name with --as"):
        import_session(file, location.journal)
    with pytest.raises(UsageError, match="name 'a/b' from --as contains a slash"):
        import_session(file, location.journal, "a/b")
    with pytest.raises(UsageError, match=r"name '\\x1b\]0;x' from .* contains control characters"):
        import_session(file, location.journal, "\x1b]0;x")
    with pytest.raises(UsageError, match="contains no name for its session; name it with --as"):
        import_session(FIXTURES["openhands.json"], location.journal)
    assert import_session(file, location.journal, "again").session_id == "again"
    with Journal.open(location.journal) as journal:
        assert journal.list_session_ids() == ("again", "s") or set(journal.list_session_ids()) == {"s", "again"}


def test_a_file_that_is_there_or_cannot_be_written_is_refused(location, tmp_path):
    (tmp_path / "there.jsonl").write_text("mine")
    with pytest.raises(UsageError, match="exists; choose another file"):
        export_session(location, tmp_path / "there.jsonl")
    with pytest.raises(StoreError, match="cannot write"):
        export_session(location, tmp_path / "no" / "such" / "folder.jsonl")
    assert (tmp_path / "there.jsonl").read_text() == "mine"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_file_of_no_known_format_leaves_no_journal(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"b": 2}\n')
    with pytest.raises(MalformedRecording, match="a recording in one of the formats"):
        import_session(tmp_path / "x.jsonl", tmp_path / "j.sqlite")
    assert not (tmp_path / "j.sqlite").exists()
