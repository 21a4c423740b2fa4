"""Functions that read the six tables of results from a journal in batches, and export them to Parquet files.

Each table is exported to several files, one for each block of sessions (or of trials) with consecutive keys. A file also holds a
digest of the data from which its rows were computed. By this digest, an export rewrites only files that are missing or outdated.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.conversation.messages import PART_TEXTS
from harness.conversation.tokens import compute_cache_hits
from harness.errors import NewerVersion, StoreError
from harness.store.block_states import BlockStates, compute_states, find_block
from harness.store.columns import SOURCES, TABLES, TEXT_MARK, Column, build_select
from harness.store.database import replace_file
from harness.store.journal import Journal
from harness.store.log import load_texts
from harness.store.texts import parse_stored
from harness.text import replace_surrogates

BATCH_SIZE = 50
"""Number of sessions or trials whose rows are read at once."""
_STATE, _OLD_STATE = b"block", b"journal"
"""Keys in the metadata of a Parquet file under which the digest of its source data is stored: now, and in older versions."""
_ARROW: dict[str, Any] = {
    "str": pa.string(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int64": pa.int64(),
    "Int64": pa.int64(),
    "float64": pa.float64(),
    "datetime64[ms, UTC]": pa.timestamp("ms", tz="UTC"),
}


class TableReader:
    """Reader of the tables of results from an open journal.

    The rows of `trials` and `checks` belong to trials, the rows of the other tables to sessions. Rows are read in the order of
    the integer keys of trials or sessions.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        rows = journal.query("SELECT session_id, trial_id FROM trial")
        self._trial_ids: dict[str, str] = {row[0]: row[1] for row in rows}

    def list_keys(self, name: str, skip: frozenset[str] = frozenset()) -> list[int]:
        """Return the keys of all sessions (or trials) with rows in a table, except those with ids in `skip`."""
        sql = {"session": "SELECT key, id FROM session ORDER BY 1", "trial": "SELECT revision, trial_id FROM trial ORDER BY 1"}
        return [key for key, owner_id in self._journal.query(sql[SOURCES[name].owner]) if owner_id not in skip]

    def read_batches(self, name: str, keys: Sequence[int]) -> Iterator[pa.Table]:
        """Yield a table's rows for the sessions or trials with the given keys, in batches.

        There is at least one batch, which may be empty.
        """
        sql = build_select(name)
        for start in range(0, max(len(keys), 1), BATCH_SIZE):
            yield self._build_table(name, self._journal.query(sql, json.dumps(keys[start : start + BATCH_SIZE])))

    def _build_table(self, name: str, rows: Sequence[Sequence[Any]]) -> pa.Table:
        columns = TABLES[name]
        values = list(zip(*rows, strict=True)) or [()] * len(columns)
        values_by_name: dict[str, Sequence[Any]] = {column.name: given for column, given in zip(columns, values, strict=True)}
        if SOURCES[name].owner == "session":
            values_by_name["trial_id"] = [self._trial_ids.get(session_id) for session_id in values_by_name["session_id"]]
        if name == "trials":
            values_by_name |= _compute_cache_hits(values_by_name)
        if name == "compactions":
            values_by_name |= _load_summaries(self._journal, values_by_name)
        if name == "messages":
            values_by_name |= _load_contents(self._journal, values_by_name)
        arrays = [_build_array(column, values_by_name[column.name]) for column in columns]
        return pa.Table.from_arrays(arrays, schema=build_schema(columns))


def read_batches(journal: Journal, name: str, skip: frozenset[str] = frozenset()) -> Iterator[pa.Table]:
    """Yield the rows of one table of results as Arrow tables, in batches; there is at least one batch.

    Args:
        journal: Journal to read.
        name: Name of the table of results, such as `steps`.
        skip: Ids to leave out, because they were read from another file: for `trials` and `checks` ids of trials, else of
            sessions.
    """
    reader = TableReader(journal)
    yield from reader.read_batches(name, reader.list_keys(name, skip))


def _build_array(column: Column, values: Sequence[Any]) -> pa.Array:
    kind = _ARROW[column.dtype]
    if column.dtype in {"bool", "boolean"}:
        return pa.array([value if value is None else bool(value) for value in values], kind)
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # the values have lone surrogates, which Parquet cannot hold
        return pa.array([value and replace_surrogates(value) for value in values], kind)


