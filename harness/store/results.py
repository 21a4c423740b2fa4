"""Results of an experiment as pandas tables and in SQL queries. Reading results never changes a file.

The folder of an experiment holds `output/` with `journal.sqlite` (the source of truth), `journals/` (journals of trials that are
running or not merged yet) and `results/TABLE/*.parquet` (the tables, written at the end of the experiment). If the Parquet files
are missing or older than the journal, the tables are read from the journals, so that running and interrupted experiments can be
loaded.
"""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import StoreError, UsageError, format_count
from harness.store.columns import SOURCES, TABLES
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE, JOURNALS_FOLDER, list_trial_journals
from harness.store.tables import (
    BlockStates,
    build_schema,
    compute_states,
    export,
    is_old_file_current,
    list_files,
    locate_old_file,
    read_batches,
    read_states,
)

if TYPE_CHECKING:
    import duckdb

__all__ = ["Results", "export", "load"]

RESULTS_FOLDER = "results"


class Results:
    """Results of one experiment as pandas tables. Each table is read at its first use and cached; load again for newer rows.

    Args:
        output: Output folder of the experiment; `load` finds it.

    Example::

        results = harness.load("experiments/threshold")
        results.trials.groupby("arm")["success"].mean()
        results.sql("SELECT arm, avg(cost_usd) FROM trials GROUP BY arm")
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self._tables: dict[str, pa.Table] = {}

    def __repr__(self) -> str:
        trials = self.trials
        status_counts = ", ".join(f"{count} {status}" for status, count in trials["status"].value_counts().items()) or "none"
        arms = format_count(trials["arm"].nunique(), "arm")
        return (
            f"Results({str(self.output)!r}: {format_count(len(trials), 'trial')} ({status_counts}) in {arms}; "
            f"tables {', '.join(TABLES)} and axes)"
        )

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Table of trials, with one row per recorded trial and the columns of `harness.store.columns.TRIALS`."""
        return self._load_frame("trials")

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Table of steps, with one row per model call of the agent and the columns of `harness.store.columns.STEPS`."""
        return self._load_frame("steps")

    @cached_property
    def compactions(self) -> pd.DataFrame:
        """Table of compactions, with one row per attempted compaction and the columns of `harness.store.columns.COMPACTIONS`."""
        return self._load_frame("compactions")

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Table of check results, with one row per check of a trial and the columns of `harness.store.columns.CHECKS`."""
        return self._load_frame("checks")

    @cached_property
    def messages(self) -> pd.DataFrame:
        """Table of messages, with one row per message or replacement, and the columns of `harness.store.columns.MESSAGES`."""
        return self._load_frame("messages")

    @cached_property
    def probes(self) -> pd.DataFrame:
        """Table of probes, with one row per compaction and fact, and the columns of `harness.store.columns.PROBES`."""
        return self._load_frame("probes")

    @cached_property
    def axes(self) -> pd.DataFrame:
        """Table of axis values, with one row per trial, the column `trial_id`, and one column per axis, named by dotted path."""
        values = [json.loads(text) for text in self.trials["axes_json"]]
        names = sorted({name for row in values for name in row})
        columns: dict[str, Any] = {name: [row.get(name) for row in values] for name in names}
        return pd.DataFrame({"trial_id": self.trials["trial_id"], **columns})

    def sql(self, query: str) -> pd.DataFrame:
        """Return the result of a DuckDB query over the tables `trials`, `steps`, `compactions`, `checks`, `messages`, `probes`.

        Args:
            query: SQL in the dialect of DuckDB.

        Raises:
            UsageError: The query is invalid.
        """
        import duckdb

        try:
            return cast("pd.DataFrame", self._connection.sql(query).df())
        except duckdb.Error as error:
            raise UsageError(f"invalid query: {error}") from error

    @cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        import duckdb

        connection = duckdb.connect(":memory:")
        for name in TABLES:
            if paths := self._list_exported(name):
                quoted = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{quoted}])")
            else:
                connection.register(name, self._load_table(name))
        return connection

    def _load_frame(self, name: str) -> pd.DataFrame:
        table = self._load_table(name)
        frame = table.to_pandas()
        for column in TABLES[name]:
            if column.dtype in {"Int64", "boolean"}:
                frame[column.name] = pd.array(table[column.name].to_pylist(), dtype=column.dtype)
        return cast("pd.DataFrame", frame)

    def _load_table(self, name: str) -> pa.Table:
        if name not in self._tables:
            paths = self._list_exported(name)
            self._tables[name] = _read_parquet(paths) if paths else self._read_journals(name)
        return self._tables[name]

    def _list_exported(self, name: str) -> list[Path]:
        """Return the Parquet files with the rows of a table; none if files are missing or older than the journal."""
        folder = self.output / RESULTS_FOLDER
        if states := read_states(folder, name):
            current = self._journal_states is None or states == self._journal_states[name]
            return list_files(folder, name) if current else []
        old = locate_old_file(folder, name)
        return [old] if old.is_file() and self._is_old_file_current(old, name) else []

    def _is_old_file_current(self, path: Path, name: str) -> bool:
        if len(self._journal_paths) > 1:
            return False
        if not self._journal_paths:
            return is_old_file_current(path, name, None)
        with Journal.open(self._journal_paths[0], read_only=True) as journal:
            return is_old_file_current(path, name, journal)

    @cached_property
    def _journal_paths(self) -> tuple[Path, ...]:
        """Paths of the journals (SQLite files) of running trials, followed by the journal of the whole experiment.

        In this order, a trial that is merged meanwhile is read twice and counted once, but never missed.
        """
        whole = self.output / JOURNAL_FILE
        return (*list_trial_journals(self.output), *([whole] if whole.is_file() else []))

    @cached_property
    def _journal_states(self) -> dict[str, BlockStates] | None:
        """States of the journal, to detect outdated Parquet files; empty states if there are several journals, None if none."""
        if not self._journal_paths:
            return None
        if len(self._journal_paths) > 1:
            return {name: {} for name in TABLES}
        with Journal.open(self._journal_paths[0], read_only=True) as journal:
            return compute_states(journal)

    def _read_journals(self, name: str) -> pa.Table:
        read: list[pa.Table] = []
        seen: set[str] = set()
        by = f"{SOURCES[name].owner}_id"
        for path in self._journal_paths:
            try:
                with Journal.open(path, read_only=True) as journal:
                    new = list(read_batches(journal, name, frozenset(seen)))
            except StoreError:
                if path.parent.name != JOURNALS_FOLDER:
                    raise
                continue  # the journal of a trial is being created, or was merged and deleted
            seen.update(value for table in new for value in table[by].unique().to_pylist())
            read += new
        return pa.concat_tables(read) if read else build_schema(TABLES[name]).empty_table()


def _read_parquet(paths: Sequence[Path]) -> pa.Table:
    return pa.concat_tables([pq.read_table(path, memory_map=True).replace_schema_metadata() for path in paths])


def load(folder: str | os.PathLike[str]) -> Results:
    """Load the results of an experiment, which may be finished, running or interrupted.

    Args:
        folder: Folder of the experiment (`experiments/<name>`) or its output folder.

    Raises:
        StoreError: The folder does not exist, or no trial has been run in it.

    Example::

        results = harness.load("experiments/threshold")
        results.trials.head()
    """
    folder_path = Path(folder)
    output = folder_path / "output" if (folder_path / "output").is_dir() else folder_path
    results = Results(output)
    if not results._journal_paths and not all(map(results._list_exported, TABLES)):
        what = "no trial has been run yet" if folder_path.is_dir() else "the folder does not exist"
        raise StoreError(f"no results in {str(folder_path)!r}: {what}; run the experiment with `harness run {folder_path}`")
    return results
