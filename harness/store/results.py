"""Results of an experiment as pandas tables and in SQL queries. Reading results never changes a file.

`harness.inspection.loading` loads the results of sessions outside of experiments from their journals into the same tables.

The folder of an experiment holds `output/` with:

- `journal.sqlite`: the source of truth.
- `journals/`: journals of trials that are running or not merged yet.
- `results/TABLE/*.parquet`: the tables, written at the end of the experiment.

If the Parquet files are missing or older than the journal, the tables are read from the journals. Running and interrupted
experiments can therefore be loaded.

`harness.store.frames`, which loads pandas and pyarrow, is imported where a table is first read: a run or a report that finds
nothing to do reads none.
"""

import glob
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.errors import StoreError, UsageError, format_count, shorten_repr
from harness.files.object_store import ObjectStore
from harness.store.block_states import BlockStates, compute_states
from harness.store.columns import MESSAGE_SIZE_COLUMNS, TABLES, UNREPORTED_COLUMNS
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE, OUTPUT_FOLDER, list_trial_journals, quote_journals
from harness.text import render_html_table

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

RESULTS_FOLDER = "results"
MANIFEST = f"{RESULTS_FOLDER}/manifest.json"
"""Name of the file in a store that lists all Parquet files of the results with their digests."""
MAX_MANIFEST_BYTES = 16 * 2**20
_MISSING_TABLE = re.compile(r"Table with name (\w+) does not exist")
"""Pattern of DuckDB's error message about a table that is not registered yet."""


FILES_AT_ONCE = 8
"""Number of Parquet files that are read at a time, each with the rows of up to 500 trials or sessions."""


