"""Workers that run the trials of an experiment: processes, which can be killed, or threads, for models that mostly wait.

Processes are spawned rather than forked, so that a worker uses the current environment and code; a notebook may have set an API
key in the meantime. Their start takes little time compared with a trial.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pebble
from pebble import ProcessExpired

from harness.agent.cancellation import Cancellation
from harness.errors import UsageError, WorkerDied
from harness.experiment.job import FinishedTrial, Job
from harness.process import end_with_parent, install_signal_handler, reduce_garbage_collection

TrialRunner: TypeAlias = Callable[[Job, Cancellation | None], FinishedTrial]
"""Function that runs one job. It must be defined at the top level of a module, so that a worker process can import it."""

JOBS_PER_WORKER = 100
"""Number of jobs after which a worker process is replaced, which limits its memory use."""


class Workers(Protocol):
    """Pool of workers that run the trials of an experiment: processes or threads of this machine, or a cluster.

    A pool is used by one thread only; its futures may finish in any thread. If a worker dies or a job exceeds its time limit, the
    future of the job raises an exception, and the pool goes on. The code that opens a pool ends it with `close` or `stop`. After
    that, no process, container or temporary file of the pool is left. `harness.testing.WorkersContract` tests an implementation.

    Example::

        workers = ProcessWorkers(2, run_trial, timeout_seconds=600.0)
        futures = [workers.submit(job) for job in jobs[: workers.count]]
        finished_trials = [future.result() for future in futures]
        workers.close()
    """

    @property
    def count(self) -> int:
        """Maximum number of unfinished jobs that the pool takes at a time; changes if workers join or leave."""
        ...

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """Start a job in a free worker, and return a future with the result of the job.

        The caller never has more than `count` unfinished jobs, unless `count` has just fallen.

        When the future is done, everything that the trial has logged is in the file `job.journal` of this machine, wherever the
        trial ran. Only the loss of a whole machine loses the log.

        The future fails with `WorkerDied` if the worker died, with `TimeoutError` if the job exceeded its time limit, with
        `WorkersUnavailable` if no worker is left, and with the error of the job if the job raised one.

        Raises:
            WorkerDied: The worker died immediately; the job has not begun and can be submitted again.
            WorkersUnavailable: No worker is left, and none will come.
        """
        ...

    def close(self) -> None:
        """Wait until all submitted jobs have finished, then end the workers."""
        ...

    def stop(self) -> None:
        """Stop all workers at once, without waiting for their jobs; running jobs are lost."""
        ...


def _prepare_process() -> None:
    reduce_garbage_collection()
    end_with_parent()


def _refuse_missing_script() -> None:
    """Refuse to start workers for a program that they cannot import, because it was read from standard input.

    Raises:
        UsageError: The main program has no file.
    """
    program = sys.modules["__main__"]
    path = getattr(program, "__file__", None)
    if path is not None and program.__spec__ is None and not Path(path).exists():  # with a spec, workers import it by its name
        raise UsageError(
            f"worker processes cannot import the main program {path!r}, which is no file: save it in one, and run that"
        )


def _make_pool() -> Any:
    _refuse_missing_script()
    return pebble.ProcessPool(
        max_workers=1,
        max_tasks=JOBS_PER_WORKER,
        initializer=_prepare_process,
        context=multiprocessing.get_context("spawn"),
    )


@dataclass(slots=True)
class _WorkerSlot:
    """Place for one worker process, which runs jobs one after another and is replaced when it dies.

    Each process has a pool of its own. In a shared pool, a process that is killed while it holds the pool's lock would block all
    other processes.
    """

    pool: Any = field(default_factory=_make_pool)
    last_job: "Future[FinishedTrial] | None" = None
    """Job that was started last in this worker process."""

    @property
    def is_free(self) -> bool:
        return self.last_job is None or self.last_job.done()

    def schedule(self, pickled_job: bytes, timeout_seconds: float) -> "Future[FinishedTrial]":
        """Send a pickled job to this worker process; if the process has died, start a new one first."""
        has_died = self.last_job is not None and isinstance(self.last_job.exception(), ProcessExpired)
        if has_died or not self.pool.active:
            self.end(at_once=True)
            self.pool = _make_pool()
        self.last_job = self.pool.schedule(_run_call, args=(_Call(pickled_job),), timeout=timeout_seconds)
        return self.last_job

    def end(self, *, at_once: bool) -> None:
        (self.pool.stop if at_once else self.pool.close)()
        self.pool.join()


class _JobFuture(Future[FinishedTrial]):
    """Future result of a job in a worker process, which fails with `WorkerDied` if the process dies."""

    def __init__(self, pool_future: "Future[FinishedTrial]") -> None:
        super().__init__()
        self._pool_future = pool_future
        pool_future.add_done_callback(self._finish)

    def running(self) -> bool:
        """Return whether the worker process has taken the job and has not finished."""
        return not self.done() and self._pool_future.running()

    def _finish(self, pool_future: "Future[FinishedTrial]") -> None:
        if pool_future.cancelled():
            self.cancel()
            return
        match pool_future.exception():
            case None:
                self.set_result(pool_future.result())
            case ProcessExpired() as error:
                self.set_exception(WorkerDied(exit_code=error.exitcode))
            case BrokenProcessPool() as error:
                self.set_exception(WorkerDied(has_begun=False, detail=str(error)))
            case error:
                self.set_exception(error)


class ProcessWorkers:
    """Pool of worker processes, each of which runs one trial at a time.

    A process that dies loses its job and is replaced. A process that exceeds the time limit is killed. The time limit of a job
    begins when its process has started, imported all that the job needs, and unpickled the job.
    """

    def __init__(self, count: int, run_job: TrialRunner, timeout_seconds: float) -> None:
        """Prepare a pool of processes; each process starts with its first job.

        Args:
            count: Number of worker processes.
            run_job: Function that a worker process calls to run a job.
            timeout_seconds: Maximum duration of a job in seconds.
        """
        self.count, self._run_job, self._timeout_seconds = count, run_job, timeout_seconds
        self._slots = [_WorkerSlot() for _ in range(count)]

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """Start a job in a free worker process, and return a future with the result of the job."""
        pickled_job = pickle.dumps((self._run_job, job))
        slot = next(place for place in self._slots if place.is_free)
        try:
            return _JobFuture(slot.schedule(pickled_job, self._timeout_seconds))
        except RuntimeError as error:
            raise WorkerDied(has_begun=False, detail=str(error)) from error

    def close(self) -> None:
        """Wait until all submitted jobs have finished, then end the processes."""
        self._end(at_once=False)

    def stop(self) -> None:
        """Stop all worker processes at once; running jobs are lost.

        Each process has three seconds to close its sandbox.
        """
        self._end(at_once=True)

    def _end(self, *, at_once: bool) -> None:
        with ThreadPoolExecutor(self.count) as threads:
            list(threads.map(lambda place: place.end(at_once=at_once), self._slots))


class ThreadWorkers:
    """Pool of threads that run jobs in this process.

    A job that exceeds the time limit is asked to stop, but cannot be killed.
    """

    def __init__(self, count: int, run_job: TrialRunner, timeout_seconds: float) -> None:
        """Open a pool of threads that run jobs.

        Args:
            count: Number of worker threads.
            run_job: Function that a worker thread calls to run a job.
            timeout_seconds: Maximum duration of a job in seconds.
        """
        self.count, self._run_job, self._timeout_seconds = count, run_job, timeout_seconds
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="harness-trial")
        self._running: set[Cancellation] = set()
        self._stop_event = threading.Event()

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """Start a job in a worker thread, and return a future with the result of the job."""
        return self._pool.submit(self._run, job)

    def close(self) -> None:
        """Wait until all submitted jobs have finished, then end the threads."""
        self._pool.shutdown()

    def stop(self) -> None:
        """Ask the sessions of all running jobs to stop, and return when they have stopped."""
        self._stop_event.set()
        for cancellation in tuple(self._running):
            cancellation.request()
        self._pool.shutdown(cancel_futures=True)

    def _run(self, job: Job) -> FinishedTrial:
        cancellation = Cancellation()
        self._running.add(cancellation)
        if self._stop_event.is_set():
            cancellation.request()
        try:
            return run_with_time_limit(self._run_job, job, cancellation, self._timeout_seconds)
        finally:
            self._running.discard(cancellation)


def run_with_time_limit(run_job: TrialRunner, job: Job, cancellation: Cancellation, timeout_seconds: float) -> FinishedTrial:
    """Run a job in this thread, and request its cancellation when the time limit is reached.

    Raises:
        TimeoutError: The job exceeded the time limit and was cancelled.
    """
    has_expired = threading.Event()

    def expire() -> None:
        has_expired.set()
        cancellation.request()

    timer = threading.Timer(timeout_seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        finished = run_job(job, cancellation)
    finally:
        timer.cancel()
    if has_expired.is_set():
        raise TimeoutError
    return finished


class _WorkerTerminated(BaseException):
    """Exception raised in a worker process when the parent process ends the worker with the signal SIGTERM."""


class _Call:
    """Call of a function with a job, which a worker process unpickles while it receives the call.

    The package pebble starts the time limit of a job after the call is received, so the slow imports during unpickling do not
    count as time of the trial. An error of unpickling is raised only when the call is run, so that the trial fails and not the
    worker.
    """

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._loaded: tuple[TrialRunner, Job] | Exception | None = None

    def __getstate__(self) -> bytes:
        return self._pickled

    def __setstate__(self, pickled: bytes) -> None:
        self._pickled = pickled
        try:
            self._loaded = pickle.loads(pickled)  # noqa: S301  (written by the parent process)
        except Exception as error:  # noqa: BLE001  (an import can raise any error; `run` raises it again)
            self._loaded = error

    def run(self) -> FinishedTrial:
        assert self._loaded is not None, "the call was not sent to another process"
        if isinstance(self._loaded, Exception):
            raise self._loaded
        run_job, job = self._loaded
        return run_job(job, None)


def _run_call(call: _Call) -> FinishedTrial:
    # SIGTERM ends the job, which closes its sandbox, and then the process.
    try:
        with install_signal_handler(_raise_terminated, (signal.SIGTERM,)):
            return call.run()
    except _WorkerTerminated:
        os._exit(143)


def _raise_terminated(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _WorkerTerminated
