"""Tests of `harness sessions`, `harness export` and `harness import`."""

import itertools
import json
import time

import pytest

from harness.experiment.output import open_output
from harness.session.ids import TimeOrderedIds
from harness.store.journal import Journal
from tests.cli.command import LOCAL, TINY, harness, within
from tests.inspection.test_session_task import store
from tests.store.samples import ENDED, begun, compaction, opening, step, trial


@pytest.fixture
def place(tmp_path):
    """Experiment with two sessions."""
    with Journal.open(tmp_path / "tiny" / "output" / "journal.sqlite") as journal:
        events = [
            *opening("first"),
            *step(1, "a needle\x1b[2J"),
            *step(2),
            compaction(forget=[4, 5], before_step=3),
            *step(3),
            ENDED,
        ]
        begun(journal, "first", created_at_ms=1_700_000_000_000).append(events)
        journal.record_trial(trial("t", "first"))
        begun(journal, "second", created_at_ms=1_700_000_060_000).append(opening("second"))
    return tmp_path / "tiny"


def test_sessions_are_listed_newest_first(place):
    *lines, _ = within("sessions", "list", "--in", place).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["session", "second", "first"]
    assert "2023-11-14 22:13  completed (replied)  3      1" in lines[2]
    assert "0.8750" in lines[2].split(), "three steps at 0.25 USD and a summary at 0.125"
    *active, _ = within("sessions", "list", "--status", "active", "--in", place).stdout.splitlines()
    assert [line.split()[0] for line in active] == ["session", "second"]
    assert "and 1 more" in within("sessions", "list", "--limit", "1", "--in", place).stdout


def test_the_sessions_of_a_folder_are_listed_with_seed_score_and_failed_checks(tmp_path):
    store(tmp_path / "journal.sqlite")
    shown = within("sessions", "list", tmp_path)
    assert shown.exit_code == 0, shown.output
    heading, first, *_ = shown.stdout.splitlines()
    place = heading.index("seed")
    assert first[place:].split()[:2] == ["3", "1.00"], shown.stdout
    assert heading.split()[-2:] == ["failed", "checks"]
    column = "".join(line[heading.index("failed") :].strip() + " " for line in shown.stdout.splitlines()[1:])
    assert "The port is written down" in " ".join(column.split())
    assert within("sessions", "list", tmp_path / "missing").exit_code == 2


def test_the_journal_of_a_trial_that_is_just_being_created_stops_no_search(place):
    (place / "output" / "journals").mkdir()
    (place / "output" / "journals" / "new.sqlite").write_bytes(b"torn")
    assert within("sessions", "search", "needle", "--in", place).stdout.startswith("first/")


def test_sessions_of_one_name_in_two_journals_are_listed_apart(tmp_path):
    for name in ("a.sqlite", "b.sqlite"):
        with Journal.open(tmp_path / name) as journal:
            begun(journal, "same").append(opening("same"))
    shown = " ".join(within("sessions", "list", "--in", tmp_path).stdout.split())
    assert shown.count("same in") == 2
    refused = within("inspect", "same", "--in", tmp_path)
    assert (refused.exit_code, "2 sessions match 'same'" in refused.stderr) == (2, True)
    assert within("inspect", "same", "--in", tmp_path / "b.sqlite").exit_code == 0


def test_no_name_of_a_session_and_nothing_that_it_logged_reaches_the_terminal_as_it_is(tmp_path):
    name = "\x1b]0;x"
    with Journal.open(tmp_path / "j.sqlite") as journal:
        begun(journal, name).append([*opening(name), *step(1)])
    for command in ("list", "messages"):
        shown = within("sessions", command, "--in", tmp_path)
        assert (shown.exit_code, "�]0;x" in shown.stdout, "\x1b" in shown.stdout) == (0, True, False), command


def test_a_session_that_is_being_brought_in_is_listed_once(place):
    with Journal.open(place / "output" / "journals" / "t.sqlite") as journal:
        begun(journal, "first", created_at_ms=1_700_000_000_000).append(opening("first"))
    *lines, note = within("sessions", "list", "--in", place).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["session", "second", "first"]
    assert note == "scripted: costs of scripted models are simulated; nobody pays them"
    assert within("inspect", "first", "--in", place).exit_code == 0


def test_a_beginning_names_the_session_that_asked_and_not_its_sub_agents(place):
    with Journal.open(place / "output" / "journal.sqlite") as journal:
        begun(journal, "first.0aef").append(opening("first.0aef"))
    assert "first/000001" in within("sessions", "messages", "fir", "--in", place).stdout
    assert "first.0aef/000001" in within("sessions", "messages", "first.0", "--in", place).stdout


