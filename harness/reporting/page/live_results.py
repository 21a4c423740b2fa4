"""Results of an experiment that may be running: its progress, the newest values of its report page, and sessions on demand."""

import fcntl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.analysis.arms import drop_earlier_plans
from harness.analysis.families import read_families
from harness.errors import StoreError, UsageError, format_count
from harness.experiment.interim_analyses import INTERIM_ANALYSES_FILE
from harness.experiment.paths import is_earlier_arm
from harness.files.bounded_input import open_input
from harness.inspection.open_session import open_stored_session
from harness.protocols import ignore
from harness.reporting.page.document import PageData, build_served_values, collect_page
from harness.reporting.page.session_blocks import compress, encode_session
from harness.store.results import Results, load_experiment
from harness.store.sessions.lookup import JOURNAL_FILE, SessionLocation, list_trial_journals, read_journal
from harness.text import format_duration

MAX_PAUSE_SECONDS = 900.0
"""Pause between the starts of two trials after which the later one counts as part of another run."""
_STARTS_SQL = "SELECT started_at_ms, arm, status FROM trial ORDER BY started_at_ms DESC"
_STATE_SQL = "SELECT count(*) AS finished, coalesce(max(revision), 0) AS revision FROM trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Progress of an experiment, as its journal and its lock show it."""

    digest: str
    """Text that changes whenever a trial is recorded or the outcomes are seen."""
    finished: int
    crashed: int
    """Number of trials that crashed, which the report excludes and the next run repeats."""
    planned: int
    """Number of trials of the plan; the number of finished trials if the plan did not record it."""
    is_running: bool
    text: str
    """Progress and estimate of the remaining time, in words."""


