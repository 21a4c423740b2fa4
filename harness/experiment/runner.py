"""Runs jobs to their end: feeds the workers, takes results over one by one, and survives whatever a trial does.

A trial that crashes, is killed or overruns costs that trial. Ctrl-C, SIGTERM or the stop event end the run between two
results: workers are stopped, what is finished is kept, what was running leaves nothing behind and runs again next time.
"""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from pebble import ProcessExpired

from harness.errors import HarnessError, StoreError
from harness.events import SessionEnded
from harness.experiment.job import Ending, FinishedTrial, Job, TrialRun
from harness.experiment.output import OutputFolder, read_finished_trial, remove_journal
from harness.experiment.progress import Display, RunProgress
from harness.experiment.workers import Workers
from harness.session.grading import fail_all_checks
from harness.signals import install_signal_handler
from harness.store.journal import Journal
from harness.tasks import make_task

POLL_SECONDS = 0.2
SIGTERM_EXIT_CODES = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a worker that SIGTERM ended: at once, or when it had closed its sandbox."""
MAX_STARTS = 3
"""A trial whose worker died so often before it had begun is given up, and if none ever began, the run is."""
CANNOT_START_MESSAGE = (
    "worker processes cannot start here or die at once; a script must call run() under `if __name__ == '__main__':`, "
    "and memory may be short: try fewer workers"
)


@dataclass(slots=True, kw_only=True)
class Runner:
    """One run of some jobs into an output folder."""

    output: OutputFolder
    open_workers: Callable[[], Workers]
    display: Display
    progress: RunProgress
    stop_event: threading.Event = field(default_factory=threading.Event)
    clock: Callable[[], float] = time.time
    _start_times: "dict[Future[FinishedTrial], float]" = field(default_factory=dict)
    """When each that is under way was first seen at work."""
    _has_started_any: bool = False
    _death_counts: dict[str, int] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> RunProgress:
        """Run every job or, once `stop` is set, as many as were finished by then.

        Raises:
            HarnessError: worker processes cannot start here.
        """
        waiting, running = deque(jobs), dict[Future[FinishedTrial], Job]()
        workers = self.open_workers()
        self.display.show(self.progress)
        try:
            while (waiting or running) and not self.stop_event.is_set():
                while waiting and sum(not future.done() for future in running) < workers.count:
                    self._submit(workers, running, waiting)
                self._collect_finished(running, waiting)
        except BaseException:
            workers.stop()
            raise
        (workers.stop if running else workers.close)()
        self._collect_ended(running)
        for job in running.values():
            remove_journal(job.journal)
        return self.progress

    def _submit(self, workers: Workers, running: "dict[Future[FinishedTrial], Job]", waiting: deque[Job]) -> None:
        job = waiting.popleft()
        try:
            running[workers.submit(job)] = job
        except BrokenProcessPool:
            self._retry_job(job, waiting)

    def _collect_ended(self, running: "dict[Future[FinishedTrial], Job]") -> None:
        """Take over what ended while nobody looked: its journal says so, whatever became of its worker."""
        for future, job in list(running.items()):
            if finished := read_finished_trial(job.journal):
                self._record_trial(finished)
                del running[future]

    def _collect_finished(self, running: "dict[Future[FinishedTrial], Job]", waiting: deque[Job]) -> None:
        """Take over what is finished, then wait a moment for more, so that a free worker has its next job meanwhile."""
        for future in running:
            if future.running() or (future.done() and not _has_died_unstarted(future)):
                self._start_times.setdefault(future, self.clock())
                self._has_started_any = True
        for future in [future for future in running if future.done() and not self._was_stopped(future)]:
            job = running[future]
            if _has_died_unstarted(future):
                self._retry_job(job, waiting)
            else:
                self._record_trial(self._resolve_result(future, job))
            del running[future]
        names = tuple(f"{job.arm} seed={job.trial.seed}" for future, job in running.items() if future.running())
        self.progress = replace(self.progress, running_trials=names)
        self.display.show(self.progress)
        wait(running, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")

    def _retry_job(self, job: Job, waiting: deque[Job]) -> None:
        """The worker died before the trial had begun, which need not be the trial's fault: others first, then it again."""
        remove_journal(job.journal)
        self._death_counts[job.trial_id] = self._death_counts.get(job.trial_id, 0) + 1
        if self._death_counts[job.trial_id] < MAX_STARTS:
            waiting.append(job)
        elif self._has_started_any:
            ending = Ending(status="crashed", reason="crashed", error="the worker process died each time before it had begun")
            self._record_trial(self._build_killed_trial(job, self.clock(), ending))
        else:
            raise HarnessError(CANNOT_START_MESSAGE)

    def _was_stopped(self, future: "Future[FinishedTrial]") -> bool:
        """Whether its worker ended by the signal that stops the run, which may go to a whole group of processes: there first."""
        error = future.exception()
        if isinstance(error, ProcessExpired) and error.exitcode in SIGTERM_EXIT_CODES:
            self.stop_event.wait(POLL_SECONDS)
        return error is not None and self.stop_event.is_set()

    def _record_trial(self, finished_trial: FinishedTrial) -> None:
        self.output.import_trial(finished_trial)
        self.progress = self.progress.with_record(finished_trial.record)
        self.display.show(self.progress)

    def _resolve_result(self, future: "Future[FinishedTrial]", job: Job) -> FinishedTrial:
        """What the worker brought back, had recorded before it died, or else the record of a trial that did not come back."""
        error, started_at = future.exception(), self._start_times.pop(future, self.clock())
        if error is None:
            return future.result()
        if isinstance(error, ProcessExpired) and (finished := read_finished_trial(job.journal)):
            return finished
        worker_traceback = str(getattr(error, "traceback", ""))
        ending = Ending(status="crashed", reason="crashed", error=_describe_error(error), traceback=worker_traceback)
        return self._build_killed_trial(job, started_at, ending)

    def _build_killed_trial(self, job: Job, started_at: float, ending: Ending) -> FinishedTrial:
        """The record of a killed trial, as far as its journal tells."""
        trial_run = TrialRun(started_at=started_at, ending=ending)
        if job.journal.exists():
            try:
                with Journal.open(job.journal) as journal:
                    self._load_from_journal(trial_run, journal)
            except StoreError:
                remove_journal(job.journal)
        task = make_task(job.trial.task, job.trial.seed, job.trial.world)
        trial_run.graded_checks = fail_all_checks(task, "not run: the trial did not end")
        return trial_run.build_finished_trial(job, self.clock())

    def _load_from_journal(self, trial_run: TrialRun, journal: Journal) -> None:
        """Take what a journal tells into an attempt, and end the log of its session if nobody did."""
        for trial_run.session_id in journal.list_session_ids():
            for entry in journal.read_entries(trial_run.session_id):
                trial_run.totals(entry)
            if trial_run.totals.event_count and trial_run.totals.end_event is None:
                began_ms = int(trial_run.started_at * 1000)
                with closing(journal.open_session_log(trial_run.session_id, created_at_ms=began_ms, clock=self.clock)) as log:
                    log.append((SessionEnded(status="failed", reason="crashed", detail=trial_run.ending.error),))


def _has_died_unstarted(future: "Future[FinishedTrial]") -> bool:
    """Whether its worker died before the trial had begun."""
    return future.done() and isinstance(future.exception(), BrokenProcessPool)


def _describe_error(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "killed: it ran longer than trial_timeout_seconds"
        case ProcessExpired():
            return f"the worker process died (exit code {error.exitcode}); out of memory, or killed by someone"
        case _:
            return f"{type(error).__name__}: {error}"


@contextmanager
def handle_interrupts(stop_event: threading.Event) -> Iterator[threading.Event]:
    """While open, the first SIGINT or SIGTERM sets `stop` in place of breaking in anywhere, a second one breaks in.

    Yields an event that says whether a signal came; it comes only to the main thread, so elsewhere nothing changes.
    """
    interrupted = threading.Event()

    def on_signal(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        stop_event.set()

    with install_signal_handler(on_signal):
        yield interrupted
