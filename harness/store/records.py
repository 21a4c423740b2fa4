"""Records that an experiment stores beside the log of a trial: the trial, its checks, and the metrics of its session.

Metrics and probes are computed from the log at the end of a session; a session whose process was killed has none.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from harness.messages import ToolCall

Treatment: TypeAlias = Literal["as planned", "partly", "not at all"]
"""Share of the due compactions that took place in a trial: all of them (also if none was due), some or none."""

Activity: TypeAlias = Literal["active", "summarizer never asked", "no effect", "never fired", "control"]
"""Effect of a policy in a session. `active`: the policy changed the view. `summarizer never asked`: it changed the view, but
never called its summarizer. `no effect`: its trigger fired, but the view never changed. `never fired`: its trigger never fired.
`control`: the policy has no trigger."""

EXTERNAL_FAILURE_REASONS = ("sandbox_error", "store_error", "model_error", "cancelled", "crashed")
"""Stop reasons with a cause outside the arm. `overflow` and `max_steps` are not included, because the arm can cause both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """Record of a finished trial: its configuration, outcome and cost."""

    trial_id: str
    session_id: str
    """Id of the session in the journal; empty if the trial crashed before the session began."""
    experiment: str
    arm: str
    """Short label of the configuration without task and seed."""
    task: str
    seed: int
    replicate: int
    model: str
    policy: str
    """Kind of the compaction policy."""
    policy_json: str
    """Kind and fields of the policy as configured, before scaling, as canonical JSON."""
    config_json: str
    """Whole configuration of the trial as canonical JSON; its hash is the trial id."""
    axes_json: str
    """JSON object that gives the trial's value of each axis by the dotted path of the axis."""
    window_tokens: int
    """Context window of the model; 0 if unknown."""
    threshold_tokens: int | None = None
    """View size in tokens from which the policy compacts; None if the policy never compacts by itself."""
    max_steps: int
    level: str
    """Fidelity level, from `L0` (scripted model and summarizer) to `L3` (all real)."""
    status: Literal["completed", "failed", "crashed"]
    reason: str
    success: bool
    """Whether all checks passed."""
    score: float
    """Share of the checks that passed, 0 to 1."""
    steps: int
    compactions: int
    """Number of applied compactions."""
    prompt_tokens: int
    """Prompt tokens of all calls of the agent, cached tokens included."""
    output_tokens: int
    cost_usd: float | None
    """Cost of the agent's calls in USD; None if a price is unknown."""
    summarizer_prompt_tokens: int = 0
    summarizer_output_tokens: int = 0
    summarizer_cost_usd: float | None = 0.0
    """Cost of the summarizer's calls in USD; None if a price is unknown."""
    peak_context_tokens: int
    """Size of the longest prompt, as the provider measured it."""
    treatment: Treatment
    sandbox: str
    """Sandbox backend that ran the tools."""
    started_at_ms: int
    """Start of the trial in milliseconds since the epoch."""
    wall_seconds: float
    error: str = ""
    traceback: str = ""
    provenance_json: str = "{}"
    """JSON object with the versions of package, Python and price table, the git commit, and hashes."""
    action_hits: int | None = None
    """Number of commands answered from the action cache; None if no cache was used."""
    action_misses: int | None = None
    """Number of commands that were run; None if no action cache was used."""
    scale: float | None = 1.0
    """Factor on the policy's constants (1 is unscaled); None if the trial broke off before the factor was known."""
    activity: Activity | None = None
    """Effect of the policy; None if the trial broke off before the effect was known."""
    cache_saved_usd: float | None = None
    """Savings in USD by prompt tokens read from the provider's cache, less the surcharge on tokens written to it; None if a price
    is unknown."""
    cache_could_save_usd: float | None = None
    """Savings in USD with a simulated cache that never evicts: each request reads the prefix shared with the previous one."""
    retries: int | None = None
    """Number of calls of real models, summarizers included, that were repeated after a rate limit or fault; None if unknown."""
    waited_seconds: float | None = None
    """Total waiting time before retries of model calls, in seconds; None if unknown."""


