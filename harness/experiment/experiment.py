"""An experiment: a grid and how to run it. The same object whether it was read from `plan.toml` or made in a notebook."""

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from harness.codec import to_path
from harness.errors import UsageError
from harness.experiment.grid import Arm, Cell, Grid
from harness.experiment.job import CacheSettings, Job, Provenance, collect_provenance, encode_axes
from harness.experiment.output import Label, OutputFolder, open_output
from harness.experiment.plan import Settings, read_plan
from harness.experiment.preflight import check_trials, choose_backends
from harness.experiment.progress import Display, RunProgress, choose_display
from harness.experiment.quantiles import UncompressedRun
from harness.experiment.run_trial import run_trial
from harness.experiment.runner import Runner, handle_interrupts
from harness.experiment.trial import Trial
from harness.experiment.workers import ProcessWorkers, ThreadWorkers, Workers
from harness.models.cassette import Cassette
from harness.models.factory import Wiring
from harness.models.local.server import serve_models
from harness.models.prices import identify_price_table
from harness.models.scripted.profiles import is_scripted
from harness.sandboxes.action_cache import ActionCache, find_default_folder
from harness.sandboxes.backends import BackendName

if TYPE_CHECKING:
    from harness.store.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A grid of trials with a name.

    Attributes:
        name: Required.
        base: What every trial has unless an axis or an arm says otherwise. Required.
        axes: Values by dotted path into a trial, e.g. `policy.threshold`; the grid is their product. Default: `{}`.
        arms: Arms beside the grid: controls, and the A/A arm. Default: `()`.
        folder: Its `output/` holds the results; None = `experiments/<name>`. Default: `None`.
        settings: Default: `Settings()`.
        backend: Of the sandbox in all trials, whatever base, axes and arms say; None = as they say. Default: `None`.
        cassette: Where answers of real models are recorded or played from; None = nowhere. Default: `None`.
    """

    name: str
    base: Trial
    axes: Mapping[str, Sequence[object]] = field(default_factory=dict)
    arms: Sequence[Arm] = ()
    folder: Path | None = None
    settings: Settings = field(default_factory=Settings)
    backend: BackendName | None = None
    cassette: Cassette | None = None
    grid: Grid = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Expand the grid, which refuses unknown paths and wrong types; quantiles are looked up now."""
        object.__setattr__(self, "folder", to_path(self.folder))
        folder = self.settings.uncompressed
        uncompressed = UncompressedRun(Path(folder)) if folder else None
        grid = Grid(self.base, self.axes, self.arms, backend=self.backend, uncompressed=uncompressed)
        object.__setattr__(self, "grid", grid)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """The experiment of a folder with a `plan.toml`, or of such a file.

        Raises:
            UsageError: the plan cannot be read, or asks for what cannot be; names the place.
        """
        plan = read_plan(Path(path))
        name = plan.folder.resolve().name
        return cls(name=name, base=plan.base, axes=plan.axes, arms=plan.arms, folder=plan.folder, settings=plan.settings)

    @property
    def output(self) -> Path:
        """Where results go unless `run` is told otherwise."""
        return (self.folder or Path("experiments") / self.name) / "output"

    def with_sandbox(self, backend: BackendName) -> "Experiment":
        """The same experiment with another sandbox backend in all trials; they are other trials then."""
        return replace(self, backend=backend)

    def with_cache(self, use: Literal["auto", "on", "off"], folder: str | os.PathLike[str] | None = None) -> "Experiment":
        """The same experiment with another use of the action cache; the trials are the same.

        Args:
            use: `on` for all trials, `auto` where the agent is scripted, `off`.
            folder: where it is; None = as the plan says.
        """
        cache_folder = self.settings.action_cache_folder if folder is None else os.fspath(folder)
        return replace(self, settings=replace(self.settings, action_cache=use, action_cache_folder=cache_folder))

    def with_cassette(self, path: str | os.PathLike[str], mode: Literal["record", "replay"]) -> "Experiment":
        """The same experiment with its real models recorded, or played from what was recorded; the trials are the same."""
        return replace(self, cassette=Cassette(path=Path(path).absolute(), mode=mode))

    def check(self) -> None:
        """Find everything that can be known to be wrong; nothing is written, no model is called.

        Raises:
            UsageError: an unknown name, a missing key, a window that is too small.
        """
        check_trials((cell.trial for cell in self.grid), self.cassette)

    def run(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        workers: int | None = None,
        progress: str | Display = "auto",
        stop: threading.Event | None = None,
        retry_failed: bool = False,
        unsafe_local: bool = False,
    ) -> "Results":
        """Run what is not there yet and return the tables of everything; blocks, and can be interrupted.

        Args:
            output: folder for journal and tables; None = `self.output`.
            workers: trials at a time; None = one for each processor.
            progress: `auto`, `rich`, `plain`, `notebook`, `off`, or a display of your own.
            stop: set it from another thread to end the run after what is finished; the rest runs next time.
            retry_failed: also run trials again that failed by outer causes (provider, sandbox, disk).
            unsafe_local: allow trials that ask for the sandbox `local`, which isolates nothing.

        Local models that its trials ask for are served as long as it runs, one server each.

        Raises:
            UsageError, SandboxUnavailable: something cannot be; nothing was started or written.
            HarnessError: worker processes cannot start here.
            ProviderFailed: a local model's server did not start.
            StoreError: the output folder or that of the action cache cannot be written.
            KeyboardInterrupt: after Ctrl-C; what was finished is kept.
        """
        display = choose_display(progress) if isinstance(progress, str) else progress
        folder = self.output if output is None else Path(output)
        count = (os.cpu_count() or 1) if workers is None else workers
        if type(count) is not int or count < 1:
            raise UsageError(f"workers: a whole number of trials at a time is needed, at least 1 (got {workers!r})")
        run = _ExperimentRun(self, count, display, stop or threading.Event(), unsafe_local)
        self.check()
        run.run(folder, retry_failed=retry_failed)
        from harness.store.results import load  # noqa: PLC0415  (pandas; see _Run.run)

        return load(folder)


