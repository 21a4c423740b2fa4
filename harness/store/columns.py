"""The six tables of results. Each column is declared once: name, dtype, unit, description, and SQL over the journal.

`harness.store.tables` reads the columns by that SQL and derives the Arrow and pandas types from the dtype. Parquet files have the
same columns.

Each table has one kind of row: trials, steps, attempts at a compaction, checks of trials, versions of messages, or facts at
compactions. The column `trial_id` joins the tables; it is missing for sessions outside of trials. Amounts are per row, never
running sums, unless the description says so.

Results that are loaded from a journal rather than from an experiment also have one row of `trials` for each session outside of
trials, such as that of a person. Its `trial_id` is the id of the session, its `arm` names policy, model and window, and the
columns `TRIAL_ONLY_COLUMNS` have no value. In such results these columns have the types `Int64` and `boolean` instead of `int64`
and `bool`. A sub-agent has no row there, as in an experiment, but a row in the row of its session.

A new column that the journal stores is declared with the number of the next migration. `harness.store.schema` derives the
migration, and the rows that fill the column are built by its name. CONTRIBUTING shows the two edits that add a column to `steps`.
"""

from typing import Literal, NamedTuple, TypeAlias

from harness.revisions import FIRST_VERSIONS
from harness.store.sessions.views import build_undone_sql

Dtype: TypeAlias = Literal["str", "bool", "boolean", "int64", "Int64", "float64", "datetime64[ms, UTC]"]
"""Pandas dtype of a column.

Columns of type `boolean`, `Int64` and `float64` may have missing values. `str` columns have none, unless their description says
so.
"""


class Column(NamedTuple):
    """Declaration of one column of a table of results: name, type, unit, description and SQL."""

    name: str
    dtype: Dtype
    unit: str
    """Unit of the column's values, such as `tokens`; empty for names, labels and flags."""
    description: str
    sql: str = ""
    """SQL expression that computes the column from the journal; empty if the journal has a column of the same name."""
    migration: int = 0
    """Number of the migration (see `harness.store.schema`) that added the column to the journal.

    Rows that are older than the column have no value. 0 means that the table was created with the column, or that the column is
    computed. The number never changes after a release.
    """
    stored_in: str = ""
    """Table of the journal that holds the column; empty for the table whose rows become the rows of the results (`SOURCES`)."""
    stored_type: str = ""
    """SQLite type of the stored column, with its default and conditions; empty derives the type from `dtype`."""


class Source(NamedTuple):
    """Rows of the journal that become the rows of a table of results."""

    table: str
    """Name of the journal's table from which the rows are read; each of its rows becomes one row of the table of results."""
    alias: str
    """Short name of the journal's table in the SQL query, such as `t`, which the SQL expressions of the columns use."""
    rows_sql: str
    """SQL query for the rows, from `FROM` on. Its parameter is a JSON list of keys of sessions or trials."""
    owner: Literal["session", "trial"] = "session"
    """Whether each row belongs to a session or to a trial.

    The rows of a table of results are in the order of the integer keys of their owners: the column `key` of sessions, or the
    column `revision` of trials.
    """


_PACKAGES_SQL = "json_each(r.provenance_json, '$.packages')"
_HARNESS_VERSION_SQL = f"""coalesce((SELECT json_extract(value, '$[1]') FROM {_PACKAGES_SQL}
    WHERE json_extract(value, '$[0]') = 'harness'), '')"""
_CACHE_SOURCE = "as the provider reports or price_rule says"
_FILLED_IN = "NULL"
"""SQL expression of a column that SQL cannot compute; after reading, `harness.store.tables` fills the column in."""
_MISSING_METRICS = "missing if the process of the session was killed"
_MISSING_LOG = "missing if the trial crashed before its session began"
_MISSING_USES = "missing if no call was recognised as a call of the task's script"
_VERSIONS_SQL = " ".join(f"WHEN '{stored}' THEN '{kind}'" for stored, kind in FIRST_VERSIONS.items())
_POLICY_SQL = f"CASE r.policy {_VERSIONS_SQL} ELSE r.policy END"
STEP_COUNTS_TABLE = "step_conduct"
"""Table of the journal with the numbers that are counted in each step with a tool call; its alias in `SOURCES` is `d`."""
_PROMPT_SQL = "{0}input_tokens + {0}cache_read_tokens + {0}cache_write_tokens"


def _make_metric(name: str, unit: str, sql: str, description: str) -> Column:
    """Return a column for a number from a session's metrics, such as failed tool calls; 0 if nothing was counted."""
    sql = f"CASE WHEN k.session IS NOT NULL THEN coalesce({sql}, 0) END"
    return Column(name, "Int64", unit, f"{description}; {_MISSING_METRICS}", sql)


def _make_flag(name: str, sql: str, description: str) -> Column:
    """Return a yes-or-no column that says whether a number from a session's metrics is above 0."""
    sql = f"CASE WHEN k.session IS NOT NULL THEN coalesce({sql}, 0) > 0 END"
    return Column(name, "boolean", "", f"{description}; {_MISSING_METRICS}", sql)


def _make_sum(name: str, unit: str, sql: str, description: str, dtype: Dtype = "Int64") -> Column:
    """Return a column with a sum over a session's events, such as prompt tokens; 0 if there is no such event."""
    return Column(name, dtype, unit, f"{description}; {_MISSING_LOG}", f"CASE WHEN s.key IS NOT NULL THEN coalesce({sql}, 0) END")


def _make_step_count(name: str, unit: str, description: str, *, migration: int = 0) -> Column:
    """Return a column of the table of steps with a number that `harness.metrics.call_metrics` counts under the same name.

    A step without tool calls has no row of counts, so its number is 0. A new column needs the number of the next migration; it
    has no value in sessions that were measured before.
    """
    sql = f"CASE WHEN k.session IS NOT NULL THEN iif(d.session IS NULL, 0, d.{name}) END"
    missing = f"{_MISSING_METRICS} or was measured before the column existed" if migration else _MISSING_METRICS
    return Column(name, "Int64", unit, f"{description}; {missing}", sql, migration, stored_in=STEP_COUNTS_TABLE)


def _make_use(name: str, description: str) -> Column:
    return Column(name, "Int64", "", f"{description}; {_MISSING_USES}", f"k.{name}")


def _make_sub_agent_sum(name: str, dtype: Dtype, unit: str, description: str) -> Column:
    """Return a column with a sum over the sub-agents of a trial; 0 in older trials, which had none."""
    return Column(name, dtype, unit, description, f"CASE WHEN r.explorations IS NULL THEN 0 ELSE r.{name} END", migration=15)


def _make_effect(name: str, dtype: Dtype, unit: str, description: str) -> Column:
    """Return a column for an effect of the compactions of a session."""
    text = f"{description}; missing if there is none, or if an older version measured the session"
    return Column(name, dtype, unit, text, f"k.{name}", migration=26, stored_in="conduct")


