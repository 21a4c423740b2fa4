"""The six tables of results, each column declared once: name, dtype, unit, description, and its SQL over the journal.

`harness.store.tables` reads the columns by that SQL, and derives the Arrow and pandas types from the dtype. Parquet files have
the same columns.

One row per: trial · step (model call) · attempt at a compaction · check of a trial · version of a message · fact at a
compaction. `trial_id` joins the tables; it is missing in sessions that belong to no trial. Amounts are per row, never running
sums, unless the description says so.

A new column of `trials`, `steps`, `compactions` or `probes` that the journal stores under the same name is declared with `form`:
the number of the next migration. The migration is derived from the declaration.
"""

from typing import Literal, NamedTuple, TypeAlias

from harness.store.sessions.views import build_undone_sql

Dtype: TypeAlias = Literal["str", "bool", "boolean", "int64", "Int64", "float64", "datetime64[ms, UTC]"]
"""As in pandas; `boolean`, `Int64` and `float64` may miss values, `str` only where the description says so."""


class Column(NamedTuple):
    """A documented column."""

    name: str
    dtype: Dtype
    unit: str
    """Empty for names, labels and flags."""
    description: str
    sql: str = ""
    """Expression over the rows of the table's `Source`; empty = the column of the same name of the source's own table."""
    form: int = 0
    """Form of the journal (see `harness.store.schema`) that added the column to the source's own table, with no value in rows
    logged before; 0 = the table was created with the column, or the column is computed. Never changes once released."""


class Source(NamedTuple):
    """The rows of the journal that a table of results shows."""

    table: str
    """Table of the journal with one row for each row of results."""
    alias: str
    """Name of that table in SQL expressions."""
    rows_sql: str
    """`FROM` and all that follows; of the tables read by session, with one parameter: the keys of the sessions as JSON."""


_FILLED_IN = "NULL"
"""SQL of a column that `harness.store.tables` computes from the others."""
_MISSING_METRICS = "missing: the session was not watched to its end"
_MISSING_LOG = "missing: it crashed before it began"
_MISSING_USES = "missing: no call was recognised as one of the script"
_PROMPT_SQL = "{0}input_tokens + {0}cache_read_tokens + {0}cache_write_tokens"


def _make_metric(name: str, unit: str, sql: str, description: str) -> Column:
    """Return a column of counts that are computed at the end of a session: 0 for steps without calls, which have no row."""
    sql = f"CASE WHEN k.session IS NOT NULL THEN coalesce({sql}, 0) END"
    return Column(name, "Int64", unit, f"{description}; {_MISSING_METRICS}", sql)


def _make_flag(name: str, sql: str, description: str) -> Column:
    """Return a column that says whether such a count is above 0."""
    return _make_metric(name, "", sql, description)._replace(
        dtype="boolean", sql=f"CASE WHEN k.session IS NOT NULL THEN coalesce({sql}, 0) > 0 END"
    )


def _make_sum(name: str, unit: str, sql: str, description: str) -> Column:
    """Return a column of sums over the events of a session: 0 where there is no such event."""
    sql = f"CASE WHEN s.key IS NOT NULL THEN coalesce({sql}, 0) END"
    return Column(name, "Int64", unit, f"{description}; {_MISSING_LOG}", sql)


def _make_use(name: str, description: str) -> Column:
    """Return a column of uses of facts."""
    return Column(name, "Int64", "", f"{description}; {_MISSING_USES}", f"k.{name}")


def _make_ratio(name: str, unit: str, dividend_sql: str, divisor_sql: str, description: str) -> Column:
    """Return a column of quotients, missing where the divisor is 0."""
    return Column(name, "float64", unit, description, f"{dividend_sql} * 1.0 / nullif({divisor_sql}, 0)")


