"""Record of a trial: the rows that are stored of it, built from everything known about its run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness import codec
from harness.compaction.description import inspect_abilities
from harness.compaction.scaling import FittedPolicy
from harness.events import SessionStarted
from harness.experiment.job import FinishedTrial, Job
from harness.experiment.provenance import classify_level
from harness.experiment.trial import to_plain
from harness.models.local.catalogue import is_local
from harness.models.local.model import describe_local_model
from harness.models.scripted.profiles import is_scripted
from harness.protocols import SandboxInfo
from harness.session.grading import GradedCheck
from harness.session.totals import TrialTotals
from harness.store.records import CheckRecord, TrialRecord

MAX_ERROR_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended."""

    status: Literal["completed", "failed", "crashed"]
    reason: str
    error: str = ""
    traceback: str = ""


@dataclass(slots=True, kw_only=True)
class TrialRun:
    """Everything known of a running trial; whatever stands here when something breaks is what is recorded."""

    started_at: float
    """Seconds since the epoch."""
    session_id: str = ""
    totals: TrialTotals = field(default_factory=TrialTotals)
    start_event: SessionStarted | None = None
    fitted_policy: FittedPolicy | None = None
    """Policy in the window of the model; None = the trial broke off before its session was assembled."""
    sandbox: SandboxInfo | None = None
    container: str | None = None
    """Name of the container (S0.2); None = the backend starts none."""
    graded_checks: tuple[GradedCheck, ...] = ()
    ending: Ending = field(default_factory=lambda: Ending(status="crashed", reason="crashed", error="it never began"))

    def build_finished_trial(self, job: Job, ended_at: float) -> FinishedTrial:
        """Build the rows of the trial as it stands."""
        record = _build_trial_record(job, self, ended_at - self.started_at)
        return FinishedTrial(record, tuple(_build_check_record(job.trial_id, judged) for judged in self.graded_checks))


def encode_axes(axes: Mapping[str, object]) -> str:
    """Return the stored form of a trial's value on each axis."""
    return json.dumps(dict(axes), ensure_ascii=False, sort_keys=True)


def _build_trial_record(job: Job, run: TrialRun, wall_seconds: float) -> TrialRecord:
    trial, totals, start_event, fitted, ending = job.trial, run.totals, run.start_event, run.fitted_policy, run.ending
    passed_count = sum(judged.passed for judged in run.graded_checks)
    return TrialRecord(
        trial_id=job.trial_id,
        session_id=run.session_id,
        experiment=job.experiment,
        arm=job.arm,
        task=trial.problem,
        seed=trial.seed,
        replicate=trial.replicate,
        model=start_event.model if start_event else trial.model,
        policy=trial.policy_kind,
        policy_json=codec.to_canonical_json(trial.policy),
        config_json=codec.to_canonical_json(to_plain(trial), dict),
        axes_json=encode_axes(job.axes),
        window_tokens=start_event.window_tokens if start_event else trial.window_tokens or 0,
        threshold_tokens=start_event.threshold_tokens if start_event else None,
        max_steps=trial.max_steps,
        level=classify_level(trial),
        status=ending.status,
        reason=ending.reason,
        success=bool(run.graded_checks) and passed_count == len(run.graded_checks),
        score=passed_count / len(run.graded_checks) if run.graded_checks else 0.0,
        steps=totals.steps,
        compactions=totals.compactions,
        prompt_tokens=totals.prompt_tokens,
        output_tokens=totals.output_tokens,
        cost_usd=totals.cost_usd,
        summarizer_prompt_tokens=totals.summarizer_prompt_tokens,
        summarizer_output_tokens=totals.summarizer_output_tokens,
        summarizer_cost_usd=totals.summarizer_cost_usd,
        peak_context_tokens=totals.peak_context_tokens,
        treatment=totals.treatment,
        sandbox=run.sandbox.backend if run.sandbox else job.backend,
        action_hits=totals.cache_counts.hits if totals.cache_counts else None,
        action_misses=totals.cache_counts.misses if totals.cache_counts else None,
        scale=1.0 if trial.nominal_window_tokens is None else fitted.scale if fitted else None,
        activity=totals.classify_activity(inspect_abilities(fitted.policy)) if fitted else None,
        cache_saved_usd=totals.cache_saved_usd,
        cache_could_save_usd=totals.cache_could_save_usd,
        retries=totals.retries,
        waited_seconds=totals.waited_seconds,
        started_at_ms=int(run.started_at * 1000),
        wall_seconds=wall_seconds,
        error=ending.error[:MAX_ERROR_CHARACTERS],
        traceback=ending.traceback,
        provenance_json=_encode_provenance(job, run),
    )


def _build_check_record(trial_id: str, graded_check: GradedCheck) -> CheckRecord:
    check = graded_check.check
    return CheckRecord(
        trial_id=trial_id, check=check.name, title=check.title, passed=graded_check.passed, detail=graded_check.detail
    )


def _encode_provenance(job: Job, run: TrialRun) -> str:
    trial, cassette = job.trial, job.wiring.cassette
    trial_fields = {
        "model": trial.model,
        "summarizer": trial.summarizer,
        "cassette": cassette.describe() if cassette and not all(map(is_scripted, trial.models)) else None,
        "local_models": [describe_local_model(name) for name in trial.models if is_local(name)],
        "task_seed": trial.seed,
        "model_seed": trial.model_seed,
        "sandbox": codec.to_plain(run.sandbox) if run.sandbox else None,
        "container": run.container,
    }
    return codec.to_canonical_json({**codec.to_plain(job.provenance), **trial_fields}, dict)
