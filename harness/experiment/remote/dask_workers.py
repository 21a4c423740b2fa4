"""Workers of a Dask cluster. This module needs the extra `cluster` and is imported only when a cluster is used.

Each Dask worker gets a plugin with a `TrialHost`, whose child process runs the trials. Each job is sent to one particular Dask
worker, which has at most two jobs at a time. The scheduler therefore holds few jobs and results in memory. If a Dask worker dies,
only the job that was running is blamed, not the job that waited.

One thread of the client owns all state. This thread receives messages about jobs that begin and end, and checks once a second
which workers have joined or left.
"""

import asyncio
import pickle
import queue
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from distributed import Client, get_worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.scheduler import KilledWorker

from harness.errors import StoreError, UsageError, WorkerDied, WorkersUnavailable, format_count
from harness.experiment.job import FinishedTrial, Job, Provenance
from harness.experiment.output import read_finished_trial, remove_journal
from harness.experiment.preflight import SandboxNeed
from harness.experiment.remote.child_process import CallEnd
from harness.experiment.remote.host import TrialHost
from harness.experiment.remote.machines import CHECK_SECONDS, MachineReport, pack_machine_check
from harness.experiment.remote.parcel import CHUNK_BYTES, Outcome, Parcel, pack_job, read_chunk, split, write_journal
from harness.experiment.workers import TrialRunner
from harness.files.object_store import ObjectStore

JOBS_IN_FLIGHT = 2
"""Maximum number of jobs that a Dask worker has at a time: the one that runs, and the one that runs next."""
MAX_DEATHS = 3
"""Number of deaths of workers during the same trial after which the trial is given up as failed."""
MAX_LOSSES = 20
"""Number of times that a job may be lost with a worker that died while it did not run the job; then the job fails."""
POLL_SECONDS = 1.0
"""Interval in seconds at which the client checks which workers the cluster has."""
ANSWER_SECONDS = 60.0
"""Time in seconds to wait for an answer of the cluster, such as a result that is ready."""
CONNECT_SECONDS = 10.0
"""Time in seconds to wait for the first answer of a scheduler."""
WAIT_SECONDS = 600.0
"""Time in seconds to wait for a new worker when all have left."""
IDLE_SECONDS = 20.0
"""Time in seconds without a job after which the child process of a worker ends, e.g. because the run was killed."""

Message: TypeAlias = tuple[Any, ...]


class _TrialPlugin(WorkerPlugin):
    """Plugin that Dask installs in each worker for one run, and that owns the child process for the trials."""

    def __init__(self, name: str) -> None:
        self.name = name

    def setup(self, worker: Any) -> None:
        self._worker = worker
        self._host = TrialHost(IDLE_SECONDS, Path(worker.local_directory))
        self._stop_events: dict[str, threading.Event] = {}

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Stop the running trial when Dask cancels its task, e.g. because the client has disconnected.

        Dask calls this method at every change of the state of a task.
        """
        if finish in {"cancelled", "released", "forgotten"} and (event := self._stop_events.get(key)):
            event.set()

    async def teardown(self, worker: Any) -> None:
        await asyncio.to_thread(self._host.close)

    def run(self, key: str, parcel: Parcel) -> Outcome:
        stop_event = self._stop_events[key] = threading.Event()
        try:
            return self._host.run(parcel, lambda: self._worker.log_event(self.name, {"key": key}), stop_event.is_set)
        finally:
            del self._stop_events[key]

    def call(self, call: bytes) -> CallEnd:
        return self._host.call(call, CHECK_SECONDS)


def _run_parcel(name: str, key: str, parcel: Parcel) -> Outcome:
    plugin: _TrialPlugin = get_worker().plugins[name]  # type: ignore[assignment]
    return plugin.run(key, parcel)


def _call(name: str, call: bytes) -> CallEnd:
    plugin: _TrialPlugin = get_worker().plugins[name]  # type: ignore[assignment]
    return plugin.call(call)


def _remove_file(path: str) -> None:
    Path(path).unlink(missing_ok=True)


class _TrialFuture(Future[FinishedTrial]):
    """Future of a job on a cluster; `running` is true as soon as the trial has begun on a worker."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Attempt:
    """Current attempt to run a job on the cluster, with a record of the attempts that failed before."""

    job: Job
    parcel: Parcel
    future: _TrialFuture = field(default_factory=_TrialFuture)
    deaths: list[str] = field(default_factory=list)
    """Names or addresses of the workers that died while they ran this trial."""
    losses: int = 0
    key: str = ""
    address: str = ""
    has_begun: bool = False
    has_ended: bool = False
    dask_future: Any = None


