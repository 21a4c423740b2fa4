import json
from pathlib import Path

import pytest

from harness.errors import UnknownName, UsageError
from harness.inspection.session_sources import BuiltInSession, RecordedFile, resolve_session
from harness.store.journal import Journal
from harness.store.sessions.lookup import SessionLocation
from tests.store.samples import begun, opening, trial

IDS = ("01-first-9f", "02-second-3c")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Journal with two sessions, the second of them that of a trial."""
    path = tmp_path / "some.sqlite"
    with Journal.open(path) as journal:
        for name in IDS:
            begun(journal, name).append(opening(name))
        journal.record_trial(trial("trial-77", session_id=IDS[1]))
    return path


@pytest.mark.parametrize(
    ("name", "number"), [(IDS[0], 0), ("01-", 0), ("-9f", 0), ("trial-77", 1), ("trial-", 1), ("77", 1), ("02-second", 1)]
)
def test_a_session_is_named_by_its_id_or_that_of_its_trial_or_a_unique_part_of_it(journal: Path, name: str, number: int) -> None:
    expected = SessionLocation(journal, IDS[number], "trial-77" if number else "")
    assert resolve_session(name, places=[journal]) == expected
    assert resolve_session(name, list_default_places=lambda: [journal]) == expected
    assert resolve_session(journal, name) == expected
    assert resolve_session(str(journal.parent), name) == expected


def test_a_path_comes_before_an_id_unless_the_user_names_places(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(journal.parent)
    Path("01-first").write_text("not a journal")
    assert resolve_session("01-first", list_default_places=lambda: [journal]) == RecordedFile(path=Path("01-first"))
    assert resolve_session("01-first", places=[journal]) == SessionLocation(journal, IDS[0], "")


def test_a_recording_the_sample_and_a_task_need_no_journal(tmp_path: Path) -> None:
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps({}))
    assert resolve_session(recording) == RecordedFile(path=recording)
    assert resolve_session("sample") == BuiltInSession(name="sample")
    assert resolve_session("flashcards") == BuiltInSession(name="flashcards")
    assert resolve_session("mine.py:make") == BuiltInSession(name="mine.py:make")


def test_an_unknown_session_name_is_refused_with_the_sessions_that_exist(journal: Path) -> None:
    with pytest.raises(UsageError, match=r"no session id begins or ends with 'x' \(searched 2 sessions\)"):
        resolve_session("x", list_default_places=lambda: [journal])
    with pytest.raises(UsageError, match=r"2 sessions match '0'.*specify one of them"):
        resolve_session("0", places=[journal])
    with pytest.raises(UsageError, match="there are 2 sessions"):
        resolve_session(journal)
    with pytest.raises(UnknownName, match=r"no such file or folder, and no such task: 'sampel'.*sample"):
        resolve_session("sampel")
    with pytest.raises(UsageError, match=r"there is no journal or folder 'nowhere' to look for session 'x'; check the path"):
        resolve_session("nowhere", "x")
