"""Tables of results as pandas data frames and Arrow tables, read from Parquet files, from journals or from a store.

The functions are apart from `results`, which imports them where a table is first read: pandas and pyarrow are slow to load.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import NewerVersion, StoreError
from harness.files.object_store import ObjectStore
from harness.store.block_states import BlockStates
from harness.store.columns import SOURCES, TABLES, Column
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNALS_FOLDER
from harness.store.tables import (
    build_schema,
    complete_table,
    has_all_columns,
    is_old_file_current,
    list_files,
    locate_old_file,
    read_batches,
    read_column_names,
    read_states,
    refuse_newer_columns,
)

BATCH_ROWS = 65_536
"""Number of rows that are converted at a time, since the Python strings of a column of texts take most memory."""


def are_complete(paths: Sequence[Path], name: str) -> bool:
    """Return whether there are Parquet files of a table, and each of them has all columns that this version knows."""
    return bool(paths) and all(has_all_columns(path, name) for path in paths)


def list_current_files(results_dir: Path, name: str, journals: Sequence[Path], states: BlockStates | None) -> list[Path]:
    """Return the Parquet files of a table; none if they are incomplete or older than the journal.

    Args:
        results_dir: Folder with a folder of Parquet files for each table.
        name: Name of the table.
        journals: Journals of the experiment, several while trials run.
        states: Digests of the journal's data for the table; None if there is no journal.
    """
    if exported := read_states(results_dir, name):
        paths = list_files(results_dir, name)
        if states is None:
            return paths
        return paths if exported == states and are_complete(paths, name) else []
    old = locate_old_file(results_dir, name)
    return [old] if old.is_file() and _is_old_file_current(old, name, journals) else []


def _is_old_file_current(path: Path, name: str, journals: Sequence[Path]) -> bool:
    if len(journals) > 1:
        return False
    if not journals:
        return is_old_file_current(path, name, None)
    with Journal.open(journals[0], read_only=True) as journal:
        return is_old_file_current(path, name, journal)


def refuse_newer_files(results_dir: Path) -> None:
    """Check that no Parquet file of results was written by a newer version of this package.

    Raises:
        NewerVersion: A file has columns that this version does not know.
    """
    for name in TABLES:
        for path in list_files(results_dir, name):
            refuse_newer_columns(read_column_names(path), name, str(path))


def read_parquet(paths: Sequence[Path], name: str) -> pa.Table:
    """Return a table that is read from its Parquet files."""
    return pa.concat_tables([complete_table(pq.read_table(path, memory_map=True, partitioning=None), name) for path in paths])


def read_journals(
    journals: Iterable[Path], open_journal: Callable[[Path], AbstractContextManager[Journal]], name: str
) -> pa.Table:
    """Return a table that is read from journals; of a session or trial that several journals hold, the first rows count."""
    read: list[pa.Table] = []
    seen_ids: set[str] = set()
    id_column = f"{SOURCES[name].owner}_id"
    for path in journals:
        try:
            with open_journal(path) as journal:
                new = list(read_batches(journal, name, frozenset(seen_ids)))
        except NewerVersion:
            raise
        except StoreError:
            if path.parent.name != JOURNALS_FOLDER:
                raise
            continue  # the journal of a trial is being created, or was merged and deleted
        seen_ids.update(value for table in new for value in table[id_column].unique().to_pylist())
        read += new
    return pa.concat_tables(read) if read else build_schema(TABLES[name]).empty_table()


def read_published(store: ObjectStore, files: Mapping[str, str], name: str) -> pa.Table:
    """Return a table that is read from a store; `files` has the names of its Parquet files by their addresses."""
    tables = []
    for address, file in files.items():
        with store.open(file) as content:
            table = pq.read_table(content)
        refuse_newer_columns(table.column_names, name, address)
        tables.append(complete_table(table, name))
    return pa.concat_tables(tables)


def convert_table(
    name: str,
    paths: Sequence[Path],
    load_table: Callable[[], pa.Table],
    column_names: Sequence[str] | None,
    *,
    shared_texts: dict[str | None, Any] | None = None,
) -> pd.DataFrame:
    """Return columns of a table as a data frame, from the given Parquet files or else from the loaded table.

    Columns are converted one by one, so that only one is in memory twice at a time. The files are read, not mapped into
    memory, because mapped pages would count as memory of this process.

    Args:
        name: Name of the table.
        paths: Parquet files of the table; none to convert the loaded table.
        load_table: Function that loads the table.
        column_names: Names of the columns; None for all.
        shared_texts: Texts that rows share, so that a copy of a row takes 8 bytes for each text; new texts are added. Digests
            become numbers of 8 bytes, which are equal if the digests are. None keeps texts and digests as pandas has them.
    """
    columns = [column for column in TABLES[name] if column_names is None or column.name in column_names]
    converted = {}
    with _use_system_memory():
        files = [pq.ParquetFile(path) for path in paths]
        # strings first, because their conversion needs most memory
        for column in sorted(columns, key=lambda column: column.dtype != "str"):
            chunks = _read_chunks(files, column) if files else load_table()[column.name].chunks
            converted[column.name] = (
                _convert_column(column, chunks)
                if shared_texts is None or column.dtype != "str"
                else _convert_compactly(column, chunks, shared_texts)
            )
    return pd.DataFrame({column.name: converted[column.name] for column in columns}, copy=False)


@contextmanager
def _use_system_memory() -> Iterator[None]:
    before = pa.default_memory_pool()  # keeps freed memory
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _read_chunks(files: Sequence[pq.ParquetFile], column: Column) -> Iterator[pa.Array]:
    """Yield the values of a column of Parquet files; they are missing where a file of an older version lacks the column."""
    kind = build_schema([column]).field(column.name).type
    for file in files:
        if column.name in file.schema_arrow.names:
            for batch in file.iter_batches(BATCH_ROWS, columns=[column.name], use_threads=False):
                yield batch.column(0)
        else:
            yield pa.nulls(file.metadata.num_rows, kind)


def _convert_column(column: Column, chunks: Iterable[pa.Array]) -> "pd.Series[Any]":
    kind = build_schema([column]).field(column.name).type
    if pa.types.is_string(kind):
        kind = pa.large_string()  # 64-bit offsets, as in pandas, so that text need not be copied later
    values = pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)
    # sessions outside of trials have missing values in columns of types that cannot hold them
    dtype = {"int64": "Int64", "bool": "boolean"}.get(column.dtype, column.dtype) if values.null_count else column.dtype
    nullable = {"Int64": pd.Int64Dtype(), "boolean": pd.BooleanDtype()}.get(dtype)
    return values.to_pandas() if nullable is None else pd.Series(nullable.__from_arrow__(values), name=column.name, copy=False)


def build_frame(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> pd.DataFrame:
    """Return a table with the given column names and rows."""
    return pd.DataFrame(list(rows), columns=list(columns))


def _convert_compactly(column: Column, chunks: Iterable[pa.Array], shared_texts: dict[str | None, Any]) -> "pd.Series[Any]":
    """Return a column of texts as shared Python strings, or as numbers if the texts are digests."""
    if column.name.endswith("_digest"):
        parts = (chunk.slice(start, BATCH_ROWS) for chunk in chunks for start in range(0, len(chunk), BATCH_ROWS))
        numbers = [pd.util.hash_array(part.to_numpy(zero_copy_only=False), categorize=False) for part in parts]
        return pd.Series(np.concatenate([np.empty(0, np.uint64), *numbers]), name=column.name)
    shared_texts.setdefault(None, np.nan)
    texts = [np.empty(0, object)]
    for chunk in chunks:
        encoded = chunk.dictionary_encode()
        shared = [shared_texts.setdefault(text, text) for text in (*encoded.dictionary.to_pylist(), None)]
        texts.append(np.array(shared, dtype=object)[encoded.indices.fill_null(len(shared) - 1).to_numpy()])
    return pd.Series(np.concatenate(texts), name=column.name, dtype=object)


_SEED = re.compile(r'"seed":\d+')
"""Pattern of the seed in the configuration of a trial."""


def share_configurations(parts: "Iterable[pd.Series[Any]]", revisions: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return configurations of trials as texts that are the same string for trials that differ in their seeds only.

    The seed, which is a column of the table of trials, is 0 in the texts. They are left as they are if a trial has no recorded
    revisions, because these are then recovered from the id of the trial, which depends on the seed.

    Args:
        parts: Configurations as JSON, in parts, in the order of the trials.
        revisions: Recorded revisions of each trial as JSON; empty or missing if there are none.
    """
    is_recorded = bool((revisions.fillna("") != "").all())
    shared: dict[object, object] = {}
    texts = [_hide_seed(text, shared) if is_recorded else text for part in parts for text in part]
    return pd.Series(texts, index=revisions.index, name="config_json", dtype=object)


