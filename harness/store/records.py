"""Records that an experiment stores beside the log of a trial, such as the trial's outcome, its checks and its metrics.

Two kinds of records are computed from the log at the end of a session: metrics, and records of which facts a compaction kept in
view (probes). A session whose process was killed has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.events import CallTiming
from harness.conversation.messages import ToolCall, ToolResult
from harness.errors import UsageError
from harness.store.columns import STEP_COUNTS

Treatment: TypeAlias = Literal["as planned", "partly", "not at all"]
"""How many of the compactions that were due in a trial took place: all (also if none was due), some or none."""

Activity: TypeAlias = Literal["active", "summarizer never asked", "no effect", "never fired", "control"]
"""Effect of a compaction policy in a session.

- `active`: the policy changed the view (the messages that the model sees).
- `summarizer never asked`: the policy changed the view, but never called its summarizer.
- `no effect`: the policy's trigger (condition for a compaction) was met, but the view never changed.
- `never fired`: the trigger was never met.
- `control`: the policy has no trigger.
"""

Level: TypeAlias = Literal["L0", "L1", "L2-open", "L2-fork", "L3"]
"""Fidelity level of a trial or session, which says how much of it is real.

- `L0`: All models are scripted.
- `L1`: The agent is scripted, but the summarizer or a sub-agent is a real model.
- `L2-open` and `L2-fork`: A recorded session is replayed.
- `L3`: The agent is a real model.
"""

EXTERNAL_FAILURE_REASONS = ("sandbox_error", "store_error", "model_error", "cancelled", "crashed")
"""Reasons of failure for which the configuration under study is not to blame.

