"""Widget `GridWidget`, which runs an experiment from a notebook cell and fills a heat map while trials finish.

The widget calls `Experiment.run` in a thread, so the cell returns at once. Stopping keeps the finished trials (single runs of a
task), and a later run of the same experiment, in this notebook or elsewhere, skips them by their trial ids.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isnan, nan
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import ipywidgets
import pandas as pd
import traitlets

from harness.analysis.formatting import ESTIMAND_NOTE
from harness.analysis.measures import METRICS, measure_trial_retention
from harness.errors import HarnessError, StoreError, UnknownName, UsageError, format_count
from harness.experiment.experiment import Experiment
from harness.experiment.interim_analyses import TRANSCRIPTS_NOTE, explain_withheld, find_interim_analysis, record_interim_analysis
from harness.experiment.limits import RunLimits
from harness.experiment.progress import NoDisplay, RunProgress, format_record
from harness.inspection.loading import load_run
from harness.inspection.stored_twins import LoadedResults
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.text import escape_html
from harness.widgets.assets import load_script, load_style
from harness.widgets.harness_widget import SnapshotWidget, render_preformatted, render_table
from harness.widgets.inspector import SessionInspector
from harness.widgets.success_grid import SuccessGrid

MAX_LISTED_FAILURES = 60
"""Maximum number of trials without success that are listed in the static HTML, which is saved in the notebook."""

RunState: TypeAlias = Literal["new", "running", "stopping", "stopped", "done", "failed"]


class GridWidget(SnapshotWidget):
    """Widget that runs an experiment and shows its progress, success by arm and trials without success.

    The heat map has one cell for each arm. A click on a cell lists the trials of the arm, and a click on a trial opens its
    transcript below, in a `SessionInspector`.

    If the plan declares contrasts, outcomes stay hidden until all trials have finished or a planned interim analysis is
    taken. Until then, cells show how many trials have finished.

    Args:
        experiment: Experiment to run. Required.
        output: Folder for the journal and the tables; None is the experiment's own folder. Default: `None`.
        workers: Maximum number of trials that run at the same time; None is the number of processors. Default: `None`.
        limits: Maximum number of trials, cost or time of each run, after which no further trial begins. None sets no limit.
            Default: `None`.

    Attributes:
        experiment: Experiment that the widget runs.
        output: Folder of the journal and the tables.
        warnings: Warnings about policies that will not act as their configuration suggests, with advice, as a tuple of texts.
        failure: Error message of a failed run, or an empty string.
        limits: Limits of the next run, as given; may be set to others between two runs.
        state: State of the run, which is `new`, `running`, `stopping`, `stopped`, `done` or `failed`. Trait, read-only.
        metric: Name of the metric that the cells show, one of `success`, `score`, `cost`, `tokens`, `steps` and
            `retention`. Trait.
        progress: Share of the trials that have finished, 0 to 1. Trait, read-only.
        selected_trial: Id of the trial whose transcript is open, or an empty text; setting it opens another one. Trait.
        inspector: Inspector of the selected trial, or None. Trait, read-only.

    Example::

        widget = harness.GridWidget(experiment, workers=4)
        widget.start()
        widget.wait()  # returns "done"

    Raises:
        StoreError: The journal, or the record of interim analyses so far, in the folder cannot be read.
    """

    state = traitlets.Unicode("new", read_only=True).tag(sync=True)
    metric = traitlets.Unicode("success").tag(sync=True)
    progress = traitlets.Float(0.0, read_only=True).tag(sync=True)
    selected_trial = traitlets.Unicode("").tag(sync=True)
    inspector = traitlets.Instance(SessionInspector, allow_none=True, read_only=True).tag(
        sync=True, **ipywidgets.widget_serialization
    )

    _esm: ClassVar[str] = load_script("grid")
    _css: ClassVar[str] = load_style("grid")

    def __init__(
        self,
        experiment: Experiment,
        output: str | os.PathLike[str] | None = None,
        *,
        workers: int | None = None,
        limits: RunLimits | None = None,
    ) -> None:
        super().__init__()
        self.output = (experiment.output if output is None else Path(output)).absolute()  # for a notebook that changes its folder
        self._state: RunState = "new"
        self.failure = ""
        self.experiment, self._workers, self.limits = experiment, workers, limits
        self._lock = threading.Lock()
        self._success_grid = SuccessGrid(experiment, hides_outcomes=bool(experiment.contrasts))
        self._listed_arm: int | None = None
        self._inspected_trial = ""
        """Id of the trial that `inspector` shows; `selected_trial` may already have the value that is being checked."""
        self._recorded_ids: set[str] = set()
        """Ids of the experiment's trials that have run, including those that crashed."""
        self._stop_event, self._end_event = threading.Event(), threading.Event()
        self._end_event.set()
        self._run_thread: threading.Thread | None = None
        self._started_seconds = 0.0
        self.warnings = _collect_warnings(experiment)
        layout = self._success_grid.build_layout()
        self.channel.update_state(plan=layout, warnings=list(self.warnings), state=self._state, failure="", running=[], last="")
        self._publish_metric()
        self._load_finished_trials()

    @property
    def _is_resting(self) -> bool:
        return self._state not in ("running", "stopping")

    @property
    def results(self) -> LoadedResults:
        """Results of the experiment so far, as tables about its finished trials.

        Raises:
            UsageError: No trial has finished yet.
        """
        return load_run(self.output)

    def start(self, *, pilot: bool = False) -> None:
        """Start all trials of the experiment that are not finished yet, and return at once.

        Args:
            pilot: Run only a pilot: one trial of each combination of a task and models, unless such a trial has finished; see
                `Experiment.estimate`. Default: `False`.

        Raises:
            UsageError: The experiment is running already.
        """
        with self._lock:
            if self._state in ("running", "stopping"):
                raise UsageError("this grid is running already; stop it first, or wait until it ends")
            self._state, self.failure = "running", ""
            self._stop_event, self._end_event = threading.Event(), threading.Event()
            self._started_seconds = time.monotonic()
        self._show_outcomes(is_interim_analysis=False)
        self._publish_state()
        self._run_thread = threading.Thread(target=self._run, args=(pilot,), name="harness-grid", daemon=True)
        self._run_thread.start()

    def stop(self) -> None:
        """Ask the running experiment to stop; finished trials are kept, and a later `start` runs the others.

        Does nothing if the experiment is not running.
        """
        with self._lock:
            if self._state != "running":
                return
            self._state = "stopping"
            self._stop_event.set()
        self._publish_state()

    def wait(self, timeout_seconds: float | None = None) -> RunState:
        """Wait until the run of the experiment ends, and return its state, such as `done` or `failed`.

        Args:
            timeout_seconds: Maximum time to wait, in seconds; None waits without limit. Default: `None`.
        """
        if threading.current_thread() is not self._run_thread:  # an observer of `state`, which must not wait for itself
            self._end_event.wait(timeout_seconds)
        return self._state

    def take_look(self) -> None:
        """Show the outcomes of the trials finished so far, as one of the interim analyses that the plan declares.

        The interim analysis is recorded in the output folder. Starting the grid again hides the outcomes.

        Raises:
            UsageError: The grid is running, no trial has finished, or the only interim analysis left is that after the last
                trial.
            StoreError: The record of interim analyses in the output folder cannot be read.
        """
        with self._lock:
            if self._state in ("running", "stopping"):
                raise UsageError("the grid is running; stop it to look at its outcomes")
        if not self._success_grid.hides_outcomes:
            return
        looks, next_analysis = self.experiment.settings.looks, find_interim_analysis(self.output, self._recorded_ids)
        if not self._recorded_ids or (next_analysis.number >= looks and not next_analysis.is_recorded):
            left = (
                "the last look is for the time when all trials have finished" if self._recorded_ids else "no trial has finished"
            )
            raise UsageError(f"there is no interim look to take: the plan declares {format_count(looks, 'look')}, and {left}")
        self._show_outcomes(is_interim_analysis=True)
        self.update_snapshot()

    def open_trial(self, trial_id: str) -> SessionInspector:
        """Open the transcript of a finished trial below the grid, and return the widget that shows it.

        Args:
            trial_id: Id of the trial.

        Raises:
            UsageError: The trial is not a finished trial of this grid, or it ended before its first step.
            StoreError: The journal cannot be read.
        """
        self.selected_trial = trial_id
        assert self.inspector is not None
        return self.inspector

    @traitlets.validate("metric")
    def _find_metric(self, proposal: Mapping[str, Any]) -> str:
        name = str(proposal["value"])
        if name not in METRICS:
            raise UnknownName("metric", name, list(METRICS))
        return name

    @traitlets.observe("metric")
    def _show_metric(self, change: Mapping[str, Any]) -> None:
        with self._lock:
            self._success_grid.metric = METRICS[change["new"]]
            self._read_retention()
            items = self._success_grid.list_arms()
        self.channel.append(items)
        self._publish_metric()

    def _publish_metric(self) -> None:
        metric = self._success_grid.metric
        plain = {"name": metric.name, "is_share": metric.kind != "amount"}
        texts = {"label": metric.label, "about": ESTIMAND_NOTE, "note": self._describe_missing_retention()}
        self.channel.update_state(metric=plain | texts, **self._encode_outcomes())

    def _encode_outcomes(self) -> dict[str, Any]:
        """Return what the page shows about all arms together: the shades of their cells and the number of successful trials."""
        with self._lock:
            return {"shades": self._success_grid.shade_arms(), "succeeded": self._success_grid.count_successes()}

    def _describe_missing_retention(self) -> str:
        """Return why no cell has a value although the cells show retention (the share of facts kept); otherwise empty."""
        grid = self._success_grid
        is_known = any(not isnan(value) for value in grid.retention.values())
        if grid.metric.name != "retention" or grid.hides_outcomes or is_known:
            return ""
        if grid.finished_trials:
            return "No finished trial has a compaction with facts of its task in view, so retention is unknown."
        return "Retention is measured at compactions; it is shown as soon as a trial with a compaction has finished."

    def _read_retention(self) -> None:
        """Read the retention (share of facts kept) of finished trials from the journal, if the cells show it.

        The caller holds the lock.
        """
        grid = self._success_grid
        if grid.metric.name != "retention" or grid.hides_outcomes:
            return
        missing = [record for arm in grid.arms.values() for record in arm.records if record not in grid.retention]
        file = self.output / JOURNAL_FILE
        if not missing or not file.exists():
            return
        with Journal.open(file, read_only=True) as journal:
            probes = journal.list_probes(missing)
        columns = ["trial_id", "kind", "seen_before", "seen_after"]
        measured = measure_trial_retention(pd.DataFrame(probes, columns=columns))
        grid.retention.update(dict.fromkeys(missing, nan) | measured.to_dict())

    @traitlets.validate("selected_trial")
    def _open_inspector(self, proposal: Mapping[str, Any]) -> str:
        """Open the transcript of the trial to which `selected_trial` is set, so that a trial without one is refused.

        Raises:
            UsageError: The trial has no transcript.
            StoreError: The journal cannot be read, or the session is not in it.
        """
        trial_id = str(proposal["value"])
        if trial_id == self._inspected_trial:
            return trial_id
        previous = self.inspector
        opened = SessionInspector(self.output, session_id=self._find_session_id(trial_id)) if trial_id else None
        self._inspected_trial = trial_id
        self._publish_trait("inspector", opened)
        if previous is not None:
            previous.close()
        return trial_id

    def _find_session_id(self, trial_id: str) -> str:
        with self._lock:
            record = self._success_grid.find_record(trial_id)
        if record is None:
            raise UsageError(f"the grid has no finished trial {trial_id!r}; the ids of its trials are in results.trials")
        if not record.session_id:
            raise UsageError(
                f"trial {trial_id} has no transcript: it ended before its session began: {record.error or record.reason}"
            )
        return record.session_id

    def close(self) -> None:
        """Stop the experiment, wait until its run has ended, and close the widget. May be called more than once.

        An observer that the run calls, e.g. of `state`, does not wait: the run ends after the observer has returned.
        """
        self.stop()
        self.wait()
        if self.inspector is not None:
            self.inspector.close()
        super().close()

    def _handle_page_message(self, message: Mapping[str, Any]) -> None:
        match message.get("kind"):
            case "start":
                self.start()
            case "stop":
                self.stop()
            case "look":
                self.take_look()
            case "trials":
                self._list_trials(message.get("arm"))
            case "open":
                self.channel.update_state(error="")
                inspector = self.open_trial(str(message.get("trial")))
                if isinstance(check := message.get("check"), str):
                    inspector.show_check(check)
            case "metric":
                self.channel.update_state(error="")
                self.metric = str(message.get("name"))
            case "beat":
                self.channel.update_state(beat=time.monotonic())

    def render_text(self) -> str:
        """Return name, state and progress of the experiment as one line of text."""
        with self._lock:
            return self._describe_status()

    def render_html(self) -> str:
        """Return static HTML with progress, success of each arm and trials without success."""
        with self._lock:
            grid, failures = self._success_grid, self._success_grid.failures
            hides = grid.hides_outcomes
            level = f" Level {escape_html(grid.level)}." if grid.level else ""
            parts = [f"<p><b>{escape_html(self._describe_status())}</b>.{level}</p>"]
            counts = {name: f"{len(arm.records)} of {arm.planned_trials}" for name, arm in grid.arms.items()}
            rows = [(name, text, *([] if hides else [str(grid.arms[name].success_rate)])) for name, text in counts.items()]
        parts += [f"<p>{escape_html(f'Warning: {text}')}</p>" for text in self.warnings]
        parts.append(f"<p>{escape_html(self._describe_standing())}</p>")
        parts.append(
            render_table(("arm", "finished trials" if hides else "trials", *([] if hides else ["success, 95 % interval"])), rows)
        )
        if not hides:
            parts.append(f"<p>{escape_html(ESTIMAND_NOTE)}</p>")
        if failures:
            lines = [format_record(record, hides_outcome=hides) for record in failures[:MAX_LISTED_FAILURES]]
            lines += [f"and {len(failures) - MAX_LISTED_FAILURES} more"] if len(failures) > MAX_LISTED_FAILURES else []
            title = "Crashed trials" if hides else "Trials without success"
            parts.append(f"<details><summary>{title}</summary>{render_preformatted(chr(10).join(lines))}</details>")
        return "".join(parts)

    def _list_trials(self, arm: object) -> None:
        # a page may send any value
        if isinstance(arm, int) and 0 <= arm < len(self._success_grid.arms):
            self._listed_arm = arm
            with self._lock:
                chosen = self._success_grid.list_trials(arm)
                hides = self._success_grid.hides_outcomes
            failed = {} if hides else self._read_failed_checks([row[0] for row in chosen["trials"]])
            rows = [[*row, failed.get(row[0], [])] for row in chosen["trials"]]
            self.channel.update_state(chosen={**chosen, "trials": rows})

    def _read_failed_checks(self, trial_ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        """Return names and titles of the failed checks of trials, by trial id; trials that are not stored yet are missing."""
        file = self.output / JOURNAL_FILE
        if not trial_ids or not file.exists():
            return {}
        with Journal.open(file, read_only=True) as journal:
            return journal.list_failed_checks(trial_ids)

    def _describe_status(self) -> str:
        finished, total = self._success_grid.finished_trials, format_count(len(self.experiment.grid), "trial")
        failed = len(self._success_grid.failures)
        outcome = "outcomes not shown yet" if self._success_grid.hides_outcomes else f"{failed} without success"
        return f"{self.experiment.name}: {self._state}; {finished} of {total} finished, {outcome}"

    def _describe_standing(self) -> str:
        """Return why outcomes are hidden or, if they are shown, that they are exploratory."""
        looks = self.experiment.settings.looks
        if not self.experiment.contrasts:
            return "Exploratory: the plan declares no contrasts, so nothing that is shown here can be claimed."
        if self._success_grid.hides_outcomes:
            return f"{explain_withheld(looks)} {TRANSCRIPTS_NOTE}"
        analysis = find_interim_analysis(self.output, self._recorded_ids)
        return (
            f"Look {analysis.number} of {looks}: the report tests the declared contrasts; all that is shown here is exploratory."
        )

    def _run(self, pilot: bool) -> None:
        state: RunState = "failed"
        failure = "the run ended with an unexpected error; see the log of the kernel"
        try:
            self.experiment.run(
                self.output,
                workers=self._workers,
                progress=_WidgetDisplay(self._show_progress),
                stop=self._stop_event,
                limits=self.limits,
                pilot=pilot,
            )
            self._load_finished_trials()  # a worker of a killed kernel may have finished one that this run did not report
            state, failure = ("stopped" if self._success_grid.finished_trials < len(self.experiment.grid) else "done"), ""
        except HarnessError as error:
            failure = str(error)
        finally:
            with self._lock:
                self._state, self.failure = state, failure
            self.channel.update_state(running=[], left_seconds=None)
            with suppress(StoreError):  # a record of interim analyses that cannot be read has failed the run
                self._publish_standing()
            self._publish_state()
            self._end_event.set()
            self.update_snapshot()

    def _load_finished_trials(self) -> None:
        file = self.output / JOURNAL_FILE
        if not file.exists():
            self._publish_standing()
            return
        with Journal.open(file) as journal:
            recorded = journal.list_trials()
        planned = {cell.trial_id for cell in self.experiment.grid}
        self._recorded_ids = {record.trial_id for record in recorded} & planned
        with self._lock:
            items = self._success_grid.add(record for record in recorded if record.status != "crashed")
            self._read_retention()
        self.channel.append(items)
        self._show_outcomes(is_interim_analysis=False)
        self._publish_state()

    def _show_outcomes(self, *, is_interim_analysis: bool) -> None:
        """Show or hide the outcomes of an experiment whose plan declares contrasts.

        Other outcomes are always visible. Those of such a plan are shown if all trials have finished, and showing them is
        recorded in the output folder as an interim analysis.

        Args:
            is_interim_analysis: Whether outcomes are shown although not all trials have finished.
        """
        grid = self._success_grid
        if self.experiment.contrasts:
            is_complete = len(self._recorded_ids) == len(self.experiment.grid)
            with self._lock:
                grid.hides_outcomes = not (is_interim_analysis or is_complete)
                self._read_retention()
                items = grid.list_arms() + grid.list_failures()
            if not grid.hides_outcomes:
                record_interim_analysis(self.output, self._recorded_ids)
            self.channel.append(items)
            self._publish_metric()
        self._list_trials(self._listed_arm)
        self._publish_standing()

    def _publish_standing(self) -> None:
        """Send to the pages whether and why outcomes are hidden, and whether an interim analysis can show them now."""
        hides, looks = self._success_grid.hides_outcomes, self.experiment.settings.looks
        button_text: str | None = None
        if hides and looks > 1 and self._is_resting and self._recorded_ids:
            next_analysis = find_interim_analysis(self.output, self._recorded_ids)
            if next_analysis.is_recorded or next_analysis.number < looks:
                button_text = f"Look at outcomes (look {next_analysis.number} of {looks})"
        self.channel.update_state(standing={"hides": hides, "text": self._describe_standing(), "look": button_text})

    def _publish_state(self) -> None:
        with self._lock:
            finished_trials, level = self._success_grid.finished_trials, self._success_grid.level
        self.channel.update_state(
            state=self._state, failure=self.failure, finished=finished_trials, level=level, **self._encode_outcomes()
        )
        self._publish_trait("progress", finished_trials / max(1, len(self.experiment.grid)))
        while self.state != self._state:  # another thread may have changed the state meanwhile
            self._publish_trait("state", self._state)

    def _show_progress(self, progress: RunProgress) -> None:
        if progress.last_record is not None:
            with self._lock, suppress(StoreError):  # a journal that cannot be read must not end the run
                items = self._success_grid.add((progress.last_record,))
                self._read_retention()
            if self.metric == "retention":
                items = self._success_grid.list_arms() + items
                self._publish_metric()
            if items:
                self.channel.append(items)
                self._publish_state()
            if any(item["arm"] == self._listed_arm for item in items):
                self._list_trials(self._listed_arm)
        remaining_trials = progress.total_trials - progress.previously_finished - progress.finished
        elapsed_seconds = time.monotonic() - self._started_seconds
        left_seconds = elapsed_seconds / progress.finished * remaining_trials if progress.finished else None
        self.channel.update_state(
            running=list(progress.running_trials),
            last=progress.last_result,
            left_seconds=left_seconds,
            limit=progress.reached_limit,
        )


def _collect_warnings(experiment: Experiment) -> tuple[str, ...]:
    try:
        return experiment.collect_warnings()
    except HarnessError:  # the run will be refused, with the message of this error
        return ()


class _WidgetDisplay(NoDisplay):
    def __init__(self, show_progress: Callable[[RunProgress], None]) -> None:
        self._show_progress = show_progress

    def show(self, progress: RunProgress) -> None:
        self._show_progress(progress)

    def show_warnings(self, texts: Sequence[str]) -> None:
        """Do nothing, because the widget has shown the warnings since it was created."""