def _hide_seed(text: object, shared: dict[object, object]) -> object:
    """Return a configuration with the seed 0; unchanged if its seed is not found, or is not the only one."""
    if not isinstance(text, str):
        return text
    hidden, count = _SEED.subn('"seed":0', text)
    if count != 1:
        return text
    if hidden not in shared:
        configuration = json.loads(hidden)
        shared[hidden] = hidden if isinstance(configuration, dict) and "seed" in configuration else None
    return shared[hidden] or text


def build_axes(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a table with one row per trial, its `trial_id`, and one column for each setting under study."""
    values = [json.loads(text) for text in trials["axes_json"]]
    names = sorted({name for row in values for name in row})
    columns: dict[str, Any] = {name: [row.get(name) for row in values] for name in names}
    return pd.DataFrame({"trial_id": trials["trial_id"], **columns})


def join_trials(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the trials of several experiments in one table; an arm's name that occurs twice is put behind its experiment's."""
    return pd.concat(_label_arms(parts), ignore_index=True)


def join_rows(name: str, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return a table of several experiments; of a trial that several parts contain, only the rows of the first one."""
    return pd.concat(iterate_joined(name, ([rows] for rows in parts)), ignore_index=True)


def iterate_joined(name: str, parts: Iterable[Iterable[pd.DataFrame]]) -> Iterator[pd.DataFrame]:
    """Yield the rows of a table of several experiments, as `join_rows` returns them.

    Args:
        name: Name of the table.
        parts: For each experiment, frames with all rows of the trials in them and with the columns `list_owner_columns`.
    """
    seen_ids = set[str]()
    for frames in parts:
        new_ids = set[str]()
        for rows in frames:
            # sub-agents have sessions that are no trial's
            first, *others = (rows[column] for column in list_owner_columns(name))
            owners = first.fillna(others[0]) if others else first
            yield rows[~owners.isin(seen_ids)]
            new_ids.update(owners)
        seen_ids |= new_ids


def list_owner_columns(name: str) -> list[str]:
    """Return the columns of a table that say to which trial or session a row belongs: the first of them that is not empty."""
    names = [column.name for column in TABLES[name]]
    both = ["trial_id", "session_id"]
    return both if set(both) <= set(names) else [f"{SOURCES[name].owner}_id"]


def _label_arms(parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Put the experiment's name before each name of a configuration (arm) that occurs in several tables."""
    counts = Counter(arm for trials in parts for arm in trials["arm"].unique())
    names = [next(iter(trials["experiment"].fillna("sessions")), "") for trials in parts]
    labels = [name if names.count(name) == 1 else f"{name} #{place}" for place, name in enumerate(names, start=1)]
    return [
        trials.assign(arm=[f"{label}: {arm}" if counts[arm] > 1 else arm for arm in trials["arm"]])
        for label, trials in zip(labels, parts, strict=True)
    ]