def test_a_text_is_searched_in_all_sessions(place):
    shown = within("sessions", "search", "Needle", "--in", place).stdout
    assert shown.startswith("first/000004  tool execute_command, step 1, compacted\n")
    assert "\x1b" not in shown
    assert within("sessions", "search", "nowhere", "--in", place).stdout == "no message contains the text\n"
    assert "more than 1 message found" in within("sessions", "search", "be good", "--limit", "1", "--in", place).stdout


def test_the_messages_of_a_session_and_one_of_them_are_shown(place):
    every = within("sessions", "messages", "first", "--in", place).stdout.splitlines()
    assert [line.split()[0] for line in every[1:]] == [f"first/{number:06}" for number in range(1, 10)]
    assert sum("compacted" in line for line in every) == 2
    active = within("sessions", "messages", "first", "--active", "--in", place).stdout.splitlines()
    assert [line.split()[0] for line in active[1:4]] == ["first/000001", "first/000007", "first/000002"] or len(active) == 8
    shown = within("sessions", "message", "first/4", "--in", place).stdout
    assert "a needle" in shown
    assert "\x1b" not in shown
    answer = within("sessions", "message", "first/3", "--in", place).stdout
    assert "[0] step-start" in answer
    assert '"cache":{"read":90,"write":3}},"cost":0.25}' in answer.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        (("message", "first/99"), "has no message 'first/99'"),
        (("message", "first"), "'first' is not the id of a message; write SESSION/NUMBER"),
        (("message", "first/"), "write SESSION/NUMBER"),
        (("messages", "nobody"), "no session id begins or ends with 'nobody' (searched 2 sessions)"),
    ],
)
def test_a_missing_session_or_message_is_refused(place, arguments, explanation):
    refused = within("sessions", *arguments, "--in", place)
    assert refused.exit_code in {1, 2}
    assert explanation in refused.stderr


DAY = 86_400


def write(path, **ages_days):
    with Journal.open(path) as journal:
        for name, days in ages_days.items():
            at = time.time() - days * DAY
            log = journal.open_session_log(name, created_at_ms=int(at * 1000), clock=itertools.repeat(at).__next__)
            log.append([*opening(name), *step(1, f"{name} " * 500), ENDED])
    return path


@pytest.fixture
def journal(tmp_path):
    path = write(tmp_path / "tiny" / "output" / "journal.sqlite", old=40, new=2, tried=50)
    with Journal.open(path) as opened_journal:
        opened_journal.record_trial(trial("t", "tried"))
    return path


def names(path):
    with Journal.open(path, read_only=True) as journal:
        return set(journal.list_session_ids())


def test_old_sessions_are_archived_and_restored(journal):
    tried = within("sessions", "archive", "--older-than", "30d", "--dry-run", "--in", journal)
    assert tried.stdout.startswith("would archive old\n")
    assert names(journal) == {"old", "new", "tried"}
    done = within("sessions", "archive", "--older-than", "30d", "--in", journal)
    assert done.exit_code == 0, done.output
    assert "1 session archived; 1 old session of trials not archived" in done.stdout
    assert "deleted 0 tool outputs, 1 text, 0 files" in done.stdout
    assert names(journal) == {"new", "tried"}
    listed = within("sessions", "restore", "--in", journal).stdout
    assert listed.startswith("old ")
    assert "1 archived session" in listed
    assert "restored old to" in within("sessions", "restore", "old", "--in", journal).stdout
    assert names(journal) == {"old", "new", "tried"}
    assert "3 steps" not in within("inspect", "old", "--in", journal).stdout
    assert "1 step," in within("inspect", "old", "--in", journal).stdout


def test_an_archived_session_is_named_by_a_beginning_or_an_end_of_its_id_and_the_newest_is_listed_first(tmp_path):
    """S3.13."""
    ids = TimeOrderedIds(iter([1.7e9, 1.7e9 + 60]).__next__)
    older, newer = ids.make_descending(), ids.make_descending()
    path = write(tmp_path / "j.sqlite", **{older: 40, newer: 39})
    assert within("sessions", "archive", "--older-than", "30d", "--in", path).exit_code == 0
    listed = within("sessions", "restore", "--in", path).stdout.splitlines()
    assert [line.split()[0] for line in listed[:2]] == [newer, older]
    refused = within("sessions", "restore", older[:4], "--in", path)
    assert (refused.exit_code, "may be any of 2 archived sessions" in refused.stderr) == (2, True)
    assert f"restored {older} to" in within("sessions", "restore", older[-8:], "--in", path).stdout
    assert names(path) == {older}


def test_sessions_of_trials_are_removed_only_on_request(journal):
    assert within("sessions", "archive", "--older-than", "45d", "--with-trials", "--in", journal).exit_code == 0
    assert names(journal) == {"old", "new"}
    with Journal.open(journal, read_only=True) as left:
        assert left.list_trials() == ()