def _make_delay(counts: str) -> Column:
    """Return the column of the mean delay of reacquisitions from the alias of the rows with their counts."""
    description = "mean since the compaction, 1 = the first after it; missing: none"
    dividend_sql, divisor_sql = f"{counts}.reacquired_steps", f"{counts}.reacquisitions"
    return _make_ratio("reacquired_after_steps", "steps", dividend_sql, divisor_sql, description)


_TRIAL = Column(
    "trial_id", "str", "", "hash of the trial's configuration; missing: a session outside of an experiment", "r.trial_id"
)
_SESSION = Column("session_id", "str", "", "the session in the journal", "s.id")

TRIALS: tuple[Column, ...] = (
    Column("trial_id", "str", "", "hash of the configuration"),
    Column("session_id", "str", "", "the session in the journal; empty: crashed before it began"),
    Column("experiment", "str", "", "name of the experiment that ran it"),
    Column("arm", "str", "", "short label of the configuration without seed and task"),
    Column("task", "str", "", "name of the task, with the knobs of its world that are turned"),
    Column("seed", "int64", "", "draws the task's facts and the model's chance"),
    Column("replicate", "int64", "", "tells repeated trials of one configuration apart"),
    Column("model", "str", "", "as configured"),
    Column("policy", "str", "", "kind of the compaction policy"),
    Column("policy_json", "str", "", "kind and fields of the policy as configured, canonical JSON"),
    Column("config_json", "str", "", "the whole configuration, canonical JSON"),
    Column("axes_json", "str", "", "JSON object: dotted path of an axis -> value; `Results.axes` has them as columns"),
    Column("window_tokens", "int64", "tokens", "context window; 0: unknown"),
    Column("threshold_tokens", "Int64", "tokens", "the view is compacted at or above this; missing: never"),
    Column("max_steps", "int64", "steps", "the session fails after so many"),
    Column("level", "str", "", "fidelity: L0 scripted model and summarizer ... L3 all real; never pooled"),
    Column("status", "str", "", "completed, failed or crashed (the harness's own fault)"),
    Column("reason", "str", "", "why it stopped: replied, declared, max_steps, overflow, ..."),
    Column("success", "bool", "", "every check passed"),
    Column("score", "float64", "share", "checks that passed, 0 to 1"),
    Column("steps", "int64", "steps", "model calls of the agent"),
    Column("compactions", "int64", "", "applied compactions"),
    Column("prompt_tokens", "int64", "tokens", "measured, cached ones included, summed over the agent's calls"),
    Column("output_tokens", "int64", "tokens", "measured, summed over the agent's calls"),
    Column("cost_usd", "float64", "USD", "of the agent's calls; missing: a price is not known"),
    Column("summarizer_prompt_tokens", "int64", "tokens", "measured, summed over the summarizer's calls"),
    Column("summarizer_output_tokens", "int64", "tokens", "measured, summed over the summarizer's calls"),
    Column("summarizer_cost_usd", "float64", "USD", "of the summarizer's calls; missing: a price is not known"),
    Column("peak_context_tokens", "int64", "tokens", "longest prompt, measured"),
    Column("treatment", "str", "", "as planned, partly, not at all: whether the compactions that were due took place"),
    Column("sandbox", "str", "", "backend that ran the tools"),
    Column("started_at", "datetime64[ms, UTC]", "", "when the trial began", "r.started_at_ms"),
    Column("wall_seconds", "float64", "s", "from start to the last check"),
    Column("error", "str", "", "what went wrong; empty: nothing"),
    Column("traceback", "str", "", "of a crash; empty: none"),
    Column("provenance_json", "str", "", "versions, commit, hashes"),
    Column("action_hits", "Int64", "commands", "answered from the action cache; missing: it was not used"),
    Column("action_misses", "Int64", "commands", "run for real; missing: the action cache was not used"),
    Column("scale", "float64", "", "of the policy's constants in this trial; 1: as configured; missing: it broke off before"),
    Column(
        "activity",
        "str",
        "",
        "active, summarizer never asked, no effect (due, but nothing changed), never fired, control (has no rule); "
        "missing: it broke off before, or an older version ran it",
        form=5,
    ),
    Column(
        "cache_saved_usd", "float64", "USD", "by the provider's cache, less its surcharge; missing: a price is not known", form=7
    ),
    Column(
        "cache_could_save_usd",
        "float64",
        "USD",
        "the same for a cache that forgets nothing, simulated from what requests share; missing: a price is not known",
        form=7,
    ),
    Column(
        "retries",
        "Int64",
        "calls",
        "of real models, made again after a limit or a fault; missing: an older version ran it",
        form=10,
    ),
    Column("waited_seconds", "float64", "s", "before those retries, all together; missing: an older version ran it", form=10),
    _make_ratio(
        "mean_context_tokens",
        "tokens",
        "r.prompt_tokens",
        "r.steps",
        "mean prompt, measured; the area under the curve is prompt_tokens",
    ),
    Column(
        "first_compaction_step", "Int64", "", "the step before which the view was first compacted; missing: never", "c.first_step"
    ),
    _make_metric("execution_calls", "calls", "t.executions", "that do something"),
    _make_metric("retrieval_calls", "calls", "t.retrievals", "that only look something up"),
    _make_metric("failed_calls", "calls", "t.failures", "ended in an error or with an exit code other than 0"),
    _make_metric("repeat_calls", "calls", "t.repeats", "made before in the session"),
    _make_metric("redundant_calls", "calls", "t.redundant", "repeats with the same answer, their target untouched since"),
    _make_metric("reacquisitions", "calls", "t.reacquisitions", "fetched what a compaction had taken away, first time each"),
    _make_metric("reacquired_tokens", "tokens", "t.reacquired_tokens", "of their results, estimated"),
    _make_delay("t"),
    _make_metric("evicted_tokens", "tokens", "k.evicted_tokens", "taken out of view by compactions, estimated"),
    _make_flag("thrash", "k.close_compactions + k.full_compactions + k.evicted_again", "any of the next three is above 0"),
    _make_metric("close_compactions", "", "k.close_compactions", "fewer than 3 steps after the one before"),
    _make_metric("full_compactions", "", "k.full_compactions", "left at least 90 % of the threshold in view"),
    _make_metric("evicted_again", "", "k.evicted_again", "times that a target was evicted, reacquired and evicted again"),
    _make_ratio(
        "thrash_ratio",
        "share",
        "coalesce(t.reacquired_tokens, 0)",
        "k.evicted_tokens",
        "reacquired_tokens over evicted_tokens; missing: nothing was evicted",
    ),
    _make_metric("repeated_dead_ends", "calls", "k.repeated_dead_ends", "tried again what had failed before a compaction"),
    Column("doom_loop", "str", "", f"rule of the first loop; empty: none; {_MISSING_METRICS}", "k.loop_rule"),
    Column("doom_loop_step", "Int64", "", "the step in which it began; missing: none", "k.loop_onset_step"),
    Column(
        "doom_loop_after_steps",
        "Int64",
        "steps",
        "from the compaction before it, 1 = the first after; missing: none",
        "k.loop_after_steps",
    ),
    _make_use("fact_uses", "facts written into calls"),
    _make_use("wrong_uses", "of those, not with the newest value that was told"),
    _make_use("stale_uses", "of the wrong ones, with a value that a later one had replaced"),
    _make_use("constraint_violations", "of the wrong ones, of a constraint"),
    _make_sum("turns", "", "m.turns", "messages of the user"),
    _make_sum("messages", "messages", "m.messages", "of all roles that joined the conversation"),
    _make_sum("clipped_outputs", "", "o.outputs", "tool outputs that were cut before they were logged"),
    _make_sum("clipped_characters", "characters", "o.characters", "that went by those cuts"),
    _make_sum("prunings", "", "c.prunings", "applied compactions that put nothing in"),
    _make_sum("pruned_tokens", "tokens", "c.pruned_tokens", "saved by those, estimated"),
    Column(
        "pruning_seconds",
        "float64",
        "s",
        "wall time that those took together; missing: there is none, or its time is not known",
        "c.prune_seconds",
    ),
    _make_sum("summaries", "", "c.summaries", "applied compactions that put a summary in"),
    _make_sum("emergency_compactions", "", "c.emergencies", "applied after the provider had refused the prompt"),
    _make_sum("fruitless_compactions", "", "c.fruitless", "attempts that failed or would have saved nothing"),
    _make_sum("summarizer_seconds", "s", "c.seconds", "of the summarizer's calls, on its virtual clock if scripted")._replace(
        dtype="float64"
    ),
    _make_sum("cache_read_tokens", "tokens", "p.read_tokens", "of the agent's prompts, as the provider reports"),
    _make_sum("cache_write_tokens", "tokens", "p.write_tokens", "of the agent's prompts, as the provider reports"),
    _make_ratio(
        "cache_hit_share",
        "share",
        "p.read_tokens",
        "r.prompt_tokens",
        "cache_read_tokens over prompt_tokens; missing: nothing was sent",
    ),
)

