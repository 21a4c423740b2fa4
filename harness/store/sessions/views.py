"""SQL that defines the views `sessions`, `messages`, `parts` and `compaction_events` of a journal."""

_PLAIN_TEXT_SQL = "iif(typeof(t.data) = 'text', t.data, t.head || '… [' || t.characters || ' characters in all, packed]')"
_WHOLE_TEXT_SQL = "unpacked(t.data)"


def _build_string_sql(holder: str, path: str, stored_text_sql: str) -> str:
    """Return SQL for the string at a path of a JSON value; the address of a long text is replaced by the text."""
    text_sql = f"(SELECT {stored_text_sql} FROM text AS t WHERE t.address = json_extract({holder}, '{path}.address'))"
    return f"coalesce({text_sql}, json_extract({holder}, '{path}'))"


def _build_part_text_sql(stored_text_sql: str) -> str:
    sql_by_field = {
        name: _build_string_sql("p.value", f"$.{name}", stored_text_sql)
        for name in ("text", "output", "path", "content", "prompt", "answer")
    }
    call = f"json_extract(p.value, '$.name') || ' ' || {_build_string_sql('p.value', '$.arguments_json', stored_text_sql)}"
    return f"""CASE json_extract(p.value, '$.kind')
        WHEN 'tool-call' THEN {call}
        WHEN 'tool-result' THEN {sql_by_field["output"]}
        WHEN 'file' THEN {sql_by_field["path"]} || char(10) || {sql_by_field["content"]}
        WHEN 'subtask' THEN {sql_by_field["prompt"]} || char(10) || {sql_by_field["answer"]}
        ELSE {sql_by_field["text"]} END"""


def build_undone_sql(session: str, seq: str) -> str:
    """Return a SQL condition that is true if an event of a session was undone by a rollback.

    Args:
        session: SQL expression for the key of the session.
        seq: SQL expression for the number of the event.
    """
    return f"EXISTS (SELECT 1 FROM rollback AS b WHERE b.session = {session} AND b.to_event < {seq} AND b.seq > {seq})"


_IS_COMPACTED_SQL = f"""({build_undone_sql("i.session", "i.seq")} OR EXISTS (SELECT 1 FROM retired AS r
        WHERE r.session = i.session AND r.item = i.item AND r.slot = i.slot AND r.seq > i.seq
          AND NOT {build_undone_sql("i.session", "r.seq")}))"""


_NEXT_ANSWER_SQL = """coalesce((
            SELECT n.seq FROM event AS n WHERE n.session = i.session AND n.seq > i.seq AND n.role = 'assistant' LIMIT 1), 1e9)"""
"""SQL expression for the number of the event with the model's next answer, before which the results of a tool call must come."""

_CALL_START_SQL = f"""(SELECT r.at_ms FROM whole_event AS r
          WHERE r.session = i.session AND r.seq > i.seq AND r.seq < {_NEXT_ANSWER_SQL} AND r.kind = 'call-started'
          AND json_extract(r.body, '$.call_id') = json_extract(p.value, '$.call_id') LIMIT 1)"""
"""SQL expression for the time at which a tool call started; NULL if it has not started or its start was not logged."""


def _build_saved_sql(value: str) -> str:
    """Return SQL for `value`, an expression over a tool call's saved result (`a`) and its draft (`d`); NULL if none was saved.

    Results are saved while their step is not logged yet.
    """
    return f"""(SELECT {value}
        FROM draft AS d JOIN json_each(d.results) AS a
        WHERE d.session = i.session AND d.step = e.step
          AND json_extract(a.value, '$.call_id') = json_extract(p.value, '$.call_id'))"""


_SAVED_STATE_SQL = "iif(json_extract(a.value, '$.status') = 'completed', 'completed', 'error')"

_COMPACTED_SEQ_SQL = f"""(SELECT min(r.seq) FROM retired AS r WHERE r.session = i.session AND r.item = o.seq AND r.slot = 0
            AND NOT {build_undone_sql("i.session", "r.seq")})"""
"""SQL expression for the number of the compaction that removed or replaced the result of a tool call; NULL if none did."""

_COMPACTED_AT_SQL = f"(SELECT c.at_ms FROM event AS c WHERE c.session = i.session AND c.seq = {_COMPACTED_SEQ_SQL})"


