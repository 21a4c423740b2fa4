"""The six tables of results, column by column: what `Results` gives, what the Parquet files hold, what the docs print.

One row per: trial · step (model call) · attempt at a compaction · check of a trial · version of a message · fact at a
compaction. `trial_id` joins them; it is missing in sessions that belong to no trial. Amounts are per row, never running sums,
unless they say so.
"""

from typing import Literal, NamedTuple, TypeAlias

Dtype: TypeAlias = Literal["str", "bool", "boolean", "int64", "Int64", "float64", "datetime64[ms, UTC]"]
"""As in pandas; `boolean`, `Int64` and `float64` may miss values, `str` only where the description says so."""


class Column(NamedTuple):
    """A documented column."""

    name: str
    dtype: Dtype
    unit: str
    """Empty for names, labels and flags."""
    description: str


_TRIAL = Column("trial_id", "str", "", "hash of the trial's configuration; missing: a session outside of an experiment")
_SESSION = Column("session_id", "str", "", "the session in the journal")

_MISSING_METRICS = "missing: the session was not watched to its end"
_MISSING_LOG = "missing: it crashed before it began"
_MISSING_USES = "missing: no call was recognised as one of the script"

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
    Column("started_at", "datetime64[ms, UTC]", "", "when the trial began"),
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
    ),
    Column("cache_saved_usd", "float64", "USD", "by the provider's cache, less its surcharge; missing: a price is not known"),
    Column(
        "cache_could_save_usd",
        "float64",
        "USD",
        "the same for a cache that forgets nothing, simulated from what requests share; missing: a price is not known",
    ),
    Column("retries", "Int64", "calls", "of real models, made again after a limit or a fault; missing: an older version ran it"),
    Column("waited_seconds", "float64", "s", "before those retries, all together; missing: an older version ran it"),
    Column("mean_context_tokens", "float64", "tokens", "mean prompt, measured; the area under the curve is prompt_tokens"),
    Column("first_compaction_step", "Int64", "", "the step before which the view was first compacted; missing: never"),
    Column("execution_calls", "Int64", "calls", f"that do something; {_MISSING_METRICS}"),
    Column("retrieval_calls", "Int64", "calls", f"that only look something up; {_MISSING_METRICS}"),
    Column("failed_calls", "Int64", "calls", f"ended in an error or with an exit code other than 0; {_MISSING_METRICS}"),
    Column("repeat_calls", "Int64", "calls", f"made before in the session; {_MISSING_METRICS}"),
    Column(
        "redundant_calls", "Int64", "calls", f"repeats with the same answer, their target untouched since; {_MISSING_METRICS}"
    ),
    Column("reacquisitions", "Int64", "calls", f"fetched what a compaction had taken away, first time each; {_MISSING_METRICS}"),
    Column("reacquired_tokens", "Int64", "tokens", f"of their results, estimated; {_MISSING_METRICS}"),
    Column("reacquired_after_steps", "float64", "steps", "mean since the compaction, 1 = the first after it; missing: none"),
    Column("evicted_tokens", "Int64", "tokens", f"taken out of view by compactions, estimated; {_MISSING_METRICS}"),
    Column("thrash", "boolean", "", f"any of the next three is above 0; {_MISSING_METRICS}"),
    Column("close_compactions", "Int64", "", f"fewer than 3 steps after the one before; {_MISSING_METRICS}"),
    Column("full_compactions", "Int64", "", f"left at least 90 % of the threshold in view; {_MISSING_METRICS}"),
    Column("evicted_again", "Int64", "", f"times that a target was evicted, reacquired and evicted again; {_MISSING_METRICS}"),
    Column("thrash_ratio", "float64", "share", "reacquired_tokens over evicted_tokens; missing: nothing was evicted"),
    Column("repeated_dead_ends", "Int64", "calls", f"tried again what had failed before a compaction; {_MISSING_METRICS}"),
    Column("doom_loop", "str", "", f"rule of the first loop; empty: none; {_MISSING_METRICS}"),
    Column("doom_loop_step", "Int64", "", "the step in which it began; missing: none"),
    Column("doom_loop_after_steps", "Int64", "steps", "from the compaction before it, 1 = the first after; missing: none"),
    Column("fact_uses", "Int64", "", f"facts written into calls; {_MISSING_USES}"),
    Column("wrong_uses", "Int64", "", f"of those, not with the newest value that was told; {_MISSING_USES}"),
    Column("stale_uses", "Int64", "", f"of the wrong ones, with a value that a later one had replaced; {_MISSING_USES}"),
    Column("constraint_violations", "Int64", "", f"of the wrong ones, of a constraint; {_MISSING_USES}"),
    Column("turns", "Int64", "", f"messages of the user; {_MISSING_LOG}"),
    Column("messages", "Int64", "messages", f"of all roles that joined the conversation; {_MISSING_LOG}"),
    Column("clipped_outputs", "Int64", "", f"tool outputs that were cut before they were logged; {_MISSING_LOG}"),
    Column("clipped_characters", "Int64", "characters", f"that went by those cuts; {_MISSING_LOG}"),
    Column("prunings", "Int64", "", f"applied compactions that put nothing in; {_MISSING_LOG}"),
    Column("pruned_tokens", "Int64", "tokens", f"saved by those, estimated; {_MISSING_LOG}"),
    Column(
        "pruning_seconds", "float64", "s", "wall time that those took together; missing: there is none, or its time is not known"
    ),
    Column("summaries", "Int64", "", f"applied compactions that put a summary in; {_MISSING_LOG}"),
    Column("emergency_compactions", "Int64", "", f"applied after the provider had refused the prompt; {_MISSING_LOG}"),
    Column("fruitless_compactions", "Int64", "", f"attempts that failed or would have saved nothing; {_MISSING_LOG}"),
    Column("summarizer_seconds", "float64", "s", f"of the summarizer's calls, on its virtual clock if scripted; {_MISSING_LOG}"),
    Column("cache_read_tokens", "Int64", "tokens", f"of the agent's prompts, as the provider reports; {_MISSING_LOG}"),
    Column("cache_write_tokens", "Int64", "tokens", f"of the agent's prompts, as the provider reports; {_MISSING_LOG}"),
    Column("cache_hit_share", "float64", "share", "cache_read_tokens over prompt_tokens; missing: nothing was sent"),
)

