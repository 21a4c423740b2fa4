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
    """Return a SQL condition that is true if a rollback of the session undid an event.

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
"""SQL expression for the number of the event with the next answer of the model, up to which the results of a call are found."""

_CALL_START_SQL = f"""(SELECT r.at_ms FROM event AS r WHERE r.session = i.session AND r.seq > i.seq AND r.kind = 'call-started'
          AND r.seq < {_NEXT_ANSWER_SQL} AND json_extract(r.body, '$.call_id') = json_extract(p.value, '$.call_id') LIMIT 1)"""
"""SQL expression for the time at which a tool call started; NULL if it has not started, or steps were logged at once."""

_SAVED_STATE_SQL = """(SELECT iif(json_extract(a.value, '$.status') = 'completed', 'completed', 'error')
        FROM draft AS d JOIN json_each(d.results) AS a
        WHERE d.session = i.session AND d.step = e.step
          AND json_extract(a.value, '$.call_id') = json_extract(p.value, '$.call_id'))"""
"""SQL expression for the state of a tool call whose result was saved before its step was logged; NULL without such a result."""

_CALL_STATE_SQL = f"""CASE WHEN json_extract(p.value, '$.kind') <> 'tool-call' THEN NULL ELSE coalesce((
        SELECT CASE WHEN json_extract(a.value, '$.status') <> 'completed' THEN 'error'
          WHEN EXISTS (SELECT 1 FROM retired AS r WHERE r.session = i.session AND r.item = o.seq AND r.slot = 0
            AND NOT {build_undone_sql("i.session", "r.seq")})
          THEN 'compacted' ELSE 'completed' END
        FROM event AS o JOIN json_each(o.body, '$.parts') AS a
        WHERE o.session = i.session AND o.seq > i.seq AND o.role = 'tool' AND o.seq < {_NEXT_ANSWER_SQL}
          AND json_extract(a.value, '$.call_id') = json_extract(p.value, '$.call_id')
        LIMIT 1), {_SAVED_STATE_SQL}, iif({_CALL_START_SQL} IS NULL, 'pending', 'running')) END"""
"""SQL expression for the state of a tool call (`pending`, `running`, `completed`, `error` or `compacted`), else NULL."""


def build_views(prefix: str, *, whole: bool) -> tuple[str, ...]:
    """Return the SQL statements that create the views `sessions`, `messages`, `compaction_events` and `parts`.

    Args:
        prefix: beginning of each statement, such as `CREATE VIEW` or `CREATE TEMP VIEW`.
        whole: whether to show compressed texts in full, using the SQL function `unpacked`, which `Journal.query` registers.
    """
    stored_text_sql = _WHOLE_TEXT_SQL if whole else _PLAIN_TEXT_SQL
    return (
        f"""{prefix} sessions AS
    SELECT s.id, s.created_at_ms AS created_at, s.status,
      {_build_string_sql("e.body", "$.task", stored_text_sql)} AS task, s.reason,
      s.detail, s.ended_at_ms AS ended_at, s.model, {_build_string_sql("e.body", "$.policy_json", stored_text_sql)} AS policy,
      s.window_tokens, s.threshold_tokens, s.budget_rule, s.sandbox
    FROM session AS s LEFT JOIN event AS e ON e.session = s.key AND e.seq = 1 AND e.kind = 'session-started'""",
        f"""{prefix} messages AS
    SELECT s.id || '/' || i.sequence AS id, s.id AS session_id, i.sequence, i.role,
      coalesce((SELECT group_concat({_build_part_text_sql(stored_text_sql)}, char(10))
        FROM json_each(e.body, i.path || '.parts') AS p), '') AS content,
      i.tokens AS token_count, {_IS_COMPACTED_SQL} AS is_compacted, e.at_ms AS created_at, e.step,
      i.place
    FROM item AS i JOIN session AS s ON s.key = i.session JOIN event AS e ON e.session = i.session AND e.seq = i.seq""",
        f"""{prefix} compaction_events AS
    SELECT s.id || '/round/' || c.round AS id, s.id AS session_id, c.round, e.at_ms AS created_at, c.tokens_before,
      c.tokens_after, {_build_string_sql("e.body", "$.summary", stored_text_sql)} AS summary_content, c.step, c.moment, c.reason
    FROM compaction AS c JOIN session AS s ON s.key = c.session JOIN event AS e ON e.session = c.session AND e.seq = c.seq
    WHERE c.status = 'applied'""",
        f"""{prefix} parts AS
    SELECT s.id || '/' || i.sequence || '/' || p.key AS id, s.id AS session_id, s.id || '/' || i.sequence AS message_id,
      p.key AS position, iif(json_extract(p.value, '$.kind') = 'tool-call', 'tool', json_extract(p.value, '$.kind')) AS type,
      {_build_part_text_sql(stored_text_sql)} AS text, json_extract(p.value, '$.call_id') AS call_id,
      json_extract(p.value, '$.name') AS tool,
      {_CALL_STATE_SQL} AS state,
      {_IS_COMPACTED_SQL} AS is_compacted, e.at_ms AS created_at, e.step
    FROM item AS i JOIN session AS s ON s.key = i.session JOIN event AS e ON e.session = i.session AND e.seq = i.seq
      JOIN json_each(e.body, i.path || '.parts') AS p
    UNION ALL
    SELECT s.id || '/step/' || t.step || '/' || k.type, s.id, NULL, k.position, k.type, NULL, NULL, NULL, NULL, 0, e.at_ms, t.step
    FROM step AS t JOIN session AS s ON s.key = t.session JOIN event AS e ON e.session = t.session AND e.seq = t.seq
      JOIN (SELECT 'step-start' AS type, 0 AS position UNION ALL SELECT 'step-finish', 1) AS k
    UNION ALL
    SELECT c.id, c.session_id, NULL, 0, 'compaction', c.summary_content, NULL, NULL, NULL, 0, c.created_at, c.step
    FROM compaction_events AS c""",
    )
