"""Archiving and restoring of sessions: no data is lost and no other session changes, also after failures."""

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.conversation.events import WorkspaceSaved
from harness.errors import StoreError, UsageError
from harness.inspection.loading import load
from harness.store.journal import Journal
from harness.store.merge import merge
from harness.store.records import UnfinishedStep
from harness.store.sessions import archive, queries
from harness.store.sessions import cleanup as cleaning
from harness.store.sessions.locks import lock_session
from harness.store.workspaces import JournalWorkspaces
from tests.store.samples import CONDUCT, ENDED, PROBES, begun, checks, compaction, opening, started, step, ticking, trial
from tests.store.test_workspaces import put_all

LONG = "a line that all of them share\n" * 100
OWN = "a line of this one alone\n" * 2_000
TABLES = (
    *("session", "whole_event", "version", "retired", "step", "compaction", "conduct", "step_conduct", "fact", "probe", "action"),
    "draft",
)


def write(journal, name, *more):
    first = [started(name, f"{LONG}{name}"), *opening(name)[1:]]
    events = [*first, *step(1, LONG), *step(2, *more), compaction(forget=[4, 5], before_step=3, summary=LONG), *step(3), ENDED]
    log = begun(journal, name)
    log.append(events)
    log.save_draft(UnfinishedStep(4, f"half an answer of {name}"))
    journal.record_metrics(name, CONDUCT, PROBES)
    journal.open_outputs(name, ticking().__next__).save(f"{name}{LONG}")


def cleaned(journal):
    return cleaning.clean(journal, outputs_before_ms=0)


@pytest.fixture
def journal(tmp_path):
    """Return a journal with three sessions, one of them of a trial; session `b` has a long text that no other session has."""
    with Journal.open(tmp_path / "output" / "journal.sqlite") as journal:
        for name, more in (("a", ()), ("b", (OWN,)), ("of-trial", ())):
            write(journal, name, *more)
        journal.record_trial(trial("t", "of-trial"), checks("t"))
        yield journal


def held(journal):
    """Return the contents of a journal without keys."""
    contents: dict[Any, Any] = {}
    for key, name in journal.query("SELECT key, id FROM session"):
        for table in TABLES:
            where = "key" if table == "session" else "session"
            rows = journal.query(f'SELECT * FROM "{table}" WHERE {where} = ?', key)
            contents[name, table] = sorted(tuple(row)[1:] for row in rows)
        contents[name, "log"] = list(journal.read_entries(name))
        contents[name, "messages"] = queries.list_messages(journal, name)
    contents["trials"] = [(journal.list_trials(), journal.list_checks("t"))]
    return contents


def texts(journal):
    return {tuple(row) for row in journal.query("SELECT * FROM text")}


@pytest.mark.parametrize("names", [["b"], ["a", "b", "of-trial"], []])
def test_a_restored_session_equals_the_archived_one(journal, names):
    """S3.14."""
    before, all_texts = held(journal), texts(journal)
    put = archive.archive_sessions(journal, names)
    assert [one.session_id for one in put] == names
    assert {one.session_id for one in archive.list_archived(journal.path)} == set(names)
    assert set(journal.list_session_ids()) == {"a", "b", "of-trial"} - set(names)
    assert bool(journal.list_trials()) == ("of-trial" not in names)
    cleaned(journal)
    assert archive.restore(journal, names) == tuple(names)
    assert held(journal) == before
    assert texts(journal) == all_texts
    assert archive.list_archived(journal.path) == ()
    for name in ("a", "b", "of-trial"):
        assert (
            len(journal.query("SELECT o.name FROM saved_output AS o JOIN session AS s ON s.key = o.session WHERE s.id = ?", name))
            == 1
        )


def test_others_are_not_touched_and_their_texts_stay(journal):
    before = {key: value for key, value in held(journal).items() if key == "trials" or key[0] != "b"}
    archive.archive_sessions(journal, ["b"])
    gone = cleaned(journal)
    assert gone.texts == 2, "its task and its long output; the rest is shared"
    assert {key: value for key, value in held(journal).items() if key == "trials" or key[0] != "b"} == before
    assert journal.query("PRAGMA foreign_key_check") == []
    assert journal.query("PRAGMA integrity_check")[0][0] == "ok"


def test_a_file_holds_one_session_with_its_texts_alone_and_is_small(journal, tmp_path):
    size = len(LONG) + len(OWN)
    (one,) = archive.archive_sessions(journal, ["b"])
    assert one.size_bytes < size / 4
    other = tmp_path / "other" / "journal.sqlite"
    with Journal.open(other) as empty:
        archive.locate_archive(other).mkdir(parents=True)
        one.file.rename(archive.locate_archive(other) / one.file.name)
        archive.restore(empty, ["b"])
        assert empty.list_session_ids() == ("b",)
        cleanup_report = cleaned(empty)
    assert (cleanup_report.texts, cleanup_report.files) == (0, 0)


def test_only_old_sessions_are_due_and_those_of_trials_only_when_they_are_asked_for(journal):
    """S3.14."""
    last = max(row.updated_at_ms for row in queries.list_sessions(journal))
    assert archive.find_due_sessions(journal, last, with_trials=True) == ((), ())
    due = archive.find_due_sessions(journal, last + 1, with_trials=False)
    assert {row.session_id for row in due.sessions} == {"a", "b"}
    assert [row.session_id for row in due.trial_sessions] == ["of-trial"]
    assert len(archive.find_due_sessions(journal, last + 1, with_trials=True).sessions) == 3


