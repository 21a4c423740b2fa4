"""An experiment in a notebook cell: a heat map that fills while trials finish, with stop and resume; the cell returns at once.

The run is the one that `Experiment.run` does, in a thread: stopping it keeps what is finished, and starting it again goes on by
trial id, in this notebook or anywhere else.
"""

import html
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from harness.errors import HarnessError, UsageError, counted
from harness.experiment.experiment import Experiment
from harness.experiment.progress import Standing, told
from harness.store.journal import Journal
from harness.widgets.harness_widget import preformatted, script, style, table
from harness.widgets.snapshot import Renewed
from harness.widgets.success_grid import Board

if TYPE_CHECKING:
    from harness.store.results import Results

SAVED_FAILURES = 60
"""That are listed where no kernel answers."""

State: TypeAlias = Literal["new", "running", "stopping", "stopped", "done", "failed"]


class GridWidget(Renewed):
    """The run of an experiment: success of each arm with its n, progress, failures with their reason, stop and resume."""

    _esm: ClassVar[str] = script("grid")
    _css: ClassVar[str] = style("grid")

    def __init__(self, experiment: Experiment, output: str | Path | None = None, *, workers: int | None = None) -> None:
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
        self.state: State = "new"
        """How the run stands."""
        self.failure = ""
        """Why it could not go on."""
        self._experiment, self._workers = experiment, workers
        self._lock = threading.Lock()
        self._board = Board(experiment)
        self._stop, self._ended = threading.Event(), threading.Event()
        self._ended.set()
        self.wire.show(plan=self._board.plan(), state=self.state, failure="", running=[], last="")
        self._take_kept()

    @property
    def rests(self) -> bool:
        """See `Renewed`."""
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
            self._stop, self._ended = threading.Event(), threading.Event()
        self._tell()
        threading.Thread(target=self._run, name="harness-grid", daemon=True).start()

    def stop(self) -> None:
        """Ask the run to end; what is finished is kept, and `start` goes on from there. Idempotent."""
        with self._lock:
            if self.state != "running":
                return
            self.state = "stopping"
            self._stop.set()
        self._tell()

    def wait(self, timeout_seconds: float | None = None) -> State:
        """Wait until it does not run; returns how it stands then.

        Args:
            timeout_seconds: wait no longer; None = as long as it takes.
        """
        self._ended.wait(timeout_seconds)
        return self.state

    def close(self) -> None:
        """Stop the run, wait for it, and take the widget away. Idempotent."""
        self.stop()
        self._ended.wait()
        super().close()

    def heard(self, message: Mapping[str, Any]) -> None:
        """The user did something in a page."""
        match message.get("kind"):
            case "start":
                self.start()
            case "stop":
                self.stop()
            case "beat":
                self.wire.show(beat=time.monotonic())

    def as_text(self) -> str:
        """See `Surface`."""
        with self._lock:
            return self._told()

    def as_html(self) -> str:
        """See `Surface`."""
        with self._lock:
            board, failures = self._board, self._board.failures
            level = f" Level {html.escape(board.level)}." if board.level else ""
            parts = [f"<p><b>{html.escape(self._told())}</b>.{level}</p>"]
            rows = [(name, f"{len(arm.records)} of {arm.planned}", str(arm.rate)) for name, arm in board.arms.items()]
        parts.append(table(("arm", "trials", "success, 95 % interval"), rows))
        if failures:
            lines = [told(record) for record in failures[:SAVED_FAILURES]]
            lines += [f"and {len(failures) - SAVED_FAILURES} more"] if len(failures) > SAVED_FAILURES else []
            parts.append(f"<details><summary>Without success</summary>{preformatted(chr(10).join(lines))}</details>")
        return "".join(parts)

    def _told(self) -> str:
        finished, total = self._board.finished, counted(len(self._experiment.grid), "trial")
        failed = len(self._board.failures)
        return f"{self._experiment.name}: {self.state}; {finished} of {total} finished, {failed} without success"

    def _run(self) -> None:
        """In a thread of its own."""
        state: State = "failed"
        failure = "the run broke off; the kernel's log says why"
        try:
            self._experiment.run(self.output, workers=self._workers, progress=_Shown(self), stop=self._stop)
            state, failure = ("stopped" if self._board.finished < len(self._experiment.grid) else "done"), ""
        except HarnessError as error:
            failure = str(error)
        finally:
            with self._lock:
                self.state, self.failure = state, failure
            self.wire.show(running=[])
            self._tell()
            self._ended.set()
            self.renew()

    def _take_kept(self) -> None:
        """What an earlier run finished."""
        file = self.output / "journal.sqlite"
        if not file.exists():
            return
        with Journal.open(file) as journal:
            kept = [record for record in journal.trials() if record.status != "crashed"]
        with self._lock:
            items = self._board.add(kept)
        self.wire.append(items)
        self._tell()

    def _tell(self) -> None:
        self.wire.show(state=self.state, failure=self.failure, finished=self._board.finished, level=self._board.level)

    def show_standing(self, standing: Standing) -> None:
        """A trial has begun or ended; called by the run."""
        if standing.latest is not None:
            with self._lock:
                items = self._board.add((standing.latest,))
            if items:
                self.wire.append(items)
                self._tell()
        self.wire.show(running=list(standing.running), last=standing.last)


class _Shown:
    """The run's display: a widget."""

    def __init__(self, widget: GridWidget) -> None:
        self._widget = widget

    def show(self, standing: Standing) -> None:
        self._widget.show_standing(standing)

    def close(self) -> None:
        """The widget says itself how the run ended."""
