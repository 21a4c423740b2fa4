"""Data exchanged with workers: the job (a trial to run), its results, and the version of the code that computed them."""

import errno
import json
import platform
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from harness.compaction.description import choose_truncation
from harness.compaction.scaling import FittedPolicy
from harness.conversation import codec
from harness.conversation.advisories import Advisory
from harness.conversation.codec import VERSION_TAG
from harness.conversation.events import Entry, SessionStarted, StopReason, TransientEvent
from harness.conversation.truncation import Truncation
from harness.distribution import DISTRIBUTION
from harness.errors import StoreError, WorkerDied
from harness.experiment.contrasts import Family
from harness.experiment.trial import Trial, to_plain
from harness.models.cassette import Cassette
from harness.models.dated_prices import identify_dated_prices
from harness.models.factory import DEFAULT_WIRING, Wiring
from harness.models.local.catalogue import is_local
from harness.models.local.model import describe_local_model
from harness.models.scripted.profiles import is_scripted
from harness.prices.terms import Terms
from harness.protocols import SandboxInfo
from harness.session.external_agent import describe_software
from harness.session.grading import GradedCheck
from harness.session.spec import SessionSpec
from harness.session.totals import TrialTotals
from harness.store.records import CheckRecord, Level, TrialRecord
from harness.task import DEFAULT_STEP_LIMIT, Task

RECORDED_PACKAGES = ("harness", "pydantic", "tiktoken", "litellm", "docker", "zstandard", "pebble", "xllamacpp")
"""Names of the packages whose version can change a result and is therefore recorded."""


NO_FAMILY = Family()
"""Value of `Provenance.family` for a plan that declares no contrasts in advance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of the results of a run: code version, Python, platform, packages and prices."""

    git_commit: str | None
    """Git commit of the code, followed by `+changes` if files were modified; None if the code is not in a Git checkout."""
    python: str
    platform: str
    packages: tuple[tuple[str, str], ...]
    price_table: str
    configuration_version: str = VERSION_TAG
    """Version number that increases when the same trial configuration gets another meaning; part of every trial id."""
    family: Family = NO_FAMILY
    """Contrasts that the plan declared before the trial ran, whose p-values are corrected together."""
    family_sha256: str = ""
    """SHA-256 of the declared comparisons and of the number of inspections; empty if the plan declares no comparison."""
    not_worse_margin: float | None = None
    """Largest loss in success or score up to which the plan, before the trial ran, allowed to call an arm not worse; None if the
    plan declared none."""


def collect_provenance(price_table: str, family: Family = NO_FAMILY, not_worse_margin: float | None = None) -> Provenance:
    """Return the origin of results that this process computes: code version, Python, platform, packages, prices."""
    return Provenance(
        git_commit=_find_commit(Path(__file__).parent),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=tuple((name, version) for name in RECORDED_PACKAGES if (version := _find_version(name))),
        price_table=price_table,
        family=family,
        family_sha256=family.digest if family.contrasts else "",
        not_worse_margin=not_worse_margin,
    )


def classify_level(trial: Trial) -> Level:
    """Return how much of a trial is real: `L0` (only scripted models), `L1`, or `L3` (a real agent)."""
    if not is_scripted(trial.model):
        return "L3"
    return "L0" if all(map(is_scripted, trial.models)) else "L1"


def _find_version(package: str) -> str | None:
    try:
        return version(DISTRIBUTION if package == "harness" else package)  # results keep the import name
    except PackageNotFoundError:
        return None


def _find_commit(folder: Path) -> str | None:
    if _run_git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    commit = _run_git(folder, "rev-parse", "HEAD")
    changed_files = _run_git(folder, "status", "--porcelain", "--untracked-files=no", ".")
    return commit and commit + ("+changes" if changed_files else "")


