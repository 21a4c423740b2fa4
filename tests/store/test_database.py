import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.store.database import may_be_incomplete
from harness.store.journal import Journal
from harness.store.merge import merge
from tests.store.samples import ENDED, begun, opening, plain, step

STEPS = 150
VIEWS = ("sessions", "messages", "compaction_events", "parts")


@pytest.mark.slow
def test_four_processes_write_one_journal_while_others_read(tmp_path: Path, checkout: Path) -> None:
    path = tmp_path / "journal.sqlite"
    names = ["a", "b", "c", "d"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.writing", str(path), name, str(STEPS)],
            cwd=checkout,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    seen = [0]
    while any(writer.poll() is None for writer in writers):
        seen.append(read(path))
        time.sleep(0.02)
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 4
    assert seen == sorted(seen)
    assert any(0 < number < 4 * (3 * STEPS + 4) for number in seen), "nobody read while they wrote"
    with Journal.open(path) as journal:
        for name in names:
            events = [entry.event for entry in journal.read_entries(name)]
            assert events[:3] == opening(name)
            assert events[3:6] == step(1, f"{name} 1\n" * 200)
            assert (len(events), events[-1]) == (3 * STEPS + 4, ENDED)
    assert plain(path, "PRAGMA integrity_check") == [("ok",)]
    assert plain(path, "SELECT count(*) FROM text") == [(40,)]


def read(path: Path) -> int:
    """Return the number of events that a reader sees; 0 while the file is being created."""
    try:
        with Journal.open(path, read_only=True) as journal:
            return int(journal.query("SELECT count(*) FROM event")[0][0])
    except StoreError:
        return 0


@pytest.mark.slow
def test_a_killed_writer_loses_at_most_the_step_in_flight(tmp_path: Path, checkout: Path) -> None:
    command = [sys.executable, "-m", "tests.store.killing", str(tmp_path), "120"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["wrong"] == []
    assert outcome["kills"] == 120
    assert outcome["while writing"] >= 100, "too many writers died before they had begun"
    assert outcome["longest"] > 100


def test_a_new_journal_is_the_same_where_no_file_can_be_laid_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    Journal.open(tmp_path / "laid.sqlite").close()
    monkeypatch.setattr(os, "link", refused)  # as on a disk without hard links
    Journal.open(tmp_path / "made.sqlite").close()
    laid, without_link = (
        (plain(path, "PRAGMA user_version"), sorted(plain(path, "SELECT type, name, sql FROM sqlite_schema")))
        for path in (tmp_path / "laid.sqlite", tmp_path / "made.sqlite")
    )
    assert laid == without_link
    assert sorted(path.name for path in tmp_path.iterdir()) == ["laid.sqlite", "made.sqlite"]


def test_a_scratch_journal_shows_the_same_and_every_connection_to_it_leaves_out_flushes(tmp_path: Path) -> None:
    shown = []
    for name, is_scratch in (("whole", False), ("scratch", True)):
        with Journal.open(tmp_path / f"{name}.sqlite", is_scratch=is_scratch) as journal:
            begun(journal, "s").append([*opening("s"), *step(1)])
        with Journal.open(tmp_path / f"{name}.sqlite") as again:
            assert again.database.fetch("PRAGMA synchronous") == [(0 if is_scratch else 1,)]
        with Journal.open(tmp_path / f"{name}.sqlite", read_only=True) as journal:
            shown.append([[tuple(row) for row in journal.query(f"SELECT * FROM {view}")] for view in VIEWS])
    assert shown[0] == shown[1]
    assert plain(tmp_path / "scratch.sqlite", "SELECT count(*) FROM sqlite_schema WHERE name = 'messages'") == [(0,)]
    with Journal.open(tmp_path / "merged.sqlite") as target:
        merge(tmp_path / "scratch.sqlite", target)
    assert len(plain(tmp_path / "merged.sqlite", "SELECT * FROM messages")) == len(shown[0][1])


def test_only_a_scratch_journal_from_before_the_start_of_the_machine_may_be_incomplete(tmp_path: Path) -> None:
    for name, is_scratch in (("whole", False), ("scratch", True)):
        path = tmp_path / f"{name}.sqlite"
        Journal.open(path, is_scratch=is_scratch).close()
        assert not may_be_incomplete(path)
        os.utime(path, (1_000_000, 1_000_000))
        assert may_be_incomplete(path) is is_scratch


def test_the_log_of_a_deleted_journal_does_not_return_in_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal.open(path) as journal:
        begun(journal, "old").append(opening("old"))
        log = (tmp_path / "journal.sqlite-wal").read_bytes()
    path.unlink()
    (tmp_path / "journal.sqlite-wal").write_bytes(log)  # as if the process had been killed
    with Journal.open(path) as journal:
        assert journal.list_session_ids() == ()
        begun(journal, "new").append(opening("new"))
        assert plain(path, "PRAGMA integrity_check") == [("ok",)]


def test_two_threads_that_write_through_one_connection_wait_for_each_other(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.open_session_log("s", created_at_ms=1, clock=lambda: 1.0).append(opening("s"))
        outputs = [journal.open_outputs("s", lambda: 1.0) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            names = list(pool.map(lambda number: outputs[number % 2].save(f"text {number}"), range(400)))
        assert [outputs[0].load(name) for name in names] == [f"text {number}" for number in range(400)]


@pytest.mark.parametrize("count", [0, 1, 19, 20, 45])
def test_any_number_of_rows_is_inserted_in_order(tmp_path: Path, count: int) -> None:
    rows = [(number, f"name {number}", "kind", "prompt", None) for number in range(count)]
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        database = journal.database
        database.execute("CREATE TABLE pair (number INTEGER, name TEXT, kind TEXT, said_in TEXT, calls INTEGER)")
        with database.transaction():
            database.insert("pair", ("number", "name", "kind", "said_in", "calls"), rows)
        assert database.fetch("SELECT * FROM pair ORDER BY rowid") == rows