def _make_ratio(name: str, unit: str, dividend_sql: str, divisor_sql: str, description: str) -> Column:
    return Column(name, "float64", unit, description, f"{dividend_sql} * 1.0 / nullif({divisor_sql}, 0)")


def _make_delay(counts: str) -> Column:
    """Return a column for the mean number of steps until removed content was fetched again.

    Args:
        counts: SQL alias of the rows with the number of tool calls that fetched content again, and the total number of steps from
            the compactions that removed the content to these calls.
    """
    description = "Mean number of steps from a compaction to a reacquisition (1: the next step); missing if there is none"
    return _make_ratio("reacquired_after_steps", "steps", f"{counts}.reacquired_steps", f"{counts}.reacquisitions", description)


_TRIAL = Column(
    "trial_id",
    "str",
    "",
    "Hash of the trial's configuration; for a session outside of trials, its id in results loaded from a journal, else missing",
    _FILLED_IN,
)
_SESSION = Column("session_id", "str", "", "Id of the session in the journal", "s.id")

_OVERHEAD_MIGRATION = 19
_MISSING_OVERHEAD = "missing in recordings and old journals"
_OVERHEAD_COLUMNS: dict[str, str] = {
    "truncation_seconds": "Wall time of shortening tool outputs and saving them whole",
    "planning_seconds": "Wall time of asking the policy what to compact, whether or not anything was due",
    "compaction_seconds": "Wall time of carrying out compactions, without planning and without waiting for the summarizer",
    "snapshot_seconds": "Wall time of taking and saving snapshots of the workspace; 0 in a trial, which saves none",
    "writing_seconds": (
        "Wall time of writing events and tool results to the log; the write that logs the end of a step counts to the next step"
    ),
}
"""Columns with the time that the harness itself adds to a step, by name; they do not overlap, so that they can be added up."""

TRIAL_ONLY_COLUMNS = frozenset(
    {
        *("experiment", "seed", "replicate", "summarizer_seed", "success", "score", "action_hits", "action_misses"),
        *("retries", "waited_seconds", "verdict_cached", "output_limits_json"),
    }
)
"""Columns of the table of trials without a value for a session outside of trials, whose outcome nobody checked."""

