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
from harness.events import SessionEnded, SessionStarted
from harness.experiment.job import Finished, Job
from harness.experiment.output import Output, recorded, remove_journal
from harness.experiment.progress import Display, Standing
from harness.experiment.record import Attempt, Ending
from harness.experiment.workers import Workers
from harness.session.grading import ungraded
from harness.store.journal import Journal
from harness.tasks import make_task

POLL_SECONDS = 0.2
TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a worker that SIGTERM ended: at once, or when it had closed its sandbox."""
STARTS = 3
"""A trial whose worker died so often before it had begun is given up, and if none ever began, the run is."""
CANNOT_START = (
    "worker processes cannot start here or die at once; a script must call run() under `if __name__ == '__main__':`, "
    "and memory may be short: try fewer workers"
)


@dataclass(slots=True, kw_only=True)
class Runner:
    """One run of some jobs into an output folder."""

    output: Output
    open_workers: Callable[[], Workers]
    display: Display
    standing: Standing
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Callable[[], float] = time.time
    _began: "dict[Future[Finished], float]" = field(default_factory=dict)
    """When each that is under way was first seen at work."""
    _any_began: bool = False
    _deaths: dict[str, int] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> Standing:
        """Run every job or, once `stop` is set, as many as were finished by then.

        Raises:
            HarnessError: worker processes cannot start here.
        """
        waiting, running = deque(jobs), dict[Future[Finished], Job]()
        workers = self.open_workers()
        self.display.show(self.standing)
        try:
            while (waiting or running) and not self.stop.is_set():
                while waiting and sum(not future.done() for future in running) < workers.count:
                    self._submit(workers, running, waiting)
                self._watch(running, waiting)
        except BaseException:
            workers.stop()
            raise
        (workers.stop if running else workers.close)()
        self._take_ended(running)
        for job in running.values():
            remove_journal(job.journal)
        return self.standing

    def _submit(self, workers: Workers, running: "dict[Future[Finished], Job]", waiting: deque[Job]) -> None:
        job = waiting.popleft()
        try:
            running[workers.submit(job)] = job
        except BrokenProcessPool:
            self._start_again(job, waiting)

    def _take_ended(self, running: "dict[Future[Finished], Job]") -> None:
        """Take over what ended while nobody looked: its journal says so, whatever became of its worker."""
        for future, job in list(running.items()):
            if finished := recorded(job.journal):
                self._take(finished)
                del running[future]

    def _watch(self, running: "dict[Future[Finished], Job]", waiting: deque[Job]) -> None:
        """Take over what is finished, then wait a moment for more, so that a free worker has its next job meanwhile."""
        for future in running:
            if future.running() or (future.done() and not _stillborn(future)):
                self._began.setdefault(future, self.clock())
                self._any_began = True
        for future in [future for future in running if future.done() and not self._stopped(future)]:
            job = running[future]
            if _stillborn(future):
                self._start_again(job, waiting)
            else:
                self._take(self._result(future, job))
            del running[future]
        names = tuple(f"{job.arm} seed={job.trial.seed}" for future, job in running.items() if future.running())
        self.standing = replace(self.standing, running=names)
        self.display.show(self.standing)
        wait(running, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")

    def _start_again(self, job: Job, waiting: deque[Job]) -> None:
        """The worker died before the trial had begun, which need not be the trial's fault: others first, then it again."""
        remove_journal(job.journal)
        self._deaths[job.trial_id] = self._deaths.get(job.trial_id, 0) + 1
        if self._deaths[job.trial_id] < STARTS:
            waiting.append(job)
        elif self._any_began:
            ending = Ending(status="crashed", reason="crashed", error="the worker process died each time before it had begun")
            self._take(self._remains(job, self.clock(), ending))
        else:
            raise HarnessError(CANNOT_START)

    def _stopped(self, future: "Future[Finished]") -> bool:
        """Whether its worker ended by the signal that stops the run, which may go to a whole group of processes: there first."""
        error = future.exception()
        if isinstance(error, ProcessExpired) and error.exitcode in TERMINATED:
            self.stop.wait(POLL_SECONDS)
        return error is not None and self.stop.is_set()

    def _take(self, finished: Finished) -> None:
        self.output.bring_in(finished)
        self.standing = self.standing.after(finished.trial)
        self.display.show(self.standing)

    def _result(self, future: "Future[Finished]", job: Job) -> Finished:
        """What the worker brought back, had recorded before it died, or else the record of a trial that did not come back."""
        error, began = future.exception(), self._began.pop(future, self.clock())
        if error is None:
            return future.result()
        if isinstance(error, ProcessExpired) and (finished := recorded(job.journal)):
            return finished
        ending = Ending(status="crashed", reason="crashed", error=_told(error), traceback=str(getattr(error, "traceback", "")))
        return self._remains(job, began, ending)

    def _remains(self, job: Job, began: float, ending: Ending) -> Finished:
        """The record of a killed trial, as far as its journal tells."""
        attempt = Attempt(started_at=began, ending=ending)
        if job.journal.exists():
            try:
                with Journal.open(job.journal) as journal:
                    self._recall(attempt, journal)
            except StoreError:
                remove_journal(job.journal)
        task = make_task(job.trial.task, job.trial.seed, job.trial.world)
        attempt.judged = ungraded(task, "not run: the trial did not end")
        return attempt.finished(job, self.clock())

    def _recall(self, attempt: Attempt, journal: Journal) -> None:
        """Take what a journal tells into an attempt, and end the log of its session if nobody did."""
        for attempt.session_id in journal.list_session_ids():
            for entry in journal.read_entries(attempt.session_id):
                attempt.tally(entry)
                if isinstance(entry.event, SessionStarted):
                    attempt.session = entry.event
            if attempt.tally.heard and attempt.tally.ended is None:
                log = journal.open_session_log(attempt.session_id, created_at_ms=int(attempt.started_at * 1000), clock=self.clock)
                with closing(log):
                    log.append((SessionEnded(status="failed", reason="crashed", detail=attempt.ending.error),))


def _stillborn(future: "Future[Finished]") -> bool:
    """Whether its worker died before the trial had begun."""
    return future.done() and isinstance(future.exception(), BrokenProcessPool)


def _told(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "killed: it ran longer than trial_timeout_seconds"
        case ProcessExpired():
            return f"the worker process died (exit code {error.exitcode}); out of memory, or killed by someone"
        case _:
            return f"{type(error).__name__}: {error}"


@contextmanager
def interrupts(stop: threading.Event) -> Iterator[threading.Event]:
    """While open, the first SIGINT or SIGTERM sets `stop` in place of breaking in anywhere, a second one breaks in.

    Yields an event that says whether a signal came; it comes only to the main thread, so elsewhere nothing changes.
    """
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def ask(*_: object) -> None:
        if came.is_set():
            raise KeyboardInterrupt
        came.set()
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