class LiveResults:
    """Results of an experiment for a report page on a local server, read again when they change; thread-safe.

    Args:
        folder: Folder of the experiment or of its results.
        against: Arm with which the page compares the others at first; None chooses one.
        clock: Source of the time in seconds since the epoch.

    Raises:
        StoreError: There are no results in the folder.
    """

    def __init__(self, folder: Path, against: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._against, self._clock = folder, against, clock
        self.output = load_experiment(folder).output
        self._lock = threading.Lock()
        self._page: PageData | None = None
        self._page_digest = ""
        self._stage, self._began_seconds = "", 0.0
        self._planned: tuple[str, int] = ("", 0)

    def prepare(self, on_stage: Callable[[str], None] = ignore) -> None:
        """Read the results for the first page, which takes a while for many trials.

        Args:
            on_stage: Listener for what is done next, in words.

        Raises:
            UsageError: No trial has finished yet, or the arm to compare with is unknown.
        """

        def begin(stage: str) -> None:
            self._stage = f"{stage} of {format_count(trials, 'trial')}" if stage == "reading the tables" else stage
            on_stage(self._stage)

        trials, self._began_seconds = len(self._list_current()), self._clock()
        begin("reading the tables")
        try:
            self._load_page(begin)
        finally:
            self._stage = ""

    def describe_preparation(self) -> str:
        """Return what `prepare` is doing and for how long, in words; empty if it is not running."""
        stage = self._stage
        return f"{stage}, {self._clock() - self._began_seconds:.0f} s so far" if stage else ""

    @property
    def page(self) -> PageData:
        """Data of the page for the trials finished by now, without sessions.

        Raises:
            UsageError: No trial has finished yet.
        """
        return self._load_page(ignore)

    def _load_page(self, on_stage: Callable[[str], None]) -> PageData:
        with self._lock:
            digest = self._compute_digest()
            if self._page is None or digest != self._page_digest:
                page = collect_page(
                    load_experiment(self._folder),
                    against=self._against,
                    max_sessions=0,
                    takes_interim_analyses=False,
                    on_stage=on_stage,
                )
                values = {**build_served_values(page), "digest": digest}
                self._page, self._page_digest = PageData(document=page.document, values=values), digest
            return self._page

    def describe_progress(self) -> RunState:
        """Return how many trials have finished, whether the experiment is running, and how much time is left."""
        starts, crashed = self._list_starts(), self._count_crashed()
        digest, is_running = self._compute_digest(), self._is_running()
        planned = max(self._count_planned(digest), len(starts) + crashed)
        text = f"{len(starts):,} of {format_count(planned, 'trial')} finished" + (f", {crashed:,} crashed" if crashed else "")
        left = planned - len(starts)
        if is_running:
            text += f", {format_count(len(list_trial_journals(self.output)), 'trial')} running"
            seconds = estimate_seconds_left(starts, left, self._clock())
            text += "" if seconds is None else f", about {format_duration(seconds)} left"
        elif left:
            text += "; no run is active, `harness run` continues it"
        return RunState(digest=digest, finished=len(starts), crashed=crashed, planned=planned, is_running=is_running, text=text)

    def load_session(self, session_id: str) -> bytes:
        """Return a session as compressed JSON for the page.

        Raises:
            UsageError: There is no such session, or it has no finished step.
        """
        for path in self._list_journals():
            try:
                session = open_stored_session(SessionLocation(path, session_id, trial_id=""))
            except StoreError:
                continue
            if session.known_task is not None and session.known_task.checks and self._is_withheld():
                session = replace(session, known_task=replace(session.known_task, checks=None))
            if plain := encode_session(session):
                return compress(plain)
        raise UsageError(f"no session {session_id!r} with a finished step in {str(self.output)!r}")

    def _is_withheld(self) -> bool:
        """Return whether outcomes, such as failed checks, may not be shown yet, e.g. before the first trial has finished."""
        return not self._list_starts() or bool(self.page.values["is_withheld"])

    def _list_journals(self) -> Sequence[Path]:
        whole = self.output / JOURNAL_FILE
        return [*list_trial_journals(self.output), *([whole] if whole.is_file() else [])]

    def _query(self, sql: str) -> list[dict[str, Any]]:
        """Query the experiment's journal; trials whose journals are not merged yet do not count as finished."""
        whole = self.output / JOURNAL_FILE
        return [dict(row) for row in read_journal(whole, lambda journal: journal.query(sql))] if whole.is_file() else []

    def _list_starts(self) -> Sequence[float]:
        """Return the times at which finished trials of the current plan started, in seconds, the latest first.

        Crashed trials are not finished: the next run repeats them. As on the page, trials of earlier plans count only if there
        are no others.
        """
        return [row["started_at_ms"] / 1_000 for row in self._list_current() if row["status"] != "crashed"]

    def _count_crashed(self) -> int:
        return sum(row["status"] == "crashed" for row in self._list_current())

    def _list_current(self) -> Sequence[dict[str, Any]]:
        """Return the trials of the current plan, or all trials if there are only those of earlier plans."""
        rows = self._query(_STARTS_SQL)
        return [row for row in rows if not is_earlier_arm(row["arm"])] or rows

    def _compute_digest(self) -> str:
        rows = self._query(_STATE_SQL)
        record = self.output / INTERIM_ANALYSES_FILE  # an interim analysis that was taken elsewhere shows outcomes here, too
        changed_ns = record.stat().st_mtime_ns if record.exists() else 0
        return f"{rows[0]['finished']}-{rows[0]['revision']}-{changed_ns}" if rows else "0"

    def _is_running(self) -> bool:
        # a running experiment holds the lock of its output folder
        with suppress(OSError), open_input(self.output / "run.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _count_planned(self, digest: str) -> int:
        if self._planned[0] != digest:
            self._planned = (digest, count_planned_trials(load_experiment(self._folder)))
        return self._planned[1]


def count_planned_trials(results: Results) -> int:
    """Return how many trials the plan of an experiment has; 0 if its trials do not record this.

    Trials of earlier plans are ignored if there are others.
    """
    return max((family.planned_trials for family in read_families(drop_earlier_plans(results))), default=0)


def estimate_seconds_left(starts: Sequence[float], remaining_trials: int, now: float) -> float | None:
    """Return the seconds until the remaining trials have finished, at the mean speed of the current run.

    The result is None if the speed is unknown, e.g. because no trial started recently.

    Args:
        starts: Times at which finished trials started, in seconds, the latest first.
        remaining_trials: Number of trials that have not finished.
        now: Current time, in seconds.
    """
    if not starts or now - starts[0] > MAX_PAUSE_SECONDS:
        return None
    count = next((index for index in range(1, len(starts)) if starts[index - 1] - starts[index] > MAX_PAUSE_SECONDS), len(starts))
    return max(0.0, now - starts[count - 1]) / count * remaining_trials