_ROUNDS_SQL = "(SELECT count(*) FROM compaction AS c WHERE c.session = t.session AND c.status = 'applied' AND c.seq < t.seq)"
STEPS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("step", "int64", "", "number of the model call, from 1; after a rollback it counts from there again"),
    Column("rounds", "int64", "", "compactions applied before this step, since the session began", _ROUNDS_SQL),
    Column("view_tokens", "int64", "tokens", "the view that was sent, estimated by the policy's counter"),
    Column("view_messages", "int64", "messages", "in the view that was sent"),
    Column("prompt_tokens", "int64", "tokens", "measured: input + cache_read + cache_write", _PROMPT_SQL.format("t.")),
    Column("input_tokens", "int64", "tokens", "measured: neither read from nor written to a cache"),
    Column("output_tokens", "int64", "tokens", "measured, reasoning included"),
    Column("reasoning_tokens", "int64", "tokens", "measured, part of output_tokens"),
    Column("cache_read_tokens", "int64", "tokens", "as the provider reports; a scripted model reports none"),
    Column("cache_write_tokens", "int64", "tokens", "as the provider reports; a scripted model reports none"),
    Column("cost_usd", "float64", "USD", "of this call; missing: the price is not known"),
    Column("request_digest", "str", "", "SHA-256 chain over the messages that were sent"),
    Column("kept_prefix_messages", "int64", "messages", "leading messages shared with the request before"),
    Column("kept_prefix_tokens", "int64", "tokens", "estimate of those"),
    Column("calls", "int64", "calls", "tool calls in the answer"),
    Column("call_errors", "int64", "calls", "of those, ended in an error"),
    Column("model_seconds", "float64", "s", "time of the call; of a scripted model on its virtual clock"),
    Column("tool_seconds", "float64", "s", "wall time of the tools"),
    Column("action_hits", "Int64", "commands", "answered from the action cache; missing: it was not used", "a.hits"),
    Column("action_misses", "Int64", "commands", "run for real; missing: the action cache was not used", "a.misses"),
    Column("finished_at", "datetime64[ms, UTC]", "", "when the step was logged", "e.at_ms"),
    _make_flag("is_execution", "d.executions", "a call does something"),
    _make_flag("is_retrieval", "d.retrievals", "a call only looks something up"),
    _make_flag("is_error", "d.failures", "a call ended in an error or with an exit code other than 0"),
    _make_flag("is_repeat", "d.repeats", "a call was made before in the session"),
    _make_flag("is_redundant", "d.redundant", "such a repeat had the same answer, its target untouched since"),
    _make_flag("is_reacquisition", "d.reacquisitions", "a call fetched what a compaction had taken away"),
    _make_metric("reacquired_tokens", "tokens", "d.reacquired_tokens", "of the results of such calls, estimated"),
    _make_delay("d"),
)