def _build_result_sql(value: str) -> str:
    """Return SQL for `value`, an expression over a tool call's result (`a`) and its event (`o`); NULL without a result."""
    return f"""(SELECT {value}
        FROM whole_event AS o JOIN json_each(o.body, '$.parts') AS a
        WHERE o.session = i.session AND o.seq > i.seq AND o.role = 'tool' AND o.seq < {_NEXT_ANSWER_SQL}
          AND json_extract(a.value, '$.call_id') = json_extract(p.value, '$.call_id') LIMIT 1)"""


_RESULT_STATE_SQL = f"""CASE WHEN json_extract(a.value, '$.status') <> 'completed' THEN 'error'
          WHEN {_COMPACTED_SEQ_SQL} IS NULL THEN 'completed' ELSE 'compacted' END"""

_CALL_STATE_SQL = f"""CASE WHEN json_extract(p.value, '$.kind') = 'tool-call' THEN coalesce(
        {_build_result_sql(_RESULT_STATE_SQL)}, {_build_saved_sql(_SAVED_STATE_SQL)},
        iif({_CALL_START_SQL} IS NULL, 'pending', 'running')) END"""
"""SQL expression for the state of a tool call (`pending`, `running`, `completed`, `error` or `compacted`), else NULL."""


def _build_call_data_sql(started: str, seconds: str, cached_seconds: str, compacted: str) -> str:
    """Return SQL for the JSON data of a tool call, given SQL for its timing and for the time at which it was compacted."""
    return f"""json_object('time', json_object('start', coalesce({started}, {_CALL_START_SQL}),
          'end', {started} + CAST(round(1000 * {seconds}) AS INTEGER), 'compacted', {compacted}),
          'seconds', {seconds}, 'cached_seconds', {cached_seconds})"""


_LOGGED_DATA_SQL = _build_call_data_sql("o.call_started_at_ms", "o.call_seconds", "o.call_cached_seconds", _COMPACTED_AT_SQL)
_SAVED_TIMING_SQL = "json_extract(d.timings, '$[' || a.key || '].{0}')"
_SAVED_DATA_SQL = _build_call_data_sql(
    _SAVED_TIMING_SQL.format("started_at_ms"),
    _SAVED_TIMING_SQL.format("seconds"),
    _SAVED_TIMING_SQL.format("cached_seconds"),
    "NULL",
)
_UNENDED_DATA_SQL = _build_call_data_sql("NULL", "NULL", "NULL", "NULL")

_PART_DATA_SQL = f"""CASE json_extract(p.value, '$.kind')
        WHEN 'tool-call' THEN coalesce({_build_result_sql(_LOGGED_DATA_SQL)}, {_build_saved_sql(_SAVED_DATA_SQL)},
          {_UNENDED_DATA_SQL})
        WHEN 'tool-result' THEN iif(json_extract(p.value, '$.clipped_characters') > 0, json_object('cut', json_object(
          'characters', json_extract(p.value, '$.clipped_characters'),
          'bytes', nullif(json_extract(p.value, '$.clipped_bytes'), 0))), NULL)
        WHEN 'file' THEN json_object('mime', 'text/plain') END"""

_STEP_EVENTS_SQL = "('step-finished', 'sub-agent-ended', 'workspace-saved')"


def _build_snapshot_sql(session: str, seq: str, *, after: bool = False) -> str:
    """Return SQL for the id of the newest workspace snapshot saved before an event; NULL if there is none.

    With `after`, a snapshot that directly follows the event counts too.
    """
    end = f"{seq} + 2" if after else seq
    undone = "b.session = w.session AND b.to_event < w.seq AND b.seq > w.seq"
    return f"""(SELECT json_extract(w.body, '$.tree_id') FROM whole_event AS w
        WHERE w.session = {session} AND w.seq < {end} AND w.kind = 'workspace-saved'
          AND NOT EXISTS (SELECT 1 FROM rollback AS b WHERE {undone} AND b.seq < {seq}) ORDER BY w.seq DESC LIMIT 1)"""