STEPS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("step", "int64", "", "number of the model call, from 1; after a rollback it counts from there again"),
    Column("rounds", "int64", "", "compactions applied before this step, since the session began"),
    Column("view_tokens", "int64", "tokens", "the view that was sent, estimated by the policy's counter"),
    Column("view_messages", "int64", "messages", "in the view that was sent"),
    Column("prompt_tokens", "int64", "tokens", "measured: input + cache_read + cache_write"),
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
    Column("action_hits", "Int64", "commands", "answered from the action cache; missing: it was not used"),
    Column("action_misses", "Int64", "commands", "run for real; missing: the action cache was not used"),
    Column("finished_at", "datetime64[ms, UTC]", "", "when the step was logged"),
    Column("is_execution", "boolean", "", f"a call does something; {_MISSING_METRICS}"),
    Column("is_retrieval", "boolean", "", f"a call only looks something up; {_MISSING_METRICS}"),
    Column("is_error", "boolean", "", f"a call ended in an error or with an exit code other than 0; {_MISSING_METRICS}"),
    Column("is_repeat", "boolean", "", f"a call was made before in the session; {_MISSING_METRICS}"),
    Column("is_redundant", "boolean", "", f"such a repeat had the same answer, its target untouched since; {_MISSING_METRICS}"),
    Column("is_reacquisition", "boolean", "", f"a call fetched what a compaction had taken away; {_MISSING_METRICS}"),
    Column("reacquired_tokens", "Int64", "tokens", f"of the results of such calls, estimated; {_MISSING_METRICS}"),
    Column("reacquired_after_steps", "float64", "steps", "mean since the compaction, 1 = the first after it; missing: none"),
)

COMPACTIONS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("event", "int64", "", "number of the event in the session's log"),
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
    Column("offloaded", "int64", "texts", "of tool results, moved out of the view into the saved outputs"),
    Column("summary", "str", "", "text of the summary; empty: none was written"),
    Column("summary_characters", "int64", "characters", "length of it"),
    Column("summarizer", "str", "", "model that wrote it; empty: nobody was asked"),
    Column("summarizer_prompt_tokens", "Int64", "tokens", "measured; missing: nobody was asked"),
    Column("summarizer_output_tokens", "Int64", "tokens", "measured; missing: nobody was asked"),
    Column("summarizer_cost_usd", "float64", "USD", "missing: nobody was asked or the price is not known"),
    Column("summarizer_seconds", "float64", "s", "of a scripted one on its virtual clock"),
    Column(
        "wall_seconds",
        "float64",
        "s",
        "from planning to the logged event as the clock on the wall has it, the summarizer's answer included; "
        "missing: an older version logged it",
    ),
    Column("logged_at", "datetime64[ms, UTC]", "", "when it was logged"),
)

CHECKS: tuple[Column, ...] = (
    Column("trial_id", "str", "", "hash of the trial's configuration"),
    Column("check", "str", "", "name of the check"),
    Column("title", "str", "", "what must hold, in words"),
    Column("passed", "bool", "", "whether it held"),
    Column("detail", "str", "", "what the grader found"),
)

MESSAGES: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("sequence", "int64", "", "number of the message in its session, in the order of coming into being"),
    Column("event", "int64", "", "number of the event that brought it"),
    Column("step", "int64", "", "the step in which it came; 0: before the first"),
    Column("role", "str", "", "system, user, assistant or tool"),
    Column("origin", "str", "", "added to the conversation, inserted by a compaction, or replacement for another"),
    Column("tool", "str", "", "name of the first tool that it calls or answers for; empty: none"),
    Column("tokens", "int64", "tokens", "estimated by the journal's counter"),
    Column("characters", "int64", "characters", "length of content"),
    Column("clipped_characters", "int64", "characters", "of tool output that were cut before it was logged"),
    Column("is_compacted", "bool", "", "no longer in the view at the end of the log"),
    Column("compacted_before_step", "Int64", "", "the step before which it left the view; missing: still in it"),
    Column("place", "str", "", "sorts the messages of a view in the order in which they are sent"),
    Column("created_at", "datetime64[ms, UTC]", "", "when it was logged"),
    Column("content", "str", "", "all that a model reads of it, part after part"),
)

PROBES: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("event", "int64", "", "number of the applied compaction's event in the session's log"),
    Column("round", "int64", "", "number of the compaction"),
    Column("step", "int64", "", "the step before which it took place"),
    Column("fact", "str", "", "name of a fact of the task that was in view before the compaction, or is after it"),
    Column("kind", "str", "", "constraint, goal, decision, artifact, value, error, progress, next-step, preference, superseded"),
    Column("said_in", "str", "", "where it is told: prompt, file, output or the agent's own words"),
    Column("reacquisition_calls", "Int64", "calls", "that bring it back; missing: it cannot be got again"),
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
