"""Owner of the child process that runs the trials of one worker of an executor or cluster, and that packs their journals."""

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.errors import StoreError
from harness.experiment.output import remove_journal
from harness.experiment.remote.child_process import POLL_SECONDS, CallEnd, ChildProcess
from harness.experiment.remote.parcel import Outcome, Parcel, compress_journal, locate_journal, name_stored_journal
from harness.experiment.workers import JOBS_PER_WORKER
from harness.files.object_store import ObjectStore


def name_machine() -> str:
    """Return the name of this machine with the id of this process, for messages."""
    return f"{socket.gethostname()} (process {os.getpid()})"


class TrialHost:
    """Owner of the child process that runs the trials of one worker, and of the folder for their journals.

    The child process starts with the first call and is replaced after `JOBS_PER_WORKER` calls, which limits its memory. An idle
    child process ends after a while, so that none is left behind if the run is killed. Thread-safe.
    """

    def __init__(self, idle_seconds: float, folder: Path | None = None, is_ended: Callable[[], bool] = lambda: False) -> None:
        """Prepare a host, without starting a process.

        Args:
            idle_seconds: Time in seconds after which an idle child process ends.
            folder: Folder in which the host creates its own folder; None uses the folder for temporary files.
            is_ended: Function that returns whether the run has ended; if so, the host stops the running trial and closes itself.
        """
        self._idle_seconds, self._parent_folder, self._is_ended = idle_seconds, folder, is_ended
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self._child: ChildProcess | None = None
        self._last_used = time.monotonic()
        self._closed = threading.Event()

    def run(
        self, parcel: Parcel, on_begin: Callable[[], None] = lambda: None, is_stopped: Callable[[], bool] = lambda: False
    ) -> Outcome:
        """Run a job in the child process, and return how the job ended together with the trial's journal.

        Args:
            parcel: Job to run.
            on_begin: Function that is called when the trial begins.
            is_stopped: Function that returns whether the job has to end at once; asked a few times a second.
        """

        def has_to_stop() -> bool:
            return is_stopped() or self._closed.is_set() or self._is_ended()

        while not self._lock.acquire(timeout=POLL_SECONDS):
            if has_to_stop():
                return Outcome(end=CallEnd(kind="stopped", has_begun=False), machine=name_machine())
        try:
            folder = self._prepare()
            assert self._child is not None
            end = self._child.call(
                parcel.call, folder, timeout_seconds=parcel.timeout_seconds, on_begin=on_begin, is_stopped=has_to_stop
            )
            return self._pack(parcel, end, folder)
        finally:
            self._last_used = time.monotonic()
            self._lock.release()

    def call(self, call: bytes, timeout_seconds: float) -> CallEnd:
        """Run a pickled call (a function with its arguments) in the child process, and return how it ended."""
        with self._lock:
            self._prepare()
            assert self._child is not None
            try:
                return self._child.call(call, timeout_seconds=timeout_seconds, is_stopped=self._closed.is_set)
            finally:
                self._last_used = time.monotonic()

    def close(self) -> None:
        """Stop the running trial, end the child process, and remove the folder."""
        self._closed.set()
        with self._lock:
            self._end_child()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _prepare(self) -> Path:
        """Return the folder of the host; a child process that is missing, dead or has run enough calls is replaced."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="harness-trials-", dir=self._parent_folder))
        if self._child is not None and (not self._child.is_alive or self._child.calls >= JOBS_PER_WORKER):
            self._end_child()
        if self._child is None:
            self._child = ChildProcess(self._folder)
            threading.Thread(target=self._watch, args=(self._child,), name="harness-host", daemon=True).start()
        return self._folder

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _watch(self, child: ChildProcess) -> None:
        while not self._closed.wait(POLL_SECONDS):
            if self._is_ended():
                self.close()
                return
            if not self._lock.acquire(blocking=False):
                continue
            try:
                if self._child is not child:
                    return
                if time.monotonic() - self._last_used >= self._idle_seconds:
                    self._end_child()
                    self._remove_empty_folder()
                    return
            finally:
                self._lock.release()

    def _remove_empty_folder(self) -> None:
        # This fails if the folder contains a journal that has not been fetched.
        if self._folder is not None:
            with suppress(OSError):
                self._folder.rmdir()
                self._folder = None

    def _pack(self, parcel: Parcel, end: CallEnd, folder: Path) -> Outcome:
        """Return the outcome of a job with its compressed journal, and delete the journal of the worker.

        A journal that cannot be written to the store of the run is returned to the client, so that no finished trial is lost.
        """
        journal = locate_journal(folder, parcel.trial_id)
        if end.kind == "stopped" or not journal.exists():
            remove_journal(journal)
            return Outcome(end=end, machine=name_machine())
        packed = journal.with_suffix(".zst")
        size = compress_journal(journal, packed)
        remove_journal(journal)
        if parcel.store:
            name = name_stored_journal(parcel.trial_id)
            with suppress(StoreError):
                ObjectStore(parcel.store).write_file(name, packed)
                packed.unlink()
                return Outcome(end=end, stored_name=name, journal_bytes=size, machine=name_machine())
        if parcel.inline_bytes is not None and size > parcel.inline_bytes:
            return Outcome(end=end, journal_file=str(packed), journal_bytes=size, machine=name_machine())
        content = packed.read_bytes()
        packed.unlink()
        return Outcome(end=end, journal=content, journal_bytes=size, machine=name_machine())