_TRIAL_COLUMNS: tuple[Column, ...] = (
    Column("trial_id", "str", "", "Hash of the trial's configuration; the session's id for a session outside of trials"),
    Column("session_id", "str", "", "Id of the session in the journal; empty if the trial crashed before the session began"),
    Column("experiment", "str", "", "Name of the experiment that ran the trial"),
    Column("arm", "str", "", "Short label of the configuration without task and seed"),
    Column(
        "task",
        "str",
        "",
        "Name of the task, followed by the task's options that differ from the default; missing for a session without a task",
    ),
    Column("seed", "int64", "", "Seed of the task's facts and of the scripted model"),
    Column("replicate", "int64", "", "Number that distinguishes repeated trials of the same configuration"),
    Column(
        "summarizer_seed",
        "int64",
        "",
        "Seed of a scripted summarizer's random draws, which distinguishes repetitions of the same compactions",
        "iif(r.replicate IS NULL, NULL, coalesce(json_extract(r.config_json, '$.summarizer_seed'), 0))",
    ),
    Column("model", "str", "", "Name of the agent's model, as configured"),
    Column("policy", "str", "", "Kind of the compaction policy, with its version if there are several", _POLICY_SQL),
    Column("policy_json", "str", "", "Kind and fields of the policy as configured, as canonical JSON"),
    Column("config_json", "str", "", "Whole configuration of the trial, as canonical JSON"),
    Column("axes_json", "str", "", "JSON object: dotted path of each axis -> value; `Results.axes` has one column per axis"),
    Column("window_tokens", "int64", "tokens", "Context window of the model; 0 if unknown"),
    Column("threshold_tokens", "Int64", "tokens", "View size from which the policy compacts; missing if the policy never does"),
    Column(
        "max_steps",
        "int64",
        "steps",
        "Maximum number of steps before the session fails; for a session outside of trials, in each turn, and missing in a "
        "recording of another program",
    ),
    Column("level", "str", "", "Fidelity, from L0 (scripted model and summarizer) to L3 (all real); levels are never pooled"),
    Column(
        "status",
        "str",
        "",
        "Outcome: completed, failed, or crashed (a fault of the harness itself); active for a session outside of trials without "
        "an end, because it is running or its process was killed",
    ),
    Column("reason", "str", "", "Reason why the session stopped: replied, declared, max_steps, overflow, ..."),
    Column("success", "bool", "", "Whether every check of the task passed"),
    Column("score", "float64", "share", "Share of the checks that passed, from 0 to 1"),
    Column(
        "marked_success",
        "boolean",
        "",
        "Whether the user marked the session as a success (`harness sessions mark`); missing without a mark, and for trials",
        "s.marked_success",
        migration=27,
        stored_in="session",
        stored_type="INTEGER CHECK (marked_success IN (0, 1))",
    ),
    Column(
        "marked_score",
        "float64",
        "share",
        "Share of the checks that passed when `harness task grade --mark` marked the session; missing without such a mark",
        "s.marked_score",
        migration=28,
        stored_in="session",
    ),
    Column(
        "marked_failed_checks",
        "str",
        "",
        "Titles of the checks that failed then, joined by semicolons; empty if none failed, and without such a mark",
        "coalesce(s.marked_failed_checks, '')",
        migration=28,
        stored_in="session",
    ),
    Column("steps", "int64", "steps", "Number of model calls of the agent"),
    Column("compactions", "int64", "", "Number of applied compactions"),
    Column("prompt_tokens", "int64", "tokens", "Measured prompt tokens of all calls of the agent, cached tokens included"),
    Column("output_tokens", "int64", "tokens", "Measured output tokens of all calls of the agent"),
    Column(
        "cost_usd",
        "float64",
        "USD",
        "Cost of the agent's calls alone; missing if a price is unknown",
    ),
    Column("summarizer_prompt_tokens", "int64", "tokens", "Measured prompt tokens of all calls of the summarizer"),
    Column("summarizer_output_tokens", "int64", "tokens", "Measured output tokens of all calls of the summarizer"),
    Column("summarizer_cost_usd", "float64", "USD", "Cost of the summarizer's calls; missing if a price is unknown"),
    Column("peak_context_tokens", "int64", "tokens", "Measured size of the longest prompt"),
    Column("treatment", "str", "", "Whether due compactions took place: as planned, partly, or not at all"),
    Column("sandbox", "str", "", "Sandbox backend that ran the tools"),
    Column(
        "started_at",
        "datetime64[ms, UTC]",
        "",
        "Time at which the trial or session began; missing in a recording without times",
        "r.started_at_ms",
    ),
    Column(
        "wall_seconds",
        "float64",
        "s",
        "Wall time from the start of the trial to its last check; for a session outside of trials, to its last event, pauses of "
        "the user included, and missing in a recording without times",
    ),
    Column("error", "str", "", "Error that ended the trial; empty if there was none"),
    Column("traceback", "str", "", "Traceback of the crash; empty if the trial did not crash"),
    Column("provenance_json", "str", "", "Versions, git commit and hashes under which the trial ran, as JSON"),
    Column(
        "action_hits",
        "Int64",
        "commands",
        "Commands answered from the action cache; missing if no cache was used",
        migration=3,
    ),
    Column(
        "action_misses",
        "Int64",
        "commands",
        "Commands run because the action cache had no answer; missing if no cache was used",
        migration=3,
    ),
    Column(
        "scale",
        "float64",
        "",
        "Factor on the policy's constants but its limits on outputs; missing if the trial broke off early",
        migration=4,
        stored_type="REAL DEFAULT 1.0",  # the policies of older journals were not scaled
    ),
    Column(
        "activity",
        "str",
        "",
        "Effect of the policy: active, summarizer never asked, no effect (due, but nothing changed), never fired, or control "
        "(policy without a trigger); missing if the trial broke off early or an older version ran it",
        migration=5,
    ),
    Column(
        "cache_saved_usd", "float64", "USD", "Net savings by the provider's cache; missing if a price is unknown", migration=7
    ),
    Column(
        "cache_could_save_usd",
        "float64",
        "USD",
        "Simulated savings by a cache that never evicts; missing if unknown",
        migration=7,
    ),
    Column(
        "retries", "Int64", "calls", "Repeated calls of real models after a rate limit or fault; missing if unknown", migration=10
    ),
    Column(
        "waited_seconds", "float64", "s", "Total waiting time before retries of model calls; missing if unknown", migration=10
    ),
    _make_sub_agent_sum("explorations", "Int64", "", "Number of sub-agents that the agent sent to explore"),
    _make_sub_agent_sum("sub_agent_steps", "Int64", "steps", "Number of model calls of all sub-agents"),
    _make_sub_agent_sum(
        "sub_agent_prompt_tokens", "Int64", "tokens", "Measured prompt tokens of all sub-agents, their summaries included"
    ),
    _make_sub_agent_sum(
        "sub_agent_output_tokens", "Int64", "tokens", "Measured output tokens of all sub-agents, their summaries included"
    ),
    _make_sub_agent_sum("sub_agent_cost_usd", "float64", "USD", "Cost of all sub-agents; missing if a price is unknown"),
    Column(
        "total_cost_usd",
        "float64",
        "USD",
        "Cost of the agent, the summarizer and all sub-agents together; missing if a price is unknown",
        "r.cost_usd + r.summarizer_cost_usd + CASE WHEN r.explorations IS NULL THEN 0 ELSE r.sub_agent_cost_usd END",
    ),
    Column(
        "verdict_cached",
        "boolean",
        "",
        "Whether the verdicts of the checks are those of an equal workspace, taken from the cache; missing if the workspace was "
        "not graded or an older version ran the trial",
        migration=16,
    ),
    Column(
        "overflows",
        "Int64",
        "calls",
        "Number of prompts that the provider refused as too long, also if a compaction saved the session; missing if version 0.2 "
        "or older ran the trial",
        migration=19,
    ),
    Column(
        "output_limits_json",
        "str",
        "",
        "JSON object with the limits beyond which tool outputs were cut (max_characters, max_lines, max_bytes); missing if the "
        "trial crashed before its session began, or version 0.2 or older ran it",
        migration=21,
    ),
    Column(
        "advisories_json",
        "str",
        "",
        "JSON list of the warnings about the configuration (problem, advice, detail) found before the session began; missing if "
        "the trial crashed before, or version 0.2 or older ran it",
        migration=21,
    ),
    Column(
        "acts_on",
        "str",
        "",
        "Token counts that the policy compares with its threshold, in words; empty if these are `view_tokens` of the steps; "
        "missing if the trial crashed before its session began, or version 0.2 or older ran it",
        migration=23,
    ),
    *(
        _make_effect(
            f"{kind}_survival",
            "float64",
            "share",
            f"Share of the {texts} in removed messages that a message in view still had right after the compaction",
        )
        for kind, texts in (
            ("path", "paths"),
            ("command", "commands"),
            ("number", "numbers"),
            ("identifier", "identifiers"),
            ("decision", "decisions of the agent"),
            ("user_constraint", "constraints of the user"),
        )
    ),
    _make_effect("freed_share", "float64", "share", "Mean share of the tokens in view that a compaction freed"),
    _make_effect(
        "floor_growth_tokens",
        "float64",
        "tokens",
        "Mean estimated number of tokens by which the view right after a compaction grew to the next",
    ),
    _make_effect("cycles_to_stuck", "Int64", "", "Number of compactions before the first that freed less than a tenth"),
    _make_effect(
        "prefix_breaks_per_100_steps",
        "float64",
        "",
        "Number of requests, for each 100, that did not begin with the whole previous request",
    ),
    _make_effect(
        "stable_prefix_share",
        "float64",
        "share",
        "Mean share of the tokens before a compaction with which the next request still began",
    ),
    _make_effect("blocking_seconds", "float64", "s", "Time for which the session waited for summaries"),
    _make_effect(
        "trigger_error",
        "float64",
        "share",
        "Mean of the provider's count of the context when a compaction was triggered, divided by the threshold",
    ),
    _make_effect("duplicate_calls", "Int64", "calls", "Tool calls with the same tool and arguments as an earlier one"),
    _make_effect(
        "resume_steps",
        "float64",
        "steps",
        "Mean number of steps from a compaction until the agent changed or ran something new",
    ),
    _make_effect("cuts_in_loop", "Int64", "", "Compactions while the newest test run had failed"),
    Column(
        "total_tokens",
        "int64",
        "tokens",
        "Measured prompt and output tokens of the agent, its summarizer and its sub-agents together",
        "r.prompt_tokens + r.output_tokens + r.summarizer_prompt_tokens + r.summarizer_output_tokens"
        " + coalesce(r.sub_agent_prompt_tokens + r.sub_agent_output_tokens, 0)",
    ),
    _make_ratio("mean_context_tokens", "tokens", "r.prompt_tokens", "r.steps", "Mean measured size of a prompt"),
    Column("first_compaction_step", "Int64", "", "Step that followed the first compaction; missing if none", "c.first_step"),
    _make_metric("execution_calls", "calls", "t.executions", "Tool calls that change or run something"),
    _make_metric("retrieval_calls", "calls", "t.retrievals", "Tool calls that only look something up"),
    _make_metric("failed_calls", "calls", "t.failures", "Tool calls that ended in an error or a non-zero exit code"),
    _make_metric("repeat_calls", "calls", "t.repeats", "Tool calls that had been made before in the session"),
    _make_metric("redundant_calls", "calls", "t.redundant", "Repeated calls with the same answer and an unchanged target"),
    _make_metric(
        "reacquisitions",
        "calls",
        "t.reacquisitions",
        "Tool calls that fetched evicted content again, counted once for each content",
    ),
    _make_metric("reacquired_tokens", "tokens", "t.reacquired_tokens", "Estimated tokens in the results of reacquisitions"),
    _make_delay("t"),
    _make_metric("evicted_tokens", "tokens", "k.evicted_tokens", "Estimated tokens evicted from the view by compactions"),
    _make_flag(
        "thrash",
        "k.close_compactions + k.full_compactions + k.evicted_again",
        "Whether close_compactions, full_compactions or evicted_again is above 0",
    ),
    _make_metric("close_compactions", "", "k.close_compactions", "Compactions fewer than 3 steps after the previous one"),
    _make_metric("full_compactions", "", "k.full_compactions", "Compactions that left at least 90 % of the threshold in view"),
    _make_metric(
        "evicted_again", "", "k.evicted_again", "Number of times that a target was evicted, reacquired and evicted again"
    ),
    _make_ratio(
        "thrash_ratio",
        "share",
        "coalesce(t.reacquired_tokens, 0)",
        "k.evicted_tokens",
        "reacquired_tokens / evicted_tokens; missing if nothing was evicted",
    ),
    _make_ratio(
        "reacquisitions_per_compaction",
        "calls",
        "coalesce(t.reacquisitions, 0)",
        "CASE WHEN k.session IS NOT NULL THEN r.compactions END",
        "reacquisitions / compactions; missing if nothing was compacted",
    ),
    _make_ratio(
        "reacquired_tokens_per_compaction",
        "tokens",
        "coalesce(t.reacquired_tokens, 0)",
        "CASE WHEN k.session IS NOT NULL THEN r.compactions END",
        "reacquired_tokens / compactions; missing if nothing was compacted",
    ),
    _make_ratio(
        "reacquisitions_per_evicted_token",
        "calls per token",
        "coalesce(t.reacquisitions, 0)",
        "k.evicted_tokens",
        "reacquisitions / evicted_tokens; missing if nothing was evicted",
    ),
    _make_metric("repeated_dead_ends", "calls", "k.repeated_dead_ends", "Calls that retried what had failed before a compaction"),
    Column(
        "trajectory",
        "str",
        "",
        "Digest of the sequence of tool calls with the shapes of their arguments; empty if unknown",
        "coalesce(k.trajectory, '')",
    ),
    Column("doom_loop", "str", "", f"Rule that detected the first loop; empty if none; {_MISSING_METRICS}", "k.loop_rule"),
    Column("doom_loop_step", "Int64", "", "Step in which the first loop began; missing if there is none", "k.loop_onset_step"),
    Column(
        "doom_loop_after_steps",
        "Int64",
        "steps",
        "Steps from the last compaction to the first loop; missing if none",
        "k.loop_after_steps",
    ),
    _make_use("fact_uses", "Number of times that a fact of the task was written into a call"),
    _make_use("wrong_uses", "Uses of a fact with another value than the newest one"),
    _make_use("stale_uses", "Wrong uses of a fact with a value that had been replaced"),
    _make_use("constraint_violations", "Wrong uses of a fact that is a constraint"),
    _make_sum("turns", "", "m.turns", "Number of user messages"),
    _make_sum("messages", "messages", "m.messages", "Number of messages of all roles in the conversation"),
    _make_sum("clipped_outputs", "", "o.outputs", "Number of tool outputs that were clipped before they were logged"),
    _make_sum("clipped_characters", "characters", "o.characters", "Characters removed from clipped tool outputs"),
    Column(
        "clipped_bytes",
        "Int64",
        "bytes",
        "UTF-8 bytes removed from clipped tool outputs, without those that the sandbox left out beyond its own limit; "
        f"{_MISSING_LOG}, or if version 0.2 or older clipped an output",
        "CASE WHEN s.key IS NOT NULL AND coalesce(o.unmeasured, 0) = 0 THEN coalesce(o.bytes, 0) END",
    ),
    Column(
        "clipped_by_tool_json",
        "str",
        "",
        "JSON object: name of each tool with clipped outputs -> number of these outputs",
        "coalesce(o.tools, '{}')",
    ),
    _make_sum("prunings", "", "c.prunings", "Number of applied compactions that inserted nothing"),
    _make_sum("pruned_tokens", "tokens", "c.pruned_tokens", "Estimated tokens saved by compactions that inserted nothing"),
    Column(
        "pruning_seconds",
        "float64",
        "s",
        "Wall time of all prunings, which is part of planning_seconds and compaction_seconds; missing if there are none or it is "
        "unknown",
        "c.prune_seconds",
    ),
    *[
        Column(name, "float64", "s", f"Sum over the steps: {description}; {_MISSING_OVERHEAD}", f"p.{name}")
        for name, description in _OVERHEAD_COLUMNS.items()
    ],
    _make_sum("summaries", "", "c.summaries", "Number of applied compactions that inserted a summary or a marker"),
    _make_sum("emergency_compactions", "", "c.emergencies", "Number of compactions after the provider refused a prompt"),
    _make_sum("fruitless_compactions", "", "c.fruitless", "Number of attempts that failed or would have saved nothing"),
    _make_sum("missed_targets", "", "f.missed", "Number of compactions that saved too little or left the policy due"),
    _make_sum("summarizer_seconds", "s", "c.seconds", "Time of the summarizer's calls (virtual time if scripted)", "float64"),
    _make_sum(
        "cache_read_tokens",
        "tokens",
        "p.read_tokens",
        f"Prompt tokens read from a cache, {_CACHE_SOURCE}",
    ),
    _make_sum("cache_write_tokens", "tokens", "p.write_tokens", f"Prompt tokens written to a cache, {_CACHE_SOURCE}"),
    _make_sum("view_tokens", "tokens", "p.view_tokens", "Tokens of all requests, estimated by the policy's token counter"),
    _make_sum("kept_prefix_tokens", "tokens", "p.kept_tokens", "Those of them that repeat the beginning of the previous request"),
    Column(
        "cache_hit_share",
        "float64",
        "share",
        f"Share of prompt tokens read from a cache, {_CACHE_SOURCE}; without either, kept_prefix_tokens / "
        "view_tokens, an upper bound; missing if nothing was sent",
        _FILLED_IN,
    ),
    Column(
        "cache_hits_simulated",
        "boolean",
        "",
        "Whether cache_hit_share is simulated, since no provider reported cached tokens; missing if nothing was sent",
        _FILLED_IN,
    ),
    Column(
        "price_rule",
        "str",
        "",
        "Price rule with which the plan prices the cache use of a scripted agent; empty if the model reports reads, writes and "
        "costs itself",
        "coalesce(json_extract(r.config_json, '$.price_rule'), '')",
    ),
    Column("harness_version", "str", "", "Version of harness that ran the trial; empty if unknown", _HARNESS_VERSION_SQL),
    Column(
        "revisions",
        "str",
        "",
        "JSON object: part of the trial, such as its policy -> revision, which counts changes in the behaviour of the part; "
        "missing if version 0.2 or older ran the trial",
        "json_extract(r.provenance_json, '$.revisions')",
    ),
    Column(
        "forked_from",
        "str",
        "",
        "Id of the session from which this session was forked; missing if it is no fork. The steps before the fork count in both "
        "sessions",
        "(SELECT json_extract(f.body, '$.session_id') FROM whole_event AS f "
        "WHERE f.session = s.key AND f.kind = 'session-forked' ORDER BY f.seq DESC LIMIT 1)",
    ),
)
TRIALS: tuple[Column, ...] = tuple(
    column._replace(description=f"{column.description}; missing for a session outside of trials")
    if column.name in TRIAL_ONLY_COLUMNS
    else column
    for column in _TRIAL_COLUMNS
)

