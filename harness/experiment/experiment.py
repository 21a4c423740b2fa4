"""Experiment: a grid of trials and the settings of its run, read from a `plan.toml` or created in Python."""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, cast

from harness.conversation.codec import OptionalPathField, to_path
from harness.errors import PolicyWarning, UsageError, advise_extra, format_count
from harness.experiment.contrasts import Contrast, Family, parse_margin, refuse_invalid_contrasts
from harness.experiment.forecast import Forecast, make_forecast, select_pilot_cells
from harness.experiment.grid import Arm, Cell, Grid
from harness.experiment.interim_analyses import begin_record
from harness.experiment.job import CacheSettings, Job, Provenance, collect_provenance, encode_axes
from harness.experiment.limits import RunLimits
from harness.experiment.margins import record_margin
from harness.experiment.output import Label, OutputFolder, open_output, refuse_newer_versions
from harness.experiment.plan import TOOL_TIME_SHARE, Settings, read_plan
from harness.experiment.preflight import (
    FirstTokens,
    SandboxNeed,
    SandboxNeeds,
    check_trials,
    choose_backends,
    collect_warnings,
)
from harness.experiment.progress import Display, RunProgress, WarningDisplay, choose_display
from harness.experiment.quantiles import UncompactedRun
from harness.experiment.remote.executor_workers import ExecutorWorkers
from harness.experiment.remote.stored_journals import fetch_journals, list_missing, store_journal
from harness.experiment.run_trial import run_trial
from harness.experiment.runner import Runner, handle_interrupts
from harness.experiment.trial import Trial
from harness.experiment.workers import ProcessWorkers, ThreadWorkers, TrialRunner, Workers
from harness.files.object_store import ObjectStore
from harness.inspection.loading import load_run
from harness.inspection.stored_twins import LoadedResults
from harness.models.cassette import Cassette
from harness.models.factory import Wiring
from harness.models.local.catalogue import is_local
from harness.models.local.server import serve_models
from harness.models.prices import identify_price_table
from harness.models.rule_prices import find_terms
from harness.models.scripted.profiles import is_scripted
from harness.process import end_if_imported_by_worker
from harness.sandboxes.action_cache import ActionCache, find_default_folder
from harness.sandboxes.backends import BackendName
from harness.tasks import refuse_unknown_task
from harness.text import render_html_table

if TYPE_CHECKING:
    from distributed import Client