_OFFLOADED_SQL = "coalesce(json_array_length(e.body, '$.offloaded'), 0)"
COMPACTIONS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("event", "int64", "", "number of the event in the session's log", "c.seq"),
    Column("round", "int64", "", "number of the applied compaction; of other attempts that of the last applied one"),
    Column("step", "int64", "", "the step before which it took place"),
    Column("moment", "str", "", "turn, step, overflow or manual: when the policy was asked"),
    Column("status", "str", "", "applied, no-op or failed"),
    Column("reason", "str", "", "the trigger, or what went wrong"),
    Column("tokens_before", "int64", "tokens", "the view, estimated"),
    Column("tokens_after", "int64", "tokens", "the view, estimated"),
    Column("messages_before", "int64", "messages", "in the view"),
    Column("messages_after", "int64", "messages", "in the view"),
    Column("forgotten", "int64", "messages", "taken out of the view"),
    Column("replaced", "int64", "messages", "replaced by shorter ones"),
    Column("inserted", "int64", "messages", "summaries and markers put in"),
    Column("offloaded", "int64", "texts", "of tool results, moved out of the view into the saved outputs", _OFFLOADED_SQL),
    Column("summary", "str", "", "text of the summary; empty: none was written", "json_extract(e.body, '$.summary')"),
    Column("summary_characters", "int64", "characters", "length of it"),
    Column("summarizer", "str", "", "model that wrote it; empty: nobody was asked"),
    Column(
        "summarizer_prompt_tokens", "Int64", "tokens", "measured; missing: nobody was asked", _PROMPT_SQL.format("c.summarizer_")
    ),
    Column("summarizer_output_tokens", "Int64", "tokens", "measured; missing: nobody was asked"),
    Column("summarizer_cost_usd", "float64", "USD", "missing: nobody was asked or the price is not known"),
    Column("summarizer_seconds", "float64", "s", "of a scripted one on its virtual clock"),
    Column(
        "wall_seconds",
        "float64",
        "s",
        "from planning to the logged event as the clock on the wall has it, the summarizer's answer included; "
        "missing: an older version logged it",
        form=7,
    ),
    Column("logged_at", "datetime64[ms, UTC]", "", "when it was logged", "e.at_ms"),
)