class Results:
    """Results of one experiment as pandas tables. Each table is read at its first use and cached; load again for newer rows.

    `harness.load` returns such an object, also for sessions outside of experiments. The loaded results also have the methods
    `price`, which computes costs under other price rules, and `twins`, which continues a session from a compaction.

    Args:
        output: Output folder of the experiment; `load` finds it.

    Example::

        results = harness.load("experiments/threshold")
        results.trials.groupby("arm")["success"].mean()
        results.sql("SELECT arm, avg(cost_usd) FROM trials GROUP BY arm")
    """

    def __init__(self, output: str | os.PathLike[str]) -> None:
        self.output = Path(output).absolute()  # tables are read later, perhaps from another working folder
        self._tables: dict[str, pa.Table] = {}
        self._registered: set[str] = set()

    def __repr__(self) -> str:
        trials = self.trials
        status_counts = ", ".join(f"{count} {status}" for status, count in trials["status"].value_counts().items()) or "none"
        arms = format_count(trials["arm"].nunique(), "arm")
        return (
            f"Results({str(shorten_path(self.output))!r}: {count_rows(trials)} ({status_counts}) in {arms}; "
            f"tables {', '.join(TABLES)} and axes)"
        )

    def _repr_html_(self) -> str:
        crashed = self.trials["status"] == "crashed"
        counts = crashed.groupby(self.trials["arm"], sort=False).agg(["size", "sum"])
        rows = [(str(arm), str(size - crashes), str(crashes)) for arm, size, crashes in counts.itertuples()]
        notes = (f"Tables: {', '.join(TABLES)} and axes. Outcomes: harness.report and harness.compare.",)
        return render_html_table(f"Results: {count_rows(self.trials)}", ("arm", "finished", "crashed"), rows, notes)

    @cached_property
    def trials(self) -> "pd.DataFrame":
        """Table of trials, with one row per recorded trial and the columns of `harness.store.columns.TRIALS`."""
        return self._load_frame("trials")

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """Table of steps, with one row per model call of the agent and the columns of `harness.store.columns.STEPS`."""
        return self._load_frame("steps")

    @cached_property
    def compactions(self) -> "pd.DataFrame":
        """Table of compactions, with one row per attempted compaction and the columns of `harness.store.columns.COMPACTIONS`."""
        return self._load_frame("compactions")

    @cached_property
    def checks(self) -> "pd.DataFrame":
        """Table of check results, with one row per check of a trial and the columns of `harness.store.columns.CHECKS`."""
        return self._load_frame("checks")

    @cached_property
    def messages(self) -> "pd.DataFrame":
        """Table of messages, with one row per message or replacement of a message, and the columns of `columns.MESSAGES`."""
        return self._load_frame("messages")

    @cached_property
    def message_sizes(self) -> "pd.DataFrame":
        """Table of messages without their contents, for counting sizes; the columns are `columns.MESSAGE_SIZE_COLUMNS`."""
        return self._load_frame("messages", MESSAGE_SIZE_COLUMNS)

    @cached_property
    def probes(self) -> "pd.DataFrame":
        """Table of what compactions kept (probes), with one row per compaction and fact, and the columns of `columns.PROBES`.

        A row says whether a fact (a value that the agent has to remember) was in view before and after the compaction.
        """
        return self._load_frame("probes")

    @cached_property
    def axes(self) -> "pd.DataFrame":
        """Table of the settings under study (axes), with one row per trial, its `trial_id`, and one column per setting.

        A column is named by the dotted path of the setting, such as `policy.threshold`.
        """
        from harness.store.frames import build_axes

        return build_axes(self.trials)

    @cached_property
    def report_tables(self) -> "ReportTables":
        """Tables with the columns from which reports are made, in less memory than all columns take."""
        return ReportTables(self)

    def sql(self, query: str) -> "pd.DataFrame":
        """Return the result of a DuckDB query over the tables `trials`, `steps`, `compactions`, `checks`, `messages`, `probes`.

        Args:
            query: SQL in the dialect of DuckDB.

        Raises:
            UsageError: The query is invalid.
        """
        import duckdb

        try:
            return self._query(query)
        except duckdb.Error as error:
            raise UsageError(f"invalid query: {error}; the tables are {', '.join(TABLES)}") from error

    @property
    def digest(self) -> str | None:
        """Digest (hash) of the results; None while trials run or if there is no journal."""
        states = self._journal_states
        return None if not states or not all(states.values()) else hashlib.sha256(repr(states).encode()).hexdigest()

    @cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        return self._open_connection()

    def _open_connection(self) -> "duckdb.DuckDBPyConnection":
        import duckdb

        return duckdb.connect(":memory:")

    def _query(self, query: str) -> "pd.DataFrame":
        """Run a DuckDB query; a table is loaded when a query first uses it, since some take long to read."""
        import duckdb

        while True:
            try:
                relation = self._connection.sql(query)
                if relation is None:
                    raise UsageError(f"the query returns no table (got {shorten_repr(query)}); begin it with SELECT")
                return cast("pd.DataFrame", relation.df())
            except duckdb.CatalogException as error:
                match = _MISSING_TABLE.search(str(error))
                name = match[1].lower() if match else ""
                if name not in TABLES or name in self._registered:
                    raise
                self._register(name)

    def _register(self, name: str) -> None:
        from harness.store.frames import are_complete

        paths = self._list_exported(name)
        if are_complete(paths, name):
            self._create_view(name, map(str, paths))
        else:
            self._connection.register(name, self._load_table(name))
        self._registered.add(name)

    def _create_view(self, name: str, addresses: Iterable[str]) -> None:
        """Create the view of a table over its Parquet files.

        DuckDB would take a folder such as `run[1]` for a pattern, and a folder such as `seed=3` for a column of the table.
        """
        quoted = ", ".join("'" + glob.escape(address).replace("'", "''") + "'" for address in addresses)
        self._connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{quoted}], hive_partitioning=false)")

    def _load_frame(
        self, name: str, column_names: Sequence[str] | None = None, *, shared_texts: dict[str | None, Any] | None = None
    ) -> "pd.DataFrame":
        from harness.store.frames import convert_table

        paths = [] if name in self._tables else self._list_exported(name)
        return convert_table(name, paths, lambda: self._load_table(name), column_names, shared_texts=shared_texts)

    def _iterate_frames(
        self, name: str, column_names: Sequence[str], shared_texts: dict[str | None, Any]
    ) -> "Iterator[pd.DataFrame] | None":
        """Return an iterator over columns of a table in parts, each with all rows of its trials; None to load the whole table.

        Only Parquet files are read in parts; to read a journal takes too long to do it for each use of a table.
        """
        from harness.store.frames import convert_table

        paths = [] if name in self._tables else self._list_exported(name)
        if not paths:
            return None
        groups = (paths[start : start + FILES_AT_ONCE] for start in range(0, len(paths), FILES_AT_ONCE))
        return (
            convert_table(name, group, lambda: self._load_table(name), column_names, shared_texts=shared_texts)
            for group in groups
        )

    def _load_table(self, name: str) -> "pa.Table":
        from harness.store.frames import read_parquet

        if name not in self._tables:
            paths = self._list_exported(name)
            self._tables[name] = read_parquet(paths, name) if paths else self._read_journals(name)
        return self._tables[name]

    def _list_exported(self, name: str) -> list[Path]:
        """Return the Parquet files of a table; none if they are incomplete or older than the journal."""
        from harness.store.frames import list_current_files

        states = None if self._journal_states is None else self._journal_states[name]
        return list_current_files(self.output / RESULTS_FOLDER, name, self._journal_paths, states)

    @cached_property
    def _journal_paths(self) -> tuple[Path, ...]:
        """Paths of the journals (SQLite files) of running trials, followed by the journal of the experiment.

        In this order, a trial that is merged into the journal of the experiment meanwhile is read twice (and counted once), but
        never missed.
        """
        whole = self.output / JOURNAL_FILE
        return (*list_trial_journals(self.output), *([whole] if whole.is_file() else []))

    @cached_property
    def _journal_states(self) -> dict[str, BlockStates] | None:
        """Digests of the journal's data for each table, which show whether Parquet files are outdated.

        None if there is no journal. While trials run, there are several journals, and the digests of each table are empty.
        """
        if not self._journal_paths:
            return None
        if len(self._journal_paths) > 1:
            return {name: {} for name in TABLES}
        with self._open_journal(self._journal_paths[0]) as journal:
            return compute_states(journal)

    def _open_journal(self, path: Path) -> AbstractContextManager[Journal]:
        return Journal.open(path, read_only=True)

    def _read_journals(self, name: str) -> "pa.Table":
        from harness.store.frames import read_journals

        return read_journals(self._journal_paths, self._open_journal, name)


