"""Trials of `flashcards` per second with a filled action cache, and the CPU time of a trial by part.

Twelve arms on a few seeds are run once with an empty cache, then repeatedly with the filled one, each time into an empty folder,
up to a thousand trials. The CPU times of summaries, journal and checks are measured in this process and shown separately. The
verdicts are in the cache, too, except those that each run tests.
"""

import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from harness.compaction.presets.keep_last import KeepLast
from harness.experiment import run_trial
from harness.experiment.experiment import Experiment
from harness.experiment.job import CacheSettings, Job, collect_provenance
from harness.experiment.trial import Trial
from harness.models.scripted.summarizers import ScriptedSummarizer
from harness.sandboxes.action_cache import CachedSandbox
from harness.sandboxes.backends import SandboxChoice
from harness.session.verdict_cache import grade_with_cache
from harness.store.journal import Journal
from harness.store.log import SessionLog
from tests.bench.figure import Figure

THRESHOLDS, KEPT, SEEDS = [0.5, 0.65, 0.8, 0.95], [4, 10, 20], list(range(7))
TRIALS = 1_000
WORKERS = 2
MAX_BYTES = 2**30
PROVENANCE = collect_provenance("none")
"""Data that is collected once per run, not once per trial."""


def warm() -> Iterator[Figure]:
    policy = KeepLast(summarizer="scripted/extractive")
    sandbox = SandboxChoice(backend="bubblewrap")
    base = Trial(task="flashcards", policy=policy, window_tokens=32_768, max_steps=300, sandbox=sandbox)
    axes: dict[str, Sequence[object]] = {"policy.threshold": THRESHOLDS, "policy.keep_last": KEPT, "seed": SEEDS}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        grid = Experiment(name="warm", base=base, axes=axes).with_cache("on", cache)
        cold_seconds = timed(grid)
        passes = -(-TRIALS // len(grid.grid))
        warm_seconds = sum(timed(grid) for _ in range(passes)) / passes
        costs = apart([cell.trial for cell in grid.grid][:: len(SEEDS)], cache)
    rest = costs["trial"] - costs["summaries"] - costs["journal"] - costs["checks"]
    yield Figure(name="trials from a warm cache, all in", value=len(grid.grid) / warm_seconds, unit="1/s", bar=None)
    yield Figure(name="cold : warm", value=cold_seconds / warm_seconds, unit="×", bar=None)
    for name in ("summaries", "journal", "checks"):
        yield Figure(name=f"CPU of a warm trial: its {name}", value=1_000 * costs[name], unit="ms", bar=None)
    yield Figure(name="CPU of a warm trial: all else (200 ms = 10 trials a second)", value=1_000 * rest, unit="ms", bar=200.0)


def timed(grid: Experiment) -> float:
    """Return the seconds of one run into an empty folder."""
    with tempfile.TemporaryDirectory() as output:
        began = time.perf_counter()
        trials = grid.run(output, workers=WORKERS, progress="off").trials
        assert set(trials["status"]) <= {"completed", "failed"}
        return time.perf_counter() - began


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its ended child processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def apart(trials: list[Trial], cache: Path) -> dict[str, float]:
    """Return the mean CPU seconds of a trial with a filled cache, and of its parts."""
    spent: defaultdict[str, float] = defaultdict(float)
    job(trials[0], cache)  # import what a worker imports once
    with ExitStack() as stack:
        timed_functions: tuple[tuple[str, Any, Callable[..., Any]], ...] = (
            ("summaries", ScriptedSummarizer, ScriptedSummarizer.reply),
            ("journal", SessionLog, SessionLog.append),
            ("journal", Journal, Journal.record_metrics),
            ("journal", Journal, Journal.record_trial),
            ("checks", run_trial, grade_with_cache),
            ("checks", CachedSandbox, CachedSandbox.close),
        )
        for name, owner, function in timed_functions:
            stack.enter_context(mock.patch.object(owner, function.__name__, counted(function, name, spent)))
        for trial in trials:
            began = cpu_seconds()
            job(trial, cache)
            spent["trial"] += cpu_seconds() - began
    return {name: seconds / len(trials) for name, seconds in spent.items()}


def counted(function: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """Return the function, wrapped so that its CPU seconds are added up under a name."""

    def call(*given: Any, **named: Any) -> Any:
        began = cpu_seconds()
        try:
            return function(*given, **named)
        finally:
            spent[name] += cpu_seconds() - began

    return call


def job(trial: Trial, cache: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_trial.run_trial(
            Job(
                trial=trial, trial_id="warm", experiment="bench", arm="warm", axes={}, backend="bubblewrap",
                provenance=PROVENANCE, journal=Path(folder) / "journal.sqlite",
                cache_settings=CacheSettings(folder=cache, max_bytes=MAX_BYTES),
            )
        )  # fmt: skip
