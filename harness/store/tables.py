"""The five tables of results, read from journal files into Arrow, a batch of sessions at a time."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from harness.store.columns import TABLES, Column
from harness.store.journal import Journal
from harness.store.log import texts_of
from harness.store.texts import attached

SESSIONS_A_BATCH = 50
_ARROW: dict[str, Any] = {
    "str": pa.string(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "Int64": pa.int64(),
    "float64": pa.float64(),
    "datetime64[ms, UTC]": pa.timestamp("ms", tz="UTC"),
}

Rows: TypeAlias = Sequence[Sequence[Any]]

_TRIALS = """
    SELECT trial_id, session_id, experiment, arm, task, seed, replicate, model, policy, policy_json, config_json, axes_json,
      window_tokens, threshold_tokens, max_steps, level, status, reason, success, score, steps, compactions, prompt_tokens,
      output_tokens, cost_usd, summarizer_prompt_tokens, summarizer_output_tokens, summarizer_cost_usd, peak_context_tokens,
      treatment, sandbox, started_at_ms, wall_seconds, error, traceback, provenance_json
    FROM trial ORDER BY revision"""
_CHECKS = """SELECT trial_id, "check", title, passed, detail FROM "check" ORDER BY trial_id, "check" """
_NAMES = "session AS s LEFT JOIN trial AS r ON r.session_id = s.id"
_IN = "s.key IN (SELECT value FROM json_each(?))"
_STEPS = f"""
    SELECT r.trial_id, s.id, t.step,
      (SELECT count(*) FROM compaction AS c WHERE c.session = t.session AND c.status = 'applied' AND c.seq < t.seq),
      t.view_tokens, t.view_messages, t.input_tokens + t.cache_read_tokens + t.cache_write_tokens, t.input_tokens,
      t.output_tokens, t.reasoning_tokens, t.cache_read_tokens, t.cache_write_tokens, t.cost_usd, t.request_digest,
      t.kept_prefix_messages, t.kept_prefix_tokens, t.calls, t.call_errors, t.model_seconds, t.tool_seconds, e.at_ms
    FROM {_NAMES} JOIN step AS t ON t.session = s.key JOIN event AS e ON e.session = t.session AND e.seq = t.seq
    WHERE {_IN} ORDER BY s.key, t.seq"""
_COMPACTIONS = f"""
    SELECT r.trial_id, s.id, c.seq, c.round, c.step, c.moment, c.status, c.reason, c.tokens_before, c.tokens_after,
      c.messages_before, c.messages_after, c.forgotten, c.replaced, c.inserted, json_extract(e.body, '$.summary'),
      c.summary_characters, c.summarizer,
      c.summarizer_input_tokens + c.summarizer_cache_read_tokens + c.summarizer_cache_write_tokens,
      c.summarizer_output_tokens, c.summarizer_cost_usd, c.summarizer_seconds, e.at_ms
    FROM {_NAMES} JOIN compaction AS c ON c.session = s.key JOIN event AS e ON e.session = c.session AND e.seq = c.seq
    WHERE {_IN} ORDER BY s.key, c.seq"""
_MESSAGES = f"""
    SELECT r.trial_id, s.id, i.sequence, i.seq, coalesce(e.step, 0), i.role,
      CASE WHEN e.kind = 'message-added' THEN 'added' WHEN i.seq = i.item THEN 'inserted' ELSE 'replacement' END,
      i.tokens, (SELECT min(g.seq) FROM retired AS g
        WHERE g.session = i.session AND g.item = i.item AND g.slot = i.slot AND g.seq > i.seq) AS gone,
      i.place, e.at_ms, iif(e.role IS NOT NULL, e.body, json_extract(e.body, i.path))
    FROM {_NAMES} JOIN item AS i ON i.session = s.key JOIN event AS e ON e.session = i.session AND e.seq = i.seq
    WHERE {_IN} ORDER BY s.key, i.sequence"""


def batches(journal: Journal, name: str, skip: frozenset[str] = frozenset()) -> Iterator[pa.Table]:
    """The rows of one table, at least one batch.

    Args:
        journal: open for reading.
        name: one of `TABLES`.
        skip: sessions (of `trials` and `checks`: trials) that were read from another file already.
    """
    columns = TABLES[name]
    if name in {"trials", "checks"}:
        rows = journal.rows(_TRIALS if name == "trials" else _CHECKS)
        yield _arrow(columns, [row for row in rows if row[0] not in skip])
        return
    read = _READERS[name]
    keys = [row[0] for row in journal.rows("SELECT key, id FROM session ORDER BY key") if row[1] not in skip]
    for start in range(0, max(len(keys), 1), SESSIONS_A_BATCH):
        yield _arrow(columns, read(journal, json.dumps(keys[start : start + SESSIONS_A_BATCH])))


def _arrow(columns: Sequence[Column], rows: Rows) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    schema = schema_of(columns)
    return pa.Table.from_arrays(
        [_array(column, given) for column, given in zip(columns, values, strict=True)],
        schema=schema,
    )


def _array(column: Column, values: Sequence[Any]) -> pa.Array:
    kind = _ARROW[column.dtype]
    if column.dtype == "bool":
        return pa.array([bool(value) for value in values], kind)
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # lone surrogates, which Parquet cannot hold
        return pa.array([value and value.encode("utf-8", "replace").decode() for value in values], kind)


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of some columns."""
    return pa.schema([(column.name, _ARROW[column.dtype]) for column in columns])


