"""The two values that cross between the runner and a trial: a job and its finished trial."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.agent.loop import Limits
from harness.experiment.provenance import Provenance
from harness.experiment.trial import Trial
from harness.models.factory import DEFAULT_WIRING, Wiring
from harness.session.spec import SessionSpec
from harness.store.records import CheckRecord, TrialRecord
from harness.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Action cache of a trial; no part of its configuration, since results are the same without it."""

    folder: Path
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A trial, and everything that a worker needs to run and record it."""

    trial: Trial
    trial_id: str
    experiment: str
    arm: str
    axes: Mapping[str, object]
    backend: str
    """The sandbox backend that a live probe in the parent chose; never `auto`."""
    provenance: Provenance
    journal: Path
    """The trial's own journal file, made by the worker."""
    unsafe_local: bool = False
    cache_settings: CacheSettings | None = None
    """Action cache; None = every command is run."""
    wiring: Wiring = DEFAULT_WIRING
    """Connection to real models, as the run configures it; what the trial configures goes before it."""


class FinishedTrial(NamedTuple):
    """The rows that are stored of a trial."""

    record: TrialRecord
    checks: tuple[CheckRecord, ...]


def build_session_spec(trial: Trial, task: Task, wiring: Wiring = DEFAULT_WIRING) -> SessionSpec:
    """Translate a trial into the configuration of its session.

    Args:
        trial: configuration of the trial.
        task: task of the trial, made with its seed and world.
        wiring: connection to real models, as the run configures it.
    """
    return SessionSpec(
        request=task.prompt,
        policy=trial.policy,
        model=trial.model,
        task=task,
        seed=trial.model_seed,
        window_tokens=trial.window_tokens,
        tool_calls=trial.tool_calls,
        cassette=wiring.cassette,
        take=trial.replicate,
        stall_seconds=wiring.stall_seconds,
        nominal_window_tokens=trial.nominal_window_tokens,
        limits=Limits(max_steps=trial.max_steps, parallel_tools=trial.parallel_tools),
        command_timeout_seconds=trial.command_timeout_seconds,
        sandbox=trial.sandbox,
        repeated="continue",
    )