MAX_NAME_BYTES = 200
"""Maximum length of an experiment's name in bytes of UTF-8, since the name becomes the name of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Named set of trials, one for every combination of the values under study (a grid), with the settings of the run.

    Attributes:
        name: Name of the experiment, with which its results are labelled. Required.
        base: Trial that gives every setting its value unless `axes` or `arms` change the setting. Required.
        axes: Settings that are varied, each with the list of its values, e.g. `{"policy.threshold": [0.5, 0.8]}`. The grid
            contains every combination of the values. Default: `{}`.
        arms: Extra configurations, such as controls, that are not combinations of the values in `axes`. Default: `()`.
        contrasts: Comparisons of two configurations that are declared before the run, so that their results count as findings.
            Default: `()`.
        not_worse_margin: Largest loss in success or score, above 0 and below 1, up to which reports call an arm not worse than
            the highest one. The first run stores the margin with its trials, whose ids do not depend on it. Without a margin, no
            arm is called not worse. Default: `None`.
        folder: Folder of the experiment; results are stored in its subfolder `output`. None uses `experiments/<name>`.
            Default: `None`.
        settings: Settings of the run, such as time limits and the action cache. Default: `Settings()`.
        backend: Sandbox backend for all trials, which overrides `base`, `axes` and `arms`. None keeps the backends given there.
            Default: `None`.
        cassette: File in which answers of real models are recorded or from which they are replayed. None calls the models only.
            Default: `None`.

    Raises:
        UnknownName: A name in `axes` or `arms` is no setting of a trial, or a task is unknown.
        UsageError: A value has the wrong type, the margin is not above 0 and below 1, or a quantile such as `q0.9` cannot be
            looked up.

    Example::

        experiment = harness.Experiment(
            name="thresholds",
            base=harness.Trial(task="flashcards", policy="keep-last", window_tokens=16_384),
            axes={"policy.threshold": [0.5, 0.8], "seed": [0, 1, 2]},
        )
        results = experiment.run(workers=4)
    """

    name: str
    base: Trial
    axes: Mapping[str, Sequence[object]] = field(default_factory=dict)
    arms: Sequence[Arm] = ()
    contrasts: Sequence[Contrast] = ()
    not_worse_margin: float | None = None
    folder: OptionalPathField = None  # type: ignore[assignment]
    settings: Settings = field(default_factory=Settings)
    backend: BackendName | None = None
    cassette: Cassette | None = None
    grid: Grid = field(init=False, repr=False, compare=False)
    _first_tokens: FirstTokens = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Build the list of trials (the grid) after refusing unknown settings and values of the wrong type.

        Quantiles such as `q0.9` are replaced by the numbers of tokens that they stand for.
        """
        object.__setattr__(self, "folder", to_path(self.folder))
        for field_name, kind in (("base", Trial), ("settings", Settings)):
            if not isinstance(value := getattr(self, field_name), kind):
                raise UsageError(f"{field_name}: must be a {kind.__name__} (got {value!r:.80})")
        for field_name in ("arms", "contrasts"):
            if not isinstance(value := getattr(self, field_name), Sequence) or isinstance(value, str):
                raise UsageError(f"{field_name}: must be a list (got {value!r:.80})")
        if not isinstance(self.folder, Path | None):
            raise UsageError(f"folder: must be a path (got {self.folder!r:.80})")
        name: object = self.name
        if not isinstance(name, str):
            raise UsageError(f"name: must be a string (got {name!r:.80})")
        parse_margin(self.not_worse_margin)
        folder = self.settings.uncompacted
        uncompacted = UncompactedRun(Path(folder)) if folder else None
        others = self.settings.other_models
        grid = Grid(
            self.base,
            self.axes,
            self.arms,
            other_models=others,
            controls=self.settings.controls,
            backend=self.backend,
            uncompacted=uncompacted,
        )
        object.__setattr__(self, "grid", grid)
        for task in dict.fromkeys(trial.task for trial, _ in grid.iter_seed_groups()):
            refuse_unknown_task(task)
        refuse_invalid_contrasts(self.contrasts, grid.arms, *self.count_tasks_and_seeds(), self.settings.looks)

    def _repr_html_(self) -> str:
        arms = dict[str, int]()
        for cell in self.grid:
            arms[cell.arm] = arms.get(cell.arm, 0) + 1
        axes = [  # a function is shown by its name
            f"{path}: {', '.join(str(getattr(value, '__name__', value)) for value in values)}"
            for path, values in self.axes.items()
        ]
        rows = [(arm, str(count)) for arm, count in arms.items()]
        heading = f"{self.settings.title or self.name} ({format_count(len(self.grid), 'trial')})"
        return render_html_table(heading, ("arm", "trials"), rows, [text for text in (self.settings.description, *axes) if text])

    def count_tasks_and_seeds(self) -> tuple[int, int]:
        """Return the number of tasks, and the number of seeds of the task with the fewest seeds."""
        seeds_by_task: dict[object, set[int]] = {}
        for problem, seed in self.grid.iter_problems():
            seeds_by_task.setdefault(problem, set()).add(seed)
        return len(seeds_by_task), min(map(len, seeds_by_task.values()), default=0)

    @property
    def family(self) -> Family:
        """Comparisons that the plan declares, with the numbers of planned trials and of inspections of the results."""
        return Family(contrasts=tuple(self.contrasts), planned_trials=len(self.grid), looks=self.settings.looks)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Read an experiment from a plan file.

        Args:
            path: Path of the plan file, or of a folder that contains a `plan.toml`.

        Raises:
            UsageError: The file cannot be read, or a value in the plan is invalid; the message names the place.
        """
        plan = read_plan(path)
        name = plan.folder.resolve().name
        return cls(
            name=name,
            base=plan.base,
            axes=plan.axes,
            arms=plan.arms,
            contrasts=plan.contrasts,
            not_worse_margin=plan.not_worse_margin,
            folder=plan.folder,
            settings=plan.settings,
        )

    @property
    def output(self) -> Path:
        """Folder into which `run` writes the results if it is called without `output`.

        Raises:
            UsageError: The experiment has no folder, and its name cannot be the name of a folder.
        """
        if self.folder is None and not _is_folder_name(self.name):
            raise UsageError(
                f"name: must be the name of a folder, of at most {MAX_NAME_BYTES} bytes and without '/' (got {self.name!r:.80}); "
                "pass `folder` to store the results elsewhere"
            )
        return (self.folder or Path("experiments") / self.name) / "output"

    def with_sandbox(self, backend: BackendName) -> "Experiment":
        """Return the experiment with another sandbox backend in all trials. The change gives the trials new ids."""
        return replace(self, backend=backend)

    def with_cache(self, use: Literal["auto", "on", "off"], folder: str | os.PathLike[str] | None = None) -> "Experiment":
        """Return the experiment with other settings of the action cache.

        The trials keep their ids.

        Args:
            use: Trials that use the cache: `on` for all trials, `auto` for trials with a scripted agent, or `off` for none.
            folder: Folder of the action cache; None keeps the folder in the experiment's settings.
        """
        cache_folder = self.settings.action_cache_folder if folder is None else os.fspath(folder)
        return replace(self, settings=replace(self.settings, action_cache=use, action_cache_folder=cache_folder))

    def with_cassette(self, path: str | os.PathLike[str], mode: Literal["record", "replay"]) -> "Experiment":
        """Return the experiment with a recording of its real models' answers (a cassette).

        The recording is written or replayed. The trials keep their ids.
        """
        return replace(self, cassette=Cassette(path=Path(path).absolute(), mode=mode))

    def check(self) -> None:
        """Check that the trials could run: names, API keys and context windows.

        Nothing is written and no model is called.

        Raises:
            UsageError: A name is unknown, an API key is missing, or a context window is too small.
        """
        check_trials(self.grid.iter_trials(), self.cassette, self._first_tokens)

    def collect_warnings(self) -> tuple[str, ...]:
        """Return warnings about policies that will not act as their configuration suggests, with advice; empty if there are none.

        `run` emits them, `harness run`, `GridForm` and `GridWidget` show them, and reports on the results repeat them.

        Raises:
            UsageError: A policy cannot work in its window at all, so that `check` fails, too.
        """
        return collect_warnings(trial for trial, _ in self.grid.iter_seed_groups())

    def estimate(self, output: str | os.PathLike[str] | None = None, *, workers: int | None = None) -> Forecast:
        """Return the expected cost and duration of the trials that have not finished, without running anything.

        The expected values are means of finished trials with the same task and the same models. Run with `pilot=True` first if
        there are none.

        Args:
            output: Folder with the finished trials; None uses `Experiment.output`.
            workers: Number of trials that run at the same time; None uses the number of processors.

        Raises:
            UsageError: The folder has trials of an older version of a policy, which the plan does not name.
            StoreError: The journal in the folder cannot be read.
        """
        folder = self.output if output is None else Path(output)
        self._refuse_newer_versions(folder)
        return make_forecast(self.grid, folder, workers or os.cpu_count() or 1)

    def run(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        workers: int | None = None,
        progress: str | Display = "auto",
        stop: threading.Event | None = None,
        retry_failed: bool = False,
        unsafe_local: bool = False,
        executor: "Executor | Client | Callable[[TrialRunner, float], Workers] | None" = None,
        limits: RunLimits | None = None,
        pilot: bool = False,
    ) -> LoadedResults:
        """Run all trials that have not finished yet, and return the results of all trials.

        Before the first trial starts, the warnings of `collect_warnings` are emitted as Python warnings of the category
        `harness.PolicyWarning`, which `warnings.filterwarnings("ignore", category=harness.PolicyWarning)` hides. A progress
        display with a method `show_warnings` gets them instead.

        The call blocks until all trials have finished, and can be interrupted with Ctrl-C. Servers for local models are started
        for the duration of the run, one for each model.

        Args:
            output: Folder for the journal and the tables; None uses `Experiment.output`.
            workers: Number of trials that run at the same time; None uses the number of processors.
            progress: Progress display: `auto`, `rich`, `plain`, `notebook`, `off`, or an object with the methods of `Display`.
            stop: Event that another thread can set to end the run early. Finished trials are kept; the others run next time.
            retry_failed: Also repeat trials of earlier runs that failed for external reasons (provider, sandbox, disk).
            unsafe_local: Permission to run trials in the sandbox `local`, which does not isolate commands.
            executor: Workers to use instead of processes of this machine: a `distributed.Client` of a Dask cluster, any
                `concurrent.futures.Executor`, or a function that returns workers of your own (see `harness.Workers`). Such a
                function gets two arguments: the function that runs a job, and the time limit of a job in seconds. Client and
                executor stay open. Default: `None`.
            limits: Maximum number of trials, cost or time, after which no further trial begins, e.g. `RunLimits(max_usd=5)`.
                Trials that have begun run to their end, and the others run next time. None sets no limit.
            pilot: Run only one trial for each combination of task and models of which no trial has finished. `estimate` then
                knows what the other trials will cost and how long they will take. Default: `False`.

        Raises:
            UsageError: The experiment contains an invalid value; nothing was started or written.
            SandboxUnavailable: A sandbox backend does not work here; nothing was started or written.
            WorkersUnavailable: No machine of the cluster can run the trials, or the cluster was lost; finished trials are stored.
            HarnessError: Worker processes cannot be started here.
            ProviderFailed: The server of a local model did not start.
            StoreError: The output folder or the folder of the action cache cannot be written.
            VerdictMismatch: A trial was graded again, and the verdicts stored in the action cache are wrong.
            KeyboardInterrupt: The run was interrupted with Ctrl-C; finished trials are stored.
        """
        end_if_imported_by_worker()
        display = choose_display(progress) if isinstance(progress, str) else progress
        folder = (self.output if output is None else Path(output)).absolute()  # another thread may change the working folder
        count = workers
        if workers is None:
            count = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        if type(count) is not int or count < 1:
            raise UsageError(f"workers: must be a whole number, at least 1 (got {workers!r})")
        if workers is not None and is_cluster(executor):
            raise UsageError("workers: a cluster runs one trial in each of its workers; leave out `workers`")
        limits = limits or RunLimits()
        if self.cassette is None or self.cassette.mode != "replay":
            limits.refuse_unknown_prices(
                dict.fromkeys(name for trial, _ in self.grid.iter_seed_groups() for name in trial.models)
            )
        self._refuse_newer_versions(folder)
        run = _ExperimentRun(self, count, display, stop or threading.Event(), unsafe_local, executor, limits)
        self.check()
        if is_cluster(executor):
            self._refuse_local_files()
        self._show_warnings(display)
        run.run(folder, retry_failed=retry_failed, pilot=pilot)
        return load_run(folder)

    def _refuse_newer_versions(self, folder: Path) -> None:
        refuse_newer_versions(folder, {trial.policy_kind for trial, _ in self.grid.iter_seed_groups()})

    def _show_warnings(self, display: Display) -> None:
        texts = self.collect_warnings()
        if isinstance(display, WarningDisplay):
            display.show_warnings(texts)
            return
        for text in texts:
            warnings.warn(text, PolicyWarning, stacklevel=3)  # as a warning of the line that calls `run`

    def _refuse_local_files(self) -> None:
        """Raise `UsageError` if a trial needs a file or a model server that only this machine has."""
        if self.cassette is not None:
            raise UsageError(
                "executor: a cassette is a file of this machine, so trials of a cluster cannot use it; leave out one of them"
            )
        local_models = {name for trial, _ in self.grid.iter_seed_groups() for name in trial.models if is_local(name)}
        if local_models:
            raise UsageError(f"executor: {', '.join(sorted(local_models))} would run on this machine only, not on a cluster")


