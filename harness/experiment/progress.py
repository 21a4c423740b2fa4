"""Live progress of a run: one small record of how it stands, shown by one of three displays.

A terminal gets a bar, a pipe gets plain lines, a notebook gets one output that is updated in place and that still makes
sense in the saved file. Names come from plans and errors from anywhere, so all text is escaped for where it is shown.
"""

import html
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TextIO, TypeAlias, get_args

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.errors import UnknownName, format_count
from harness.store.records import TrialRecord
from harness.text import replace_control_characters

DisplayKind: TypeAlias = Literal["auto", "rich", "plain", "notebook", "off"]
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How a run stands."""

    experiment: str
    total_trials: int
    """Trials of the grid."""
    previously_finished: int = 0
    """Finished by an earlier run."""
    finished: int = 0
    """Finished by this run."""
    succeeded: int = 0
    """Of those of this run: all checks passed."""
    crashed: int = 0
    running_trials: tuple[str, ...] = ()
    """Names of the trials at work."""
    last_result: str = ""
    """What the last finished trial came to."""
    last_record: TrialRecord | None = None
    """The last finished trial; every one is shown once at least."""

    def with_record(self, record: TrialRecord) -> "RunProgress":
        """The standing when one more trial is finished."""
        return replace(
            self,
            finished=self.finished + 1,
            succeeded=self.succeeded + record.success,
            crashed=self.crashed + (record.status == "crashed"),
            last_result=format_record(record),
            last_record=record,
        )

    @property
    def summary(self) -> str:
        """One line that says it all."""
        finished = self.previously_finished + self.finished
        phrases = [f"{finished}/{self.total_trials} trials", f"{self.succeeded}/{self.finished} succeeded"]
        phrases += [f"{self.previously_finished} kept from before"] if self.previously_finished else []
        phrases += [f"{self.crashed} crashed"] if self.crashed else []
        return ", ".join(phrases)


def format_record(record: TrialRecord) -> str:
    """A finished trial in one line."""
    verdict = "success" if record.success else f"score {record.score:.2f}"
    ending = "" if record.status == "completed" else f", {record.status}: {record.reason}"
    counts = f"{format_count(record.steps, 'step')}, {format_count(record.compactions, 'compaction')}"
    return f"{record.arm[:MAX_NAME_CHARACTERS]} seed={record.seed}: {verdict}{ending} ({counts}, {record.wall_seconds:.1f} s)"


class Display(Protocol):
    """Shows how a run stands. `show` is called often, from one thread, and is cheap; `close` leaves the final state."""

    def show(self, progress: RunProgress) -> None:
        """Show it now or soon."""
        ...

    def close(self) -> None:
        """Show the last standing for good; idempotent."""
        ...


class NoDisplay:
    """Shows nothing."""

    def show(self, progress: RunProgress) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainDisplay:
    """A line for each finished trial, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to a stream; None = the error stream, so that standard output stays for results."""
        self._stream = sys.stderr if stream is None else stream
        self._shown_count = -1

    def show(self, progress: RunProgress) -> None:
        """A line when something was finished since."""
        if progress.finished == self._shown_count:
            return
        self._shown_count = progress.finished
        count = f"{progress.previously_finished + progress.finished}/{progress.total_trials}"
        line = f"[{count}] {progress.last_result or progress.experiment}"
        print(_clean_line(line), file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is left to say."""


class RichDisplay:
    """A bar with counts, times and the last finished trial."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on a console; None = the terminal's error stream."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        last = TextColumn("{task.fields[last]}", style="dim")
        self._bar = Progress(*columns, last, console=console or Console(stderr=True), refresh_per_second=8)
        self._task: TaskID | None = None

    def show(self, progress: RunProgress) -> None:
        """Move the bar; it redraws itself."""
        name, last = (escape(_clean_line(text)) for text in (progress.experiment, progress.last_result))
        if self._task is None:
            self._task = self._bar.add_task(name, total=progress.total_trials, last="")
            self._bar.start()
        self._bar.update(self._task, completed=progress.previously_finished + progress.finished, last=last)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()


class NotebookDisplay:
    """One output of a cell, updated in place at most a few times a second; escaped HTML with a text for other readers."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic) -> None:
        """Use IPython's `display`, asked for with `display_id`."""
        self._display, self._clock = display, clock
        self._handle: Any = None
        self._shown_at = 0.0
        self._pending: RunProgress | None = None

    def show(self, progress: RunProgress) -> None:
        """Update the output, or keep it for later when it was updated just now."""
        self._pending = progress
        if self._handle is None or self._clock() - self._shown_at >= 0.25:
            self._flush()

    def close(self) -> None:
        """Show the last standing."""
        self._flush()

    def _flush(self) -> None:
        if self._pending is None:
            return
        bundle = {"text/plain": _clean_line(self._pending.summary), "text/html": render_html(self._pending)}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
        self._pending, self._shown_at = None, self._clock()


def _clean_line(text: str) -> str:
    return replace_control_characters(text, " ", keep="")


def render_html(progress: RunProgress) -> str:
    """A progress bar with counts; every text is escaped."""
    finished = progress.previously_finished + progress.finished
    bar = f"<progress value='{finished}' max='{max(1, progress.total_trials)}'></progress>"
    rows = [f"<b>{html.escape(progress.experiment)}</b> {bar}", html.escape(progress.summary)]
    rows += [f"last: {html.escape(progress.last_result)}"] if progress.last_result and finished < progress.total_trials else []
    rows += [f"running: {html.escape('; '.join(progress.running_trials))}"] if progress.running_trials else []
    return "<div>" + "<br>".join(rows) + "</div>"


def choose_display(kind: str = "auto") -> Display:
    """The display for where this process runs, or the one that is named.

    Raises:
        UnknownName: there is no display of that name.
    """
    if kind not in get_args(DisplayKind):
        raise UnknownName("progress display", kind, get_args(DisplayKind))
    if kind == "auto":
        kind = "notebook" if _find_notebook_display() else "rich" if sys.stderr.isatty() else "plain"
    if kind == "notebook":
        display = _find_notebook_display()
        return NotebookDisplay(display) if display else PlainDisplay()
    displays: dict[str, Callable[[], Display]] = {"rich": RichDisplay, "plain": PlainDisplay, "off": NoDisplay}
    return displays[kind]()


def _find_notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` inside of a kernel; None elsewhere. Nothing is imported that was not there."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # noqa: PLC0415  (only inside of a notebook)

    return display