class ReportTables:
    """Tables from which reports on results are made, without the columns that no report and no chart shows.

    Rows of all tables with equal texts share one Python string, and digests are numbers, so that the tables of 100,000 trials,
    and what a report selects from them, take about a third of the memory. Each table is read at its first use and cached. The
    largest are not even needed as a whole: `iterate_parts` reads them a few thousand trials at a time.

    Args:
        source: Results whose tables are read.
    """

    def __init__(self, source: Results) -> None:
        self._source, self.output = source, source.output
        self._texts: dict[str | None, Any] = {}

    @property
    def parts(self) -> "Sequence[ReportTables]":
        """Tables of each experiment in joined results; none in the results of one experiment."""
        return tuple(part.report_tables for part in self._source.parts) if isinstance(self._source, JoinedResults) else ()

    @cached_property
    def trials(self) -> "pd.DataFrame":
        """Table of trials; equal configurations of trials that recorded their revisions share a text, in which the seed is 0."""
        from harness.store.frames import share_configurations

        if isinstance(self._source, JoinedResults):  # joins the tables of its parts
            return self._load("trials")
        trials = self._load("trials", ("config_json",))
        parts = self._source._iterate_frames("trials", ("config_json",), {})
        texts = [self._source._load_frame("trials", ("config_json",), shared_texts={})] if parts is None else parts
        configurations = share_configurations((part["config_json"] for part in texts), trials["revisions"])
        place = [column.name for column in TABLES["trials"]].index("config_json")
        trials.insert(place, "config_json", configurations)
        return trials

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """Table of steps; `request_digest` is a number that is equal for equal requests."""
        return self._load("steps")

    @cached_property
    def compactions(self) -> "pd.DataFrame":
        """Table of compactions."""
        return self._load("compactions")

    @cached_property
    def checks(self) -> "pd.DataFrame":
        """Table of check results."""
        return self._load("checks")

    @cached_property
    def probes(self) -> "pd.DataFrame":
        """Table of what compactions kept."""
        return self._load("probes")

    @property
    def message_sizes(self) -> "pd.DataFrame":
        """Table of messages without their contents."""
        return self._source.message_sizes

    def iterate_parts(self, name: str, columns: Sequence[str]) -> "Iterator[pd.DataFrame]":
        """Yield columns of a table in parts that are read from files, or the whole table if it is in memory already.

        All rows of a trial are in the same part, in the order of the table. There may be empty parts and further columns.

        Args:
            name: Name of the table, such as `steps`.
            columns: Names of the columns, which reports show.
        """
        read = None if name in self.__dict__ else self._source._iterate_frames(name, columns, self._texts)
        yield from [getattr(self, name)] if read is None else read

    def _load(self, name: str, without: Sequence[str] = ()) -> "pd.DataFrame":
        unused = UNREPORTED_COLUMNS.get(name, frozenset()).union(without)
        names = [column.name for column in TABLES[name] if column.name not in unused]
        return self._source._load_frame(name, names, shared_texts=self._texts)


