"""Folders of recordings: every format is found, each call counts once, and unchanged files are not read again."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.inspection import recording_folder
from harness.inspection.recording_folder import (
    FileFigures,
    count_caveats,
    generalize_caveat,
    list_installed_folders,
    load_sessions,
)
from harness.recordings.reading import read_recordings
from tests.recordings.outline import FIXTURES


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "recordings"
    for name, path in FIXTURES.items():
        (place / name.partition(".")[0]).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place / name.partition(".")[0] / name)
    return place


def make_rows(session, answers, start=0):
    """Return the rows of a Claude Code session whose answers have the given ids, one second apart."""
    rows = [{"type": "user", "uuid": f"{session}-u", "message": {"role": "user", "content": "Go on."}}]
    for name in answers:
        usage = {"input_tokens": 100, "output_tokens": 20}
        message = {"role": "assistant", "id": name, "content": "Done.", "model": "claude-sonnet-4-5", "usage": usage}
        rows.append({"type": "assistant", "uuid": f"{session}-{name}", "requestId": f"request-{name}", "message": message})
    times = [{"timestamp": f"2026-01-05T10:{start:02}:{second:02}Z", "sessionId": session} for second in range(len(rows))]
    return [{**row, **time, "isSidechain": False} for row, time in zip(rows, times, strict=True)]


def write_session(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


def test_sessions_of_every_format_are_found_below_the_folder(folder, cache):
    recordings = load_sessions(folder, cache_folder=cache, workers=1)
    expected = [(recording.source, len(recording.messages)) for path in FIXTURES.values() for recording in read_recordings(path)]
    rows = recordings.sessions[["format", "messages"]].itertuples(index=False, name=None)
    assert sorted(rows) == sorted(expected)
    assert (len(recordings.refused), recordings.other_files) == (0, 0)
    assert "The system prompt, tool schemas and hidden reminders are not in this file." in count_caveats(recordings)


def test_a_call_that_several_sessions_hold_counts_for_the_earliest(tmp_path, cache):
    write_session(tmp_path / "r" / "a-resumed.jsonl", make_rows("later", ["m1", "m2", "m3"], start=30))
    write_session(tmp_path / "r" / "b-first.jsonl", make_rows("first", ["m1", "m2"]))
    sessions = load_sessions(tmp_path / "r", cache_folder=cache, workers=1).sessions.set_index("session_id")
    assert sessions.loc["first", ["calls", "copied_calls", "prompt_tokens", "output_tokens"]].tolist() == [2, 0, 200, 40]
    assert sessions.loc["later", ["calls", "copied_calls", "prompt_tokens", "output_tokens"]].tolist() == [1, 2, 100, 20]
    # 100 prompt tokens at 3 USD and 20 output tokens at 15 USD per million
    assert sessions["cost_usd"].sum() == pytest.approx(3 * (100 * 3e-6 + 20 * 15e-6))


def test_only_new_and_changed_files_are_read_again(folder, cache, monkeypatch):
    read = []

    def note(path):
        read.append(path.name)
        return FileFigures(path=str(path), refusal="noted") if path.name == "new.jsonl" else original(path)

    original = recording_folder.read_figures
    monkeypatch.setattr(recording_folder, "read_figures", note)
    first = load_sessions(folder, cache_folder=cache, workers=1)
    assert sorted(read) == sorted(FIXTURES)
    read.clear()
    os.utime(folder / "pi" / "pi.jsonl", ns=(1, 1))
    moved = folder / "codex" / "moved.jsonl"
    (folder / "codex" / "codex.jsonl").rename(moved)
    again = load_sessions(folder, cache_folder=cache, workers=1)
    assert read == [], "neither a new time of change nor a new place is a new content"
    assert sorted(again.sessions["session_id"]) == sorted(first.sessions["session_id"])
    write_session(folder / "new.jsonl", make_rows("new", ["m1"]))
    moved.write_bytes(moved.read_bytes() + b"\n")
    load_sessions(folder, cache_folder=cache, workers=1)
    assert sorted(read) == ["moved.jsonl", "new.jsonl"]
    read.clear()
    monkeypatch.setattr(recording_folder, "digest_importers", lambda: "mended")
    load_sessions(folder, cache_folder=cache, workers=1)
    assert len(read) == len(FIXTURES) + 1, "changed importers read every file again"


def test_damaged_files_are_refused_by_reason_and_others_are_counted(tmp_path, cache):
    place = tmp_path / "r"
    place.mkdir()
    (place / "cut.json").write_bytes(FIXTURES["atif.json"].read_bytes()[:-40])
    (place / "droid.jsonl").write_text('{"type": "session_start", "id": "s"}\n')
    (place / "notes.md").write_text("# A diary\n")
    (place / "settings.json").write_text("{}")
    (place / "picture.png").write_bytes(b"\x89PNG")
    (place / ".hidden.jsonl").write_bytes(FIXTURES["pi.jsonl"].read_bytes())
    recordings = load_sessions(place, cache_folder=cache, workers=1)
    assert len(recordings.sessions) == 0
    reasons = {Path(str(row.file)).name: str(row.reason) for row in recordings.refused.itertuples()}
    assert reasons.keys() == {"cut.json", "droid.jsonl"}
    assert "expected a JSON value" in reasons["cut.json"]
    assert "a session of Factory droid" in reasons["droid.jsonl"]
    assert recordings.other_files == 3


def test_hidden_files_and_folders_of_agents_are_read_and_others_are_not(tmp_path, cache):
    place = tmp_path / "project"
    for name, fixture in (
        (".aider.chat.history.md", "aider.chat.history.md"),
        (".specstory/history/one.md", "specstory.md"),
        (".claude/projects/p/s.jsonl", "claude-code.jsonl"),
        (".git/s.jsonl", "pi.jsonl"),
        (".local/s.jsonl", "pi.jsonl"),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES[fixture], place / name)
    recordings = load_sessions(place, cache_folder=cache, workers=1)
    assert set(recordings.sessions["format"]) == {"aider", "specstory", "claude-code"}


def test_a_model_without_a_price_has_no_cost_and_is_named(tmp_path, cache):
    rows = make_rows("s", ["m1"])
    rows[1]["message"]["model"] = "claude-nobody-sells"
    write_session(tmp_path / "r" / "s.jsonl", rows)
    (session,) = load_sessions(tmp_path / "r", cache_folder=cache, workers=1).sessions.to_dict("records")
    assert session["cost_usd"] is None or session["cost_usd"] != session["cost_usd"]
    assert (session["cost_source"], session["unpriced_models"]) == ("unknown", ("claude-nobody-sells",))


def test_the_cost_of_a_run_counts_once_although_its_sub_agent_is_a_session(tmp_path, cache):
    def answer(name, call_id):
        usage = {"input_tokens": 1_000, "output_tokens": 20}
        content = [{"type": "text", "text": "Done."}]
        message = {"id": name, "role": "assistant", "model": "claude-sonnet-4-5", "content": content, "usage": usage}
        return {"type": "assistant", "message": message, "parent_tool_use_id": call_id}

    result = {"type": "result", "subtype": "success", "num_turns": 2, "total_cost_usd": 0.5, "result": "Done."}
    place = tmp_path / "r" / "log.jsonl"
    write_session(place, [{"type": "system", "subtype": "init", "session_id": "s"}, answer("a", None), answer("b", "t1"), result])
    sessions = load_sessions(place, cache_folder=cache, workers=1).sessions.set_index("session_id")
    assert sessions["cost_usd"].to_dict() == {"s": 0.5, "s.t1": 0.0}
    assert sessions["cost_source"].to_dict() == {"s": "recorded", "s.t1": "parent"}


def test_a_missing_folder_is_refused(tmp_path, cache):
    with pytest.raises(UsageError, match="there is no folder"):
        load_sessions(tmp_path / "missing", cache_folder=cache)


@pytest.mark.slow
def test_several_processes_find_the_same_as_one(folder, tmp_path):
    alone = load_sessions(folder, cache_folder=tmp_path / "one", workers=1)
    together = load_sessions(folder, cache_folder=tmp_path / "two", workers=2)
    assert alone.sessions.equals(together.sessions)


def test_folders_of_installed_agents_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codex" / "sessions").mkdir(parents=True)
    assert list_installed_folders() == (("codex", tmp_path / ".codex" / "sessions"),)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("3 × row of type 'progress', whose text is not read", "row of type 'progress', whose text is not read"),
        ("call 'toolu_x' has no result; one was made up", "call … has no result; one was made up"),
    ],
)
def test_notes_are_grouped_by_kind(text, kind):
    assert generalize_caveat(text) == kind


def test_an_archive_with_a_log_is_read_and_other_archives_are_counted(tmp_path, cache):
    log = json.loads(FIXTURES["inspect-ai.json"].read_text())
    for name, members in (
        ("log.eval", {"header.json": log, "samples/a_epoch_1.json": log["samples"][0]}),
        ("other.zip", {"a": 1}),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, value in members.items():
                archive.writestr(member, json.dumps(value))
    recordings = load_sessions([tmp_path / "log.eval", tmp_path / "other.zip"], cache_folder=cache, workers=1)
    assert list(recordings.sessions["session_id"]) == ["sample-hive"]
    assert (len(recordings.refused), recordings.other_files) == (0, 1)