_ROUNDS_SQL = "(SELECT count(*) FROM compaction AS c WHERE c.session = t.session AND c.status = 'applied' AND c.seq < t.seq)"
STEPS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("step", "int64", "", "Number of the model call, from 1; after a rollback to a step the numbers go on from there"),
    Column("rounds", "int64", "", "Number of compactions applied in the session before this step", _ROUNDS_SQL),
    Column("view_tokens", "int64", "tokens", "Size of the view that was sent, estimated by the policy's token counter"),
    Column("view_messages", "int64", "messages", "Number of messages in the view that was sent"),
    Column("prompt_tokens", "int64", "tokens", "Measured input + cache_read + cache_write tokens", _PROMPT_SQL.format("t.")),
    Column("input_tokens", "int64", "tokens", "Measured prompt tokens that were neither read from nor written to a cache"),
    Column("output_tokens", "int64", "tokens", "Measured output tokens, reasoning included"),
    Column(
        "total_tokens",
        "int64",
        "tokens",
        "Measured prompt and output tokens together",
        f"{_PROMPT_SQL.format('t.')} + t.output_tokens",
    ),
    Column("reasoning_tokens", "int64", "tokens", "Measured reasoning tokens, which are part of output_tokens"),
    Column("cache_read_tokens", "int64", "tokens", f"Prompt tokens read from a cache, {_CACHE_SOURCE}"),
    Column("cache_write_tokens", "int64", "tokens", f"Prompt tokens written to a cache, {_CACHE_SOURCE}"),
    Column(
        "price_rule",
        "str",
        "",
        "Price rule with its lifetime under which the cache use and the cost of a scripted model are simulated; empty if the "
        "model reports them",
        "coalesce(json_extract(b.body, '$.price_rule'), '')",
    ),
    Column("cost_usd", "float64", "USD", "Cost of the model call; missing if the price is unknown"),
    Column("request_digest", "str", "", "SHA-256 chain over the messages that were sent"),
    Column("kept_prefix_messages", "int64", "messages", "Number of leading messages shared with the previous request"),
    Column("kept_prefix_tokens", "int64", "tokens", "Estimated size of the messages shared with the previous request"),
    Column("calls", "int64", "calls", "Number of tool calls in the model's answer"),
    Column("call_errors", "int64", "calls", "Number of tool calls that ended in an error"),
    Column(
        "finish_reason",
        "str",
        "",
        "Reason why the model's answer ended: stop, tool-calls, length or content-filter; missing in recordings and old journals",
        migration=14,
    ),
    Column(
        "impossible_usage",
        "boolean",
        "",
        "Whether the provider reports a longer prompt than the model can read; missing in recordings and old journals",
        migration=22,
    ),
    Column("model_seconds", "float64", "s", "Duration of the model call; on the virtual clock if the model is scripted"),
    Column("tool_seconds", "float64", "s", "Wall time of the step's tool calls"),
    *[
        Column(name, "float64", "s", f"{description}; {_MISSING_OVERHEAD}", migration=_OVERHEAD_MIGRATION)
        for name, description in _OVERHEAD_COLUMNS.items()
    ],
    Column("action_hits", "Int64", "commands", "Commands answered from the action cache; missing if no cache was used", "a.hits"),
    Column("action_misses", "Int64", "commands", "Commands that were run; missing if no action cache was used", "a.misses"),
    Column("finished_at", "datetime64[ms, UTC]", "", "Time at which the step was logged", "e.at_ms"),
    _make_flag("is_execution", "d.executions", "Whether a call of the step changes or runs something"),
    _make_flag("is_retrieval", "d.retrievals", "Whether a call of the step only looks something up"),
    _make_flag("is_error", "d.failures", "Whether a call ended in an error or a non-zero exit code"),
    _make_flag("is_repeat", "d.repeats", "Whether a call had been made before in the session"),
    _make_flag("is_redundant", "d.redundant", "Whether a repeated call had the same answer and an unchanged target"),
    _make_flag("is_reacquisition", "d.reacquisitions", "Whether a call fetched again what a compaction had evicted"),
    _make_step_count("reacquired_tokens", "tokens", "Estimated tokens in the results of reacquisitions"),
    _make_delay("d"),
)

