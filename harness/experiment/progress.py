"""Progress display of a run: a bar in a terminal, lines in a pipe, or an output that is updated in a notebook.

Names from plans and error messages may be hostile, so all text is escaped for the place where it is shown.
"""

import html
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO, TypeAlias, get_args, runtime_checkable

from harness.errors import UnknownName, format_count
from harness.store.records import TrialRecord
from harness.text import replace_control_characters

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

DisplayKind: TypeAlias = Literal["auto", "rich", "plain", "notebook", "off"]
MAX_NAME_CHARACTERS = 100
MAX_ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Progress of a run: numbers of trials, running trials and the last result."""

    experiment: str
    hides_outcomes: bool = False
    """Whether outcomes must not be shown, because the plan declares comparisons that may not be inspected at any time."""
    total_trials: int
    """Number of all trials of the experiment."""
    previously_finished: int = 0
    """Number of trials of the experiment that an earlier run has finished."""
    finished: int = 0
    """Number of trials that this run has finished so far."""
    succeeded: int = 0
    """Number of trials of this run that passed all checks."""
    crashed: int = 0
    """Number of trials of this run that ended with an unexpected error."""
    running_trials: tuple[str, ...] = ()
    """Names of the trials that are running now."""
    last_result: str = ""
    """Result of the trial that finished last, as one line of text."""
    reached_limit: str = ""
    """Limit (of trials, cost or time) that the run has reached, so that no further trial begins; empty if there is none."""
    has_policy_error: bool = False
    """Whether a trial of this run ended by an error of its policy; the result of the first contains the message."""
    last_record: TrialRecord | None = None
    """Stored results of the trial that finished last; the display gets the results of every finished trial in turn."""

    def with_record(self, record: TrialRecord) -> "RunProgress":
        """Return the progress of the run, updated with the results of one more finished trial."""
        result, is_policy_error = format_record(record, hides_outcome=self.hides_outcomes), record.reason == "illegal_plan"
        if is_policy_error and not self.has_policy_error and not self.hides_outcomes:
            result += f": {' '.join(record.error.split()):.{MAX_ERROR_CHARACTERS}}"
        return replace(
            self,
            finished=self.finished + 1,
            succeeded=self.succeeded + record.success,
            crashed=self.crashed + (record.status == "crashed"),
            last_result=result,
            has_policy_error=self.has_policy_error or is_policy_error,
            last_record=record,
        )

    @property
    def summary(self) -> str:
        """Numbers of finished, successful and crashed trials, as one line of text."""
        finished = self.previously_finished + self.finished
        phrases = [f"{finished}/{self.total_trials} trials"]
        phrases += [] if self.hides_outcomes else [f"{self.succeeded}/{self.finished} succeeded"]
        phrases += [f"{self.previously_finished} kept from before"] if self.previously_finished else []
        phrases += [f"{self.crashed} crashed"] if self.crashed else []
        phrases += [self.reached_limit] if self.reached_limit else []
        return ", ".join(phrases)


def format_record(record: TrialRecord, *, hides_outcome: bool = False) -> str:
    """Return the configuration (arm), the task, the seed and the result of a finished trial as one line of text.

    Args:
        record: Record of the trial.
        hides_outcome: Whether to withhold the outcome, and to state only that the trial has finished or why it crashed.
    """
    result = format_ending(record) if hides_outcome else format_outcome(record)
    return f"{name_trial(record.arm, record.task, record.seed)}: {result}"


def name_trial(arm: str, problem: str, seed: int) -> str:
    """Return arm, task and seed of a trial as text; the task in a file is named without the folder of the file."""
    return f"{arm[:MAX_NAME_CHARACTERS]} {problem.rpartition('/')[2][:MAX_NAME_CHARACTERS]} seed={seed}"


def format_ending(record: TrialRecord) -> str:
    """Return a text that says whether and after how long a trial finished or crashed, without its outcome."""
    ending = f"crashed: {record.reason}" if record.status == "crashed" else "finished"
    return f"{ending} ({record.wall_seconds:.1f} s)"


def format_outcome(record: TrialRecord) -> str:
    """Return the result of a finished trial as text, with the number of steps and compactions and the duration."""
    verdict = "success" if record.success else f"score {record.score:.2f}"
    ending = "" if record.status == "completed" else f", {record.status}: {record.reason}"
    counts = f"{format_count(record.steps, 'step')}, {format_count(record.compactions, 'compaction')}"
    return f"{verdict}{ending} ({counts}, {record.wall_seconds:.1f} s)"


class Display(Protocol):
    """Interface of a progress display. `show` is called often, from one thread, and must return quickly."""

    def show(self, progress: RunProgress) -> None:
        """Show the progress of the run. The display may wait a moment, so that it is not updated too often."""
        ...

    def close(self) -> None:
        """Show the final progress of the run permanently. May be called more than once."""
        ...


@runtime_checkable
class WarningDisplay(Display, Protocol):
    """Optional interface of a progress display that shows the warnings about an experiment itself.

    `Experiment.run` then emits no Python warnings for them.
    """

    def show_warnings(self, texts: Sequence[str]) -> None:
        """Show warnings about policies that will not act as their configuration suggests, before the first trial starts."""
        ...


class NoDisplay:
    """Progress display that shows nothing."""

    def show(self, progress: RunProgress) -> None:
        """Ignore the progress of the run."""

    def close(self) -> None:
        """Do nothing, because this display has shown nothing."""


class PlainDisplay:
    """Progress display for logs and pipes that prints one line for each finished trial."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Create a display that writes to a stream; None is standard error, which leaves standard output to results."""
        self._stream = sys.stderr if stream is None else stream
        self._shown_count = -1

    def show(self, progress: RunProgress) -> None:
        """Print a line of progress if another trial has finished."""
        if progress.finished == self._shown_count:
            return
        self._shown_count = progress.finished
        count = f"{progress.previously_finished + progress.finished}/{progress.total_trials}"
        line = f"[{count}] {progress.last_result or progress.experiment}"
        print(_clean_line(line), file=self._stream, flush=True)

    def close(self) -> None:
        """Do nothing, because every line was printed when its trial finished."""