def test_sub_agents_of_a_trial_are_kept_with_it(journal):
    for name in ("of-trial.a1", "b.a1"):
        begun(journal, name).append([started(name, "explore"), *step(1)])
    last = max(row.updated_at_ms for row in queries.list_sessions(journal))
    due = archive.find_due_sessions(journal, last + 1, with_trials=False)
    assert {row.session_id for row in due.sessions} == {"a", "b", "b.a1"}
    assert {row.session_id for row in due.trial_sessions} == {"of-trial", "of-trial.a1"}
    assert len(archive.find_due_sessions(journal, last + 1, with_trials=True).sessions) == 5


def test_a_trial_with_an_archived_session_is_missing_from_tables_until_it_is_restored(journal):
    archive.archive_sessions(journal, ["of-trial"])
    results = load(journal.path.parent)
    assert results.trials.empty
    assert set(results.steps["session_id"]) == {"a", "b"}
    archive.restore(journal, ["of-trial"])
    assert load(journal.path.parent).trials["trial_id"].tolist() == ["t"]


def test_journals_of_one_folder_keep_sessions_of_one_name_apart(journal):
    with Journal.open(journal.path.with_name("copy.sqlite")) as copy:
        merge(journal.path, copy, only="a")
        archive.archive_sessions(journal, ["a", "b"])
        archive.archive_sessions(copy, ["a"])
        assert [one.session_id for one in archive.list_archived(journal.path)] == ["a", "b"]
        assert [one.session_id for one in archive.list_archived(copy.path)] == ["a"]
        archive.restore(copy, ["a"])
    archive.restore(journal, ["a"])
    assert "a" in journal.list_session_ids()


def test_a_file_that_cannot_be_written_costs_nothing(journal, tmp_path):
    before = held(journal)
    archive.locate_archive(journal.path).parent.write_text("in the way")
    with pytest.raises(StoreError, match="cannot write to"):
        archive.archive_sessions(journal, ["a"])
    assert held(journal) == before


def test_a_name_with_odd_signs_is_that_of_a_file_and_one_that_is_too_long_is_refused(journal):
    odd = "..\\ %2F\n\x1b[0m é"
    write(journal, odd)
    write(journal, "x" * 300)
    archive.archive_sessions(journal, [odd])
    assert [one.session_id for one in archive.list_archived(journal.path)] == [odd]
    assert archive.restore(journal, [odd]) == (odd,)
    with pytest.raises(StoreError, match="too long for a file"):
        archive.archive_sessions(journal, ["x" * 300])


def test_a_session_that_is_there_or_was_never_put_away_or_is_broken_is_not_restored(journal):
    (one,) = archive.archive_sessions(journal, ["a"])
    with pytest.raises(StoreError, match="'nobody' is not archived in"):
        archive.restore(journal, ["nobody"])
    write(journal, "a")
    with pytest.raises(StoreError, match="in the journal already"):
        archive.restore(journal, ["a"])
    data = bytearray(one.file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    one.file.write_bytes(data)
    journal.database.execute("DELETE FROM session WHERE id = 'a'")
    with pytest.raises(StoreError, match="cannot read the archived session"):
        archive.restore(journal, ["a"])
    assert one.file.exists()


@pytest.mark.slow
def test_sessions_are_put_away_while_other_processes_write(tmp_path: Path, checkout: Path):
    path = tmp_path / "journal.sqlite"
    with Journal.open(path) as journal:
        for number in range(6):
            write(journal, f"old-{number}")
        writers = [
            subprocess.Popen([sys.executable, "-m", "tests.store.writing", str(path), name, "60"], cwd=checkout) for name in "xy"
        ]
        while not {"x", "y"} <= set(journal.list_session_ids()):
            time.sleep(0.01)
        for number in range(6):
            archive.archive_sessions(journal, [f"old-{number}"])
            cleaned(journal)
        archive.restore(journal, ["old-3"])
        assert [writer.wait() for writer in writers] == [0, 0]
        assert set(journal.list_session_ids()) == {"x", "y", "old-3"}
        for name in "xy":
            log = [entry.event for entry in journal.read_entries(name)]
            assert (len(log), log[-1], log[3:6]) == (3 * 60 + 4, ENDED, step(1, f"{name} 1\n" * 200))
        assert journal.query("PRAGMA integrity_check")[0][0] == "ok"


def test_a_running_session_is_not_archived(journal):
    with lock_session(journal.path, "b"), pytest.raises(UsageError, match="already running"):
        archive.archive_sessions(journal, ["a", "b"])
    assert journal.list_session_ids() == ("b", "of-trial")
    assert [one.session_id for one in archive.list_archived(journal.path)] == ["a"]


def test_workspaces_are_archived_and_restored_with_their_session(journal, tmp_path):
    files = {"src/a.py": b"print(1)" * 100, "b.txt": b"b"}
    with closing(JournalWorkspaces(journal.path)) as kept:
        snapshot = put_all(kept, files)
        orphan = put_all(kept, {"c.txt": b"nobody has this"})
        begun(journal, "a").append([WorkspaceSaved(step=3, tree_id=snapshot.tree_id)])
    archive.archive_sessions(journal, ["a"])
    with lock_session(journal.path, "a"):
        assert cleaned(journal).files is None, "the session may be keeping a workspace right now"
    assert cleaned(journal).files == 3
    archive.restore(journal, ["a"])
    with closing(JournalWorkspaces(journal.path)) as kept:
        back = kept.load(snapshot.tree_id)
        assert {path: kept.get(state.sha256) for path, state in back.files.items()} == files
        with pytest.raises(StoreError, match="has no workspace"):
            kept.load(orphan.tree_id)
    assert cleaned(journal).files == 0