TEXT_MARK = "="
"""First character of the texts in the query of summaries, which tells them apart from references to stored texts."""
_SUMMARY_SQL = f"iif(json_type(e.body, '$.summary') = 'text', '{TEXT_MARK}', '') || json_extract(e.body, '$.summary')"
_OFFLOADED_SQL = "coalesce(json_array_length(e.body, '$.offloaded'), 0)"
_IS_SHORT_SQL = "coalesce(json_extract(e.body, '$.shortfall'), '') <> ''"
_LONG_SHORTFALL_SQL = "(SELECT t.data FROM text t WHERE t.address = json_extract(e.body, '$.shortfall.address'))"
_SHORTFALL_SQL = f"coalesce({_LONG_SHORTFALL_SQL}, json_extract(e.body, '$.shortfall'), '')"
COMPACTIONS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("event", "int64", "", "Number of the compaction's event in the session's log", "c.seq"),
    Column("round", "int64", "", "Number of the applied compaction; for other attempts, of the latest applied compaction"),
    Column("step", "int64", "", "Step before which the compaction took place"),
    Column("moment", "str", "", "Hook at which the policy was called: turn, step, overflow or manual"),
    Column("status", "str", "", "Outcome of the attempt: applied, no-op, failed, or started in the background"),
    Column("reason", "str", "", "Trigger of the compaction, or the reason why it failed"),
    Column("missed_target", "bool", "", "Whether the compaction saved too little or left the policy due", _IS_SHORT_SQL),
    Column("shortfall", "str", "", "Why the compaction missed its target, with what is left; else empty", _SHORTFALL_SQL),
    Column("tokens_before", "int64", "tokens", "Estimated size of the view before the compaction"),
    Column("tokens_after", "int64", "tokens", "Estimated size of the view after the compaction"),
    Column("messages_before", "int64", "messages", "Number of messages in the view before the compaction"),
    Column("messages_after", "int64", "messages", "Number of messages in the view after the compaction"),
    Column("forgotten", "int64", "messages", "Number of messages evicted from the view"),
    Column("replaced", "int64", "messages", "Number of messages replaced by shorter ones"),
    Column("inserted", "int64", "messages", "Number of summaries and markers inserted into the view"),
    Column("offloaded", "int64", "texts", "Number of tool results moved from the view to saved outputs", _OFFLOADED_SQL),
    Column("summary", "str", "", "Text of the summary; empty if no summary was written", _SUMMARY_SQL),
    Column("summary_characters", "int64", "characters", "Length of the summary"),
    Column("summarizer", "str", "", "Model that wrote the summary; empty if no summarizer was called"),
    Column(
        "summarizer_prompt_tokens",
        "Int64",
        "tokens",
        "Measured prompt tokens of the summarizer; missing if it was not called",
        _PROMPT_SQL.format("c.summarizer_"),
    ),
    Column("summarizer_output_tokens", "Int64", "tokens", "Measured output tokens of the summarizer; missing if not called"),
    Column("summarizer_cost_usd", "float64", "USD", "Cost of the summarizer; missing if not called or if its price is unknown"),
    Column("summarizer_seconds", "float64", "s", "Duration of the summarizer's call; on the virtual clock if it is scripted"),
    Column(
        "wall_seconds", "float64", "s", "Wall time from planning to logging, summarizer included; missing if unknown", migration=7
    ),
    Column(
        "reported_tokens_before",
        "Int64",
        "tokens",
        "Size of the context before the compaction, as another agent counted it in its recording; else missing",
        migration=25,
    ),
    Column(
        "reported_tokens_after",
        "Int64",
        "tokens",
        "Size of the context after the compaction, as another agent counted it in its recording; else missing",
        migration=25,
    ),
    Column(
        "freed_share",
        "float64",
        "",
        "Share of the tokens in view that an applied compaction freed; missing for other attempts",
        "iif(c.status = 'applied' AND c.tokens_before > 0, 1.0 - 1.0 * c.tokens_after / c.tokens_before, NULL)",
    ),
    Column(
        "blocking_seconds",
        "float64",
        "s",
        "Time for which the session waited for the summary; 0 for one that is started in the background",
        "coalesce(json_extract(e.body, '$.blocking_seconds'), iif(c.status = 'started', 0.0, c.summarizer_seconds))",
    ),
    Column(
        "stale_steps",
        "Int64",
        "steps",
        "Number of steps since the applied summary was started in the background; missing for any other compaction",
        "c.step - json_extract(e.body, '$.started_step')",
    ),
    Column(
        "trigger_error",
        "float64",
        "",
        "Size of the context at the end of the step before, as the provider counted it, divided by the nominal threshold; "
        "missing without a report or a threshold in tokens",
        f"(SELECT nullif({_PROMPT_SQL.format('b.')}, 0) + b.output_tokens FROM step AS b WHERE b.session = c.session AND "
        "b.seq < c.seq ORDER BY b.seq DESC LIMIT 1) * 1.0 / s.threshold_tokens",
    ),
    Column("logged_at", "datetime64[ms, UTC]", "", "Time at which the compaction was logged", "e.at_ms"),
)

