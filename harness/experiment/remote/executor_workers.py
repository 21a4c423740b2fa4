"""Workers on top of any `concurrent.futures.Executor`, such as a pool of threads or processes or one of another package."""

import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from harness.errors import WorkersUnavailable
from harness.experiment.job import FinishedTrial, Job
from harness.experiment.remote.child import GRACE_SECONDS
from harness.experiment.remote.child_process import CallEnd
from harness.experiment.remote.host import TrialHost
from harness.experiment.remote.parcel import Outcome, Parcel, pack_job, split, write_journal
from harness.experiment.workers import TrialRunner
from harness.files.object_store import ObjectStore
from harness.sandboxes.leftovers import format_owner

IDLE_SECONDS = 20.0
"""Time in seconds after which an idle child process ends on a machine that cannot see the folder of the run."""
BROKEN_MESSAGE = "the executor no longer runs jobs ({}); finished trials are kept, and a new run continues with the others"


class _Run(NamedTuple):
    """Description of a run, from which the child processes that run its trials learn when the run has ended."""

    folder: str
    """Folder with the file `open`, which is removed when the run ends, and a file for each `TrialHost` of this machine."""
    machine: str
    """Identifier of the machine on whose disk the folder is."""

    def has_ended(self) -> bool:
        """Return whether the run has ended; False on another machine, which cannot know."""
        return self.machine == _identify_machine() and not Path(self.folder, "open").exists()


def _identify_machine() -> str:
    # The boot and the process namespace also tell containers apart.
    return format_owner().rsplit(":", 2)[0]


_free_hosts: "dict[str, list[TrialHost]]" = {}
"""Idle hosts (objects that own a child process for trials) of this process, by the folder of the run that they belong to."""
_hosts_lock = threading.Lock()


class ExecutorWorkers:
    """Workers that run jobs through an executor; each of its threads or processes starts a child process for trials.

    The executor belongs to the caller, who shuts it down. Its processes must have this package. Processes on other machines must
    have the same version of this package. A trial on another machine cannot be stopped before its time limit.
    """

    def __init__(
        self, executor: Executor, count: int | None, run_job: TrialRunner, timeout_seconds: float, store: str = ""
    ) -> None:
        """Prepare to run jobs through an executor.

        Args:
            executor: Executor that runs the jobs.
            count: Number of jobs that the executor is given at a time; None uses its own number of workers.
            run_job: Function that runs a job.
            timeout_seconds: Maximum duration of a job in seconds.
            store: URL of the store into which the workers write the journals; empty if the journals are returned.
        """
        self._store = store
        self.count: int = count or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        self._executor, self._run_job, self._timeout_seconds = executor, run_job, timeout_seconds
        self._futures: set[_ParcelFuture] = set()
        self._folder = Path(tempfile.mkdtemp(prefix="harness-run-"))
        (self._folder / "open").touch()
        self._run = _Run(str(self._folder), _identify_machine())

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """Give a job to the executor, and return a future with the result of the job."""
        parcel = pack_job(self._run_job, job, self._timeout_seconds, inline_bytes=None, store=self._store)
        try:
            future = _ParcelFuture(self._executor.submit(_run_parcel, parcel, self._run), job, self._store)
        except RuntimeError as error:
            raise WorkersUnavailable(BROKEN_MESSAGE.format(error)) from error
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def close(self) -> None:
        """Wait until all submitted jobs have finished, then end the child processes; the executor stays open."""
        for future in tuple(self._futures):
            with suppress(Exception, CancelledError):
                future.result()
        self._end_hosts()

    def stop(self) -> None:
        """Cancel waiting jobs and stop running trials of this machine; the executor stays open."""
        for future in tuple(self._futures):
            future.cancel_parcel()
        self._end_hosts()

    def _end_hosts(self) -> None:
        """End the child processes on this machine, and wait until they have cleaned up."""
        (self._folder / "open").unlink(missing_ok=True)
        _close_hosts(self._run.folder)
        deadline = time.monotonic() + 2 * GRACE_SECONDS
        while any(self._folder.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.02)
        shutil.rmtree(self._folder, ignore_errors=True)


class _ParcelFuture(Future[FinishedTrial]):
    """Result of a job that an executor runs, available after the journal of the trial was stored on this machine."""

    def __init__(self, inner: "Future[Outcome]", job: Job, store: str) -> None:
        super().__init__()
        self._inner, self._job, self._store = inner, job, store
        self._is_taken_back = False
        inner.add_done_callback(self._finish)

    def running(self) -> bool:
        """Return whether the executor has started the job and has not finished it."""
        return not self.done() and self._inner.running()

    def cancel_parcel(self) -> None:
        """Take the job back from the executor; if it has started, its result is ignored, since another run may have begun."""
        self._is_taken_back = True
        self._inner.cancel()

    def _finish(self, inner: "Future[Outcome]") -> None:
        if self._is_taken_back:
            self.cancel()
            return
        try:
            outcome = inner.result()
            if outcome.stored_name:
                write_journal(ObjectStore(self._store).read_chunks(outcome.stored_name), self._job.journal)
            elif outcome.journal:
                write_journal(split(outcome.journal), self._job.journal)
            self.set_result(outcome.resolve())
        except (BrokenExecutor, CancelledError) as error:
            self.set_exception(WorkersUnavailable(BROKEN_MESSAGE.format(str(error) or "it has cancelled a job")))
        except BaseException as error:  # noqa: BLE001  (the error of the job, which the future reports, e.g. KeyboardInterrupt)
            self.set_exception(error)


def _run_parcel(parcel: Parcel, run: _Run) -> Outcome:
    """Run a job in a thread or process of an executor, if possible in the child process of an earlier job."""
    with _hosts_lock:
        free_hosts = _free_hosts.get(run.folder)
        host = free_hosts.pop() if free_hosts else None
    if run.has_ended():
        return Outcome(end=CallEnd(kind="stopped", has_begun=False))
    host = host or _RunHost(run)
    try:
        return host.run(parcel)
    finally:
        with _hosts_lock:
            _free_hosts.setdefault(run.folder, []).append(host)
        if run.has_ended():
            _close_hosts(run.folder)


def _close_hosts(run_folder: str) -> None:
    with _hosts_lock:
        hosts = _free_hosts.pop(run_folder, [])
    for host in hosts:
        host.close()


class _RunHost(TrialHost):
    """Owner of a child process for trials, which closes itself when the run has ended.

    A file in the folder of the run exists as long as this object has not closed.
    """

    def __init__(self, run: _Run) -> None:
        self._entry = Path(run.folder, uuid4().hex)
        if run.machine == _identify_machine():
            self._entry.touch()
        super().__init__(IDLE_SECONDS, is_ended=run.has_ended)

    def close(self) -> None:
        super().close()
        self._entry.unlink(missing_ok=True)
