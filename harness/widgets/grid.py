"""An experiment in a notebook cell: a heat map that fills while trials finish, with stop and resume; the cell returns at once.

The run is the one that `Experiment.run` does, in a thread: stopping it keeps what is finished, and starting it again goes on by
trial id, in this notebook or anywhere else.
"""

import html
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from harness.errors import HarnessError, UsageError, format_count
from harness.experiment.experiment import Experiment
from harness.experiment.progress import RunProgress, format_record
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.widgets.harness_widget import load_script, load_style, render_preformatted, render_table
from harness.widgets.snapshot import SnapshotWidget
from harness.widgets.success_grid import SuccessGrid

if TYPE_CHECKING:
    from harness.store.results import Results

MAX_LISTED_FAILURES = 60
"""That are listed where no kernel answers."""

RunState: TypeAlias = Literal["new", "running", "stopping", "stopped", "done", "failed"]


class GridWidget(SnapshotWidget):
    """The run of an experiment: success of each arm with its n, progress, failures with their reason, stop and resume."""

    _esm: ClassVar[str] = load_script("grid")
    _css: ClassVar[str] = load_style("grid")

    def __init__(
        self, experiment: Experiment, output: str | os.PathLike[str] | None = None, *, workers: int | None = None
    ) -> None:
        """Prepare a run; it starts with the button or with `start()`. What an earlier run finished is shown at once.

        Args:
            experiment: what to run.
            output: folder for journal and tables; None = that of the experiment.
            workers: trials at a time; None = one for each processor.

        Raises:
            StoreError: what is in that folder cannot be read.
        """
        super().__init__()
        self.output = experiment.output if output is None else Path(output)
        """Folder of journal and tables."""
        self.state: RunState = "new"
        """How the run stands."""
        self.failure = ""
        """Why it could not go on."""
        self._experiment, self._workers = experiment, workers
        self._lock = threading.Lock()
        self._success_grid = SuccessGrid(experiment)
        self._stop_event, self._end_event = threading.Event(), threading.Event()
        self._end_event.set()
        self.channel.update_state(plan=self._success_grid.build_layout(), state=self.state, failure="", running=[], last="")
        self._load_finished_trials()

    @property
    def is_resting(self) -> bool:
        """See `SnapshotWidget`."""
        return self.state not in ("running", "stopping")

    @property
    def results(self) -> "Results":
        """The tables of what is finished.

        Raises:
            UsageError: nothing is there yet.
        """
        from harness.store.results import load  # noqa: PLC0415  (pandas is slow to load)

        return load(self.output)

    def start(self) -> None:
        """Run what is not there yet; returns at once.

        Raises:
            UsageError: it runs already.
        """
        with self._lock:
            if self.state in ("running", "stopping"):
                raise UsageError("this grid runs already; stop it first, or wait for its end")
            self.state, self.failure = "running", ""
            self._stop_event, self._end_event = threading.Event(), threading.Event()
        self._publish_state()
        threading.Thread(target=self._run, name="harness-grid", daemon=True).start()

    def stop(self) -> None:
        """Ask the run to end; what is finished is kept, and `start` goes on from there. Idempotent."""
        with self._lock:
            if self.state != "running":
                return
            self.state = "stopping"
            self._stop_event.set()
        self._publish_state()

    def wait(self, timeout_seconds: float | None = None) -> RunState:
        """Wait until it does not run; returns how it stands then.

        Args:
            timeout_seconds: wait no longer; None = as long as it takes.
        """
        self._end_event.wait(timeout_seconds)
        return self.state

    def close(self) -> None:
        """Stop the run, wait for it, and take the widget away. Idempotent."""
        self.stop()
        self._end_event.wait()
        super().close()

    def handle_message(self, message: Mapping[str, Any]) -> None:
        """The user did something in a page."""
        match message.get("kind"):
            case "start":
                self.start()
            case "stop":
                self.stop()
            case "beat":
                self.channel.update_state(beat=time.monotonic())

    def render_text(self) -> str:
        """See `HarnessWidget`."""
        with self._lock:
            return self._describe_status()

    def render_html(self) -> str:
        """See `HarnessWidget`."""
        with self._lock:
            board, failures = self._success_grid, self._success_grid.failures
            level = f" Level {html.escape(board.level)}." if board.level else ""
            parts = [f"<p><b>{html.escape(self._describe_status())}</b>.{level}</p>"]
            rows = [
                (name, f"{len(arm.records)} of {arm.planned_trials}", str(arm.success_rate)) for name, arm in board.arms.items()
            ]
        parts.append(render_table(("arm", "trials", "success, 95 % interval"), rows))
        if failures:
            lines = [format_record(record) for record in failures[:MAX_LISTED_FAILURES]]
            lines += [f"and {len(failures) - MAX_LISTED_FAILURES} more"] if len(failures) > MAX_LISTED_FAILURES else []
            parts.append(f"<details><summary>Without success</summary>{render_preformatted(chr(10).join(lines))}</details>")
        return "".join(parts)

    def _describe_status(self) -> str:
        finished, total = self._success_grid.finished_trials, format_count(len(self._experiment.grid), "trial")
        failed = len(self._success_grid.failures)
        return f"{self._experiment.name}: {self.state}; {finished} of {total} finished, {failed} without success"

    def _run(self) -> None:
        """In a thread of its own."""
        state: RunState = "failed"
        failure = "the run broke off; the kernel's log says why"
        try:
            self._experiment.run(self.output, workers=self._workers, progress=_WidgetDisplay(self), stop=self._stop_event)
            state, failure = ("stopped" if self._success_grid.finished_trials < len(self._experiment.grid) else "done"), ""
        except HarnessError as error:
            failure = str(error)
        finally:
            with self._lock:
                self.state, self.failure = state, failure
            self.channel.update_state(running=[])
            self._publish_state()
            self._end_event.set()
            self.update_snapshot()

    def _load_finished_trials(self) -> None:
        """What an earlier run finished."""
        file = self.output / JOURNAL_FILE
        if not file.exists():
            return
        with Journal.open(file) as journal:
            kept = [record for record in journal.list_trials() if record.status != "crashed"]
        with self._lock:
            items = self._success_grid.add(kept)
        self.channel.append(items)
        self._publish_state()

    def _publish_state(self) -> None:
        self.channel.update_state(
            state=self.state, failure=self.failure, finished=self._success_grid.finished_trials, level=self._success_grid.level
        )

    def show_progress(self, standing: RunProgress) -> None:
        """A trial has begun or ended; called by the run."""
        if standing.last_record is not None:
            with self._lock:
                items = self._success_grid.add((standing.last_record,))
            if items:
                self.channel.append(items)
                self._publish_state()
        self.channel.update_state(running=list(standing.running_trials), last=standing.last_result)


class _WidgetDisplay:
    """The run's display: a widget."""

    def __init__(self, widget: GridWidget) -> None:
        self._widget = widget

    def show(self, standing: RunProgress) -> None:
        self._widget.show_progress(standing)

    def close(self) -> None:
        """The widget says itself how the run ended."""
