"""Live progress of a run: one small record of how it stands, shown by one of three displays.

A terminal gets a bar, a pipe gets plain lines, a notebook gets one output that is updated in place and that still makes
sense in the saved file. Names come from plans and errors from anywhere, so all text is escaped for where it is shown.
"""

import html
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TextIO, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.errors import UnknownName, format_count
from harness.store.records import TrialRecord

Kind: TypeAlias = Literal["auto", "rich", "plain", "notebook", "off"]
KINDS = ("auto", "rich", "plain", "notebook", "off")
MOST_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run stands."""

    experiment: str
    total: int
    """Trials of the grid."""
    kept: int = 0
    """Finished by an earlier run."""
    done: int = 0
    """Finished by this run."""
    succeeded: int = 0
    """Of those of this run: all checks passed."""
    crashed: int = 0
    running: tuple[str, ...] = ()
    """Names of the trials at work."""
    last: str = ""
    """What the last finished trial came to."""
    latest: TrialRecord | None = None
    """The last finished trial; every one is shown once at least."""

    def after(self, record: TrialRecord) -> "Standing":
        """The standing when one more trial is finished."""
        return replace(
            self,
            done=self.done + 1,
            succeeded=self.succeeded + record.success,
            crashed=self.crashed + (record.status == "crashed"),
            last=told(record),
            latest=record,
        )

    @property
    def summary(self) -> str:
        """One line that says it all."""
        words = [f"{self.kept + self.done}/{self.total} trials", f"{self.succeeded}/{self.done} succeeded"]
        words += [f"{self.kept} kept from before"] if self.kept else []
        words += [f"{self.crashed} crashed"] if self.crashed else []
        return ", ".join(words)


def told(record: TrialRecord) -> str:
    """A finished trial in one line."""
    verdict = "success" if record.success else f"score {record.score:.2f}"
    ending = "" if record.status == "completed" else f", {record.status}: {record.reason}"
    facts = f"{format_count(record.steps, 'step')}, {format_count(record.compactions, 'compaction')}, {record.wall_seconds:.1f} s"
    return f"{record.arm[:MOST_NAME_CHARACTERS]} seed={record.seed}: {verdict}{ending} ({facts})"


class Display(Protocol):
    """Shows how a run stands. `show` is called often, from one thread, and is cheap; `close` leaves the final state."""

    def show(self, standing: Standing) -> None:
        """Show it now or soon."""
        ...

    def close(self) -> None:
        """Show the last standing for good; idempotent."""
        ...


class Silence:
    """Shows nothing."""

    def show(self, standing: Standing) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainLines:
    """A line for each finished trial, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to a stream; None = the error stream, so that standard output stays for results."""
        self._stream = sys.stderr if stream is None else stream
        self._done = -1

    def show(self, standing: Standing) -> None:
        """A line when something was finished since."""
        if standing.done == self._done:
            return
        self._done = standing.done
        line = f"[{standing.kept + standing.done}/{standing.total}] {standing.last or standing.experiment}"
        print(_one_line(line), file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is left to say."""


class RichBar:
    """A bar with counts, times and the last finished trial."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on a console; None = the terminal's error stream."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        last = TextColumn("{task.fields[last]}", style="dim")
        self._bar = Progress(*columns, last, console=console or Console(stderr=True), refresh_per_second=8)
        self._task: TaskID | None = None

    def show(self, standing: Standing) -> None:
        """Move the bar; it redraws itself."""
        name, last = escape(_one_line(standing.experiment)), escape(_one_line(standing.last))
        if self._task is None:
            self._task = self._bar.add_task(name, total=standing.total, last="")
            self._bar.start()
        self._bar.update(self._task, completed=standing.kept + standing.done, last=last)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()


class NotebookOutput:
    """One output of a cell, updated in place at most a few times a second; escaped HTML with a text for other readers."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic) -> None:
        """Use IPython's `display`, asked for with `display_id`."""
        self._display, self._clock = display, clock
        self._handle: Any = None
        self._shown_at = 0.0
        self._pending: Standing | None = None

    def show(self, standing: Standing) -> None:
        """Update the output, or keep it for later when it was updated just now."""
        self._pending = standing
        if self._handle is None or self._clock() - self._shown_at >= 0.25:
            self._flush()

    def close(self) -> None:
        """Show the last standing."""
        self._flush()

    def _flush(self) -> None:
        if self._pending is None:
            return
        bundle = {"text/plain": _one_line(self._pending.summary), "text/html": as_html(self._pending)}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
        self._pending, self._shown_at = None, self._clock()


def as_html(standing: Standing) -> str:
    """A progress bar with counts; every text is escaped."""
    done = standing.kept + standing.done
    rows = [f"<b>{html.escape(standing.experiment)}</b> <progress value='{done}' max='{max(1, standing.total)}'></progress>"]
    rows.append(html.escape(standing.summary))
    rows += [f"last: {html.escape(standing.last)}"] if standing.last and done < standing.total else []
    rows += [f"running: {html.escape('; '.join(standing.running))}"] if standing.running else []
    return "<div>" + "<br>".join(rows) + "</div>"


def choose(kind: str = "auto") -> Display:
    """The display for where this process runs, or the one that is named.

    Raises:
        UnknownName: there is no display of that name.
    """
    if kind not in KINDS:
        raise UnknownName("progress display", kind, KINDS)
    if kind == "auto":
        kind = "notebook" if _notebook_display() else "rich" if sys.stderr.isatty() else "plain"
    if kind == "notebook":
        display = _notebook_display()
        return NotebookOutput(display) if display else PlainLines()
    displays: dict[str, Callable[[], Display]] = {"rich": RichBar, "plain": PlainLines, "off": Silence}
    return displays[kind]()


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` inside of a kernel; None elsewhere. Nothing is imported that was not there."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # noqa: PLC0415  (only inside of a notebook)

    return display


def _one_line(text: str) -> str:
    """Printable text of one line: control characters of hostile names never reach a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)
