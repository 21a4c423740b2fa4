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
from harness.experiment.job import Finished, Job
from harness.sandboxes.action_cache import SANDBOX_POOL

Work: TypeAlias = Callable[[Job, Cancellation | None], Finished]
"""Runs one job; a function of a module, so that a process can find it."""

JOBS_PER_WORKER = 100
"""A worker process is replaced after so many jobs, which bounds what it can gather in memory."""


class Workers(Protocol):
    """A pool at work. One thread owns it; every pool is stopped or closed by its opener."""

    @property
    def count(self) -> int:
        """Jobs that run at once."""
        ...

    def submit(self, job: Job) -> "Future[Finished]":
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


def _pool_of_one() -> Any:
    return pebble.ProcessPool(
        max_workers=1,
        max_tasks=JOBS_PER_WORKER,
        initializer=_begin,
        initargs=(os.getpid(),),
        context=multiprocessing.get_context("spawn"),
    )


@dataclass(slots=True)
class _Place:
    """Where one worker process after the other works: a pool of one.

    Workers of one pool share a lock, and one that is killed while it holds it stops all others, and whoever comes after it.
    """

    pool: Any = field(default_factory=_pool_of_one)
    last: "Future[Finished] | None" = None
    """The newest of its jobs."""

    @property
    def free(self) -> bool:
        return self.last is None or self.last.done()

    def take(self, packed: bytes, timeout_seconds: float) -> "Future[Finished]":
        """Schedule a packed job, in a new pool if a worker died here."""
        died = self.last is not None and isinstance(self.last.exception(), ProcessExpired)
        if died or not self.pool.active:
            self.end(at_once=True)
            self.pool = _pool_of_one()
        self.last = self.pool.schedule(_guarded, args=(packed,), timeout=timeout_seconds)
        return self.last

    def end(self, *, at_once: bool) -> None:
        (self.pool.stop if at_once else self.pool.close)()
        self.pool.join()


class ProcessWorkers:
    """Processes: a killed one costs its job and is replaced, one that overruns is killed."""

    def __init__(self, count: int, work: Work, timeout_seconds: float) -> None:
        """Prepare the processes; each starts with its first job."""
        self.count, self._work, self._timeout_seconds = count, work, timeout_seconds
        self._places = [_Place() for _ in range(count)]

    def submit(self, job: Job) -> "Future[Finished]":
        """See `Workers`."""
        packed = pickle.dumps((self._work, job))
        place = next(place for place in self._places if place.free)
        try:
            return place.take(packed, self._timeout_seconds)
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
            list(threads.map(lambda place: place.end(at_once=at_once), self._places))


class ThreadWorkers:
    """Threads of this process: cheap and many. One that overruns is asked to stop between steps, but cannot be killed."""

    def __init__(self, count: int, work: Work, timeout_seconds: float) -> None:
        """Open a pool."""
        self.count, self._work, self._timeout_seconds = count, work, timeout_seconds
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="harness-trial")
        self._running: set[Cancellation] = set()
        self._stopping = threading.Event()

    def submit(self, job: Job) -> "Future[Finished]":
        """See `Workers`."""
        return self._pool.submit(self._run, job)

    def close(self) -> None:
        """See `Workers`."""
        self._pool.shutdown()
        SANDBOX_POOL.close()

    def stop(self) -> None:
        """See `Workers`. Returns when every running session has noticed."""
        self._stopping.set()
        for cancellation in tuple(self._running):
            cancellation.request()
        self._pool.shutdown(cancel_futures=True)
        SANDBOX_POOL.close()

    def _run(self, job: Job) -> Finished:
        cancellation = Cancellation()
        timer = threading.Timer(self._timeout_seconds, cancellation.request)
        timer.daemon = True
        self._running.add(cancellation)
        if self._stopping.is_set():
            cancellation.request()
        timer.start()
        began = time.monotonic()
        try:
            finished = self._work(job, cancellation)
        finally:
            timer.cancel()
            self._running.discard(cancellation)
        if time.monotonic() - began >= self._timeout_seconds and cancellation.is_requested:
            raise TimeoutError
        return finished


class _Terminated(BaseException):
    """The parent asked this worker to end."""


def _guarded(packed: bytes) -> Finished:
    """Run a job in a worker: told to end, it unwinds, which closes its sandbox, and takes no other job.

    It comes packed, so that a job that cannot be read here is an error of its own and not the end of the worker.
    """
    idle = signal.signal(signal.SIGTERM, _unwind)
    try:
        work, job = pickle.loads(packed)  # noqa: S301  (written by our own parent)
        finished: Finished = work(job, None)
        signal.signal(signal.SIGTERM, idle)
    except _Terminated:
        os._exit(143)
    return finished


def _unwind(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Terminated


def _begin(parent: int) -> None:
    """Set a new worker up: it does not outlive its parent."""
    threading.Thread(target=_follow, args=(parent,), name="harness-follows", daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)
