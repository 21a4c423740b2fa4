"""Functions that read the six tables of results from a journal, in batches of sessions, and export them to Parquet files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import StoreError
from harness.messages import PART_TEXTS
from harness.store.columns import TABLES, Column, build_select
from harness.store.database import replace_file
from harness.store.journal import Journal
from harness.store.log import load_texts
from harness.store.texts import attach_texts
from harness.text import replace_surrogates

SESSIONS_A_BATCH = 50
_STATE = b"journal"
_ARROW: dict[str, Any] = {
    "str": pa.string(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int64": pa.int64(),
    "Int64": pa.int64(),
    "float64": pa.float64(),
    "datetime64[ms, UTC]": pa.timestamp("ms", tz="UTC"),
}


def read_batches(journal: Journal, name: str, skip: frozenset[str] = frozenset()) -> Iterator[pa.Table]:
    """Yield the rows of one table of results as Arrow tables, in batches of sessions; there is at least one batch.

    Args:
        journal: Journal to read.
        name: Name of the table of results, such as `steps`.
        skip: Ids of sessions to leave out, because they were read from another file; for `trials` and `checks`, ids of trials.
    """
    sql = build_select(name)
    if name in {"trials", "checks"}:
        yield _build_table(journal, name, [row for row in journal.query(sql) if row[0] not in skip])
        return
    keys = [row[0] for row in journal.query("SELECT key, id FROM session ORDER BY key") if row[1] not in skip]
    trial_ids = {row[0]: row[1] for row in journal.query("SELECT session_id, trial_id FROM trial")}
    for start in range(0, max(len(keys), 1), SESSIONS_A_BATCH):
        yield _build_table(journal, name, journal.query(sql, json.dumps(keys[start : start + SESSIONS_A_BATCH])), trial_ids)


def _build_table(
    journal: Journal, name: str, rows: Sequence[Sequence[Any]], trial_ids: Mapping[str, str] | None = None
) -> pa.Table:
    """Return rows of a table of results as an Arrow table.

    Args:
        journal: journal from which the rows were read.
        name: name of the table of results.
        rows: rows as they were read by the SQL of the table's columns.
        trial_ids: ids of the trials by the ids of their sessions; None if the rows hold the ids of their trials themselves.
    """
    columns = TABLES[name]
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    values_by_name: dict[str, Sequence[Any]] = {column.name: given for column, given in zip(columns, values, strict=True)}
    if trial_ids is not None:
        values_by_name["trial_id"] = [trial_ids.get(session_id) for session_id in values_by_name["session_id"]]
    if name == "compactions":
        values_by_name |= _load_summaries(journal, values_by_name)
    if name == "messages":
        values_by_name |= _load_contents(journal, values_by_name)
    arrays = [_build_array(column, values_by_name[column.name]) for column in columns]
    return pa.Table.from_arrays(arrays, schema=build_schema(columns))


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


def _load_summaries(journal: Journal, values_by_name: dict[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the column `summary` of the table of compactions with the full texts, which the journal stores separately."""
    summaries = list(values_by_name["summary"])
    references = {
        index: json.loads(summary)
        for index, (summary, characters) in enumerate(zip(summaries, values_by_name["summary_characters"], strict=True))
        if len(summary) != characters and summary.startswith('{"address":')
    }
    texts = load_texts(journal.database, list(references.values()))
    for index, reference in references.items():
        summaries[index] = attach_texts(reference, texts)
    return {"summary": summaries}


def _load_contents(journal: Journal, values_by_name: dict[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the columns of the table of messages that are computed from the stored messages, such as their text and length."""
    bodies = values_by_name["content"]
    parts_by_body = {body: json.loads(body)["parts"] for body in set(bodies)}
    texts = load_texts(journal.database, [parts for body, parts in parts_by_body.items() if '"address"' in body])
    read = {body: _read_parts(parts, texts) for body, parts in parts_by_body.items()}
    contents, tools, clipped = zip(*[read[body] for body in bodies], strict=True) if bodies else ((), (), ())
    return {
        "content": contents,
        "characters": [len(content) for content in contents],
        "tool": tools,
        "clipped_characters": clipped,
        "is_compacted": [step is not None for step in values_by_name["compacted_before_step"]],
    }


def _read_parts(parts: Sequence[dict[str, Any]], texts: dict[str, str]) -> tuple[str, str, int]:
    """Return the text of a message, the tool of its first call or result, and the number of characters cut from tool outputs."""
    content = "\n".join([_extract_part_text(part, texts) for part in parts])
    tool = next((part["name"] for part in parts if "call_id" in part), "")
    return content, tool, sum(part.get("clipped_characters", 0) for part in parts)


def _extract_part_text(part: dict[str, Any], texts: dict[str, str]) -> str:
    """Return the text of a stored message part as a model reads it; `texts` holds long texts by address (hash)."""
    names, separator = PART_TEXTS[part["kind"]]
    return separator.join([value if isinstance(value := part[name], str) else texts[value["address"]] for name in names])


def export(journal_path: Path, results_dir: Path) -> tuple[Path, ...]:
    """Write the tables of results in a journal as Parquet files, each of which is replaced in one step.

    Args:
        journal_path: Journal file.
        results_dir: Folder for the Parquet files; it is created if needed.

    Returns:
        Paths of the files, in the order of `TABLES`.

    Raises:
        StoreError: The journal cannot be read, or the folder cannot be written.
    """
    with Journal.open(journal_path, read_only=True) as journal:
        try:
            results_dir.mkdir(parents=True, exist_ok=True)
            return tuple([_write(journal, name, results_dir / f"{name}.parquet") for name in TABLES])
        except OSError as error:
            raise StoreError(
                f"cannot write results to {str(results_dir)!r}: {error}; free some space or specify another folder"
            ) from error


def _write(journal: Journal, name: str, path: Path) -> Path:
    schema = build_schema(TABLES[name]).with_metadata({_STATE: compute_journal_state(journal)})
    with replace_file(path) as unfinished, pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for table in read_batches(journal, name):
            writer.write_table(table.cast(schema))
    return path


def compute_journal_state(journal: Journal) -> bytes:
    """Return a short fingerprint of a journal's contents, which changes when events, sessions or trials are added."""
    rows = journal.query(
        """SELECT count(*), coalesce(max(key), 0), coalesce(sum((SELECT max(seq) FROM event WHERE session = key)), 0),
        (SELECT coalesce(max(revision), 0) FROM trial) FROM session"""
    )
    return ".".join(map(str, rows[0])).encode()


def read_exported_state(path: Path, name: str) -> bytes | None:
    """Return the fingerprint of the journal from which a Parquet file of results was written.

    Args:
        path: Parquet file to read.
        name: Name of the table of results that the file should hold, such as `steps`.

    Returns:
        The fingerprint, or None if the file is missing, unreadable or has other columns than the table.
    """
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowInvalid):
        return None
    state: bytes | None = (schema.metadata or {}).get(_STATE)
    return state if schema.names == [column.name for column in TABLES[name]] else None