A configuration can cause `overflow`, `max_steps`, `timeout` and `repeated_crash`, so they are not included. Crashed trials are
excluded from statistics anyway.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """Record of a finished trial (one configuration on one task with one seed), with outcome and cost."""

    trial_id: str
    session_id: str
    """Id of the trial's session in the journal; empty if the trial crashed before the session began."""
    experiment: str
    arm: str
    """Short name of the trial's configuration (arm), the same for all tasks and seeds."""
    task: str
    seed: int
    replicate: int
    model: str
    policy: str
    """Name of the kind of compaction policy that the trial used."""
    policy_json: str
    """Kind and fields of the compaction policy as canonical JSON, before its constants are scaled to the context window."""
    config_json: str
    """Whole configuration of the trial as JSON with sorted keys; the trial id is computed from it and from code revisions."""
    axes_json: str
    """JSON object with the trial's value of each setting that varies in the experiment, by the dotted path of the setting."""
    window_tokens: int
    """Size of the model's context window in tokens; 0 if unknown."""
    threshold_tokens: int | None = None
    """Estimated number of tokens in the conversation at which the policy compacts; None if it never compacts by itself."""
    max_steps: int
    level: str
    """How much of the trial is real: from `L0` (scripted model and summarizer) to `L3` (all real)."""
    status: Literal["completed", "failed", "crashed"]
    reason: str
    success: bool
    """Whether all checks of the task passed at the end of the trial."""
    score: float
    """Number of the task's checks that passed, divided by the number of all its checks."""
    steps: int
    compactions: int
    """Number of compactions that changed the messages that the model sees next."""
    prompt_tokens: int
    """Total prompt tokens of the agent's model calls, cached tokens included."""
    output_tokens: int
    cost_usd: float | None
    """Total cost of the agent's model calls in USD; None if the price of a model is unknown."""
    summarizer_prompt_tokens: int = 0
    summarizer_output_tokens: int = 0
    summarizer_cost_usd: float | None = 0.0
    """Total cost of the summarizer's model calls in USD; None if the price of a model is unknown."""
    peak_context_tokens: int
    """Number of tokens in the longest prompt of the trial, as the provider measured it."""
    treatment: Treatment
    sandbox: str
    """Name of the sandbox backend that ran the agent's tools."""
    started_at_ms: int
    """Time at which the trial started, in milliseconds since the epoch."""
    wall_seconds: float
    error: str = ""
    traceback: str = ""
    provenance_json: str = "{}"
    """JSON object that documents how the trial was run, such as software versions, git commit and hashes."""
    action_hits: int | None = None
    """Number of the trial's commands answered from the action cache instead of being run; None if no cache was used."""
    action_misses: int | None = None
    """Number of the trial's commands that were run because the action cache had no answer; None if no cache was used."""
    scale: float | None = 1.0
    """Factor by which the policy's constants were multiplied (1 is unscaled); None if unknown, because the trial broke off."""
    activity: Activity | None = None
    """Effect of the compaction policy in the trial; None if the trial broke off before the effect was known."""
    cache_saved_usd: float | None = None
    """Amount in USD saved by reading prompt tokens from the provider's cache, less the surcharge for writing to it.

    None if a price is unknown.
    """
    cache_could_save_usd: float | None = None
    """Amount in USD that a perfect provider's cache would save.

    Such a cache holds all messages that a request and the previous request have in common at their beginnings.
    """
    retries: int | None = None
    """Number of times that calls of real models were repeated after a rate limit or fault; None if unknown."""
    waited_seconds: float | None = None
    """Total time in seconds that the trial waited before repeating model calls; None if unknown."""
    explorations: int | None = None
    """Number of sub-agents that the agent sent to explore; None in records of older versions, whose trials had none."""
    sub_agent_steps: int | None = None
    sub_agent_prompt_tokens: int | None = None
    """Total prompt tokens of the sub-agents' model calls and summaries, cached tokens included; None in older records."""
    sub_agent_output_tokens: int | None = None
    sub_agent_cost_usd: float | None = None
    """Total cost of the sub-agents in USD; None if the price of a model is unknown, and in older records."""
    verdict_cached: bool | None = None
    """Whether the results of the checks come from the cache; None if the workspace was not graded, and in older records."""
    overflows: int | None = None
    """Number of prompts of the agent that the provider refused as too long; None in records of version 0.2 or older."""
    output_limits_json: str | None = None
    """Limits on the length of a tool output in the session, as a JSON object; None in older records and without a session."""
    advisories_json: str | None = None
    """Warnings about the configuration that were found before the session began, as a JSON list; None in older records."""
    acts_on: str | None = None
    """Token counts that the policy compares with its threshold; empty for its own estimate, None in older records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """Record of a session outside of trials, computed from its log, with the columns of the table of trials that apply to it.

    Nobody stores such a record: it is computed when the results of a journal are loaded. The fields mean the same as in
    `TrialRecord`; the columns of the table of trials without a field here have no value for such a session.
    """

    trial_id: str
    """Id of the session, which stands for the id of a trial in the tables of results."""
    session_id: str
    arm: str
    """Name of the policy with its fields that differ from the default, the model and the context window."""
    task: str | None
    """Name of the task; None for a session without a task."""
    model: str
    policy: str
    policy_json: str
    config_json: str
    """Configuration with which the session can be reopened, as canonical JSON; `{}` in a log of another program."""
    axes_json: str = "{}"
    window_tokens: int
    threshold_tokens: int | None
    max_steps: int | None
    """Maximum number of steps in each turn; None in a log of another program."""
    level: str
    status: Literal["active", "completed", "failed"]
    """Whether the session ended, and how; `active` if its log has no end, because it is running or its process was killed."""
    reason: str
    steps: int
    compactions: int
    prompt_tokens: int
    output_tokens: int
    cost_usd: float | None
    summarizer_prompt_tokens: int
    summarizer_output_tokens: int
    summarizer_cost_usd: float | None
    peak_context_tokens: int
    treatment: Treatment
    sandbox: str
    scale: float | None
    activity: Activity | None
    """Effect of the compaction policy in the session; None if the policy is unknown here."""
    cache_saved_usd: float | None
    cache_could_save_usd: float | None
    explorations: int
    sub_agent_steps: int
    sub_agent_prompt_tokens: int
    sub_agent_output_tokens: int
    sub_agent_cost_usd: float | None
    started_at_ms: int | None
    """Time at which the session was created, in milliseconds since the epoch; None if its log has no times."""
    wall_seconds: float | None
    """Time from the creation of the session to its last event, pauses of the user included; None if its log has no times."""
    overflows: int
    error: str
    traceback: str = ""
    advisories_json: str | None = None
    acts_on: str | None = None
    provenance_json: str = "{}"


class UnfinishedStep(NamedTuple):
    """Unfinished step, as last saved: the model's answer so far or, while tools run, their results so far."""

    step: int
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Started tool calls of a complete answer, in journals of version 0.2 or older only; newer versions log the answer itself."""
    results: tuple[ToolResult, ...] = ()
    """Results of the logged answer's tool calls that have ended, in the order in which they ended."""
    tree_id: str | None = None
    """Id of the workspace snapshot that was saved after the newest result.

    None if the workspace has not changed; empty if it could not be saved.
    """
    timings: tuple[CallTiming, ...] = ()
    """Timings of the calls in `results`, in the same order; empty in journals of version 0.2 or older."""


