"""What an experiment keeps of a trial beside its log: the trial, its checks, and how its session behaved.

Conduct and probes are computed from a log when its session has ended; a session whose process was killed has none.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from harness.messages import ToolCall

Treatment: TypeAlias = Literal["as planned", "partly", "not at all"]
"""Whether a trial got the compactions that its policy asked for: all (also when none was due), some, or none of those due."""

Activity: TypeAlias = Literal["active", "summarizer never asked", "no effect", "never fired", "control"]
"""What became of a policy in a session: it changed the view; it did, but never asked for the summary that it could ask for; it
was due and changed nothing; it was never due; or it has no rule that could ever be due."""

EXTERNAL_FAILURE_REASONS = ("sandbox_error", "store_error", "model_error", "cancelled", "crashed")
"""Reasons of an end that say nothing about an arm. `overflow` and `max_steps` are none of them: they are what it led to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """A finished trial: what was run, how it ended, what it took."""

    trial_id: str
    session_id: str
    """Of the session in the journal; empty when the trial crashed before it began."""
    experiment: str
    arm: str
    """Short readable label."""
    task: str
    seed: int
    replicate: int
    model: str
    policy: str
    """Kind."""
    policy_json: str
    """As configured, not scaled."""
    config_json: str
    """The whole configuration; its hash is the trial id."""
    axes_json: str
    """JSON object: dotted path of each axis -> this trial's value."""
    window_tokens: int
    """0 = unknown."""
    threshold_tokens: int | None = None
    """None = this policy never compacts by itself."""
    max_steps: int
    level: str
    """Fidelity: `L0` scripted model and summarizer, `L1` real summarizer, ..., `L3` all real."""
    status: Literal["completed", "failed", "crashed"]
    reason: str
    success: bool
    """All checks passed."""
    score: float
    """Share of the checks that passed, 0 to 1."""
    steps: int
    compactions: int
    """Applied ones."""
    prompt_tokens: int
    """Of the agent's calls, cached tokens included, summed over the steps."""
    output_tokens: int
    cost_usd: float | None
    """Of the agent's calls; None = a price is not known."""
    summarizer_prompt_tokens: int = 0
    summarizer_output_tokens: int = 0
    summarizer_cost_usd: float | None = 0.0
    """None = a price is not known."""
    peak_context_tokens: int
    """The longest prompt as the provider measured it."""
    treatment: Treatment
    sandbox: str
    """Backend."""
    started_at_ms: int
    """Milliseconds since the epoch."""
    wall_seconds: float
    error: str = ""
    traceback: str = ""
    provenance_json: str = "{}"
    """Versions of package, Python and price table, git commit, hashes."""
    action_hits: int | None = None
    """Commands answered from the action cache; None = it was not used."""
    action_misses: int | None = None
    """Commands that were run; None = the action cache was not used."""
    scale: float | None = 1.0
    """By which the policy's constants were multiplied (1 = not scaled); None = it broke off before that was known."""
    activity: Activity | None = None
    """What became of the policy; None = it broke off before that was known."""
    cache_saved_usd: float | None = None
    """By what the agent's calls read from the provider's cache, less the surcharge on what they wrote to it; None = a price
    is not known."""
    cache_could_save_usd: float | None = None
    """The same for a cache that forgets nothing, simulated from what each request shares with the one before."""
    retries: int | None = None
    """Calls of real models, summarizers among them, that were made again after a rate limit or a fault; None = not known."""
    waited_seconds: float | None = None
    """Before those; None = not known."""


class Draft(NamedTuple):
    """An answer as far as it had come when it was kept, at most a second before its process ended."""

    step: int
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Those that were started, once the answer was whole."""


class StepActions(NamedTuple):
    """How the commands of one step came by their results."""

    step: int
    hits: int
    """Answered from the action cache."""
    misses: int
    """Run for real."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """What one check of a trial found."""

    trial_id: str
    check: str
    title: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What the calls of one step were; every count is of calls."""

    step: int
    executions: int = 0
    """Calls that are no retrievals."""
    retrievals: int = 0
    """Calls that only look something up."""
    failures: int = 0
    """Ended in an error or with an exit code other than 0."""
    repeats: int = 0
    """Made before in this session."""
    redundant: int = 0
    """Of the repeats: with the same answer, nothing having touched what they are about."""
    reacquisitions: int = 0
    """Fetched again what a compaction had taken away."""
    reacquired_tokens: int = 0
    """Of their results, estimated by the policy's counter."""
    reacquired_steps: int = 0
    """Steps since the compactions that took it away (1 = the first after it), summed over the reacquisitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMetrics:
    """How a session behaved as a whole; the definitions are those of RESEARCH 2.4."""

    evicted_tokens: int = 0
    """Taken out of view by compactions, estimated by the policy's counter."""
    close_compactions: int = 0
    """Applied fewer than 3 steps after the one before."""
    full_compactions: int = 0
    """Left at least 90 % of the threshold in view."""
    evicted_again: int = 0
    """Times that a target was taken away, fetched again and taken away again."""
    repeated_dead_ends: int = 0
    loop_rule: str = ""
    """Of the first doom loop; empty = none."""
    loop_onset_step: int | None = None
    loop_after_steps: int | None = None
    """Steps from the compaction before the onset (1 = the first after it); None = no loop, or no compaction before it."""
    fact_uses: int | None = None
    """Facts written into calls; None, as below = no call could be recognised."""
    wrong_uses: int | None = None
    stale_uses: int | None = None
    """Of the wrong ones: with a value that a later one had replaced."""
    constraint_violations: int | None = None
    """Of the wrong ones: of a constraint."""
    steps: tuple[StepMetrics, ...] = ()
    """In order; steps without calls are left out."""


FactUse: TypeAlias = Literal["right", "stale", "wrong"]
"""What value a call was written with: the newest that was told, one that had been replaced by then, or another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRecord:
    """A fact of a session's task."""

    number: int
    """Names it among the facts of the session."""
    name: str
    kind: str
    said_in: str
    reacquisition_calls: int | None
    """Tool calls that bring it back; None = it cannot be got again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """A fact at an applied compaction, by the newest value that had been told."""

    event: int
    """Of the compaction in the log."""
    fact: int
    """Number of the fact."""
    version: int
    """Which of the values that were told for it, from 1."""
    seen_before: bool
    """The value could be read in the view by the task's patterns."""
    seen_after: bool
    """It can be read in the view that the compaction left."""
    used_step: int | None = None
    """The next step in which a call was written with the fact; None = none was recognised."""
    used: FactUse | None = None
    """With which value; None = none was recognised."""
    stands_after: bool | None = None
    """It can be read in that view, or stands there as a whole token in any words; None = too short to tell from other texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """All probes of a session, and the facts that they are about."""

    facts: tuple[FactRecord, ...] = ()
    rows: tuple[ProbeRecord, ...] = ()