CHECKS: tuple[Column, ...] = (
    Column("trial_id", "str", "", "hash of the trial's configuration"),
    Column("check", "str", "", "name of the check", 'k."check"'),
    Column("title", "str", "", "what must hold, in words"),
    Column("passed", "bool", "", "whether it held"),
    Column("detail", "str", "", "what the grader found"),
)

_ORIGIN_SQL = "CASE WHEN e.kind = 'message-added' THEN 'added' WHEN i.seq = i.item THEN 'inserted' ELSE 'replacement' END"
_LEFT_SQL = f"""(SELECT step FROM (
      SELECT g.seq, c.step FROM retired AS g JOIN compaction AS c ON c.session = g.session AND c.seq = g.seq
        WHERE g.session = i.session AND g.item = i.item AND g.slot = i.slot AND g.seq > i.seq
          AND NOT {build_undone_sql("i.session", "g.seq")}
      UNION ALL SELECT b.seq, o.step + 1 FROM rollback AS b JOIN event AS o ON o.session = b.session AND o.seq = b.seq
        WHERE b.session = i.session AND b.to_event < i.seq AND b.seq > i.seq
    ) ORDER BY seq LIMIT 1)"""

_BODY_SQL = "iif(e.role IS NOT NULL, e.body, json_extract(e.body, i.path))"
MESSAGES: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("sequence", "int64", "", "number of the message in its session, in the order of coming into being"),
    Column("event", "int64", "", "number of the event that brought it", "i.seq"),
    Column("step", "int64", "", "the step in which it came; 0: before the first", "coalesce(e.step, 0)"),
    Column("role", "str", "", "system, user, assistant or tool"),
    Column("origin", "str", "", "added to the conversation, inserted by a compaction, or replacement for another", _ORIGIN_SQL),
    Column("tool", "str", "", "name of the first tool that it calls or answers for; empty: none", _FILLED_IN),
    Column("tokens", "int64", "tokens", "estimated by the journal's counter"),
    Column("characters", "int64", "characters", "length of content", _FILLED_IN),
    Column("clipped_characters", "int64", "characters", "of tool output that were cut before it was logged", _FILLED_IN),
    Column("is_compacted", "bool", "", "no longer in the view at the end of the log", _FILLED_IN),
    Column("compacted_before_step", "Int64", "", "the step before which it left the view; missing: still in it", _LEFT_SQL),
    Column("place", "str", "", "sorts the messages of a view in the order in which they are sent"),
    Column("created_at", "datetime64[ms, UTC]", "", "when it was logged", "e.at_ms"),
    Column("content", "str", "", "all that a model reads of it, part after part", _BODY_SQL),
)

