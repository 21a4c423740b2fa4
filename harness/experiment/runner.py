"""Runner of an experiment: gives its trials, as jobs, to the workers and stores each result, whatever happens to a trial.

A trial that crashes, is killed or exceeds its time limit does not affect other trials. If its session had begun, the trial is run
again in a fresh worker, because a fault of the machine is unlikely to repeat. If all of `MAX_ATTEMPTS` attempts end in the same
way, the cause is probably the trial's own configuration. The trial then counts as failed and stays in the statistics; otherwise
a configuration could improve its results by crashing.

Ctrl-C, SIGTERM or the stop event end the whole run: workers are stopped and finished trials are kept. Unfinished trials leave
nothing behind and run again next time.
"""

import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from harness.conversation.events import SessionStarted, StopReason
from harness.errors import HarnessError, StoreError, VerdictMismatch, WorkerDied, WorkersUnavailable
from harness.experiment.job import Ending, FinishedTrial, Job, TrialRun, is_disk_error
from harness.experiment.limits import RunLimits, compute_spent_usd
from harness.experiment.output import OutputFolder, read_finished_trial, remove_journal
from harness.experiment.progress import Display, RunProgress, name_trial
from harness.experiment.workers import Workers
from harness.process import install_signal_handler
from harness.session.grading import fail_all_checks
from harness.store.journal import Journal
from harness.tasks import make_task

POLL_SECONDS = 0.2
SIGTERM_EXIT_CODES = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of a worker process that the signal SIGTERM has ended, either at once or after it closed its sandbox."""
MAX_STARTS = 3
"""Maximum number of attempts to start a trial whose worker process dies before the trial begins.

