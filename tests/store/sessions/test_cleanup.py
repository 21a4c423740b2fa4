"""Clean-up removes unneeded data and nothing else."""

import hashlib
import subprocess
import sys
from contextlib import closing
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.store.journal import Journal
from harness.store.sessions.cleanup import OutputCleaner, clean
from harness.store.workspaces import JournalWorkspaces
from tests.store.samples import begun, events, opening, step, ticking


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(events(), min_size=1, max_size=3))
def test_cleaning_changes_no_entry_of_the_sessions(tmp_path_factory, logs):
    with Journal.open(tmp_path_factory.mktemp("j") / "j.sqlite") as journal:
        for number, batches in enumerate(logs):
            log = begun(journal, f"s{number}")
            for batch in batches:
                log.append(batch)
        before = [list(journal.read_entries(name)) for name in journal.list_session_ids()]
        done = clean(journal, outputs_before_ms=0)
        assert (done.outputs, done.texts) == (0, 0)
        assert [list(journal.read_entries(name)) for name in journal.list_session_ids()] == before


def test_cleaning_removes_old_outputs_and_texts_of_deleted_sessions_and_frees_space(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        for name in ("kept", "gone"):
            log = begun(journal, name)
            log.append(opening(name))
            for number in range(1, 60):
                log.append(step(number, f"{name} {number} {'x' * 5_000}{number * 'yz'}"))
        outputs = journal.open_outputs("kept", ticking(1_000.0).__next__)
        outputs.save("old" * 5_000)
        journal.open_outputs("kept", ticking(9_000.0).__next__).save("new" * 5_000)
        journal.database.execute("DELETE FROM session WHERE id = 'gone'")
        done = clean(journal, outputs_before_ms=5_000_000)
        assert (done.outputs, done.texts) == (1, 59)
        assert done.freed_bytes > 0
        assert len(list(journal.read_entries("kept"))) == 3 + 3 * 59
        assert clean(journal, outputs_before_ms=5_000_000)[:3] == (0, 0, 0)


HOUR, WEEK = 60 * 60, 7 * 24 * 60 * 60
"""Times in seconds."""


@pytest.mark.slow
@settings(max_examples=60)
@given(
    ages=st.lists(st.integers(0, 2 * WEEK), max_size=8, unique=True),
    waits=st.lists(st.integers(0, 2 * HOUR) | st.integers(0, WEEK), max_size=12),
)
def test_outputs_older_than_a_week_are_removed_once_an_hour(tmp_path_factory, ages, waits):
    """S3.14: retention of 7 days, hourly clean-up."""
    now = start = 3 * WEEK
    with Journal.open(tmp_path_factory.mktemp("j") / "j.sqlite") as journal:
        begun(journal, "s")
        for saved_at in (start - age for age in ages):
            journal.open_outputs("s", partial(float, saved_at)).save(str(saved_at))
        cleaner, cleaned = OutputCleaner(journal, lambda: now), start
        for wait in (0, *waits):
            now += wait
            cleaner.remove_if_due()
            if now - cleaned >= HOUR:
                cleaned = now
            left = {row[0] // 1_000 for row in journal.query("SELECT created_at_ms FROM saved_output")}
            assert left == {start - age for age in ages if start - age >= cleaned - WEEK}


WRITER = """
import hashlib, random, stat, sys
from contextlib import closing
from functools import partial
from pathlib import Path
from harness.conversation.events import WorkspaceSaved
from harness.protocols import FileState, Snapshot
from harness.sandboxes.snapshots import compute_tree_id
from harness.store.journal import Journal
from harness.store.sessions.locks import lock_session
from harness.store.workspaces import MAX_BUFFERED_BYTES, JournalWorkspaces
from tests.store.samples import begun, opening

path, pieces = Path(sys.argv[1]), 6
with lock_session(path, "live"), closing(JournalWorkspaces(path)) as workspaces, Journal.open(path) as journal:
    log = begun(journal, "live")
    log.append(opening("live"))
    files = {}
    for number in range(pieces):
        content = random.Random(number).randbytes(MAX_BUFFERED_BYTES // (pieces - 2))
        sha256 = hashlib.sha256(content).hexdigest()
        workspaces.put(sha256, content)
        files[f"{number}.bin"] = FileState(mode=stat.S_IFREG | 0o644, sha256=sha256, size_bytes=len(content))
    print("a part of the files is written", flush=True)
    sys.stdin.readline()
    snapshot = Snapshot(tree_id=compute_tree_id(files), files=files)
    workspaces.save(snapshot)
    print(snapshot.tree_id, flush=True)
    sys.stdin.readline()
    log.append([WorkspaceSaved(step=1, tree_id=snapshot.tree_id)])
"""


@pytest.mark.slow
def test_files_that_a_running_session_has_written_stay_although_no_event_refers_to_them_yet(tmp_path):
    path = tmp_path / "j.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with writer, Journal.open(path) as journal:
        assert writer.stdin is not None
        assert writer.stdout is not None
        tree_id = ""
        for _ in range(2):  # before and after the snapshot is saved
            tree_id = writer.stdout.readline().strip()
            assert journal.query("SELECT count(*) FROM blob")[0][0] > 0
            assert clean(journal, outputs_before_ms=0).files is None
            writer.stdin.write("\n")
            writer.stdin.flush()
        assert writer.wait(300) == 0
        assert clean(journal, outputs_before_ms=0).files == 0
    with closing(JournalWorkspaces(path)) as workspaces:
        for state in workspaces.load(tree_id).files.values():
            assert hashlib.sha256(workspaces.get(state.sha256)).hexdigest() == state.sha256