def test_no_session_is_archived_while_a_run_uses_the_journal(journal):
    with open_output(journal.parent):
        for command in (("archive", "--older-than", "1d"), ("clean",)):
            refused = within("sessions", *command, "--in", journal)
            assert refused.exit_code == 2
            assert "another run is using" in refused.stderr
    assert names(journal) == {"old", "new", "tried"}


@pytest.mark.parametrize("age", ["30", "d", "-3d", "3y", "1.5d", "9999999d"])
def test_an_invalid_age_is_refused_with_examples(journal, age):
    refused = within("sessions", "archive", f"--older-than={age}", "--in", journal)
    assert refused.exit_code == 2
    assert "90m, 12h, 30d or 8w" in refused.stderr


def test_a_session_that_was_not_archived_cannot_be_restored(journal):
    refused = within("sessions", "restore", "new", "--in", journal)
    assert refused.exit_code == 2
    assert "is not archived" in refused.stderr


def test_the_clean_command_says_what_was_deleted(journal):
    done = within("sessions", "clean", "--in", journal)
    assert done.exit_code == 0, done.output
    assert "deleted 0 tool outputs, 0 texts, 0 files" in done.stdout


@pytest.mark.slow
def test_a_real_session_is_exported_imported_and_inspected_the_same(tmp_path):
    here, there, file = tmp_path / "a.sqlite", tmp_path / "b.sqlite", tmp_path / "s.jsonl"
    small = ("--window", "14000", "--threshold", "0.3", "--keep-last", "4", "--summarizer", "scripted/extractive")
    done = harness("agent", "--task", TINY, "--journal", here, *small, *LOCAL)
    assert done.returncode == 0, done.stderr
    out = within("export", here, file)
    assert out.exit_code == 0, out.output
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert out.stdout == f"wrote {file}: {len(rows)} events\n"
    kinds = [row["type"] for row in rows]
    assert (kinds[0], kinds[-1]) == ("session", "session-ended")
    assert all("first_kept_entry_id" in row and "patch" not in row for row in rows if row["type"] == "compaction")
    back = within("import", file, "--journal", there)
    assert back.exit_code == 0, back.output
    shown = [within("inspect", of).stdout for of in (here, there, file)]
    assert shown[0] == shown[1] == shown[2]
    assert ", as logged" in within("inspect", file, "--step", "3").stdout


def test_a_file_with_the_name_of_a_session_does_not_hide_the_session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sessions").mkdir()
    with Journal.open(tmp_path / "sessions" / "j.sqlite") as journal:
        begun(journal, "wanted").append(opening("wanted"))
    (tmp_path / "wanted").write_text("notes")
    (tmp_path / "unknown").write_text("notes")
    assert within("export", "wanted", "x.jsonl").exit_code == 0
    refused = within("export", "unknown", "x.jsonl")
    assert refused.exit_code == 2
    assert "'unknown' is a file that is no journal; if it is a recording, add it with `harness import`" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        (("export", "nobody", "x.jsonl"), "no session id begins or ends with 'nobody'"),
        (("import", "nowhere.jsonl", "--journal", "no/such/new.sqlite"), "the folder 'no/such' of the journal does not exist"),
        (("import", "nowhere.jsonl", "--journal", "new.sqlite"), "cannot read the recording 'nowhere.jsonl'"),
    ],
)
def test_an_invalid_export_or_import_is_refused(tmp_path, monkeypatch, arguments, explanation):
    monkeypatch.chdir(tmp_path)
    with Journal.open(tmp_path / "j.sqlite") as journal:
        begun(journal).append(opening())
    refused = within(*arguments, *(("--in", "j.sqlite") if arguments[0] == "export" else ()))
    assert refused.exit_code == 2
    assert explanation in refused.stderr
    assert not (tmp_path / "no").exists()


def test_a_session_is_exported_for_another_program_once(place, tmp_path):
    file = tmp_path / "first.json"
    written = within("sessions", "export", "first", file, "--format", "atif", "--redacted", "--in", place)
    assert (written.exit_code, "3 model calls" in written.stdout) == (0, True)
    whole = json.loads(file.read_text())
    assert whole["schema_version"] == "ATIF-v1.7"
    assert "needle" not in file.read_text()
    again = within("sessions", "export", "first", file, "--format", "atif", "--in", place)
    assert (again.exit_code, "exists; choose another file" in again.stderr) == (2, True)
    unknown = within("sessions", "export", "first", tmp_path / "x", "--format", "csv", "--in", place)
    assert (unknown.exit_code, "'csv' is not one of" in unknown.stderr) == (2, True)
    assert not (tmp_path / "x").exists()