class PublishedResults(Results):
    """Results of one experiment that are read from the store to which its runs have copied them."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store.url)
        self.output, self._store = Path(store.url), store

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Names of the Parquet files of all tables."""
        return tuple(sorted(read_manifest(self._store)))

    def _open_connection(self) -> "duckdb.DuckDBPyConnection":
        connection = super()._open_connection()
        connection.register_filesystem(self._store.file_system)
        return connection

    def _register(self, name: str) -> None:
        self._create_view(name, map(self._find_address, self._list_table(name)))
        columns = {row[0] for row in self._connection.execute(f"DESCRIBE {name}").fetchall()}
        if not {column.name for column in TABLES[name]} <= columns:  # an older version wrote the files
            self._connection.execute(f"DROP VIEW {name}")
            self._connection.register(name, self._load_table(name))
        self._registered.add(name)

    def _find_address(self, file: str) -> str:
        return str(self._store.file_system.unstrip_protocol(self._store.find_path(file)))

    def _load_frame(
        self, name: str, column_names: Sequence[str] | None = None, *, shared_texts: dict[str | None, Any] | None = None
    ) -> "pd.DataFrame":
        from harness.store.frames import convert_table

        return convert_table(name, (), lambda: self._load_table(name), column_names, shared_texts=shared_texts)

    def _iterate_frames(
        self, name: str, column_names: Sequence[str], shared_texts: dict[str | None, Any]
    ) -> "Iterator[pd.DataFrame] | None":
        return None  # the files are not on this machine

    def _load_table(self, name: str) -> "pa.Table":
        from harness.store.frames import read_published

        if name not in self._tables:
            files = {self._find_address(file): file for file in self._list_table(name)}
            self._tables[name] = read_published(self._store, files, name)
        return self._tables[name]

    def _list_table(self, name: str) -> list[str]:
        return [file for file in self.files if file.startswith(f"{RESULTS_FOLDER}/{name}/")]


class JoinedResults(Results):
    """Results of several experiments or journals in one set of tables, returned by `load` for a list of these.

    If several experiments have an arm of the same name, the name of the experiment is put in front, e.g. `first: control`. If
    several experiments share a trial, its steps and other rows occur once.
    """

    def __init__(self, parts: Sequence[Results]) -> None:
        super().__init__(os.path.commonpath([part.output.absolute() for part in parts]))
        self._parts = tuple(parts)

    @property
    def parts(self) -> Sequence[Results]:
        """Results of each experiment, in the order in which they were joined."""
        return self._parts

    @property
    def digest(self) -> str | None:
        """Digest (hash) of all results; None while trials run or if an experiment has no journal."""
        digests = [part.digest for part in self._parts]
        return None if None in digests else hashlib.sha256(repr(digests).encode()).hexdigest()

    @cached_property
    def _journal_paths(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(path for part in self._parts for path in part._journal_paths))

    def _load_frame(
        self, name: str, column_names: Sequence[str] | None = None, *, shared_texts: dict[str | None, Any] | None = None
    ) -> "pd.DataFrame":
        from harness.store.frames import join_rows, join_trials

        if name == "trials":
            return join_trials([(part if shared_texts is None else part.report_tables).trials for part in self._parts])
        return join_rows(name, (part._load_frame(name, column_names, shared_texts=shared_texts) for part in self._parts))

    def _iterate_frames(
        self, name: str, column_names: Sequence[str], shared_texts: dict[str | None, Any]
    ) -> "Iterator[pd.DataFrame] | None":
        from harness.store.frames import iterate_joined, list_owner_columns

        names = tuple(dict.fromkeys([*column_names, *list_owner_columns(name)]))
        parts = [part._iterate_frames(name, names, shared_texts) for part in self._parts]
        read = [part for part in parts if part is not None]
        return iterate_joined(name, read) if len(read) == len(parts) else None

    def _register(self, name: str) -> None:
        self._connection.register(name, self.trials if name == "trials" else self._load_frame(name))
        self._registered.add(name)


