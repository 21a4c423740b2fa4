"""The six tables of results, read from journal files into Arrow, a batch of sessions at a time."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import pyarrow as pa

from harness.store.columns import TABLES, Column
from harness.store.journal import Journal
from harness.store.log import load_texts
from harness.store.records import TrialRecord
from harness.store.sessions.views import build_undone_sql
from harness.store.texts import attach_texts

SESSIONS_A_BATCH = 50
_ARROW: dict[str, Any] = {
    "str": pa.string(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int64": pa.int64(),
    "Int64": pa.int64(),
    "float64": pa.float64(),
    "datetime64[ms, UTC]": pa.timestamp("ms", tz="UTC"),
}

Rows: TypeAlias = Sequence[Sequence[Any]]

_FLAGS = ("executions", "retrievals", "failures", "repeats", "redundant", "reacquisitions")
_TRIAL_FIELDS = tuple(field.name for field in fields(TrialRecord))
_SUMS = (*_FLAGS, "reacquired_tokens", "reacquired_steps")


def _build_count_columns(table: str, *names: str, form: str = "coalesce({0}, 0)") -> str:
    """SQL for counts of `step_conduct`, which leaves out steps without calls: 0 there, NULL where nobody watched."""
    shown = (form.format(f"{table}.{name}") for name in names)
    return ", ".join(f"CASE WHEN k.session IS NOT NULL THEN {one} END" for one in shown)


def _build_sum_columns(*sums: str) -> str:
    """SQL for sums over a session's events: 0 where there is none, NULL where there is no session."""
    return ", ".join(f"CASE WHEN s.key IS NOT NULL THEN coalesce({one}, 0) END" for one in sums)


_MESSAGE_SUMS = """SELECT session, count(*) AS messages, sum(role = 'user') AS turns
        FROM event WHERE role IS NOT NULL GROUP BY session"""
_CUT_SUMS = """SELECT e.session, count(*) AS outputs, sum(json_extract(p.value, '$.clipped_characters')) AS characters
        FROM event AS e JOIN json_each(e.body, '$.parts') AS p
        WHERE e.role = 'tool' AND json_extract(p.value, '$.clipped_characters') > 0 GROUP BY e.session"""
_COMPACTION_SUMS = """SELECT session, min(iif(status = 'applied', step, NULL)) AS first_step,
          sum(status = 'applied' AND inserted = 0) AS prunings,
          sum(iif(status = 'applied' AND inserted = 0, tokens_before - tokens_after, 0)) AS pruned_tokens,
          sum(iif(status = 'applied' AND inserted = 0, wall_seconds, NULL)) AS prune_seconds,
          sum(status = 'applied' AND inserted > 0) AS summaries,
          sum(status = 'applied' AND moment = 'overflow') AS emergencies,
          sum(status <> 'applied') AS fruitless, sum(summarizer_seconds) AS seconds
        FROM compaction GROUP BY session"""
_STEP_SUMS = """SELECT session, sum(cache_read_tokens) AS read_tokens, sum(cache_write_tokens) AS write_tokens
        FROM step GROUP BY session"""
_TRIALS = f"""
    SELECT {", ".join(f"r.{name}" for name in _TRIAL_FIELDS)},
      r.prompt_tokens * 1.0 / nullif(r.steps, 0),
      c.first_step,
      {_build_count_columns("t", *_FLAGS, "reacquired_tokens")},
      t.reacquired_steps * 1.0 / nullif(t.reacquisitions, 0),
      k.evicted_tokens, k.close_compactions + k.full_compactions + k.evicted_again > 0, k.close_compactions,
      k.full_compactions, k.evicted_again, coalesce(t.reacquired_tokens, 0) * 1.0 / nullif(k.evicted_tokens, 0),
      k.repeated_dead_ends, k.loop_rule, k.loop_onset_step, k.loop_after_steps,
      k.fact_uses, k.wrong_uses, k.stale_uses, k.constraint_violations,
      {_build_sum_columns("m.turns", "m.messages", "o.outputs", "o.characters")},
      {_build_sum_columns("c.prunings", "c.pruned_tokens")}, c.prune_seconds,
      {_build_sum_columns("c.summaries", "c.emergencies", "c.fruitless", "c.seconds")},
      {_build_sum_columns("p.read_tokens", "p.write_tokens")}, p.read_tokens * 1.0 / nullif(r.prompt_tokens, 0)
    FROM trial AS r LEFT JOIN session AS s ON s.id = r.session_id LEFT JOIN conduct AS k ON k.session = s.key
      LEFT JOIN (SELECT session, {", ".join(f"sum({name}) AS {name}" for name in _SUMS)}
        FROM step_conduct GROUP BY session) AS t ON t.session = s.key
      LEFT JOIN ({_MESSAGE_SUMS}) AS m ON m.session = s.key LEFT JOIN ({_CUT_SUMS}) AS o ON o.session = s.key
      LEFT JOIN ({_COMPACTION_SUMS}) AS c ON c.session = s.key LEFT JOIN ({_STEP_SUMS}) AS p ON p.session = s.key
    ORDER BY r.revision"""
