"""Copies of the Parquet files of a run in a store that several machines reach; `harness.store.results` reads them.

A list in the store (the manifest) names the files and their digests, so that a run copies only files that have changed. The list
is written last, so every file that it names exists.
"""

import hashlib
import json
from pathlib import Path

from harness.files.object_store import ObjectStore
from harness.store.columns import TABLES
from harness.store.results import MANIFEST, RESULTS_FOLDER, read_manifest
from harness.store.tables import list_files


def publish_tables(results_dir: Path, store: ObjectStore) -> tuple[str, ...]:
    """Copy the Parquet files that have changed to a store, and return the names of the copied files.

    Args:
        results_dir: Folder with a folder of Parquet files for each table.
        store: Store of the run.

    Raises:
        StoreError: The store cannot be reached or written.
    """
    published, current = read_manifest(store), dict[str, str]()
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
