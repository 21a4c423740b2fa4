"""What an experiment keeps of a trial beside its log: one row for the trial and one for each check."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Treatment: TypeAlias = Literal["as planned", "partly", "not at all"]
"""Whether a trial got the compactions that its policy asked for: all (also when none was due), some, or none of those due."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """What one check of a trial found."""

    trial_id: str
    check: str
    title: str
    passed: bool
    detail: str = ""