def _run_git(folder: Path, *arguments: str) -> str | None:
    try:
        process = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Location and maximum size of the action cache, which stores results of commands and of grading.

    The settings are not part of a trial's configuration, because results are the same without the cache.
    """

    folder: Path
    max_bytes: int
    is_default: bool = False
    """Whether the folder is the default one, which may have another path on another machine."""
    store: str = ""
    """URL of the store through which machines share their caches; empty if they share nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Trial with everything that a worker process needs to run the trial and to record its results."""

    trial: Trial
    trial_id: str
    experiment: str
    arm: str
    axes: Mapping[str, object]
    """Value of each setting under study in this trial, by the setting's dotted path, such as `policy.threshold`."""
    backend: str
    """Name of the trial's sandbox backend, which the parent process has tested; never `auto`."""
    provenance: Provenance
    journal: Path
    """Path of the journal file that the worker creates for this trial alone."""
    unsafe_local: bool = False
    cache_settings: CacheSettings | None = None
    """Settings of the action cache; None means that every command is executed and every workspace is graded."""
    wiring: Wiring = DEFAULT_WIRING
    """Settings of the run for calls to real models. The trial's own settings take precedence."""
    tool_time_seconds: float | None = None
    """Maximum total time of the agent's tool calls in seconds, after which the session ends; None sets no limit."""
    price_terms: Terms | None = None
    """Terms of the price rule that the trial names, looked up once for all workers; None if it names none."""


class FinishedTrial(NamedTuple):
    """Results of a finished trial, which are stored in the journal (database file) of the experiment."""

    record: TrialRecord
    checks: tuple[CheckRecord, ...]


def build_session_spec(trial: Trial, task: Task, wiring: Wiring = DEFAULT_WIRING, journal: Path | None = None) -> SessionSpec:
    """Return the configuration of the agent's session that is run for a trial.

    Args:
        trial: Configuration of the trial.
        task: Task of the trial, made with the trial's seed and world.
        wiring: Settings of the run for calls to real models, such as cassette and time limit.
        journal: Journal file for the session's log; None for a session that is only checked.
    """
    return trial.build_spec(task, trial.model_seed, wiring, take=trial.replicate, journal=journal)


MAX_ERROR_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a trial ended: its status and reason and, after an error, the message and the traceback."""

    status: Literal["completed", "failed", "crashed"]
    reason: StopReason
    error: str = ""
    traceback: str = ""


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Error numbers of the operating system that mean a full or failing disk of this machine."""


def is_disk_error(error: BaseException) -> bool:
    """Return whether an error means that the disk of this machine is full or failing.

    The trial is not the cause of such an error. The disk also ends a worker process, by the signal SIGBUS, when the process
    cannot write to a memory-mapped file of a journal.
    """
    match error:
        case WorkerDied():
            return error.exit_code == -signal.SIGBUS
        case OSError():
            return error.errno in DISK_ERRORS
    return isinstance(error, StoreError)


@dataclass(slots=True, kw_only=True)
class TrialRun:
    """Everything that is known so far about a running trial.

    If the trial breaks off, its record is made from these data.
    """

    started_at: float
    """Start time of the trial in seconds since the epoch."""
    session_id: str = ""
    step_limit: int = DEFAULT_STEP_LIMIT
    """Maximum number of model calls in a trial that sets none: the limit of its task, once the task was made."""
    totals: TrialTotals = field(default_factory=TrialTotals)
    start_event: SessionStarted | None = None
    """First event of the session's log; None before the session has begun."""
    replayed_costs_usd: list[float] = field(default_factory=list)
    """Cost in US dollars of each answer that was replayed from a cassette, less the money paid for it in this run."""
    fitted_policy: FittedPolicy | None = None
    """Policy of the trial, with its constants scaled to the window; None if the trial ended before its session was assembled."""
    sandbox: SandboxInfo | None = None
    container: str | None = None
    """Name of the trial's sandbox container; None if the backend uses no containers."""
    graded_checks: tuple[GradedCheck, ...] = ()
    has_cached_verdict: bool | None = None
    """Whether the results of the checks come from the cache; None if the workspace was not graded."""
    ending: Ending = field(default_factory=lambda: Ending(status="crashed", reason="crashed", error="the trial never began"))

    def add(self, item: Entry | TransientEvent) -> None:
        """Take in the next log entry or transient event of the trial's session."""
        self.totals(item)
        if isinstance(item, Entry) and isinstance(item.event, SessionStarted):
            self.start_event = item.event

    def build_finished_trial(self, job: Job, ended_at: float) -> FinishedTrial:
        """Return the records that are stored for the trial, made from everything that is known about it so far."""
        record = _build_trial_record(job, self, ended_at - self.started_at)
        return FinishedTrial(record, tuple(_build_check_record(job.trial_id, judged) for judged in self.graded_checks))