CHECKS: tuple[Column, ...] = (
    Column("trial_id", "str", "", "Hash of the trial's configuration"),
    Column("check", "str", "", "Name of the check", 'k."check"'),
    Column("title", "str", "", "Condition that the check requires, in words"),
    Column("passed", "bool", "", "Whether the check passed"),
    Column("detail", "str", "", "Explanation by the grader of why the check passed or failed"),
)

_ORIGIN_SQL = "CASE WHEN e.kind = 'message-added' THEN 'added' WHEN i.seq = i.item THEN 'inserted' ELSE 'replacement' END"
_LEFT_SQL = f"""(SELECT step FROM (
      SELECT g.seq, c.step FROM retired AS g JOIN compaction AS c ON c.session = g.session AND c.seq = g.seq
        WHERE g.session = i.session AND g.item = i.item AND g.slot = i.slot AND g.seq > i.seq
          AND NOT {build_undone_sql("i.session", "g.seq")}
      UNION ALL SELECT b.seq, o.step + 1 FROM rollback AS b JOIN event AS o ON o.session = b.session AND o.seq = b.seq
        WHERE b.session = i.session AND b.to_event < i.seq AND b.seq > i.seq
    ) ORDER BY seq LIMIT 1)"""


def _make_call_sql(sql: str) -> str:
    """Return SQL for a value of a tool call's result, which is missing in the versions that compactions made of the result."""
    return f"iif(i.path = '$', {sql}, NULL)"


_BODY_SQL = "iif(e.role IS NOT NULL, e.body, json_extract(e.body, i.path))"
MESSAGES: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("sequence", "int64", "", "Number of the message in its session, in order of creation"),
    Column("event", "int64", "", "Number of the event that added the message", "i.seq"),
    Column("step", "int64", "", "Step in which the message was added; 0 before the first step", "coalesce(e.step, 0)"),
    Column("role", "str", "", "Role of the message: system, user, assistant or tool"),
    Column("origin", "str", "", "Origin: added (to the conversation), inserted (by a compaction) or replacement", _ORIGIN_SQL),
    Column("tool", "str", "", "Name of the first tool that the message calls or answers for; empty if there is none", _FILLED_IN),
    Column("tokens", "int64", "tokens", "Size of the message, estimated by the journal's token counter"),
    Column("characters", "int64", "characters", "Length of the column content", _FILLED_IN),
    Column("clipped_characters", "int64", "characters", "Characters clipped from tool output before logging", _FILLED_IN),
    Column(
        "clipped_bytes",
        "Int64",
        "bytes",
        "UTF-8 bytes clipped from tool output before logging; missing if version 0.2 or older clipped it",
        _FILLED_IN,
    ),
    Column("is_compacted", "bool", "", "Whether the message is no longer in the view at the end of the log", _FILLED_IN),
    Column("compacted_before_step", "Int64", "", "Step before which the message left the view; missing if never", _LEFT_SQL),
    Column("place", "str", "", "Sort key that gives the order in which the messages of a view are sent"),
    Column("created_at", "datetime64[ms, UTC]", "", "Time at which the message was logged", "e.at_ms"),
    Column(
        "call_started_at",
        "datetime64[ms, UTC]",
        "",
        "Time at which the tool call started whose result the message holds; missing in other messages and old journals",
        _make_call_sql("e.call_started_at_ms"),
    ),
    Column(
        "call_seconds",
        "float64",
        "s",
        "Duration of the tool call; a command from the action cache counts as in its original run; missing likewise",
        _make_call_sql("e.call_seconds"),
    ),
    Column(
        "call_cached_seconds",
        "float64",
        "s",
        "Part of call_seconds that commands from the action cache took in their original runs; missing if none came from it",
        _make_call_sql("e.call_cached_seconds"),
    ),
    Column("content", "str", "", "Text of all parts that the model reads", _BODY_SQL),
)