_CHECKS = """SELECT trial_id, "check", title, passed, detail FROM "check" ORDER BY trial_id, "check" """
_SESSION_JOIN = "session AS s LEFT JOIN trial AS r ON r.session_id = s.id"
_SESSION_FILTER = "s.key IN (SELECT value FROM json_each(?))"
_STEPS = f"""
    SELECT r.trial_id, s.id, t.step,
      (SELECT count(*) FROM compaction AS c WHERE c.session = t.session AND c.status = 'applied' AND c.seq < t.seq),
      t.view_tokens, t.view_messages, t.input_tokens + t.cache_read_tokens + t.cache_write_tokens, t.input_tokens,
      t.output_tokens, t.reasoning_tokens, t.cache_read_tokens, t.cache_write_tokens, t.cost_usd, t.request_digest,
      t.kept_prefix_messages, t.kept_prefix_tokens, t.calls, t.call_errors, t.model_seconds, t.tool_seconds, a.hits, a.misses,
      e.at_ms,
      {_build_count_columns("d", *_FLAGS, form="coalesce({0}, 0) > 0")}, {_build_count_columns("d", "reacquired_tokens")},
      d.reacquired_steps * 1.0 / nullif(d.reacquisitions, 0)
    FROM {_SESSION_JOIN} JOIN step AS t ON t.session = s.key JOIN event AS e ON e.session = t.session AND e.seq = t.seq
      LEFT JOIN conduct AS k ON k.session = s.key LEFT JOIN step_conduct AS d ON d.session = s.key AND d.step = t.step
      LEFT JOIN action AS a ON a.session = t.session AND a.step = t.step
    WHERE {_SESSION_FILTER} ORDER BY s.key, t.seq"""
_COMPACTIONS = f"""
    SELECT r.trial_id, s.id, c.seq, c.round, c.step, c.moment, c.status, c.reason, c.tokens_before, c.tokens_after,
      c.messages_before, c.messages_after, c.forgotten, c.replaced, c.inserted,
      coalesce(json_array_length(e.body, '$.offloaded'), 0), json_extract(e.body, '$.summary'), c.summary_characters,
      c.summarizer,
      c.summarizer_input_tokens + c.summarizer_cache_read_tokens + c.summarizer_cache_write_tokens,
      c.summarizer_output_tokens, c.summarizer_cost_usd, c.summarizer_seconds, c.wall_seconds, e.at_ms
    FROM {_SESSION_JOIN} JOIN compaction AS c ON c.session = s.key JOIN event AS e ON e.session = c.session AND e.seq = c.seq
    WHERE {_SESSION_FILTER} ORDER BY s.key, c.seq"""
_MESSAGES = f"""
    SELECT r.trial_id, s.id, i.sequence, i.seq, coalesce(e.step, 0), i.role,
      CASE WHEN e.kind = 'message-added' THEN 'added' WHEN i.seq = i.item THEN 'inserted' ELSE 'replacement' END,
      i.tokens, (SELECT min(o.seq) FROM (
          SELECT g.seq FROM retired AS g WHERE g.session = i.session AND g.item = i.item AND g.slot = i.slot AND g.seq > i.seq
            AND NOT {build_undone_sql("i.session", "g.seq")}
          UNION ALL SELECT b.seq FROM rollback AS b WHERE b.session = i.session AND b.to_event < i.seq AND b.seq > i.seq
        ) AS o) AS gone,
      i.place, e.at_ms, iif(e.role IS NOT NULL, e.body, json_extract(e.body, i.path))
    FROM {_SESSION_JOIN} JOIN item AS i ON i.session = s.key JOIN event AS e ON e.session = i.session AND e.seq = i.seq
    WHERE {_SESSION_FILTER} ORDER BY s.key, i.sequence"""

_PROBES = f"""
    SELECT r.trial_id, s.id, p.event, c.round, c.step, f.name, f.kind, f.said_in, f.reacquisition_calls, p.version,
      p.seen_before, p.seen_after, p.stands_after, p.used_step, p.used
    FROM {_SESSION_JOIN} JOIN probe AS p ON p.session = s.key JOIN fact AS f ON f.session = p.session AND f.number = p.fact
      JOIN compaction AS c ON c.session = p.session AND c.seq = p.event
    WHERE {_SESSION_FILTER} ORDER BY s.key, p.event, p.fact"""