def encode_axes(axes: Mapping[str, object]) -> str:
    """Return a trial's values of the settings under study as the JSON text that is stored with the results."""
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
        max_steps=run.step_limit if trial.max_steps is None else trial.max_steps,
        level=classify_level(trial),
        status=ending.status,
        reason=ending.reason,
        success=bool(run.graded_checks) and passed_count == len(run.graded_checks),
        score=passed_count / len(run.graded_checks) if run.graded_checks else 0.0,
        **codec.copy_fields(totals, TrialRecord),
        sandbox=run.sandbox.backend if run.sandbox else job.backend,
        action_hits=totals.cache_counts.hits if totals.cache_counts else None,
        action_misses=totals.cache_counts.misses if totals.cache_counts else None,
        verdict_cached=run.has_cached_verdict,
        scale=1.0 if trial.nominal_window_tokens is None else fitted.scale if fitted else None,
        output_limits_json=_encode_output_limits(choose_truncation(fitted.policy))
        if fitted and not trial.agent.command
        else None,
        advisories_json=None if start_event is None else codec.to_canonical_json(start_event.advisories, tuple[Advisory, ...]),
        acts_on=fitted.acts_on if fitted else None,
        activity=totals.classify_activity(fitted.abilities) if fitted else None,
        started_at_ms=int(run.started_at * 1000),
        wall_seconds=wall_seconds,
        error=ending.error[:MAX_ERROR_CHARACTERS],
        traceback=ending.traceback,
        provenance_json=_encode_provenance(job, run),
    )


def _encode_output_limits(limits: Truncation) -> str:
    known = {name: getattr(limits, name) for name in ("max_characters", "max_lines", "max_bytes")}
    return codec.to_canonical_json({name: limit for name, limit in known.items() if limit is not None}, dict)


def _build_check_record(trial_id: str, graded_check: GradedCheck) -> CheckRecord:
    check, passed, detail = graded_check.check, graded_check.passed, graded_check.detail
    return CheckRecord(trial_id=trial_id, check=check.name, title=check.title, passed=passed, detail=detail)


def _encode_provenance(job: Job, run: TrialRun) -> str:
    trial, cassette = job.trial, job.wiring.cassette
    trial_fields = {
        "model": trial.model,
        "reader": trial.reader,
        **({"notes": True} if trial.notes else {}),
        **({"rule_prices": identify_dated_prices()} if trial.price_rule else {}),
        **({"agent_software": describe_software(trial.agent.paths)} if trial.agent.command else {}),
        "summarizer": trial.summarizer,
        "sub_agent_model": trial.sub_agent_model,
        "revisions": trial.revisions,
        "cassette": _describe_cassette(cassette, run) if cassette and not all(map(is_scripted, trial.models)) else None,
        "local_models": [describe_local_model(name) for name in trial.models if is_local(name)],
        "task_seed": trial.seed,
        "model_seed": trial.model_seed,
        "sandbox": codec.to_plain(run.sandbox) if run.sandbox else None,
        "container": run.container,
    }
    return codec.to_canonical_json({**codec.to_plain(job.provenance), **trial_fields}, dict)


def _describe_cassette(cassette: Cassette, run: TrialRun) -> dict[str, object]:
    """Return the description of a recording of model answers (a cassette) that is stored with a trial.

    While recording, known answers are replayed. The description then has the part of their cost that was not paid. It is negative
    if the trial paid more than its answers cost, because another trial recorded an answer to the same request at the same time.
    """
    replayed_usd = sum(run.replayed_costs_usd)
    is_partly_replayed = cassette.mode == "record" and replayed_usd != 0
    return {**cassette.describe(), **({"replayed_usd": replayed_usd} if is_partly_replayed else {})}