def build_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema with the name and type of each given column of results."""
    return pa.schema([(column.name, _ARROW[column.dtype]) for column in columns])


_CACHE_COLUMNS = ("cache_read_tokens", "cache_write_tokens", "prompt_tokens", "kept_prefix_tokens", "view_tokens", "price_rule")


def _compute_cache_hits(values_by_name: dict[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the columns of the table of trials that say which share of the prompt tokens came from a cache."""
    hits = [
        compute_cache_hits(
            read_tokens=read or 0,
            write_tokens=written or 0,
            prompt_tokens=prompt,
            kept_prefix_tokens=kept or 0,
            view_tokens=view or 0,
            has_price_rule=bool(rule),
        )
        for read, written, prompt, kept, view, rule in zip(*(values_by_name[name] for name in _CACHE_COLUMNS), strict=True)
    ]
    return {
        "cache_hit_share": [hit.share for hit in hits],
        "cache_hits_simulated": [None if hit.share is None else hit.is_simulated for hit in hits],
    }


def _load_summaries(journal: Journal, values_by_name: dict[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the column `summary` of the table of compactions, with references to long texts replaced by the texts.

    The query marks texts by a first character, so that no text can pass for a reference.
    """
    marked = values_by_name["summary"]
    summaries = [summary.removeprefix(TEXT_MARK) for summary in marked]
    references = {index: summary for index, summary in enumerate(marked) if not summary.startswith(TEXT_MARK)}
    texts = load_texts(journal.database, references.values())
    for index, reference in references.items():
        summaries[index] = parse_stored(reference, texts)
    return {"summary": summaries}


def _load_contents(journal: Journal, values_by_name: dict[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    bodies = values_by_name["content"]
    parts_by_body = {body: json.loads(body)["parts"] for body in set(bodies)}
    texts = load_texts(journal.database, parts_by_body)
    read = {body: _read_parts(parts, texts) for body, parts in parts_by_body.items()}
    contents, tools, characters, sizes = zip(*[read[body] for body in bodies], strict=True) if bodies else ((), (), (), ())
    return {
        "content": contents,
        "characters": [len(content) for content in contents],
        "tool": tools,
        "clipped_characters": characters,
        "clipped_bytes": sizes,
        "is_compacted": [step is not None for step in values_by_name["compacted_before_step"]],
    }


def _read_parts(parts: Sequence[dict[str, Any]], texts: dict[str, str]) -> tuple[str, str, int, int | None]:
    """Return a message's text, its first tool, and the numbers of characters and bytes cut from its tool outputs.

    The number of bytes is None if version 0.2 or older, which did not count them, cut an output.
    """
    content = "\n".join([_extract_part_text(part, texts) for part in parts])
    tool = next((part["name"] for part in parts if "call_id" in part), "")
    cuts = [(part["clipped_characters"], part.get("clipped_bytes", 0)) for part in parts if part.get("clipped_characters")]
    is_measured = all(size_bytes for _, size_bytes in cuts)
    return content, tool, sum(characters for characters, _ in cuts), sum(size for _, size in cuts) if is_measured else None


def _extract_part_text(part: dict[str, Any], texts: dict[str, str]) -> str:
    """Return the text of a stored message part; `texts` holds long texts by address (hash)."""
    names, separator = PART_TEXTS[part["kind"]]
    return separator.join([value if isinstance(value := part[name], str) else texts[value["address"]] for name in names])


def export(journal_path: Path, results_dir: Path) -> tuple[Path, ...]:
    """Write the tables of results in a journal as Parquet files, and delete files of sessions that no longer exist.

    Only files that are missing or outdated are written. Each file is replaced in one step.

    Args:
        journal_path: Journal file.
        results_dir: Folder for the results, created if needed, with a folder of Parquet files for each table.

    Returns:
        Paths of the files that were written, in the order of `TABLES`.

    Raises:
        StoreError: The journal cannot be read, or the folder cannot be written.
    """
    with Journal.open(journal_path, read_only=True) as journal:
        try:
            return tuple(_export_tables(journal, results_dir))
        except OSError as error:
            raise StoreError(
                f"cannot write results to {str(results_dir)!r}: {error}; free some space or specify another folder"
            ) from error


def _export_tables(journal: Journal, results_dir: Path) -> Iterator[Path]:
    reader = TableReader(journal)
    for name, states in compute_states(journal).items():
        folder = results_dir / name
        folder.mkdir(parents=True, exist_ok=True)
        written_states = read_states(results_dir, name)
        outdated = {block for block, state in states.items() if written_states.get(block) != state}
        if outdated:
            for block, keys in groupby(reader.list_keys(name) or [0], key=find_block):
                if block in outdated:
                    yield _write_block(reader, name, list(keys), states[block], _locate_block(folder, block))
        current = {_locate_block(folder, block) for block in states}
        for path in [path for path in folder.iterdir() if path not in current and not path.is_dir()]:
            path.unlink(missing_ok=True)
        locate_old_file(results_dir, name).unlink(missing_ok=True)


def _write_block(reader: TableReader, name: str, keys: Sequence[int], state: bytes, path: Path) -> Path:
    schema = build_schema(TABLES[name]).with_metadata({_STATE: state})
    with replace_file(path) as unfinished, pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        tables = reader.read_batches(name, keys)
        for table in tables if name == "messages" else [pa.concat_tables(tables)]:  # the texts of all messages need much memory
            writer.write_table(table.cast(schema))
    return path


def _locate_block(folder: Path, block: int) -> Path:
    return folder / f"{block:06d}.parquet"


def locate_old_file(results_dir: Path, name: str) -> Path:
    """Return the path of the single Parquet file of a table that version 0.2 and older versions exported."""
    return results_dir / f"{name}.parquet"


def list_files(results_dir: Path, name: str) -> list[Path]:
    """Return the paths of the Parquet files of a table of results, in the order of their rows; other files are ignored."""
    return sorted(path for path in (results_dir / name).glob("*.parquet") if path.stem.isdecimal() and path.is_file())


def read_states(results_dir: Path, name: str) -> BlockStates:
    """Return for each Parquet file of a table the digest of the data from which it was written.

    Files that are unreadable or have other columns than the table are left out.
    """
    states = {int(path.stem): read_metadata(path, name).get(_STATE) for path in list_files(results_dir, name)}
    return {block: state for block, state in states.items() if state is not None}


def read_metadata(path: Path, name: str) -> Mapping[bytes, bytes]:
    """Return the metadata of a Parquet file; empty if it is missing, unreadable or has columns that the table does not have.

    A file of an older version may lack columns, which `complete_table` adds.
    """
    schema = _read_schema(path)
    return (schema.metadata or {}) if set(schema.names) <= {column.name for column in TABLES[name]} else {}


def read_column_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file; none if it is missing or unreadable."""
    return tuple(_read_schema(path).names)


def _read_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowInvalid):
        return pa.schema([])


def complete_table(table: pa.Table, name: str) -> pa.Table:
    """Return the content of a Parquet file with all columns of a table; columns that the file lacks have missing values."""
    columns = TABLES[name]
    arrays = [
        table[column.name] if column.name in table.column_names else pa.nulls(len(table), _ARROW[column.dtype])
        for column in columns
    ]
    return pa.table(arrays, names=[column.name for column in columns])


def refuse_newer_columns(names: Iterable[str], table: str, file: str) -> None:
    """Check that a file of results has no columns that its table lacks.

    Args:
        names: Names of the columns in the file.
        table: Name of the table.
        file: Name of the file for the error message.

    Raises:
        NewerVersion: The file has unknown columns, because a newer version of this package wrote it.
    """
    if unknown := sorted(set(names) - {column.name for column in TABLES[table]}):
        raise NewerVersion(
            f"{file!r} was written by a newer version of harness, whose table {table!r} has columns that this version does not "
            f"know ({', '.join(unknown)}); update harness"
        )


def has_all_columns(path: Path, name: str) -> bool:
    """Return whether a Parquet file has all columns of a table, unlike a file that an older version wrote."""
    return set(pq.read_schema(path).names) >= {column.name for column in TABLES[name]}


def is_old_file_current(path: Path, name: str, journal: Journal | None) -> bool:
    """Return whether a Parquet file of an older version has a table's columns and is as new as the journal.

    Without a journal, the file counts even if columns are missing.
    """
    if journal is not None and not has_all_columns(path, name):
        return False
    state = read_metadata(path, name).get(_OLD_STATE)
    return state is not None and (journal is None or state == _compute_old_state(journal))


def _compute_old_state(journal: Journal) -> bytes:
    rows = journal.query(
        """SELECT count(*), coalesce(max(key), 0), coalesce(sum((SELECT max(seq) FROM event WHERE session = key)), 0),
        (SELECT coalesce(max(revision), 0) FROM trial) FROM session"""
    )
    return ".".join(map(str, rows[0])).encode()