@dataclass(frozen=True, slots=True)
class _ExperimentRun:
    """One call of `Experiment.run`."""

    experiment: Experiment
    workers: int
    display: Display
    stop_event: threading.Event
    unsafe_local: bool

    def run(self, folder: Path, *, retry_failed: bool) -> None:
        from harness.store.tables import export  # noqa: PLC0415  (pyarrow: slow, and of no use to workers that load a script)

        cells = self.experiment.grid
        backends = choose_backends((cell.trial for cell in cells), unsafe_local=self.unsafe_local)
        cache_settings = self._prepare_cache()
        with open_output(folder) as output, handle_interrupts(self.stop_event) as interrupted:
            finished_ids = output.list_finished(retry_failed=retry_failed)
            name = self.experiment.name
            output.relabel_trials({cell.trial.trial_id: Label(name, cell.arm, encode_axes(cell.axes)) for cell in cells})
            provenance = collect_provenance(identify_price_table())
            jobs = [
                self._build_job(cell, backends[trial_id], provenance, output, cache_settings)
                for cell in cells
                if (trial_id := cell.trial.trial_id) not in finished_ids
            ]
            progress = RunProgress(experiment=name, total_trials=len(cells), previously_finished=len(cells) - len(jobs))
            runner = Runner(
                output=output,
                open_workers=self._open_workers,
                display=self.display,
                progress=progress,
                stop_event=self.stop_event,
            )
            try:
                live_models = () if self._wiring.is_replay else [name for job in jobs for name in job.trial.models]
                with serve_models(live_models) as endpoints:
                    wiring = replace(self._wiring, endpoints=endpoints)
                    runner.run([replace(job, wiring=wiring) for job in jobs])
            finally:
                self.display.close()
                output.recover_journals()
                export(output.journal.path, folder / "results")
            if interrupted.is_set():
                raise KeyboardInterrupt

    @property
    def _wiring(self) -> Wiring:
        """Connection to real models before local ones are served."""
        return Wiring(cassette=self.experiment.cassette, stall_seconds=self.experiment.settings.stall_seconds)

    def _build_job(
        self, cell: Cell, backend: str, provenance: Provenance, output: OutputFolder, cache_settings: CacheSettings | None
    ) -> Job:
        uses_cache = self.experiment.settings.action_cache == "on" or is_scripted(cell.trial.model)
        return Job(
            trial=cell.trial,
            trial_id=cell.trial.trial_id,
            experiment=self.experiment.name,
            arm=cell.arm,
            axes=cell.axes,
            backend=backend,
            provenance=provenance,
            journal=output.locate_trial_journal(cell.trial.trial_id),
            unsafe_local=self.unsafe_local,
            cache_settings=cache_settings if uses_cache else None,
        )

    def _prepare_cache(self) -> CacheSettings | None:
        """The cache of this run, found to work; None = none.

        Raises:
            StoreError: its folder cannot be used.
        """
        settings = self.experiment.settings
        if settings.action_cache == "off":
            return None
        folder = Path(settings.action_cache_folder) if settings.action_cache_folder else find_default_folder()
        with closing(ActionCache(folder.absolute(), settings.action_cache_max_bytes)):
            return CacheSettings(folder=folder.absolute(), max_bytes=settings.action_cache_max_bytes)

    def _open_workers(self) -> Workers:
        settings = self.experiment.settings
        kind = ProcessWorkers if settings.executor == "processes" else ThreadWorkers
        return kind(self.workers, run_trial, settings.trial_timeout_seconds)