_FACT_KINDS = "constraint, goal, decision, artifact, value, error, progress, next-step, preference or superseded"
PROBES: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("event", "int64", "", "Number of the compaction's event in the session's log"),
    Column("round", "int64", "", "Number of the applied compaction", "c.round"),
    Column("step", "int64", "", "Step before which the compaction took place", "c.step"),
    Column("fact", "str", "", "Name of a fact that was in view before or after the compaction", "f.name"),
    Column("kind", "str", "", f"Kind of the fact: {_FACT_KINDS}", "f.kind"),
    Column("said_in", "str", "", "Source of the fact: prompt, file, output or the agent's own words", "f.said_in"),
    Column(
        "reacquisition_calls",
        "Int64",
        "calls",
        "Tool calls that find the fact again; missing if none can",
        "f.reacquisition_calls",
    ),
    Column("version", "int64", "", "Number of the fact's newest value among all values stated so far, from 1"),
    Column("seen_before", "bool", "", "Whether the task's patterns find the newest value in the view before the compaction"),
    Column("seen_after", "bool", "", "Whether the task's patterns find the newest value in the view after the compaction"),
    Column(
        "seen_in_kept",
        "boolean",
        "",
        "Whether the task's patterns find the newest value in a message that the compaction left unchanged, so that it did not "
        "depend on the summary; missing if no summarizer was called or the journal is old",
        migration=17,
    ),
    Column(
        "stands_after",
        "boolean",
        "",
        "Whether seen_after holds or the newest value occurs as a whole token anywhere in the view after the compaction (a "
        "common word may occur for another reason); missing if the value has under 4 characters or the journal is old",
        migration=11,
        stored_type="INTEGER CHECK (stands_after IN (0, 1))",
    ),
    Column("used_step", "Int64", "", "Next step with a call that contains the fact; missing if no such call was recognised"),
    Column("used", "str", "", "Value in the next call with the fact: right, stale (replaced before) or wrong; missing if none"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "trials": TRIALS,
    "steps": STEPS,
    "compactions": COMPACTIONS,
    "checks": CHECKS,
    "messages": MESSAGES,
    "probes": PROBES,
}
"""Columns of each table of results, by the name of the table, such as `trials`, in `Results`, SQL and Parquet files."""

MESSAGE_SIZE_COLUMNS = ("trial_id", "session_id", "sequence", "step", "role", "origin", "tokens", "compacted_before_step")
"""Columns of the table of messages that say when a message was in view and how large it was, without its content."""

UNREPORTED_COLUMNS: dict[str, frozenset[str]] = {
    "trials": frozenset(
        {
            *("sandbox", "traceback", "action_hits", "action_misses", "retries", "waited_seconds", "sub_agent_steps"),
            *("verdict_cached", "overflows", "peak_context_tokens", "mean_context_tokens", "first_compaction_step"),
            *("repeat_calls", "reacquired_tokens", "reacquired_after_steps", "evicted_tokens", "close_compactions"),
            *("full_compactions", "evicted_again", "thrash_ratio", "reacquisitions_per_compaction"),
            *("reacquired_tokens_per_compaction", "reacquisitions_per_evicted_token", "doom_loop_step", "doom_loop_after_steps"),
            *("fact_uses", "clipped_characters", "clipped_by_tool_json", "pruned_tokens", "emergency_compactions"),
            *("fruitless_compactions", "kept_prefix_tokens", "forked_from", *_OVERHEAD_COLUMNS),
        }
    ),
    "steps": frozenset(
        {
            *("rounds", "input_tokens", "reasoning_tokens", "price_rule"),
            *("cache_read_tokens", "cache_write_tokens", "cost_usd", "calls"),
            *("call_errors", "finish_reason", "impossible_usage", "action_hits", "action_misses", "finished_at"),
            *("is_execution", "is_retrieval", "is_error", "is_repeat", "is_redundant", "is_reacquisition"),
            *("reacquired_tokens", "reacquired_after_steps"),
        }
    ),
    "compactions": frozenset(
        {
            *("summary", "summary_characters", "messages_before", "messages_after", "forgotten", "replaced", "offloaded"),
            *("summarizer_prompt_tokens", "summarizer_output_tokens", "reported_tokens_before", "reported_tokens_after"),
            "logged_at",
        }
    ),
    "checks": frozenset({"detail"}),
}
"""Columns, by table, that no report and no chart shows. Reports leave them out, since they take most of the memory."""

VOLATILE_COLUMNS: dict[str, frozenset[str]] = {
    "trials": frozenset(
        {
            *("started_at", "wall_seconds", "pruning_seconds", "provenance_json", *_OVERHEAD_COLUMNS),
            *("action_hits", "action_misses", "verdict_cached"),
        }
    ),
    "steps": frozenset({"tool_seconds", "finished_at", "action_hits", "action_misses", *_OVERHEAD_COLUMNS}),
    "compactions": frozenset({"wall_seconds", "logged_at"}),
    "messages": frozenset({"created_at", "call_started_at", "call_seconds", "call_cached_seconds"}),
}
"""Columns, by table, whose values depend on when and where a trial ran, and on the trials that ran before.

All other columns of a trial with scripted models are the same in every run, on every machine.
"""