PROBES: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("event", "int64", "", "number of the applied compaction's event in the session's log"),
    Column("round", "int64", "", "number of the compaction", "c.round"),
    Column("step", "int64", "", "the step before which it took place", "c.step"),
    Column("fact", "str", "", "name of a fact of the task that was in view before the compaction, or is after it", "f.name"),
    Column(
        "kind",
        "str",
        "",
        "constraint, goal, decision, artifact, value, error, progress, next-step, preference, superseded",
        "f.kind",
    ),
    Column("said_in", "str", "", "where it is told: prompt, file, output or the agent's own words", "f.said_in"),
    Column(
        "reacquisition_calls", "Int64", "calls", "that bring it back; missing: it cannot be got again", "f.reacquisition_calls"
    ),
    Column("version", "int64", "", "which of the values that were told for it so far is the newest, from 1"),
    Column("seen_before", "bool", "", "the task's patterns, as a scripted agent reads, found that value in the view before it"),
    Column("seen_after", "bool", "", "they find it in the view after the compaction"),
    Column(
        "stands_after",
        "boolean",
        "",
        "they do, or it stands there as a whole token in whatever words (retained in text); a common word may stand there for "
        "another reason; missing: shorter than 4 characters, or an older version ran it",
    ),
    Column("used_step", "Int64", "", "the next step that wrote the fact into a call; missing: none was recognised"),
    Column("used", "str", "", "right, stale (replaced by then) or wrong: the value it wrote; missing: none was recognised"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "trials": TRIALS,
    "steps": STEPS,
    "compactions": COMPACTIONS,
    "checks": CHECKS,
    "messages": MESSAGES,
    "probes": PROBES,
}
"""By the name that `Results`, its SQL and the Parquet files use."""

SESSION_FILTER = "s.key IN (SELECT value FROM json_each(?))"
_SESSION_JOIN = "FROM session AS s LEFT JOIN trial AS r ON r.session_id = s.id"
_EVENT_JOIN = "JOIN event AS e ON e.session = {0}.session AND e.seq = {0}.seq"
_CALL_COUNTS = (
    "executions",
    "retrievals",
    "failures",
    "repeats",
    "redundant",
    "reacquisitions",
    "reacquired_tokens",
    "reacquired_steps",
)
_TRIAL_ROWS = f"""FROM trial AS r LEFT JOIN session AS s ON s.id = r.session_id LEFT JOIN conduct AS k ON k.session = s.key
    LEFT JOIN (SELECT session, {", ".join(f"sum({name}) AS {name}" for name in _CALL_COUNTS)}
      FROM step_conduct GROUP BY session) AS t ON t.session = s.key
    LEFT JOIN (SELECT session, count(*) AS messages, sum(role = 'user') AS turns
      FROM event WHERE role IS NOT NULL GROUP BY session) AS m ON m.session = s.key
    LEFT JOIN (SELECT e.session, count(*) AS outputs, sum(json_extract(p.value, '$.clipped_characters')) AS characters
      FROM event AS e JOIN json_each(e.body, '$.parts') AS p
      WHERE e.role = 'tool' AND json_extract(p.value, '$.clipped_characters') > 0 GROUP BY e.session) AS o ON o.session = s.key
    LEFT JOIN (SELECT session, min(iif(status = 'applied', step, NULL)) AS first_step,
        sum(status = 'applied' AND inserted = 0) AS prunings,
        sum(iif(status = 'applied' AND inserted = 0, tokens_before - tokens_after, 0)) AS pruned_tokens,
        sum(iif(status = 'applied' AND inserted = 0, wall_seconds, NULL)) AS prune_seconds,
        sum(status = 'applied' AND inserted > 0) AS summaries,
        sum(status = 'applied' AND moment = 'overflow') AS emergencies,
        sum(status <> 'applied') AS fruitless, sum(summarizer_seconds) AS seconds
      FROM compaction GROUP BY session) AS c ON c.session = s.key
    LEFT JOIN (SELECT session, sum(cache_read_tokens) AS read_tokens, sum(cache_write_tokens) AS write_tokens
      FROM step GROUP BY session) AS p ON p.session = s.key
  ORDER BY r.revision"""