def _is_folder_name(name: str) -> bool:
    size = len(name.encode(errors="surrogatepass"))
    return name not in {"", ".", ".."} and not {"/", "\0"} & {*name} and size <= MAX_NAME_BYTES


def is_cluster(executor: object) -> bool:
    """Return whether an executor is a client of a Dask cluster.

    Dask is not imported for this, because it may not be installed.
    """
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(executor, distributed.Client)


def connect_cluster(address: str) -> "Client":
    """Connect to a Dask cluster and return its client.

    Args:
        address: Address of the cluster's scheduler, such as `tcp://10.0.0.5:8786`.

    Raises:
        UsageError: The package `distributed` is not installed, or no scheduler answers at the address.
    """
    try:
        from harness.experiment.remote.dask_workers import open_client  # noqa: PLC0415  (needs the extra `cluster`)
    except ImportError as error:
        raise UsageError(f"a cluster needs the extra `cluster`: {advise_extra('cluster')} ({error})") from error
    return open_client(address)


@dataclass(frozen=True, slots=True)
class _ExperimentRun:
    """One run of an experiment, with its number of workers, its progress display and its stop event."""

    experiment: Experiment
    workers: int
    display: Display
    stop_event: threading.Event
    unsafe_local: bool
    executor: "Executor | Client | Callable[[TrialRunner, float], Workers] | None"
    limits: RunLimits
    needs: SandboxNeeds = field(default_factory=SandboxNeeds)

    def run(self, folder: Path, *, retry_failed: bool, pilot: bool) -> None:
        needs = self.needs.count(self.experiment.grid.iter_seed_groups())
        if not is_cluster(self.executor):
            backends = choose_backends(needs, unsafe_local=self.unsafe_local)
            self._run_jobs(folder, backends, self._open_workers, retry_failed=retry_failed, pilot=pilot)
            return
        from harness.experiment.remote.dask_workers import DaskWorkers  # noqa: PLC0415  (needs the extra `cluster`)

        cluster = DaskWorkers(
            cast("Client", self.executor),
            run_trial,
            self.experiment.settings.trial_timeout_seconds,
            needs=tuple(needs),
            provenance=collect_provenance(identify_price_table()),
            unsafe_local=self.unsafe_local,
            store=self.experiment.settings.store,
        )
        try:
            self._run_jobs(folder, cluster.backends, lambda: cluster, retry_failed=retry_failed, pilot=pilot)
        finally:
            cluster.stop()

    def _run_jobs(
        self,
        folder: Path,
        backends: Mapping[SandboxNeed, str],
        open_workers: Callable[[], Workers],
        *,
        retry_failed: bool,
        pilot: bool,
    ) -> None:
        from harness.store.published import publish_tables  # noqa: PLC0415  (imports pyarrow, which workers do not need)
        from harness.store.tables import export  # noqa: PLC0415  (imports pyarrow, which workers do not need)

        cells = self.experiment.grid
        cache_settings = self._prepare_cache()
        store = ObjectStore(self.experiment.settings.store) if self.experiment.settings.store else None
        runs_here = not (is_cluster(self.executor) or isinstance(self.executor, Executor))  # others write to the store themselves
        publish = partial(store_journal, store=store) if store is not None and runs_here else None
        with open_output(folder, publish) as output, handle_interrupts(self.stop_event) as interrupted:
            if store is not None:
                missing = list_missing(output, store)
                fetch_journals(output, store, [cell.trial_id for cell in cells if cell.trial_id in missing] if missing else ())
            finished_ids = output.list_finished(retry_failed=retry_failed)
            if self.experiment.contrasts and not finished_ids:
                begin_record(folder)
            record_margin(folder, self.experiment.not_worse_margin)
            output.relabel_trials(self._iter_labels(output))
            provenance = collect_provenance(identify_price_table(), self.experiment.family, self.experiment.not_worse_margin)
            finished_count, live_models = self._look_ahead(finished_ids)
            progress = RunProgress(
                experiment=self.experiment.name,
                hides_outcomes=bool(self.experiment.contrasts),
                total_trials=len(cells),
                previously_finished=finished_count,
            )
            runner = Runner(
                output=output,
                open_workers=open_workers,
                display=self.display,
                progress=progress,
                stop_event=self.stop_event,
                limits=self.limits,
            )
            try:
                with serve_models(live_models) as endpoints:
                    wiring = replace(self._wiring, endpoints=endpoints)
                    unfinished: Iterable[Cell] = (cell for cell in cells if cell.trial_id not in finished_ids)
                    if pilot:
                        finished = (trial for trial in output.journal.list_trials() if trial.status != "crashed")
                        unfinished = select_pilot_cells(list(unfinished), finished)
                    jobs = (self._build_job(cell, backends, provenance, output, cache_settings) for cell in unfinished)
                    runner.run(replace(job, wiring=wiring) for job in jobs)
            finally:
                self.display.close()
                output.recover_journals()
                export(output.journal.path, folder / "results")
            if store is not None:
                publish_tables(folder / "results", store)
            if interrupted.is_set():
                raise KeyboardInterrupt

    def _iter_labels(self, output: OutputFolder) -> Iterator[tuple[str, Label]]:
        stored = output.list_stored()
        for cell in self.experiment.grid if stored else ():
            if cell.trial_id in stored:
                yield cell.trial_id, Label(self.experiment.name, cell.arm, encode_axes(cell.axes))

    def _look_ahead(self, finished_ids: Collection[str]) -> tuple[int, Collection[str]]:
        """Return the number of finished trials, and the names of the models that the unfinished trials will call.

        There are no such models if all answers are replayed from a recording.
        """
        finished_count, models = 0, set[str]()
        for cell in self.experiment.grid:
            if cell.trial_id in finished_ids:
                finished_count += 1
            else:
                models.update(cell.trial.models)
        return finished_count, () if self._wiring.is_replay else models

    @property
    def _wiring(self) -> Wiring:
        """Settings for calls to real models; the addresses of local model servers are not known yet."""
        return Wiring(cassette=self.experiment.cassette, stall_seconds=self.experiment.settings.stall_seconds)

    def _build_job(
        self,
        cell: Cell,
        backends: Mapping[SandboxNeed, str],
        provenance: Provenance,
        output: OutputFolder,
        cache_settings: CacheSettings | None,
    ) -> Job:
        trial_id = cell.trial_id
        uses_cache = self.experiment.settings.action_cache == "on" or is_scripted(cell.trial.model)
        return Job(
            trial=cell.trial,
            trial_id=trial_id,
            experiment=self.experiment.name,
            arm=cell.arm,
            axes=cell.axes,
            backend=backends[self.needs.find(cell.trial)],
            provenance=provenance,
            journal=output.locate_trial_journal(trial_id),
            unsafe_local=self.unsafe_local,
            cache_settings=cache_settings if uses_cache else None,
            tool_time_seconds=TOOL_TIME_SHARE * self.experiment.settings.trial_timeout_seconds,
            price_terms=find_terms(cell.trial.price_rule, cell.trial.model) if cell.trial.price_rule else None,
        )

    def _prepare_cache(self) -> CacheSettings | None:
        """Return the settings of the run's action cache, or None if it is off.

        Raises:
            StoreError: The folder of the action cache cannot be used.
        """
        settings = self.experiment.settings
        if settings.action_cache == "off":
            return None
        folder = Path(settings.action_cache_folder) if settings.action_cache_folder else find_default_folder()
        with closing(ActionCache(folder.absolute(), settings.action_cache_max_bytes)):
            return CacheSettings(
                folder=folder.absolute(),
                max_bytes=settings.action_cache_max_bytes,
                is_default=not settings.action_cache_folder,
                store=settings.store if settings.store_actions else "",
            )

    def _open_workers(self) -> Workers:
        settings = self.experiment.settings
        if isinstance(self.executor, Executor):
            return ExecutorWorkers(self.executor, self.workers, run_trial, settings.trial_timeout_seconds, settings.store)
        if self.executor is not None:
            open_workers = cast(Callable[[TrialRunner, float], Workers], self.executor)
            return open_workers(run_trial, settings.trial_timeout_seconds)
        kind = ProcessWorkers if settings.executor == "processes" else ThreadWorkers
        return kind(self.workers, run_trial, settings.trial_timeout_seconds)