class StepActions(NamedTuple):
    """Number of commands of one step that the action cache answered, and of those that were run."""

    step: int
    hits: int
    """Number of the step's commands that were answered from the action cache."""
    misses: int
    """Number of the step's commands that were run, because the action cache had no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """Result of one check with which the task grades the workspace at the end of a trial."""

    trial_id: str
    check: str
    title: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """Numbers of tool calls in one step of a session, by kind of call, such as repeated calls.

    Raises:
        UsageError: The numbers are not exactly those that `harness.store.columns` declares.
    """

    step: int
    counts: Mapping[str, int]
    """Number for each name in `harness.store.columns.STEP_COUNTS`."""

    def __post_init__(self) -> None:
        if undeclared := sorted(self.counts.keys() - STEP_COUNTS):
            raise UsageError(
                f"step {self.step} has counts without a column: {', '.join(undeclared)}; declare them in harness/store/columns.py"
            )
        if missing := sorted(STEP_COUNTS - self.counts.keys()):
            raise UsageError(
                f"step {self.step} lacks counts that columns declare: {', '.join(missing)}; compute them in "
                "harness/metrics/call_metrics.py"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMetrics:
    """Metrics of a session, such as content that was removed and fetched again, loops, and the use of facts."""

    evicted_tokens: int = 0
    """Number of tokens that compactions removed from what the model sees, estimated by the policy's token counter."""
    close_compactions: int = 0
    """Number of compactions applied fewer than 3 steps after the previous compaction."""
    full_compactions: int = 0
    """Number of compactions that left the conversation at 90 % or more of the token threshold for the next compaction."""
    evicted_again: int = 0
    """Number of times that a compaction removed content, such as a file, that had been removed and fetched again before."""
    repeated_dead_ends: int = 0
    loop_rule: str = ""
    """Name of the rule that detected the first doom loop (the same calls over and over); empty if there is none."""
    loop_onset_step: int | None = None
    loop_after_steps: int | None = None
    """Number of steps from the last compaction to the start of the first loop; None without a loop or an earlier compaction."""
    fact_uses: int | None = None
    """Number of times that the agent wrote a fact of the task into a tool call; None if no call could be recognised."""
    wrong_uses: int | None = None
    stale_uses: int | None = None
    """Number of times that a tool call used an old value of a fact; None if no call could be recognised."""
    constraint_violations: int | None = None
    """Number of times that a tool call used a wrong value for a constraint of the task; None if no call could be recognised."""
    path_survival: float | None = None
    """Share of the paths in messages which compactions removed that a message in view still had; None if no path was removed."""
    command_survival: float | None = None
    number_survival: float | None = None
    identifier_survival: float | None = None
    decision_survival: float | None = None
    user_constraint_survival: float | None = None
    freed_share: float | None = None
    """Mean share of the tokens in view that a compaction freed; None without a compaction."""
    floor_growth_tokens: float | None = None
    """Mean number of tokens by which the view right after a compaction grew from one to the next; None with fewer than two."""
    cycles_to_stuck: int | None = None
    """Number of compactions before the first that freed less than a tenth; None if all freed more."""
    prefix_breaks_per_100_steps: float | None = None
    stable_prefix_share: float | None = None
    """Mean share of the tokens before a compaction with which the next request still began; None without a compaction."""
    blocking_seconds: float | None = None
    trigger_error: float | None = None
    """Mean of the provider's count of the context when a compaction was triggered, divided by the threshold."""
    duplicate_calls: int | None = None
    resume_steps: float | None = None
    """Mean number of steps from a compaction until the agent changed or ran something new; None if it never did."""
    cuts_in_loop: int | None = None
    """Number of compactions while the newest test run had failed; None without a compaction."""
    steps: tuple[StepMetrics, ...] = ()
    """Numbers of tool calls in each step of the session, in order; steps without calls are left out."""
    trajectory: str = ""
    """Digest of the sequence of tool calls with the shapes of their arguments; empty if unknown."""


FactUse: TypeAlias = Literal["right", "stale", "wrong"]
"""Whether a tool call used the newest value of a fact (`right`), an earlier value (`stale`) or another one (`wrong`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRecord:
    """Fact of a session's task: a piece of information that the agent needs, such as a port number."""

    number: int
    """Number that identifies the fact within its session."""
    name: str
    kind: str
    said_in: str
    reacquisition_calls: int | None
    """Number of tool calls needed to find the fact again after a compaction removed it; None if tool calls cannot find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """Record of whether a compaction kept the newest value of one fact, and when the agent used the fact next.

    A fact is a value that the agent must remember.
    """

    event: int
    """Number of the event in the session's log that records the compaction."""
    fact: int
    """Number that identifies the fact within the session, as in `FactRecord.number`."""
    version: int
    """Number of values that the fact had been given before the compaction; the record is about the newest value."""
    seen_before: bool
    """Whether the task's patterns find the fact's newest value in the messages that the model saw before the compaction."""
    seen_after: bool
    """Whether the task's patterns find the fact's newest value in the messages that the model sees after the compaction."""
    used_step: int | None = None
    """Number of the next step with a tool call that contains the fact; None if no such call was recognised."""
    used: FactUse | None = None
    """Whether the next tool call with the fact had the right, a stale or a wrong value; None if no such call was recognised."""
    stands_after: bool | None = None
    """Whether the fact's newest value stands anywhere in the messages that the model sees after the compaction.

    It stands there if the task's patterns find it, or if it occurs as a whole token. None if the value is too short to be
    searched for.
    """
    seen_in_kept: bool | None = None
    """Whether the task's patterns find the fact's newest value in a message that the compaction left unchanged.

    If not, only the summary could keep the value: it did if `seen_after`. None if no summarizer was called.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Records of which facts each compaction of a session kept in view."""

    facts: tuple[FactRecord, ...] = ()
    rows: tuple[ProbeRecord, ...] = ()