_STEP_ROWS = f"""{_SESSION_JOIN} JOIN step AS t ON t.session = s.key {_EVENT_JOIN.format("t")}
    LEFT JOIN conduct AS k ON k.session = s.key LEFT JOIN step_conduct AS d ON d.session = s.key AND d.step = t.step
    LEFT JOIN action AS a ON a.session = t.session AND a.step = t.step
  WHERE {SESSION_FILTER} ORDER BY s.key, t.seq"""
_COMPACTION_ROWS = f"""{_SESSION_JOIN} JOIN compaction AS c ON c.session = s.key {_EVENT_JOIN.format("c")}
  WHERE {SESSION_FILTER} ORDER BY s.key, c.seq"""
_MESSAGE_ROWS = f"""{_SESSION_JOIN} JOIN item AS i ON i.session = s.key {_EVENT_JOIN.format("i")}
  WHERE {SESSION_FILTER} ORDER BY s.key, i.sequence"""
_PROBE_ROWS = f"""{_SESSION_JOIN} JOIN probe AS p ON p.session = s.key
    JOIN fact AS f ON f.session = p.session AND f.number = p.fact
    JOIN compaction AS c ON c.session = p.session AND c.seq = p.event
  WHERE {SESSION_FILTER} ORDER BY s.key, p.event, p.fact"""

SOURCES: dict[str, Source] = {
    "trials": Source("trial", "r", _TRIAL_ROWS),
    "steps": Source("step", "t", _STEP_ROWS),
    "compactions": Source("compaction", "c", _COMPACTION_ROWS),
    "checks": Source("check", "k", 'FROM "check" AS k ORDER BY k.trial_id, k."check"'),
    "messages": Source("item", "i", _MESSAGE_ROWS),
    "probes": Source("probe", "p", _PROBE_ROWS),
}
"""By the name of the table in `TABLES`."""


def build_select(name: str) -> str:
    """Return the SQL that reads the rows of a table of results, one expression for each column."""
    source = SOURCES[name]
    expressions = [column.sql or f"{source.alias}.{column.name}" for column in TABLES[name]]
    return f"SELECT {', '.join(expressions)} {source.rows_sql}"


def list_added_columns(form: int) -> list[str]:
    """Return the statements that add the columns of a form of the journal to its tables."""
    return [
        f"ALTER TABLE {SOURCES[name].table} ADD COLUMN {column.name} {_STORED_TYPES[column.dtype]}"
        for name, columns in TABLES.items()
        for column in columns
        if column.form == form
    ]


_STORED_TYPES: dict[Dtype, str] = {"str": "TEXT", "boolean": "INTEGER", "Int64": "INTEGER", "float64": "REAL"}
"""SQLite types of columns that may miss values."""