_KEYS = "(SELECT value FROM json_each(?1))"
_SESSION_JOIN = "FROM session AS s"
_EVENT_JOIN = "JOIN whole_event AS e ON e.session = {0}.session AND e.seq = {0}.seq"
_HIDDEN_STEP_COUNTS = ("executions", "retrievals", "failures", "repeats", "redundant", "reacquisitions", "reacquired_steps")
"""Numbers counted in each step that the table of steps shows as flags and means instead."""
STEP_COUNTS = frozenset({*_HIDDEN_STEP_COUNTS, *(column.name for column in STEPS if column.stored_in == STEP_COUNTS_TABLE)})
"""Names of all numbers that are counted in each step with a tool call."""
_TRIAL_SESSIONS = f"(SELECT s.key FROM trial AS r JOIN session AS s ON s.id = r.session_id WHERE r.revision IN {_KEYS})"
_TRIAL_ROWS = f"""FROM trial AS r LEFT JOIN session AS s ON s.id = r.session_id LEFT JOIN conduct AS k ON k.session = s.key
    LEFT JOIN (SELECT session, {", ".join(f"sum({name}) AS {name}" for name in sorted(STEP_COUNTS))}
      FROM step_conduct WHERE session IN {_TRIAL_SESSIONS} GROUP BY session) AS t ON t.session = s.key
    LEFT JOIN (SELECT session, count(*) AS messages, sum(role = 'user') AS turns
      FROM event WHERE session IN {_TRIAL_SESSIONS} AND role IS NOT NULL GROUP BY session) AS m ON m.session = s.key
    LEFT JOIN (SELECT session, sum(outputs) AS outputs, sum(characters) AS characters, sum(bytes) AS bytes,
        sum(unmeasured) AS unmeasured, json_group_object(tool, outputs) AS tools
      FROM (SELECT e.session, json_extract(p.value, '$.name') AS tool, count(*) AS outputs,
          sum(json_extract(p.value, '$.clipped_characters')) AS characters,
          sum(json_extract(p.value, '$.clipped_bytes')) AS bytes,
          sum(coalesce(json_extract(p.value, '$.clipped_bytes'), 0) = 0) AS unmeasured
        FROM whole_event AS e JOIN json_each(e.body, '$.parts') AS p
        WHERE e.session IN {_TRIAL_SESSIONS} AND e.role = 'tool' AND json_extract(p.value, '$.clipped_characters') > 0
        GROUP BY e.session, tool ORDER BY e.session, tool)
      GROUP BY session) AS o ON o.session = s.key
    LEFT JOIN (SELECT session, min(iif(status = 'applied', step, NULL)) AS first_step,
        sum(status = 'applied' AND inserted = 0) AS prunings,
        sum(iif(status = 'applied' AND inserted = 0, tokens_before - tokens_after, 0)) AS pruned_tokens,
        sum(iif(status = 'applied' AND inserted = 0, wall_seconds, NULL)) AS prune_seconds,
        sum(status = 'applied' AND inserted > 0) AS summaries,
        sum(status = 'applied' AND moment = 'overflow') AS emergencies,
        sum(status NOT IN ('applied', 'started')) AS fruitless, sum(summarizer_seconds) AS seconds
      FROM compaction WHERE session IN {_TRIAL_SESSIONS} GROUP BY session) AS c ON c.session = s.key
    LEFT JOIN (SELECT e.session, sum({_IS_SHORT_SQL}) AS missed
      FROM whole_event AS e WHERE e.kind = 'compaction' AND e.session IN {_TRIAL_SESSIONS} GROUP BY e.session
    ) AS f ON f.session = s.key
    LEFT JOIN (SELECT session, sum(cache_read_tokens) AS read_tokens, sum(cache_write_tokens) AS write_tokens,
        sum(view_tokens) AS view_tokens, sum(kept_prefix_tokens) AS kept_tokens,
        {", ".join(f"sum({name}) AS {name}" for name in _OVERHEAD_COLUMNS)}
      FROM step WHERE session IN {_TRIAL_SESSIONS} GROUP BY session) AS p ON p.session = s.key
  WHERE r.revision IN {_KEYS} ORDER BY r.revision"""
_STEP_ROWS = f"""{_SESSION_JOIN} JOIN step AS t ON t.session = s.key {_EVENT_JOIN.format("t")}
    LEFT JOIN conduct AS k ON k.session = s.key LEFT JOIN step_conduct AS d ON d.session = s.key AND d.step = t.step
    LEFT JOIN action AS a ON a.session = t.session AND a.step = t.step
    LEFT JOIN whole_event AS b ON b.session = s.key AND b.seq = 1
  WHERE s.key IN {_KEYS} ORDER BY s.key, t.seq"""
_COMPACTION_ROWS = f"""{_SESSION_JOIN} JOIN compaction AS c ON c.session = s.key {_EVENT_JOIN.format("c")}
  WHERE s.key IN {_KEYS} ORDER BY s.key, c.seq"""
_VERSIONS_SQL = f"""(
    SELECT session, sequence, seq, seq AS item, 0 AS slot, role, tokens, printf('%08d', seq) AS place, '$' AS path
      FROM event WHERE role IS NOT NULL AND session IN {_KEYS}
    UNION ALL
    SELECT session, sequence, seq, item, slot, role, tokens, coalesce(place, printf('%08d', item)), path
      FROM version WHERE session IN {_KEYS})"""
"""SQL for all versions of all messages in some sessions: the rows of the journal's view `item`, but for these sessions only.

The view itself would be computed for all sessions: SQLite does not move a condition into both halves of a union that is joined
with other tables.
"""
_CHECK_ROWS = f"""FROM trial AS r JOIN "check" AS k ON k.trial_id = r.trial_id
  WHERE r.revision IN {_KEYS} ORDER BY r.revision, k.\"check\""""
_MESSAGE_ROWS = f"""{_SESSION_JOIN} JOIN {_VERSIONS_SQL} AS i ON i.session = s.key {_EVENT_JOIN.format("i")}
  WHERE s.key IN {_KEYS} ORDER BY s.key, i.sequence"""
_PROBE_ROWS = f"""{_SESSION_JOIN} JOIN probe AS p ON p.session = s.key
    JOIN fact AS f ON f.session = p.session AND f.number = p.fact
    JOIN compaction AS c ON c.session = p.session AND c.seq = p.event
  WHERE s.key IN {_KEYS} ORDER BY s.key, p.event, p.fact"""

SOURCES: dict[str, Source] = {
    "trials": Source("trial", "r", _TRIAL_ROWS, owner="trial"),
    "steps": Source("step", "t", _STEP_ROWS),
    "compactions": Source("compaction", "c", _COMPACTION_ROWS),
    "checks": Source("check", "k", _CHECK_ROWS, owner="trial"),
    "messages": Source("item", "i", _MESSAGE_ROWS),
    "probes": Source("probe", "p", _PROBE_ROWS),
}
"""For each table of results, by name, the rows of the journal from which the table is read."""


def build_select(name: str) -> str:
    """Return the SQL that reads the rows of a table of results, with one expression for each column."""
    source = SOURCES[name]
    expressions = [column.sql or f"{source.alias}.{column.name}" for column in TABLES[name]]
    return f"SELECT {', '.join(expressions)} {source.rows_sql}"


_STORED_TYPES: dict[Dtype, str] = {"str": "TEXT", "boolean": "INTEGER", "Int64": "INTEGER", "float64": "REAL"}
"""SQLite type of a column added to the journal, by the pandas dtype that the column has in the results."""


class AddedColumn(NamedTuple):
    """Column that a migration adds to a table of the journal."""

    migration: int
    """Number of the migration."""
    table: str
    name: str
    stored_type: str
    """SQLite type, with default and conditions. Rows that are older than the column have the default, or no value."""


def list_added_columns() -> list[AddedColumn]:
    """Return the columns of results that migrations added to the journal, in the order of their declarations."""
    return [
        AddedColumn(
            column.migration,
            column.stored_in or SOURCES[name].table,
            column.name,
            column.stored_type or _STORED_TYPES[column.dtype],
        )
        for name, columns in TABLES.items()
        for column in columns
        if column.migration
    ]
