"""Tables of results in a store that several machines reach: copies of the Parquet files of a run, and their reading by DuckDB.

A manifest in the store names the files and their digests. It is written after the files, so that a reader never misses a file,
and a run copies only files that have changed.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import StoreError
from harness.object_store import ObjectStore
from harness.store.columns import TABLES
from harness.store.results import RESULTS_FOLDER, Results
from harness.store.tables import list_files

if TYPE_CHECKING:
    import duckdb

MANIFEST = f"{RESULTS_FOLDER}/manifest.json"


def publish_tables(results_dir: Path, store: ObjectStore) -> tuple[str, ...]:
    """Copy the Parquet files of all tables that have changed to a store, and return the names of the copied files.

    Args:
        results_dir: Folder with a folder of Parquet files for each table.
        store: Store of the run.

    Raises:
        StoreError: The store cannot be reached or written.
    """
    published, current = _read_manifest(store), dict[str, str]()
    copied = []
    for table in TABLES:
        for path in list_files(results_dir, table):
            name = f"{RESULTS_FOLDER}/{table}/{path.name}"
            current[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            if published.get(name) != current[name]:
                store.write_file(name, path)
                copied.append(name)
    if current != published:
        store.write(MANIFEST, json.dumps(current, indent=1).encode())
    return tuple(copied)


def load_published(url: str) -> Results:
    """Load the results of an experiment from the store to which its runs have copied them.

    Raises:
        StoreError: The store cannot be reached, or holds no results.
        UsageError: The URL has an unknown scheme, or the extra `cluster` is not installed.
    """
    results = PublishedResults(ObjectStore(url))
    if not results.files:
        raise StoreError(f"no results in the store {url!r}; a run with `store` set to this URL copies them there when it ends")
    return results


class PublishedResults(Results):
    """Results of one experiment that are read from a store."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(Path(store.url))
        self._store = store

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Names of the Parquet files of all tables."""
        return tuple(sorted(_read_manifest(self._store)))

    def _open_connection(self) -> "duckdb.DuckDBPyConnection":
        connection = super()._open_connection()
        connection.register_filesystem(self._store.file_system)
        return connection

    def _register(self, name: str) -> None:
        quoted = ", ".join("'" + self._find_address(file).replace("'", "''") + "'" for file in self._list_table(name))
        self._connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{quoted}])")
        self._registered.add(name)

    def _find_address(self, file: str) -> str:
        """Return the address by which DuckDB asks the registered file system for a file."""
        return str(self._store.file_system.unstrip_protocol(self._store.find_path(file)))

    def _load_frame(self, name: str, column_names: Sequence[str] | None = None) -> pd.DataFrame:
        return self._convert_table(name, (), column_names)

    def _load_table(self, name: str) -> pa.Table:
        if name not in self._tables:
            tables = []
            for file in self._list_table(name):
                with self._store.open(file) as content:
                    tables.append(pq.read_table(content).replace_schema_metadata())
            self._tables[name] = pa.concat_tables(tables)
        return self._tables[name]

    def _list_table(self, name: str) -> list[str]:
        return [file for file in self.files if file.startswith(f"{RESULTS_FOLDER}/{name}/")]


def _read_manifest(store: ObjectStore) -> dict[str, str]:
    content = store.read(MANIFEST)
    if content is None:
        return {}
    try:
        files: dict[str, str] = json.loads(content)
    except ValueError as error:
        raise StoreError(f"the list of results in the store {store.url!r} is damaged: {error}") from error
    return files
