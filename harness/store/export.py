"""Parquet files of the six tables, written beside a journal so that reading takes no time."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import StoreError
from harness.store.columns import TABLES
from harness.store.files import replace_file
from harness.store.journal import Journal
from harness.store.tables import build_schema, read_batches

_STATE = b"journal"


def export(journal_path: Path, results_dir: Path) -> tuple[Path, ...]:
    """Write the tables of a journal as Parquet; each file is replaced in one go.

    Returns:
        The files, in the order of `TABLES`.

    Raises:
        StoreError: the journal cannot be read or the folder cannot be written.
    """
    with Journal.open(journal_path, read_only=True) as journal:
        try:
            results_dir.mkdir(parents=True, exist_ok=True)
            return tuple([_write(journal, name, results_dir / f"{name}.parquet") for name in TABLES])
        except OSError as error:
            raise StoreError(f"cannot write results in {str(results_dir)!r}: {error}; free space or name another") from error


def _write(journal: Journal, name: str, path: Path) -> Path:
    schema = build_schema(TABLES[name]).with_metadata({_STATE: compute_journal_state(journal)})
    with replace_file(path) as unfinished, pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for table in read_batches(journal, name):
            writer.write_table(table.cast(schema))
    return path


def compute_journal_state(journal: Journal) -> bytes:
    """What a journal holds in a few bytes: equal as long as nothing was added."""
    rows = journal.query(
        """SELECT count(*), coalesce(max(key), 0), coalesce(sum((SELECT max(seq) FROM event WHERE session = key)), 0),
        (SELECT coalesce(max(revision), 0) FROM trial) FROM session"""
    )
    return ".".join(map(str, rows[0])).encode()


def read_exported_state(path: Path, name: str) -> bytes | None:
    """The state of the journal that a Parquet file was written from; None when there is no such file or it is of no use.

    Args:
        path: of the file.
        name: of the table; a file with other columns was written by another version.
    """
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowInvalid):
        return None
    state: bytes | None = (schema.metadata or {}).get(_STATE)
    return state if schema.names == [column.name for column in TABLES[name]] else None