def _build_step_parts_sql(stored_text_sql: str) -> str:
    """Return SQL for the parts that belong to a step as a whole, such as its start, and not to a message.

    They are listed with the parts of the model's answer. The start of the step comes first. The sub-agents, the end of the step
    and the changes of files (patch) come last, in the order of the log.
    """
    arguments = _build_string_sql("p.value", "$.arguments_json", stored_text_sql)
    question = f"""(SELECT iif(json_valid({arguments}), json_extract({arguments}, '$.question'), NULL)
          FROM json_each(a.body, '$.parts') AS p WHERE json_extract(p.value, '$.call_id') = json_extract(x.body, '$.call_id'))"""
    child = "json_extract(x.body, '$.session_id')"
    files = "(SELECT group_concat(f.value, char(10)) FROM json_each(x.body, '$.changed_files') AS f)"
    return f"""SELECT printf('%s/%06d/0000', s.id, a.sequence), s.id, printf('%s/%06d', s.id, a.sequence), 0, 'step-start', NULL,
      NULL, NULL, NULL, {build_undone_sql("a.session", "a.seq")}, a.at_ms, a.step,
      json_object('snapshot', {_build_snapshot_sql("a.session", "a.seq")})
    FROM event AS a JOIN session AS s ON s.key = a.session WHERE a.role = 'assistant'
    UNION ALL
    SELECT printf('%s/%04d', message_id, position), session_id, iif(sequence, message_id, NULL), position, type, text, call_id,
      NULL, NULL, is_compacted, created_at, step, data_json
    FROM (SELECT s.id AS session_id, coalesce(a.sequence, 0) AS sequence,
        printf('%s/%06d', s.id, coalesce(a.sequence, 0)) AS message_id,
        coalesce(json_array_length(a.body, '$.parts'), 0) + 1 + (SELECT count(*) FROM event AS y
          WHERE y.session = x.session AND y.seq > coalesce(a.seq, 0) AND y.seq < x.seq AND y.kind IN {_STEP_EVENTS_SQL}
        ) AS position,
        CASE x.kind WHEN 'step-finished' THEN 'step-finish' WHEN 'workspace-saved' THEN 'patch' ELSE 'subtask' END AS type,
        CASE x.kind WHEN 'workspace-saved' THEN {files}
          WHEN 'sub-agent-ended' THEN coalesce((SELECT v.task FROM sessions AS v WHERE v.id = {child}), {question}) END AS text,
        nullif(json_extract(x.body, '$.call_id'), '') AS call_id, {build_undone_sql("x.session", "x.seq")} AS is_compacted,
        x.at_ms AS created_at, x.step AS step,
        CASE x.kind
          WHEN 'step-finished' THEN json_object('reason', coalesce(t.finish_reason, iif(t.calls > 0, 'tool-calls', NULL)),
            'snapshot', {_build_snapshot_sql("x.session", "x.seq", after=True)},
            'tokens', json_object('input', t.input_tokens, 'output', t.output_tokens, 'reasoning', t.reasoning_tokens,
              'cache', json_object('read', t.cache_read_tokens, 'write', t.cache_write_tokens)), 'cost', t.cost_usd)
          WHEN 'workspace-saved' THEN json_object('hash', json_extract(x.body, '$.patch_hash'),
            'files', json(json_extract(x.body, '$.changed_files')))
          ELSE json_object('agent', 'explore', 'model', (SELECT c.model FROM session AS c WHERE c.id = {child}),
            'session', {child},
            'steps', json_extract(x.body, '$.steps'), 'tokens', json_object('input', json_extract(x.body, '$.prompt_tokens'),
              'output', json_extract(x.body, '$.output_tokens')), 'cost', json_extract(x.body, '$.cost_usd')) END AS data_json
      FROM whole_event AS x JOIN session AS s ON s.key = x.session
        LEFT JOIN step AS t ON t.session = x.session AND t.seq = x.seq
        LEFT JOIN whole_event AS a ON a.session = x.session AND a.seq = (SELECT max(z.seq) FROM event AS z
          WHERE z.session = x.session AND z.seq < x.seq AND z.role = 'assistant')
      WHERE x.kind IN {_STEP_EVENTS_SQL}
        AND (x.kind <> 'workspace-saved' OR (x.step > 0 AND coalesce(json_extract(x.body, '$.patch_hash'), '?') <> '')))"""


_IS_ANSWER_SQL = "(i.path = '$' AND i.role = 'assistant')"
"""SQL condition that is true for answers of the model. Only these get a part for the start of their step; summaries do not."""