def _steps(journal: Journal, keys: str) -> Rows:
    return journal.rows(_STEPS, keys)


def _compactions(journal: Journal, keys: str) -> Rows:
    rows = [list(row) for row in journal.rows(_COMPACTIONS, keys)]
    at = [column.name for column in TABLES["compactions"]].index("summary")
    stored = {index: json.loads(row[at]) for index, row in enumerate(rows) if _is_address(row[at], row[at + 1])}
    texts = texts_of(journal.database, list(stored.values()))
    for index, reference in stored.items():
        rows[index][at] = attached(reference, texts)
    return rows


def _is_address(shown: str, characters: int) -> bool:
    """Whether `json_extract` gave a reference: then its length is not that of the summary."""
    return len(shown) != characters and shown.startswith('{"address":')


def _messages(journal: Journal, keys: str) -> Rows:
    rows = journal.rows(_MESSAGES, keys)
    steps = _steps_of_compactions(journal, keys)
    stored = [json.loads(row[11])["parts"] for row in rows]
    texts = texts_of(journal.database, [parts for parts, row in zip(stored, rows, strict=True) if '"address"' in row[11]])
    result = []
    for row, parts in zip(rows, stored, strict=True):
        content = "\n".join([_part_text(part, texts) for part in parts])
        tool = next((part["name"] for part in parts if "call_id" in part), "")
        gone = row[8] is not None
        gone_before = steps[row[1], row[8]] if gone else None
        result.append((*row[:7], tool, row[7], len(content), gone, gone_before, row[9], row[10], content))
    return result


def _steps_of_compactions(journal: Journal, keys: str) -> dict[tuple[str, int], int]:
    sql = f"SELECT s.id, c.seq, c.step FROM session AS s JOIN compaction AS c ON c.session = s.key WHERE {_IN}"
    return {(session_id, seq): step for session_id, seq, step in journal.rows(sql, keys)}


_FIELDS: dict[str, tuple[tuple[str, ...], str]] = {
    "tool-call": (("name", "arguments_json"), " "),
    "tool-result": (("output",), ""),
    "file": (("path", "content"), "\n"),
    "subtask": (("prompt", "answer"), "\n"),
}


def _part_text(part: dict[str, Any], texts: dict[str, str]) -> str:
    """As `harness.messages.part_text`, off the stored form."""
    names, between = _FIELDS.get(part["kind"], (("text",), ""))
    return between.join([value if isinstance(value := part[name], str) else texts[value["address"]] for name in names])


_READERS: dict[str, Callable[[Journal, str], Rows]] = {"steps": _steps, "compactions": _compactions, "messages": _messages}
