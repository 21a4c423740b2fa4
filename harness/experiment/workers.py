"""Who runs the jobs: worker processes that may die or overrun, or threads for models that mostly wait.

Both hand out `Future`s and have the same four methods. Processes are spawned rather than forked from a server: a spawned
worker sees the environment and the code as they are now (a notebook may have set a key since), and its start costs little
beside the trials that it runs.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pebble
from pebble import ProcessExpired

from harness.agent.cancellation import Cancellation
from harness.experiment.job import FinishedTrial, Job
from harness.sandboxes.action_cache import SANDBOX_POOL
from harness.signals import install_signal_handler

TrialRunner: TypeAlias = Callable[[Job, Cancellation | None], FinishedTrial]
"""Runs one job; a function of a module, so that a process can find it."""

JOBS_PER_WORKER = 100
"""A worker process is replaced after so many jobs, which bounds what it can gather in memory."""


class Workers(Protocol):
    """A pool at work. One thread owns it; every pool is stopped or closed by its opener."""

    @property
    def count(self) -> int:
        """Jobs that run at once."""
        ...

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """Begin a job; the caller sees to it that no more than `count` are under way.

        The future fails with `BrokenProcessPool` where a worker died before the job had begun, which may be given out again.

        Raises:
            BrokenProcessPool: the same, at once.
        """
        ...

    def close(self) -> None:
        """Let everything that was submitted finish."""
        ...

    def stop(self) -> None:
        """End everything now; what was running is lost."""
        ...


def _make_pool() -> Any:
    return pebble.ProcessPool(
        max_workers=1,
        max_tasks=JOBS_PER_WORKER,
        initializer=_init_worker,
        initargs=(os.getpid(),),
        context=multiprocessing.get_context("spawn"),
    )


@dataclass(slots=True)
class _WorkerSlot:
    """Where one worker process after the other works: a pool of one.

    Workers of one pool share a lock, and one that is killed while it holds it stops all others, and whoever comes after it.
    """

    pool: Any = field(default_factory=_make_pool)
    last_job: "Future[FinishedTrial] | None" = None
    """The newest of its jobs."""

    @property
    def is_free(self) -> bool:
        return self.last_job is None or self.last_job.done()

    def schedule(self, pickled_job: bytes, timeout_seconds: float) -> "Future[FinishedTrial]":
        """Schedule a packed job, in a new pool if a worker died here."""
        has_died = self.last_job is not None and isinstance(self.last_job.exception(), ProcessExpired)
        if has_died or not self.pool.active:
            self.end(at_once=True)
            self.pool = _make_pool()
        self.last_job = self.pool.schedule(_run_pickled_job, args=(pickled_job,), timeout=timeout_seconds)
        return self.last_job

    def end(self, *, at_once: bool) -> None:
        (self.pool.stop if at_once else self.pool.close)()
        self.pool.join()


class ProcessWorkers:
    """Processes: a killed one costs its job and is replaced, one that overruns is killed."""

    def __init__(self, count: int, run_job: TrialRunner, timeout_seconds: float) -> None:
        """Prepare the processes; each starts with its first job."""
        self.count, self._run_job, self._timeout_seconds = count, run_job, timeout_seconds
        self._slots = [_WorkerSlot() for _ in range(count)]

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """See `Workers`."""
        pickled_job = pickle.dumps((self._run_job, job))
        slot = next(place for place in self._slots if place.is_free)
        try:
            return slot.schedule(pickled_job, self._timeout_seconds)
        except RuntimeError as error:
            raise BrokenProcessPool(str(error)) from error

    def close(self) -> None:
        """See `Workers`."""
        self._end(at_once=False)

    def stop(self) -> None:
        """See `Workers`. A worker has three seconds to close its sandbox."""
        self._end(at_once=True)

    def _end(self, *, at_once: bool) -> None:
        with ThreadPoolExecutor(self.count) as threads:
            list(threads.map(lambda place: place.end(at_once=at_once), self._slots))


class ThreadWorkers:
    """Threads of this process: cheap and many. One that overruns is asked to stop between steps, but cannot be killed."""

    def __init__(self, count: int, run_job: TrialRunner, timeout_seconds: float) -> None:
        """Open a pool."""
        self.count, self._run_job, self._timeout_seconds = count, run_job, timeout_seconds
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="harness-trial")
        self._running: set[Cancellation] = set()
        self._stop_event = threading.Event()

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """See `Workers`."""
        return self._pool.submit(self._run, job)

    def close(self) -> None:
        """See `Workers`."""
        self._pool.shutdown()
        SANDBOX_POOL.close()

    def stop(self) -> None:
        """See `Workers`. Returns when every running session has noticed."""
        self._stop_event.set()
        for cancellation in tuple(self._running):
            cancellation.request()
        self._pool.shutdown(cancel_futures=True)
        SANDBOX_POOL.close()

    def _run(self, job: Job) -> FinishedTrial:
        cancellation = Cancellation()
        timer = threading.Timer(self._timeout_seconds, cancellation.request)
        timer.daemon = True
        self._running.add(cancellation)
        if self._stop_event.is_set():
            cancellation.request()
        timer.start()
        start_seconds = time.monotonic()
        try:
            finished = self._run_job(job, cancellation)
        finally:
            timer.cancel()
            self._running.discard(cancellation)
        if time.monotonic() - start_seconds >= self._timeout_seconds and cancellation.is_requested:
            raise TimeoutError
        return finished


class _WorkerTerminated(BaseException):
    """The parent asked this worker to end."""


def _run_pickled_job(pickled_job: bytes) -> FinishedTrial:
    """Run a job in a worker: told to end, it unwinds, which closes its sandbox, and takes no other job.

    It comes packed, so that a job that cannot be read here is an error of its own and not the end of the worker.
    """
    try:
        with install_signal_handler(_raise_terminated, (signal.SIGTERM,)):
            work, job = pickle.loads(pickled_job)  # noqa: S301  (written by our own parent)
            finished: FinishedTrial = work(job, None)
    except _WorkerTerminated:
        os._exit(143)
    return finished


def _raise_terminated(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _WorkerTerminated


def _init_worker(parent_pid: int) -> None:
    """Set a new worker up: it does not outlive its parent."""
    threading.Thread(target=_watch_parent, args=(parent_pid,), name="harness-follows", daemon=True).start()


def _watch_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)