def build_views(prefix: str, *, whole: bool) -> tuple[str, ...]:
    """Return the SQL statements that create the views `sessions`, `messages`, `compaction_events` and `parts`.

    `harness.store.sessions.queries` describes the ids in the views, and `PartRow.data_json` the column `data_json` of `parts`.

    Args:
        prefix: Beginning of each statement, such as `CREATE VIEW` or `CREATE TEMP VIEW`.
        whole: Whether to show compressed texts in full, using the SQL function `unpacked`, which `Journal.query` registers.
    """
    stored_text_sql = _WHOLE_TEXT_SQL if whole else _PLAIN_TEXT_SQL
    return (
        f"""{prefix} sessions AS
    SELECT s.id, s.created_at_ms AS created_at, s.status,
      {_build_string_sql("e.body", "$.task", stored_text_sql)} AS task, s.reason,
      s.detail, s.ended_at_ms AS ended_at, s.model, {_build_string_sql("e.body", "$.policy_json", stored_text_sql)} AS policy,
      s.window_tokens, s.threshold_tokens, s.budget_rule, s.sandbox
    FROM session AS s LEFT JOIN whole_event AS e ON e.session = s.key AND e.seq = 1 AND e.kind = 'session-started'""",
        f"""{prefix} messages AS
    SELECT printf('%s/%06d', s.id, i.sequence) AS id, s.id AS session_id, i.sequence, i.role,
      coalesce((SELECT group_concat({_build_part_text_sql(stored_text_sql)}, char(10))
        FROM json_each(e.body, i.path || '.parts') AS p), '') AS content,
      i.tokens AS token_count, {_IS_COMPACTED_SQL} AS is_compacted, e.at_ms AS created_at, e.step,
      i.place
    FROM item AS i JOIN session AS s ON s.key = i.session JOIN whole_event AS e ON e.session = i.session AND e.seq = i.seq""",
        f"""{prefix} compaction_events AS
    SELECT printf('%s/round/%04d', s.id, c.round) AS id, s.id AS session_id, c.round, e.at_ms AS created_at, c.tokens_before,
      c.tokens_after, {_build_string_sql("e.body", "$.summary", stored_text_sql)} AS summary_content, c.step, c.moment, c.reason,
      c.forgotten AS messages_removed
    FROM compaction AS c JOIN session AS s ON s.key = c.session JOIN whole_event AS e ON e.session = c.session AND e.seq = c.seq
    WHERE c.status = 'applied'""",
        f"""{prefix} parts AS
    SELECT printf('%s/%06d/%04d', s.id, i.sequence, p.key + {_IS_ANSWER_SQL}) AS id, s.id AS session_id,
      printf('%s/%06d', s.id, i.sequence) AS message_id, p.key + {_IS_ANSWER_SQL} AS position,
      iif(json_extract(p.value, '$.kind') = 'tool-call', 'tool', json_extract(p.value, '$.kind')) AS type,
      {_build_part_text_sql(stored_text_sql)} AS text, json_extract(p.value, '$.call_id') AS call_id,
      json_extract(p.value, '$.name') AS tool,
      {_CALL_STATE_SQL} AS state,
      {_IS_COMPACTED_SQL} AS is_compacted, e.at_ms AS created_at, e.step, {_PART_DATA_SQL} AS data_json
    FROM item AS i JOIN session AS s ON s.key = i.session JOIN whole_event AS e ON e.session = i.session AND e.seq = i.seq
      JOIN json_each(e.body, i.path || '.parts') AS p
    UNION ALL
    {_build_step_parts_sql(stored_text_sql)}
    UNION ALL
    SELECT printf('%s/round/%04d', s.id, c.round), s.id, NULL, 0, 'compaction',
      {_build_string_sql("e.body", "$.summary", stored_text_sql)}, NULL, NULL, NULL, {build_undone_sql("c.session", "c.seq")},
      e.at_ms, c.step,
      json_object('auto', json(iif(c.moment = 'manual', 'false', 'true')), 'round', c.round, 'tokens_before', c.tokens_before,
        'tokens_after', c.tokens_after, 'messages_removed', c.forgotten)
    FROM compaction AS c JOIN session AS s ON s.key = c.session JOIN whole_event AS e ON e.session = c.session AND e.seq = c.seq
    WHERE c.status = 'applied'""",
    )