class RichDisplay:
    """Progress display for terminals: a bar with counts, elapsed and remaining time and the last result."""

    def __init__(self, console: "Console | None" = None) -> None:
        """Create a progress display on a rich console; None is the terminal's standard error."""
        from rich import progress as bars  # noqa: PLC0415  (slow, and only terminals need it)
        from rich.console import Console  # noqa: PLC0415
        from rich.markup import escape  # noqa: PLC0415

        self._escape = escape
        times = (bars.TimeElapsedColumn(), bars.TextColumn("left:"), bars.TimeRemainingColumn())
        columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(), *times)
        last = bars.TextColumn("{task.fields[last]}", style="dim")
        self._bar = bars.Progress(*columns, last, console=console or Console(stderr=True), refresh_per_second=8)
        self._task: TaskID | None = None

    def show(self, progress: RunProgress) -> None:
        """Update the progress bar in the terminal."""
        name, last = (self._escape(_clean_line(text)) for text in (progress.experiment, progress.last_result))
        if self._task is None:
            self._task = self._bar.add_task(name, total=progress.total_trials, last="")
            self._bar.start()
        self._bar.update(self._task, completed=progress.previously_finished + progress.finished, last=last)

    def close(self) -> None:
        """Stop updating the progress bar and leave it on the screen."""
        self._bar.stop()


class NotebookDisplay:
    """Progress display for notebooks: one output, as HTML and plain text, that is updated a few times a second."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic) -> None:
        """Create a progress display for a notebook.

        Args:
            display: IPython's function `display`, which is called with `display_id`.
            clock: Source of the time in seconds; must never go back.
        """
        self._display, self._clock = display, clock
        self._handle: Any = None
        self._shown_at = 0.0
        self._pending: RunProgress | None = None

    def show(self, progress: RunProgress) -> None:
        """Update the notebook output, unless it was updated less than a quarter of a second ago."""
        self._pending = progress
        if self._handle is None or self._clock() - self._shown_at >= 0.25:
            self._flush()

    def close(self) -> None:
        """Show the final progress of the run in the notebook output."""
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
    """Return a progress bar with the numbers of trials as HTML."""
    finished = progress.previously_finished + progress.finished
    bar = f"<progress value='{finished}' max='{max(1, progress.total_trials)}'></progress>"
    rows = [f"<b>{html.escape(progress.experiment)}</b> {bar}", html.escape(progress.summary)]
    rows += [f"last: {html.escape(progress.last_result)}"] if progress.last_result and finished < progress.total_trials else []
    rows += [f"running: {html.escape('; '.join(progress.running_trials))}"] if progress.running_trials else []
    return "<div>" + "<br>".join(rows) + "</div>"


def choose_display(kind: str = "auto") -> Display:
    """Return the progress display of the requested kind; `auto` selects the display that suits this process.

    Raises:
        UnknownName: There is no display of that kind.
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
    # Notebook kernels have a shell of this class; IPython in a terminal has another.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # noqa: PLC0415  (only in a notebook)

    return display