def count_rows(trials: "pd.DataFrame") -> str:
    """Return the number of trials and of sessions outside of trials in a table of trials, e.g. `3 trials and 1 session`."""
    sessions = int(trials["experiment"].isna().sum())
    counts = (len(trials) - sessions, "trial"), (sessions, "session")
    return " and ".join(format_count(count, noun) for count, noun in counts if count) or "0 trials"


def shorten_path(path: Path) -> Path:
    """Return a path relative to the working folder if it lies inside of it, else the same path."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def load_experiment(
    folder: str | os.PathLike[str],
    local: Callable[[Path], Results] = Results,
    published: Callable[[ObjectStore], Results] = PublishedResults,
) -> Results:
    """Load the results of an experiment, which may be finished, running or interrupted.

    Args:
        folder: Folder of the experiment, its output folder, or the URL of the store of its runs.
        local: Class of the results of a folder, made from its output folder.
        published: Class of the results of a store.

    Raises:
        StoreError: The folder or store does not exist, or no trial has been run in it.
        UsageError: A store needs the extra `cluster`.
    """
    if isinstance(folder, str) and "://" in folder:
        return _load_published(folder, published)
    folder_path = Path(folder)
    output = folder_path / OUTPUT_FOLDER if (folder_path / OUTPUT_FOLDER).is_dir() else folder_path
    results = local(output)
    if not results._journal_paths and not all(map(results._list_exported, TABLES)):
        from harness.store.frames import refuse_newer_files

        refuse_newer_files(output / RESULTS_FOLDER)
        if folder_path.is_file():
            raise StoreError(
                f"no results in {str(folder_path)!r}: it is a file, and the folder of an experiment is needed; `harness report` "
                "and `harness inspect` read the sessions in a journal"
            )
        if folder_path.suffix == ".sqlite" and not folder_path.is_dir():
            nearby = quote_journals(folder_path.parent)
            advice = f"there is {nearby}" if nearby else "check the path and the folder in which the command runs"
            raise StoreError(f"no results in {str(folder_path)!r}: the file does not exist; {advice}")
        problem = "no trial has been run yet" if folder_path.is_dir() else "the folder does not exist"
        raise StoreError(f"no results in {str(folder_path)!r}: {problem}; run the experiment with `harness run {folder_path}`")
    return results


def _load_published(url: str, make: Callable[[ObjectStore], Results]) -> Results:
    store = ObjectStore(url)
    if not read_manifest(store):
        raise StoreError(f"no results in the store {url!r}; a run with `store` set to this URL copies them there when it ends")
    return make(store)


def read_manifest(store: ObjectStore) -> dict[str, str]:
    """Return the digest of each Parquet file in a store, by file name; empty if no run has copied its tables.

    Raises:
        StoreError: The store cannot be reached, or its list of files is damaged.
    """
    content = store.read(MANIFEST, MAX_MANIFEST_BYTES)
    if content is None:
        return {}
    try:
        files: dict[str, str] = json.loads(content)
    except ValueError as error:
        raise StoreError(f"the list of results in the store {store.url!r} is damaged: {error}") from error
    return files
