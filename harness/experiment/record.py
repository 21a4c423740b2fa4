"""What is known of an attempt at a trial, put into the rows that are stored of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness import codec
from harness.compaction.description import Abilities
from harness.events import SessionStarted
from harness.experiment.job import Finished, Job
from harness.experiment.provenance import level_of
from harness.experiment.trial import to_plain
from harness.models.factory import is_scripted
from harness.models.local.catalogue import is_local
from harness.models.local.model import describe_local_model
from harness.protocols import SandboxInfo
from harness.session.grading import Judged
from harness.session.totals import Tally
from harness.store.records import CheckRecord, TrialRecord

MOST_ERROR_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended."""

    status: Literal["completed", "failed", "crashed"]
    reason: str
    error: str = ""
    traceback: str = ""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """All that is known of a trial at work; whatever stands here when something breaks is what is recorded."""

    started_at: float
    """Seconds since the epoch."""
    session_id: str = ""
    tally: Tally = field(default_factory=Tally)
    session: SessionStarted | None = None
    scale: float | None = None
    """Of the policy's constants; None = it broke off before that was known."""
    abilities: Abilities | None = None
    """Of the policy; None = it broke off before that was known."""
    sandbox: SandboxInfo | None = None
    container: str | None = None
    """Name that its container has where one is started (S0.2); None = its backend has none."""
    judged: tuple[Judged, ...] = ()
    ending: Ending = field(default_factory=lambda: Ending(status="crashed", reason="crashed", error="it never began"))

    def finished(self, job: Job, ended_at: float) -> Finished:
        """The rows of the trial as it stands."""
        record = _trial_record(job, self, ended_at - self.started_at)
        return Finished(record, tuple(_check_record(job.trial_id, judged) for judged in self.judged))


def axes_json(axes: Mapping[str, object]) -> str:
    """A trial's value on each axis, as it is stored."""
    return json.dumps(dict(axes), ensure_ascii=False, sort_keys=True)


def _trial_record(job: Job, attempt: Attempt, wall_seconds: float) -> TrialRecord:
    trial, tally, session, ending = job.trial, attempt.tally, attempt.session, attempt.ending
    passed = sum(judged.passed for judged in attempt.judged)
    return TrialRecord(
        trial_id=job.trial_id,
        session_id=attempt.session_id,
        experiment=job.experiment,
        arm=job.arm,
        task=trial.problem,
        seed=trial.seed,
        replicate=trial.replicate,
        model=session.model if session else trial.model,
        policy=trial.policy_kind,
        policy_json=codec.to_canonical_json(trial.policy),
        config_json=codec.to_canonical_json(to_plain(trial), dict),
        axes_json=axes_json(job.axes),
        window_tokens=session.window_tokens if session else trial.window_tokens or 0,
        threshold_tokens=session.threshold_tokens if session else None,
        max_steps=trial.max_steps,
        level=level_of(trial),
        status=ending.status,
        reason=ending.reason,
        success=bool(attempt.judged) and passed == len(attempt.judged),
        score=passed / len(attempt.judged) if attempt.judged else 0.0,
        steps=tally.steps,
        compactions=tally.compactions,
        prompt_tokens=tally.prompt_tokens,
        output_tokens=tally.output_tokens,
        cost_usd=tally.cost_usd,
        summarizer_prompt_tokens=tally.summarizer_prompt_tokens,
        summarizer_output_tokens=tally.summarizer_output_tokens,
        summarizer_cost_usd=tally.summarizer_cost_usd,
        peak_context_tokens=tally.peak_context_tokens,
        treatment=tally.treatment,
        sandbox=attempt.sandbox.backend if attempt.sandbox else job.backend,
        action_hits=tally.counts.hits if tally.counts else None,
        action_misses=tally.counts.misses if tally.counts else None,
        scale=1.0 if trial.nominal_window_tokens is None else attempt.scale,
        activity=None if attempt.abilities is None else tally.activity(attempt.abilities),
        cache_saved_usd=tally.cache_saved_usd,
        cache_could_save_usd=tally.cache_could_save_usd,
        retries=tally.retries,
        waited_seconds=tally.waited_seconds,
        started_at_ms=int(attempt.started_at * 1000),
        wall_seconds=wall_seconds,
        error=ending.error[:MOST_ERROR_CHARACTERS],
        traceback=ending.traceback,
        provenance_json=_provenance_json(job, attempt),
    )


def _check_record(trial_id: str, judged: Judged) -> CheckRecord:
    check = judged.check
    return CheckRecord(trial_id=trial_id, check=check.name, title=check.title, passed=judged.passed, detail=judged.detail)


def _provenance_json(job: Job, attempt: Attempt) -> str:
    trial = job.trial
    own = {
        "model": trial.model,
        "summarizer": trial.summarizer,
        "cassette": job.cassette.describe() if job.cassette and not all(map(is_scripted, trial.models)) else None,
        "local_models": [describe_local_model(name) for name in trial.models if is_local(name)],
        "task_seed": trial.seed,
        "model_seed": trial.model_seed,
        "sandbox": codec.to_plain(attempt.sandbox) if attempt.sandbox else None,
        "container": attempt.container,
    }
    return codec.to_canonical_json({**codec.to_plain(job.provenance), **own}, dict)