class DaskWorkers:
    """Workers of a Dask cluster. Each Dask worker runs one trial at a time, in a child process of its own.

    Machines that lack a sandbox or have other versions of the code get no trials; a warning names them.
    """

    def __init__(
        self,
        client: Client,
        run_job: TrialRunner,
        timeout_seconds: float,
        *,
        needs: tuple[SandboxNeed, ...] = (),
        provenance: Provenance | None = None,
        unsafe_local: bool = False,
        inline_bytes: int = CHUNK_BYTES,
        store: str = "",
    ) -> None:
        """Wait for a worker of the cluster, and check the machines of all workers.

        Args:
            client: Client of the cluster, which stays open.
            run_job: Function that runs a job.
            timeout_seconds: Maximum duration of a job in seconds.
            needs: Requirements of the trials for their sandboxes, such as image and runtime.
            provenance: Code version of the run, which each machine must have; None accepts any version.
            unsafe_local: Permission to run trials in the sandbox `local`.
            inline_bytes: Maximum size in bytes of a compressed journal that is returned with the result; larger ones are fetched
                in chunks.
            store: URL of the store into which the workers write the journals; empty if the journals are returned.

        Raises:
            UsageError: The client is asynchronous.
            WorkersUnavailable: The cluster has no workers, or none of its machines can run the trials.
        """
        if client.asynchronous:
            raise UsageError("executor: an asynchronous client cannot run experiments; create it with asynchronous=False")
        self.backends: Mapping[SandboxNeed, str] = {}
        """Sandbox backend for each requirement, as chosen by the first machine that can satisfy all requirements."""
        self._client: Any = client
        self._run_job, self._timeout_seconds = run_job, timeout_seconds
        self._needs, self._provenance, self._unsafe_local, self._inline_bytes = needs, provenance, unsafe_local, inline_bytes
        self._store = store
        self._name = f"harness-{uuid4().hex[:12]}"
        self._inbox = queue.SimpleQueue[Message]()
        self._machines: dict[str, set[str]] = {}
        """Dask keys of the jobs that each usable worker has, by the worker's address."""
        self._known: set[str] = set()
        """Addresses of all workers that were seen, whether they can run trials or not."""
        self._waiting = deque[_Attempt]()
        self._attempts: dict[str, _Attempt] = {}
        self._checks: dict[str, Any] = {}
        self._last_seen = time.monotonic()
        self._failure = ""
        self._is_ending = False
        self._is_closed = False
        self._open()
        self._thread = threading.Thread(target=self._manage, name="harness-cluster", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """Number of jobs that the cluster takes at a time: two for each worker that can run trials."""
        return 1 if self._failure else JOBS_IN_FLIGHT * len(self._machines)  # with a failure, `submit` says what it is

    def submit(self, job: Job) -> "Future[FinishedTrial]":
        """Send a job to the worker with the fewest jobs, and return a future with its result.

        Raises:
            WorkersUnavailable: The cluster is lost.
        """
        if self._failure:
            raise WorkersUnavailable(self._failure)
        attempt = _Attempt(job=job, parcel=pack_job(self._run_job, job, self._timeout_seconds, self._inline_bytes, self._store))
        self._inbox.put(("submit", attempt))
        return attempt.future

    def close(self) -> None:
        """Wait until all submitted jobs have finished, then end the child processes; the client stays open."""
        self._end(at_once=False)

    def stop(self) -> None:
        """Stop all trials, then end the child processes; the client stays open."""
        self._end(at_once=True)

    def _end(self, *, at_once: bool) -> None:
        self._inbox.put(("end", at_once))
        self._thread.join()
        if self._client.status == "running" and not self._is_closed:
            self._uninstall()
        self._is_closed = True

    def _uninstall(self) -> None:
        # The child processes of the workers end with the plugin.
        with suppress(OSError, TimeoutError):
            self._client.unsubscribe_topic(self._name)
            self._client.unregister_worker_plugin(self._name)

    def _open(self) -> None:
        """Install the plugin on all workers, and check the machines of all workers.

        Raises:
            WorkersUnavailable: The cluster has no workers, or none of its machines can run the trials.
        """
        client = self._client
        client.subscribe_topic(self._name, lambda event: self._inbox.put(("began", event[1]["key"])))
        try:
            client.register_plugin(_TrialPlugin(self._name))
            try:
                client.wait_for_workers(1, timeout=ANSWER_SECONDS)
            except TimeoutError:
                raise WorkersUnavailable(
                    f"the cluster at {_format_address(client)} has no workers; start some, e.g. with `dask worker ADDRESS`"
                ) from None
            self._known = set(client.nthreads())
            checks = {address: self._start_check(address) for address in sorted(self._known)}
            reports = {address: self._read_check(address, check) for address, check in checks.items()}
            for address, report in reports.items():
                self._admit(address, report)
            if not self._machines:
                reasons = "; ".join(f"{report.machine}: {report.refusal}" for report in reports.values())
                raise WorkersUnavailable(f"no machine of the cluster can run the trials: {reasons or 'no worker answers'}")
        except BaseException:
            self._uninstall()
            raise

    def _start_check(self, address: str) -> Any:
        needs = tuple(need._replace(backend=self.backends.get(need, need.backend)) for need in self._needs)
        if self._provenance is None:
            return None
        call = pack_machine_check(needs, self._provenance, unsafe_local=self._unsafe_local)
        return self._submit_to(address, f"{self._name}-check-{uuid4().hex}", _call, self._name, call)

    def _submit_to(self, address: str, key: str, function: Callable[..., object], *arguments: object) -> Any:
        return self._client.submit(function, *arguments, key=key, workers=[address], allow_other_workers=False, pure=False)

    def _read_check(self, address: str, check: Any) -> MachineReport:
        """Return the report on whether a worker's machine can run the trials; without a check, any machine can."""
        if check is None:
            return MachineReport(machine=address)
        try:
            end: CallEnd = check.result(timeout=CHECK_SECONDS)
        except Exception as error:  # noqa: BLE001  (the worker may lack packages, or may have died)
            return MachineReport(machine=address, refusal=f"{type(error).__name__}: {error}")
        match end.kind:
            case "returned":
                report: MachineReport = pickle.loads(end.value)  # noqa: S301  (written by a worker of this run)
                return replace(report, machine=f"{report.machine} at {address}")
            case "raised":
                raised = pickle.loads(end.value)  # noqa: S301  (written by a worker of this run)
                if isinstance(raised, UsageError):
                    raise raised
                return MachineReport(machine=address, refusal=str(raised))
            case _:
                return MachineReport(machine=address, refusal=f"the check of the machine ended without a result ({end.kind})")

    def _admit(self, address: str, report: MachineReport) -> None:
        """Let a worker run trials, or warn that its machine cannot.

        All machines use the sandbox backends of the first machine.
        """
        if not report.refusal and not self.backends:
            self.backends = dict(zip(self._needs, report.backends, strict=False))
        # a machine that would choose other backends is asked again, now for those of the first machine
        if not report.refusal and report.backends != tuple(self.backends.values()):
            report = self._read_check(address, self._start_check(address))
        if report.refusal:
            warnings.warn(f"no trials run on {report.machine}: {report.refusal}", stacklevel=2)
        else:
            self._machines[address] = set()

    def _manage(self) -> None:
        """Handle messages and watch the workers until `close` or `stop`; after an error, all unfinished jobs fail."""
        try:
            is_closing, next_look = False, time.monotonic()
            while not (is_closing and not self._attempts and not self._waiting):
                for message in self._receive(next_look):
                    match message:
                        case ("end", True):
                            return
                        case ("end", False):
                            is_closing = True
                        case _:
                            self._handle(message)
                if time.monotonic() >= next_look:
                    self._look_at_workers()
                    next_look = time.monotonic() + POLL_SECONDS
                if self._failure and is_closing:
                    return
                self._dispatch()
        except Exception as error:  # noqa: BLE001  (the caller of `submit` has to learn that the thread has ended)
            self._failure = f"the connection to the cluster failed: {type(error).__name__}: {error}"
        finally:
            self._is_ending = True
            self._fail_all(self._failure or "the run was stopped")

    def _receive(self, until: float) -> Iterator[Message]:
        """Yield the messages about jobs that have arrived, after waiting for the first until a given time at most."""
        try:
            yield self._inbox.get(timeout=max(0.0, until - time.monotonic()))
            while True:
                yield self._inbox.get_nowait()
        except queue.Empty:
            return

    def _handle(self, message: Message) -> None:
        match message:
            case ("submit", attempt):
                self._waiting.append(attempt)
            case ("began", key) if (attempt := self._attempts.get(key)) is not None:
                if attempt.has_begun:  # Dask has run the task again, in a new worker with the same address
                    attempt.deaths.append(attempt.address)
                attempt.has_begun = True
                if not attempt.future.running():
                    attempt.future.set_running_or_notify_cancel()
                if len(attempt.deaths) >= MAX_DEATHS:
                    self._release(attempt)
                    self._set_aside(attempt)
            case ("done", key) if (attempt := self._attempts.get(key)) is not None:
                self._finish(attempt)
            case ("checked", address) if (check := self._checks.pop(address, None)) is not None:
                self._admit(address, self._read_check(address, check))
            case _:
                pass  # about a job that was given up

    def _dispatch(self) -> None:
        while self._waiting and self._machines and not self._failure:
            address = min(self._machines, key=lambda machine: len(self._machines[machine]))
            if len(self._machines[address]) >= JOBS_IN_FLIGHT:
                return
            attempt = self._waiting.popleft()
            attempt.key = f"{self._name}-{attempt.job.trial_id}-{uuid4().hex[:6]}"
            attempt.address, attempt.has_begun, attempt.has_ended = address, False, False
            self._attempts[attempt.key] = attempt
            self._machines[address].add(attempt.key)
            attempt.dask_future = self._submit_to(address, attempt.key, _run_parcel, self._name, attempt.key, attempt.parcel)
            attempt.dask_future.add_done_callback(lambda _, key=attempt.key: self._inbox.put(("done", key)))

    def _look_at_workers(self) -> None:
        """Check which workers have joined or left the cluster, and whether the scheduler still answers."""
        if self._failure:
            return
        if self._client.status != "running":
            self._lose_cluster(f"the scheduler at {_format_address(self._client)} was lost")
            return
        try:
            addresses = set(self._client.nthreads())
        except (OSError, TimeoutError):  # the scheduler may answer at the next look
            return
        for address in self._known - addresses:
            self._machines.pop(address, None)
            self._checks.pop(address, None)
            for attempt in [attempt for attempt in self._attempts.values() if attempt.address == address]:
                self._lose(attempt, "its worker left the cluster")
        for address in addresses - self._known:
            self._checks[address] = check = self._start_check(address)
            if check is None:
                self._inbox.put(("checked", address))
            else:
                check.add_done_callback(lambda _, address=address: self._inbox.put(("checked", address)))
        self._known = addresses
        if self._machines or self._checks:
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > WAIT_SECONDS:
            self._lose_cluster(f"no worker has joined the cluster for {WAIT_SECONDS:.0f} seconds")

    def _lose_cluster(self, reason: str) -> None:
        self._failure = f"{reason}; finished trials are kept, and a new run continues with the others"
        self._fail_all(self._failure)

    def _fail_all(self, reason: str) -> None:
        attempts = [*self._attempts.values(), *self._waiting]
        futures = [attempt.dask_future for attempt in self._attempts.values()]
        self._attempts.clear()
        self._waiting.clear()
        if futures and self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._client.cancel(futures, force=True)
        for attempt in attempts:
            if not attempt.future.done():
                attempt.future.set_exception(WorkersUnavailable(reason))

    def _release(self, attempt: _Attempt) -> None:
        """Forget an attempt to run a job, so that its worker can get another job."""
        self._attempts.pop(attempt.key, None)
        self._machines.get(attempt.address, set()).discard(attempt.key)
        if attempt.dask_future is not None and not attempt.dask_future.done():
            with suppress(OSError, TimeoutError):
                attempt.dask_future.cancel(force=True)
        attempt.dask_future = None

    def _finish(self, attempt: _Attempt) -> None:
        """Fetch the outcome of a job; a job without outcome runs again, or fails after too many attempts."""
        attempt.has_ended = attempt.dask_future.status == "finished"
        try:
            outcome: Outcome = attempt.dask_future.result(timeout=ANSWER_SECONDS)
            self._store_journal(attempt, outcome)
        except KilledWorker:
            self._lose(attempt, "its workers died")
        except (TimeoutError, OSError, asyncio.CancelledError) as error:
            self._lose(attempt, str(error) or "the worker does not answer")
        except Exception as error:  # noqa: BLE001  (an error of the worker or of storing the journal fails the job)
            if self._client.status == "running":
                self._release(attempt)
                attempt.future.set_exception(error)
        else:
            self._release(attempt)
            self._resolve(attempt, outcome)

    def _store_journal(self, attempt: _Attempt, outcome: Outcome) -> None:
        remove_journal(attempt.job.journal)
        if outcome.stored_name:
            write_journal(ObjectStore(self._store).read_chunks(outcome.stored_name), attempt.job.journal)
        elif outcome.journal:
            write_journal(split(outcome.journal), attempt.job.journal)
        elif outcome.journal_file:
            write_journal(self._fetch_chunks(attempt.address, outcome), attempt.job.journal)
            self._client.run(_remove_file, outcome.journal_file, workers=[attempt.address], on_error="ignore")

    def _fetch_chunks(self, address: str, outcome: Outcome) -> Iterator[bytes]:
        for offset in range(0, outcome.journal_bytes, CHUNK_BYTES):
            chunks = self._client.run(read_chunk, outcome.journal_file, offset, workers=[address])
            if address not in chunks:
                raise OSError(f"the worker at {address} left with the journal")
            yield chunks[address]

    def _resolve(self, attempt: _Attempt, outcome: Outcome) -> None:
        """Set the result of the job's future, unless the child process died and the job may run again."""
        try:
            finished = outcome.resolve()
        except WorkerDied as error:
            if _may_be_recorded(attempt.job):
                attempt.future.set_exception(error)
            elif outcome.end.kind == "stopped":
                self._retry(attempt)
            elif error.has_begun:
                attempt.deaths.append(outcome.machine)
                self._retry(attempt, error.exit_code)
            else:
                attempt.losses += 1
                self._retry(attempt, error.exit_code)
        except BaseException as error:  # noqa: BLE001  (the error of the job, which its future reports)
            attempt.future.set_exception(error)
        else:
            attempt.future.set_result(finished)

    def _lose(self, attempt: _Attempt, reason: str) -> None:
        """Handle a job whose worker died or left; the death counts against the trial only if the trial was running."""
        self._release(attempt)
        if attempt.has_begun and not attempt.has_ended:
            attempt.deaths.append(f"{attempt.address} ({reason})")
        else:
            attempt.losses += 1
        self._retry(attempt)

    def _retry(self, attempt: _Attempt, exit_code: int | None = None) -> None:
        if len(attempt.deaths) >= MAX_DEATHS or attempt.losses >= MAX_LOSSES:
            self._set_aside(attempt, exit_code)
        elif not self._is_ending:
            remove_journal(attempt.job.journal)
            self._waiting.append(attempt)

    def _set_aside(self, attempt: _Attempt, exit_code: int | None = None) -> None:
        """Make the future of a job fail because too many workers have died with the job."""
        detail = f"on {', '.join(attempt.deaths)}"
        if not attempt.deaths:
            detail = f"{format_count(attempt.losses, 'worker')} left before the trial began"
        attempts = max(1, len(attempt.deaths))
        attempt.future.set_exception(WorkerDied(exit_code=exit_code, has_begun=True, attempts=attempts, detail=detail))


def _may_be_recorded(job: Job) -> bool:
    try:
        return read_finished_trial(job.journal) is not None
    except StoreError:  # the runner reads the journal again, and ends the run if it still cannot
        return True


def _format_address(client: Any) -> str:
    return str(client.scheduler.address) if client.scheduler else "an unknown address"


def open_client(address: str) -> Client:
    """Connect to the scheduler of a Dask cluster; certificates for TLS are those of the configuration of Dask.

    Args:
        address: Address of the scheduler, such as `tcp://10.0.0.5:8786` or `tls://10.0.0.5:8786`.

    Raises:
        UsageError: No scheduler answers at the address.
    """
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise UsageError(f"no scheduler of a Dask cluster answers at {address!r}: {error}") from error
