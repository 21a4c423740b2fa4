"""What goes to a worker and what comes back: the only two values that cross between the runner and a trial."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.experiment.provenance import Provenance
from harness.experiment.trial import Trial
from harness.models.cassette import Cassette
from harness.models.litellm_model import STALL_SECONDS
from harness.models.local.server import Endpoints
from harness.store.records import CheckRecord, TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Which action cache a trial uses; no part of its configuration, since it makes no difference to what happens."""

    folder: Path
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A trial, and all that a worker must know to run and record it."""

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
    """None = every command is run."""
    endpoints: Endpoints = field(default_factory=dict)
    """Where the parent serves local models."""
    cassette: Cassette | None = None
    """Where answers of real models are recorded or played from; None = nowhere."""
    stall_seconds: float = STALL_SECONDS
    """Silence of a provider after which a call has stalled."""


class FinishedTrial(NamedTuple):
    """What is recorded of a trial."""

    record: TrialRecord
    checks: tuple[CheckRecord, ...]