If no trial of the run has begun after as many attempts for each worker, the run ends with an error.
"""
MAX_ATTEMPTS = 3
"""Number of attempts after which a trial counts as failed, if its session broke off in the same way each time."""
CANNOT_START_MESSAGE = (
    "no worker process could start: each imports the script that calls run(), so the call must stand under "
    "`if __name__ == '__main__':`; if it does, memory may be short: use fewer workers"
)


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runner that executes the trials of an experiment and stores their results in one output folder."""

    output: OutputFolder
    open_workers: Callable[[], Workers]
    display: Display
    progress: RunProgress
    stop_event: threading.Event = field(default_factory=threading.Event)
    limits: RunLimits = field(default_factory=RunLimits)
    clock: Callable[[], float] = time.time
    _begun_trials: set[str] = field(default_factory=set)
    _spent_usd: float = 0.0
    _began_at: float = 0.0
    _start_times: "dict[Future[FinishedTrial], float]" = field(default_factory=dict)
    """Time at which each unfinished job was first seen running; it becomes the trial's start time if the worker is killed."""
    _has_started_any: bool = False
    _death_counts: Counter[str] = field(default_factory=Counter)
    _failed_attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of attempts that broke off after the session had begun, by trial id and by reason (`crashed` or `timeout`)."""

    def run(self, jobs: Iterable[Job]) -> RunProgress:
        """Run all jobs and store their results.

        When the stop event is set, running jobs are stopped and leave no results.

        Args:
            jobs: Jobs to run; each is requested from the iterable when a worker is free for it.

        Raises:
            HarnessError: Worker processes cannot be started here.
            WorkersUnavailable: The workers were lost, e.g. because the scheduler of a cluster ended.
            VerdictMismatch: Stored verdicts are wrong, so the results of other trials of the run may be wrong, too.
        """
        waiting, running = _Queue(jobs), dict[Future[FinishedTrial], Job]()
        self._began_at = self.clock()
        workers = self.open_workers()
        self.display.show(self.progress)
        try:
            while (waiting or running) and not self.stop_event.is_set():
                while sum(not future.done() for future in running) < workers.count and (job := self._take_job(waiting)):
                    self._submit(workers, running, waiting, job)
                if not running and self.progress.reached_limit and not waiting.has_repeated:
                    self.display.show(self.progress)
                    break
                self._collect_finished(workers, running, waiting)
        except BaseException:
            workers.stop()
            raise
        (workers.stop if running else workers.close)()
        self._collect_ended(running)
        for job in running.values():
            remove_journal(job.journal)
        return self.progress

    def _take_job(self, waiting: "_Queue") -> Job | None:
        """Return the next job, if any. When a limit is reached, only trials that had begun before may begin again."""
        return waiting.take_new() if waiting.has_new and not self._has_reached_limit() else waiting.take_repeated()

    def _has_reached_limit(self) -> bool:
        """Return whether a limit of the run (trials, cost or time) is reached, and show it in the progress."""
        elapsed_seconds = self.clock() - self._began_at
        limit = self.limits.find_reached(
            begun_trials=len(self._begun_trials), spent_usd=self._spent_usd, elapsed_seconds=elapsed_seconds
        )
        self.progress = replace(self.progress, reached_limit=limit)
        return bool(limit)

    def _submit(self, workers: Workers, running: "dict[Future[FinishedTrial], Job]", waiting: "_Queue", job: Job) -> None:
        self._begun_trials.add(job.trial_id)
        try:
            running[workers.submit(job)] = job
        except WorkerDied:
            self._retry_job(job, workers, waiting)

    def _collect_ended(self, running: "dict[Future[FinishedTrial], Job]") -> None:
        """Store the results of trials whose journals show that they have ended, although no worker has reported it."""
        for future, job in list(running.items()):
            if finished := read_finished_trial(job.journal):
                self._record_trial(finished)
                del running[future]

    def _collect_finished(self, workers: Workers, running: "dict[Future[FinishedTrial], Job]", waiting: "_Queue") -> None:
        for future in running:
            if future.running() or (future.done() and not _has_died_unstarted(future)):
                self._start_times.setdefault(future, self.clock())
                self._has_started_any = True
        for future in [future for future in running if future.done() and not self._was_stopped(future)]:
            job = running[future]
            if isinstance(error := future.exception(), WorkersUnavailable):
                raise error
            if _has_died_unstarted(future):
                self._retry_job(job, workers, waiting)
            else:
                attempts = error.attempts if isinstance(error, WorkerDied) else 1
                self._record_or_repeat(self._resolve_result(future, job), job, waiting, attempts)
            del running[future]
        names = tuple(
            name_trial(job.arm, job.trial.problem, job.trial.seed) for future, job in running.items() if future.running()
        )
        self.progress = replace(self.progress, running_trials=names)
        self.display.show(self.progress)
        if running:
            wait(running, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
        elif waiting and not workers.count:  # all workers have left a cluster, and others may come
            self.stop_event.wait(POLL_SECONDS)

    def _record_or_repeat(self, finished_trial: FinishedTrial, job: Job, waiting: "_Queue", attempts: int) -> None:
        """Store the results of a trial, or run it again if it broke off after its session had begun.

        If each attempt broke off in the same way, the trial is stored as failed. The workers have made `attempts` attempts.
        """
        record = finished_trial.record
        self._spent_usd += compute_spent_usd(job.trial, record)
        if record.status == "crashed" and _has_begun_session(job):
            self._failed_attempts[job.trial_id, record.reason] += attempts
            if self._failed_attempts[job.trial_id, record.reason] < MAX_ATTEMPTS:
                remove_journal(job.journal)
                waiting.put_back(job)
                return
            reason = "repeated_crash" if record.reason == "crashed" else record.reason
            error = record.error if attempts > 1 else f"{record.error}; the same in {MAX_ATTEMPTS} attempts"
            finished_trial = finished_trial._replace(record=replace(record, status="failed", reason=reason, error=error))
        self._record_trial(finished_trial)

    def _retry_job(self, job: Job, workers: Workers, waiting: "_Queue") -> None:
        """Queue a job again after its worker died before the trial began.

        Other jobs run first, because the trial may not be the cause.
        """
        remove_journal(job.journal)
        self._death_counts[job.trial_id] += 1
        has_given_up = self._death_counts[job.trial_id] >= MAX_STARTS
        if not self._has_started_any and (has_given_up or self._death_counts.total() >= MAX_STARTS * workers.count > 0):
            raise HarnessError(CANNOT_START_MESSAGE)
        if not has_given_up:
            waiting.put_back(job)
        else:
            ending = Ending(status="crashed", reason="crashed", error="the worker process died each time before the trial began")
            self._record_trial(self._build_killed_trial(job, self.clock(), ending))

    def _was_stopped(self, future: "Future[FinishedTrial]") -> bool:
        """Return whether a worker process ended because a signal such as Ctrl-C stopped the whole run.

        The signal may reach the worker before it reaches this process.
        """
        error = future.exception()
        if isinstance(error, WorkerDied) and error.exit_code in SIGTERM_EXIT_CODES:
            self.stop_event.wait(POLL_SECONDS)
        return error is not None and self.stop_event.is_set()

    def _record_trial(self, finished_trial: FinishedTrial) -> None:
        self.output.import_trial(finished_trial)
        self.progress = self.progress.with_record(finished_trial.record)
        self.display.show(self.progress)

    def _resolve_result(self, future: "Future[FinishedTrial]", job: Job) -> FinishedTrial:
        """Return the results of a trial as its worker reported them.

        If the worker failed, return the results stored in the trial's journal or, without these, records of a crash.

        Raises:
            VerdictMismatch: The trial tested stored verdicts, and they are wrong.
        """
        error, started_at = future.exception(), self._start_times.pop(future, self.clock())
        if error is None:
            return future.result()
        if isinstance(error, VerdictMismatch):
            raise error
        if isinstance(error, WorkerDied) and (finished := read_finished_trial(job.journal)):
            return finished
        worker_traceback = str(getattr(error, "traceback", ""))
        reason: StopReason = "timeout" if isinstance(error, TimeoutError) else "crashed"
        ending = Ending(status="crashed", reason=reason, error=_describe_error(error), traceback=worker_traceback)
        if is_disk_error(error):
            ending = replace(ending, status="failed", reason="store_error")
        return self._build_killed_trial(job, started_at, ending)

    def _build_killed_trial(self, job: Job, started_at: float, ending: Ending) -> FinishedTrial:
        """Return the results of a trial whose worker was killed, made from what the trial wrote to its journal."""
        trial_run = TrialRun(started_at=started_at, ending=ending)
        if job.journal.exists():
            try:
                with Journal.open(job.journal) as journal:
                    self._load_from_journal(trial_run, journal, job.trial_id)
            except StoreError:
                remove_journal(job.journal)
        task = make_task(job.trial.task, job.trial.seed, job.trial.world)
        trial_run.step_limit = task.step_limit
        trial_run.graded_checks = fail_all_checks(task, "not run: the trial did not end")
        return trial_run.build_finished_trial(job, self.clock())

    def _load_from_journal(self, trial_run: TrialRun, journal: Journal, trial_id: str) -> None:
        """Add what a killed trial has logged to its results, and mark its sessions in the journal as ended."""
        for session_id in journal.list_session_ids():
            if session_id == trial_id:  # the other sessions are those of sub-agents
                trial_run.session_id = session_id
                for entry in journal.read_entries(session_id):
                    trial_run.add(entry)
            journal.fail_session(session_id, reason=trial_run.ending.reason, detail=trial_run.ending.error, clock=self.clock)


class _Queue:
    """Queue of the jobs that wait for a worker: first new jobs, then jobs that have to start again."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = iter(jobs)
        self._next = next(self._jobs, None)
        self._again = deque[Job]()

    def __bool__(self) -> bool:
        return self.has_new or self.has_repeated

    @property
    def has_new(self) -> bool:
        """Whether a job waits that no worker has had before."""
        return self._next is not None

    @property
    def has_repeated(self) -> bool:
        """Whether a job waits that has to start again."""
        return bool(self._again)

    def take_new(self) -> Job | None:
        """Return the next job that no worker has had before, if any."""
        job, self._next = self._next, next(self._jobs, None)
        return job

    def take_repeated(self) -> Job | None:
        """Return the next job that has to start again, if any."""
        return self._again.popleft() if self._again else None

    def put_back(self, job: Job) -> None:
        self._again.append(job)


def _has_died_unstarted(future: "Future[FinishedTrial]") -> bool:
    error = future.exception() if future.done() else None
    return isinstance(error, WorkerDied) and not error.has_begun


def _has_begun_session(job: Job) -> bool:
    if not job.journal.exists():
        return False
    try:
        with Journal.open(job.journal) as journal:
            return any(isinstance(entry.event, SessionStarted) for entry in journal.read_entries(job.trial_id))
    except StoreError:
        return False


def _describe_error(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "killed: the trial ran longer than trial_timeout_seconds"
        case WorkerDied():
            return str(error)
        case _:
            return f"{type(error).__name__}: {error}"


@contextmanager
def handle_interrupts(stop_event: threading.Event) -> Iterator[threading.Event]:
    """Set the stop event of a run on the first SIGINT or SIGTERM, and raise `KeyboardInterrupt` on the second.

    The `with` block gets an event that is set when a signal arrives. The function has no effect outside of the main thread, which
    alone receives signals.
    """
    interrupted = threading.Event()

    def on_signal(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        stop_event.set()

    with install_signal_handler(on_signal):
        yield interrupted