def read_batches(journal: Journal, name: str, skip: frozenset[str] = frozenset()) -> Iterator[pa.Table]:
    """The rows of one table, at least one batch.

    Args:
        journal: open for reading.
        name: one of `TABLES`.
        skip: sessions (of `trials` and `checks`: trials) that were read from another file already.
    """
    columns = TABLES[name]
    if name in {"trials", "checks"}:
        rows = journal.query(_TRIALS if name == "trials" else _CHECKS)
        yield _build_table(columns, [row for row in rows if row[0] not in skip])
        return
    read = _READERS[name]
    keys = [row[0] for row in journal.query("SELECT key, id FROM session ORDER BY key") if row[1] not in skip]
    for start in range(0, max(len(keys), 1), SESSIONS_A_BATCH):
        yield _build_table(columns, read(journal, json.dumps(keys[start : start + SESSIONS_A_BATCH])))


def _build_table(columns: Sequence[Column], rows: Rows) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    schema = build_schema(columns)
    return pa.Table.from_arrays(
        [_build_array(column, given) for column, given in zip(columns, values, strict=True)],
        schema=schema,
    )


def _build_array(column: Column, values: Sequence[Any]) -> pa.Array:
    kind = _ARROW[column.dtype]
    if column.dtype in {"bool", "boolean"}:
        return pa.array([value if value is None else bool(value) for value in values], kind)
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # lone surrogates, which Parquet cannot hold
        return pa.array([value and value.encode("utf-8", "replace").decode() for value in values], kind)


def build_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of some columns."""
    return pa.schema([(column.name, _ARROW[column.dtype]) for column in columns])


def _read_steps(journal: Journal, keys: str) -> Rows:
    return journal.query(_STEPS, keys)


def _read_probes(journal: Journal, keys: str) -> Rows:
    return journal.query(_PROBES, keys)


def _read_compactions(journal: Journal, keys: str) -> Rows:
    rows = [list(row) for row in journal.query(_COMPACTIONS, keys)]
    summary_index = [column.name for column in TABLES["compactions"]].index("summary")
    stored = {
        index: json.loads(row[summary_index])
        for index, row in enumerate(rows)
        if _is_address(row[summary_index], row[summary_index + 1])
    }
    texts = load_texts(journal.database, list(stored.values()))
    for index, reference in stored.items():
        rows[index][summary_index] = attach_texts(reference, texts)
    return rows


def _is_address(shown: str, characters: int) -> bool:
    """Whether `json_extract` gave a reference: then its length is not that of the summary."""
    return len(shown) != characters and shown.startswith('{"address":')


def _read_messages(journal: Journal, keys: str) -> Rows:
    rows = journal.query(_MESSAGES, keys)
    steps = _find_compaction_steps(journal, keys)
    stored = {body: json.loads(body)["parts"] for body in {row[11] for row in rows}}  # sessions of one task share most of them
    texts = load_texts(journal.database, [parts for body, parts in stored.items() if '"address"' in body])
    contents_by_body = {body: _read_parts(parts, texts) for body, parts in stored.items()}
    result = []
    for row in rows:
        content, tool, cut = contents_by_body[row[11]]
        gone = row[8] is not None
        gone_before = steps[row[1], row[8]] if gone else None
        result.append((*row[:7], tool, row[7], len(content), cut, gone, gone_before, row[9], row[10], content))
    return result


def _read_parts(parts: Sequence[dict[str, Any]], texts: dict[str, str]) -> tuple[str, str, int]:
    """What a message says, the tool that it answers for, and how many characters of it were cut."""
    content = "\n".join([_extract_part_text(part, texts) for part in parts])
    tool = next((part["name"] for part in parts if "call_id" in part), "")
    return content, tool, sum(part.get("clipped_characters", 0) for part in parts)


def _find_compaction_steps(journal: Journal, keys: str) -> dict[tuple[str, int], int]:
    sql = f"""SELECT s.id, c.seq, c.step FROM session AS s JOIN compaction AS c ON c.session = s.key WHERE {_SESSION_FILTER}
        UNION ALL SELECT s.id, b.seq, e.step + 1 FROM session AS s JOIN rollback AS b ON b.session = s.key
          JOIN event AS e ON e.session = b.session AND e.seq = b.seq WHERE {_SESSION_FILTER}"""
    return {(session_id, seq): step for session_id, seq, step in journal.query(sql, keys, keys)}


_TEXT_FIELDS: dict[str, tuple[tuple[str, ...], str]] = {
    "tool-call": (("name", "arguments_json"), " "),
    "tool-result": (("output",), ""),
    "file": (("path", "content"), "\n"),
    "subtask": (("prompt", "answer"), "\n"),
}


def _extract_part_text(part: dict[str, Any], texts: dict[str, str]) -> str:
    """As `harness.messages.extract_part_text`, off the stored form."""
    names, between = _TEXT_FIELDS.get(part["kind"], (("text",), ""))
    return between.join([value if isinstance(value := part[name], str) else texts[value["address"]] for name in names])


_READERS: dict[str, Callable[[Journal, str], Rows]] = {
    "steps": _read_steps,
    "compactions": _read_compactions,
    "messages": _read_messages,
    "probes": _read_probes,
}
