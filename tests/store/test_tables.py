"""Exports: an incremental export equals a full one, writes only what is outdated, and nothing if nothing is."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.conversation.events import MessageAdded, RolledBack
from harness.conversation.messages import user
from harness.inspection.loading import load
from harness.store.columns import TABLES
from harness.store.journal import Journal
from harness.store.merge import merge
from harness.store.records import ProbeRecord
from harness.store.schema import MIGRATIONS, migrate
from harness.store.tables import export, list_files
from tests.store.samples import CONDUCT, ENDED, PROBES, begun, checks, compaction, opening, step, trial


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.store.block_states.BLOCK_SIZE", 2)
        patch.setattr("harness.store.tables.BATCH_SIZE", 1)
        yield


def read_tables(output: Path) -> dict[str, pa.Table]:
    """Return all tables of results; they are read from Parquet files, or the test fails."""
    results = load(output)
    assert all(results._list_exported(name) for name in TABLES)
    return {name: results._load_table(name) for name in TABLES}


def run_trial(path: Path, number: int, began_ms: int, output: str) -> None:
    """Write the journal of one trial, as a worker does."""
    with Journal.open(path) as journal:
        log = begun(journal, f"s{number}", began_ms)
        log.append(
            [*opening(f"s{number}"), *step(1, output), *step(2), compaction(forget=[4, 5], before_step=3), *step(3), ENDED]
        )
        journal.record_metrics(f"s{number}", CONDUCT, PROBES)
        journal.record_trial(trial(f"t{number}", f"s{number}"), checks(f"t{number}"))


def fill(output: Path, trials: int) -> Path:
    for number in range(trials):
        run_trial(output / "journal.sqlite", number, 7, "x")
    return output / "journal.sqlite"


@pytest.fixture(scope="module")
def beginnings(small_blocks: None, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Return the folders of exported experiments: False has two trials and another session, True a journal of an old version."""
    new, old = (tmp_path_factory.mktemp(name) for name in ("new", "old"))
    with closing(sqlite3.connect(old / "journal.sqlite", isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:10])
        connection.execute("INSERT INTO session (id, created_at_ms) VALUES ('s0', 3)")
    with Journal.open(fill(new, 2)) as journal:
        begun(journal, "s2").append([*opening("s2"), *step(1), *step(2), compaction(forget=[4, 5], before_step=3)])
    for output in (new, old):
        export(output / "journal.sqlite", output / "results")
    return {False: new, True: old}


class Experiment:
    """Journal of an experiment, already exported, to which things happen in any order."""

    def __init__(self, output: Path) -> None:
        self.output, self.journal, self.time_ms = output, output / "journal.sqlite", 7

    def run(self, number: int) -> None:
        """Run a trial, perhaps again, and import its journal."""
        self.time_ms += 1
        source = self.output / "source.sqlite"
        run_trial(source, number, self.time_ms, str(self.time_ms))
        with Journal.open(self.journal) as journal:
            merge(source, journal)
        source.unlink()

    def crash(self, number: int) -> None:
        """Record that a trial crashed before its session began."""
        with Journal.open(self.journal) as journal:
            journal.record_trial(trial(f"t{number}", "", status="crashed", reason="crashed"))

    def rename(self, number: int) -> None:
        """Label all trials again, as a changed plan does."""
        with Journal.open(self.journal) as journal:
            for record in journal.list_trials():
                journal.record_trial(replace(record, arm=str(number)), journal.list_checks(record.trial_id))

    def go_on(self, number: int) -> None:
        """Append events to a session, new or not."""
        with Journal.open(self.journal) as journal:
            begun(journal, f"s{number}").append([MessageAdded(step=9, message=user("more")), *step(9)])

    def roll_back(self, number: int) -> None:
        with Journal.open(self.journal) as journal:
            log = begun(journal, f"s{number}")
            log.append([RolledBack(step=0, to_event=min(log.length, 3))])

    def measure(self, number: int) -> None:
        """Record the metrics of a session, and then its trial if it had metrics before."""
        self.time_ms += 1
        with Journal.open(self.journal) as journal:
            begun(journal, f"s{number}")
            has_metrics = journal.query("SELECT 1 FROM conduct WHERE session = ?", journal.find_key(f"s{number}"))
            first = ProbeRecord(event=10, fact=0, version=self.time_ms, seen_before=True, seen_after=False)
            journal.record_metrics(f"s{number}", CONDUCT, replace(PROBES, rows=(first,)))
            if has_metrics:
                journal.record_trial(trial(f"t{number}", f"s{number}"), checks(f"t{number}"))

    def migrate(self, _number: int) -> None:
        Journal.open(self.journal).close()

    def export(self, _number: int) -> None:
        export(self.journal, self.output / "results")


NAMES = ("run", "crash", "rename", "go_on", "roll_back", "measure", "migrate", "export")


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(is_old=st.booleans(), happenings=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3)), min_size=1, max_size=5))
@example(is_old=False, happenings=[("measure", 0)])
@example(is_old=False, happenings=[("measure", 2)])
@example(is_old=False, happenings=[("go_on", 1)])
@example(is_old=False, happenings=[("run", 1), ("export", 0), ("run", 0)])
@example(is_old=True, happenings=[("migrate", 0), ("run", 0)])
def test_an_incremental_export_equals_a_full_one(
    beginnings: dict[bool, Path], is_old: bool, happenings: list[tuple[str, int]]
) -> None:
    with TemporaryDirectory() as folder, TemporaryDirectory() as other:
        experiment = Experiment(shutil.copytree(beginnings[is_old], Path(folder), dirs_exist_ok=True))
        for name, number in happenings:
            getattr(experiment, name)(number)
        results = load(folder)
        shown = {name: results._load_table(name) for name in TABLES}
        export(experiment.journal, Path(folder) / "results")
        export(experiment.journal, Path(other) / "results")
        assert read_tables(Path(folder)) == read_tables(Path(other)) == shown, "outdated files were read, or not written again"
        for name in TABLES:
            incremental, full = ([path.name for path in list_files(Path(one) / "results", name)] for one in (folder, other))
            assert incremental == full


def test_nothing_is_written_if_nothing_has_changed(tmp_path: Path) -> None:
    journal = fill(tmp_path, 7)
    assert len(export(journal, tmp_path / "results")) == 4 * len(TABLES)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert export(journal, tmp_path / "results") == ()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before


@pytest.mark.slow
def test_only_the_files_with_new_rows_are_written(tmp_path: Path) -> None:
    journal = fill(tmp_path, 7)
    export(journal, tmp_path / "results")
    run_trial(journal, 7, 7, "x")
    assert [path.relative_to(tmp_path / "results").as_posix() for path in export(journal, tmp_path / "results")] == [
        f"{name}/000004.parquet" for name in TABLES
    ]


def test_files_that_an_interrupted_export_left_are_deleted(tmp_path: Path) -> None:
    journal = fill(tmp_path, 1)
    export(journal, tmp_path / "results")
    left = tmp_path / "results" / "steps" / ".000000.parquet.123"
    left.write_bytes(b"half")
    export(journal, tmp_path / "results")
    assert not left.exists()


def test_a_file_whose_columns_were_computed_in_another_way_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = fill(tmp_path, 1)
    export(journal, tmp_path / "results")
    column = next(one for one in TABLES["steps"] if one.name == "step")
    columns = tuple(one._replace(sql="t.step + 1") if one is column else one for one in TABLES["steps"])
    monkeypatch.setitem(TABLES, "steps", columns)
    assert [path.parent.name for path in export(journal, tmp_path / "results")] == ["steps"]
