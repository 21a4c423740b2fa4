"""Command `harness import` on folders: tables, notes, refusals, the journal, and the former name of the command."""

import re
import shutil

import pytest

from tests.cli.command import harness
from tests.recordings.outline import FIXTURES

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "recordings"
    place.mkdir()
    for name in ("claude-code.jsonl", "pi.jsonl"):
        shutil.copy(FIXTURES[name], place)
    (place / "cut.json").write_bytes(FIXTURES["atif.json"].read_bytes()[:-40])
    return place


def test_a_folder_is_shown_by_agent_and_model_with_notes_and_refused_files(folder):
    result = harness("import", folder, "--workers", "1")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("claude-code ", "pi "))] == ["claude-code", "pi"]
    assert "price unknown: claude-lamp-1" in result.stdout
    assert "notes:" in lines
    words = " ".join(result.stdout.split())  # a long path makes the line wrap, and cuts its end
    assert re.search(r"cut\.json: .*line \d+", words)


def test_sessions_of_a_folder_are_logged_in_a_journal_once(folder, tmp_path):
    journal = tmp_path / "j.sqlite"
    first, again = (harness("import", folder, "--workers", "1", "--journal", journal) for _ in range(2))
    assert "3 sessions, 0 changed sessions, 0 unchanged sessions, 0 duplicates" in first.stdout
    assert "0 sessions, 0 changed sessions, 3 unchanged sessions, 0 duplicates" in again.stdout
    assert harness("inspect", "session-lamp", "--in", journal).returncode == 0


def test_folders_of_installed_agents_are_listed_first(folder, tmp_path):
    shutil.move(folder, tmp_path / "home" / ".claude" / "projects")
    result = harness("import", "--installed", "--workers", "1")
    assert result.returncode == 0
    assert result.stdout.splitlines()[0].startswith("claude-code: ")
    assert "(3 files, 0.0 MB)" in result.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ((), "pass a file or folder, or --installed"),
        (("--installed",), "no agent has stored sessions here"),
        (("FOLDER", "--as", "x"), "--as names one session"),
        (("FOLDER/pi.jsonl",), "name the journal"),
    ],
    ids=["nothing", "none installed", "one name", "no journal"],
)
def test_an_incomplete_request_is_refused_with_advice(words, advice, folder):
    result = harness("import", *(word.replace("FOLDER", str(folder)) for word in words))
    assert result.returncode == 2
    assert advice in result.stderr


def test_the_former_name_of_the_command_says_the_new_one():
    result = harness("sessions", "import", "session.jsonl", "--in", "x.sqlite")
    assert result.returncode == 2
    assert "is now `harness import FILE" in result.stderr


def test_the_reason_why_a_file_is_refused_is_whole_where_its_path_is_long(folder):
    deep = folder / ("a-long-name-" * 10) / ("another-long-name-" * 10)
    deep.mkdir(parents=True)
    shutil.move(folder / "cut.json", deep / "cut.json")
    (deep / "droid.jsonl").write_text('{"type": "session_start", "id": "s"}\n')
    words = " ".join(harness("import", folder, "--workers", "1").stdout.split())
    assert re.search(r"/cut\.json: line \d+: expected a JSON value", words)
    assert "got a session of Factory droid: its source is not public" in words
