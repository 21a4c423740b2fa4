"""The five tables of results, column by column: what `Results` gives, what the Parquet files hold, what the docs print.

One row per: trial · step (model call) · attempt at a compaction · check of a trial · version of a message. `trial_id` joins
them; it is missing in sessions that belong to no trial. Amounts are per row, never running sums, unless they say so.
"""

from typing import Literal, NamedTuple, TypeAlias

Dtype: TypeAlias = Literal["str", "bool", "int64", "Int64", "float64", "datetime64[ms, UTC]"]
"""As in pandas; `Int64` and `float64` may miss values, `str` only where the description says so."""


class Column(NamedTuple):
    """A documented column."""

    name: str
    dtype: Dtype
    unit: str
    """Empty for names, labels and flags."""
    description: str


_TRIAL = Column("trial_id", "str", "", "hash of the trial's configuration; missing: a session outside of an experiment")
_SESSION = Column("session_id", "str", "", "the session in the journal")

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
    Column("policy_json", "str", "", "kind and fields of the policy, canonical JSON"),
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
)

STEPS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("step", "int64", "", "number of the model call, from 1"),
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
    Column("finished_at", "datetime64[ms, UTC]", "", "when the step was logged"),
)

COMPACTIONS: tuple[Column, ...] = (
    _TRIAL,
    _SESSION,
    Column("event", "int64", "", "number of the event in the session's log"),
    Column("round", "int64", "", "number of the applied compaction; of other attempts that of the last applied one"),
    Column("step", "int64", "", "the step before which it took place"),
    Column("moment", "str", "", "turn, step or overflow: when the policy was asked"),
    Column("status", "str", "", "applied, no-op or failed"),
    Column("reason", "str", "", "the trigger, or what went wrong"),
    Column("tokens_before", "int64", "tokens", "the view, estimated"),
    Column("tokens_after", "int64", "tokens", "the view, estimated"),
    Column("messages_before", "int64", "messages", "in the view"),
    Column("messages_after", "int64", "messages", "in the view"),
    Column("forgotten", "int64", "messages", "taken out of the view"),
    Column("replaced", "int64", "messages", "replaced by shorter ones"),
    Column("inserted", "int64", "messages", "summaries and markers put in"),
    Column("summary", "str", "", "text of the summary; empty: none was written"),
    Column("summary_characters", "int64", "characters", "length of it"),
    Column("summarizer", "str", "", "model that wrote it; empty: nobody was asked"),
    Column("summarizer_prompt_tokens", "Int64", "tokens", "measured; missing: nobody was asked"),
    Column("summarizer_output_tokens", "Int64", "tokens", "measured; missing: nobody was asked"),
    Column("summarizer_cost_usd", "float64", "USD", "missing: nobody was asked or the price is not known"),
    Column("summarizer_seconds", "float64", "s", "of a scripted one on its virtual clock"),
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
    Column("is_compacted", "bool", "", "no longer in the view at the end of the log"),
    Column("compacted_before_step", "Int64", "", "the step before which it left the view; missing: still in it"),
    Column("place", "str", "", "sorts the messages of a view in the order in which they are sent"),
    Column("created_at", "datetime64[ms, UTC]", "", "when it was logged"),
    Column("content", "str", "", "all that a model reads of it, part after part"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "trials": TRIALS,
    "steps": STEPS,
    "compactions": COMPACTIONS,
    "checks": CHECKS,
    "messages": MESSAGES,
}
"""By the name that `Results`, its SQL and the Parquet files use."""