class Draft(NamedTuple):
    """Unfinished answer of a model, as last saved; an answer is saved about once a second while the model writes."""

    step: int
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls that were started after the answer was complete."""


class StepActions(NamedTuple):
    """Use of the action cache in one step."""

    step: int
    hits: int
    """Number of commands answered from the action cache."""
    misses: int
    """Number of commands that were run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """Result of one check of a trial."""

    trial_id: str
    check: str
    title: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """Counts of the tool calls of one step, by kind of call."""

    step: int
    executions: int = 0
    """Number of calls that change or run something."""
    retrievals: int = 0
    """Number of calls that only look something up."""
    failures: int = 0
    """Number of calls that ended in an error or with a non-zero exit code."""
    repeats: int = 0
    """Number of calls that had been made before in the session."""
    redundant: int = 0
    """Number of repeated calls with the same answer, whose target had not changed since."""
    reacquisitions: int = 0
    """Number of calls that fetched again what a compaction had evicted."""
    reacquired_tokens: int = 0
    """Tokens in the results of reacquisitions, estimated by the policy's token counter."""
    reacquired_steps: int = 0
    """Sum, over all reacquisitions, of the number of steps since the compaction that evicted the content (1 is the next step)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMetrics:
    """Metrics of a whole session: evictions, thrashing, loops and uses of facts."""

    evicted_tokens: int = 0
    """Tokens evicted from the view by compactions, estimated by the policy's token counter."""
    close_compactions: int = 0
    """Number of compactions applied fewer than 3 steps after the previous one."""
    full_compactions: int = 0
    """Number of compactions that left at least 90 % of the threshold in view."""
    evicted_again: int = 0
    """Number of times that a target was evicted, reacquired and evicted again."""
    repeated_dead_ends: int = 0
    loop_rule: str = ""
    """Rule that detected the first doom loop; empty if there is none."""
    loop_onset_step: int | None = None
    loop_after_steps: int | None = None
    """Steps from the last compaction to the start of the loop (1 is the next step); None without a loop or earlier compaction."""
    fact_uses: int | None = None
    """Number of times that a fact was written into a call; None, like the next three fields, if no call could be recognised."""
    wrong_uses: int | None = None
    stale_uses: int | None = None
    """Number of times that a call used a value of a fact that a newer value had replaced."""
    constraint_violations: int | None = None
    """Number of times that a call used a wrong value of a fact that is a constraint."""
    steps: tuple[StepMetrics, ...] = ()
    """Counts of each step in order; steps without calls are left out."""


FactUse: TypeAlias = Literal["right", "stale", "wrong"]
"""Value of a fact that a call used: the newest one (`right`), one that had been replaced (`stale`), or another (`wrong`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRecord:
    """Fact of a session's task."""

    number: int
    """Number of the fact within the session."""
    name: str
    kind: str
    said_in: str
    reacquisition_calls: int | None
    """Number of tool calls needed to find the fact again; None if it cannot be found again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """State of one fact at an applied compaction, in terms of the newest value that had been stated."""

    event: int
    """Number of the compaction's event in the log."""
    fact: int
    """Number of the fact within the session."""
    version: int
    """Number of the newest value among all values stated for the fact so far, from 1."""
    seen_before: bool
    """Whether the task's patterns find the value in the view before the compaction."""
    seen_after: bool
    """Whether the task's patterns find the value in the view after the compaction."""
    used_step: int | None = None
    """Next step with a call that contains the fact; None if no such call was recognised."""
    used: FactUse | None = None
    """Kind of the value in the next call that contains the fact; None if no such call was recognised."""
    stands_after: bool | None = None
    """Whether `seen_after` holds or the value is a whole token in the view afterwards; None if the value is too short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """All probes of a session, with the facts that they refer to."""

    facts: tuple[FactRecord, ...] = ()
    rows: tuple[ProbeRecord, ...] = ()
