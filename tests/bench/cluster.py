"""Rates that bound a large experiment on a cluster: empty jobs through a Dask scheduler, and imports of finished trials.

`python -m tests.bench.cluster JOBS` measures both alone, with the given number of jobs; `make bench` uses 100,000.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from harness.agent.cancellation import Cancellation
from harness.experiment.experiment import Experiment
from harness.experiment.job import FinishedTrial, Job, TrialRun, collect_provenance
from harness.experiment.output import open_output
from harness.experiment.remote.dask_workers import DaskWorkers
from harness.experiment.remote.parcel import compress_journal, split, write_journal
from harness.experiment.run_trial import run_trial
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.testing.sample_jobs import make_sample_job
from tests.bench.figure import Figure
from tests.experiment.remote.clusters import open_cluster
from tests.house.source import CHECKOUT

JOBS = 100_000
TRIALS = 20


def cluster(jobs: int = JOBS) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from measure_scheduler(Path(folder), jobs)
        yield from measure_trials(Path(folder))


def run_empty_job(job: Job, cancellation: Cancellation | None = None) -> FinishedTrial:
    """Return the record of a trial that did nothing."""
    return TrialRun(started_at=0.0).build_finished_trial(job, 0.0)


def measure_scheduler(folder: Path, jobs: int) -> Iterator[Figure]:
    """Send empty tasks of Dask through a scheduler, then empty jobs through the workers of a run, which start child processes."""
    with open_cluster(folder / "cluster") as processes, processes.open_client() as client:
        client.wait_for_workers(2)
        scheduler_pid = processes.processes["scheduler"].pid
        before, began = read_memory(scheduler_pid), time.perf_counter()
        used, used_here = read_cpu_seconds(scheduler_pid), time.process_time()
        send_all(4, jobs, lambda number: client.submit(int, number, pure=False))
        seconds, grown = time.perf_counter() - began, read_memory(scheduler_pid) - before
        yield Figure(name=f"{jobs:,} empty tasks through a Dask scheduler", value=jobs / seconds, unit="tasks/s", bar=None)
        used, used_here = read_cpu_seconds(scheduler_pid) - used, time.process_time() - used_here
        yield Figure(name="CPU time of the scheduler for an empty task", value=1e3 * used / jobs, unit="ms", bar=None)
        yield Figure(name="CPU time of the client for an empty task", value=1e3 * used_here / jobs, unit="ms", bar=None)
        yield Figure(name=f"memory that {jobs:,} tasks left in the scheduler", value=grown / 2**20, unit="MiB", bar=None)
        workers = DaskWorkers(client, run_empty_job, 600.0)
        first = make_sample_job("finish", 0, folder)
        workers.submit(first).result(600)
        count = max(1, jobs // 100)
        began, used = time.perf_counter(), time.process_time()
        send_all(workers.count, count, lambda number: workers.submit(replace(first, trial_id=f"{number:020d}")))
        workers.close()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - used
    yield Figure(name=f"{count:,} empty trials with 2 Dask workers", value=count / seconds, unit="trials/s", bar=None)
    yield Figure(name="CPU time of the client for an empty trial", value=1e3 * cpu_seconds / count, unit="ms", bar=None)


def send_all(in_flight: int, count: int, send: Callable[[int], Any]) -> None:
    """Send a number of jobs, of which only some are in flight at a time, and wait for all."""
    free = threading.Semaphore(in_flight)
    for number in range(count):
        free.acquire()
        send(number).add_done_callback(lambda _: free.release())
    for _ in range(in_flight):
        free.acquire()


def read_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(psutil.Process(pid).memory_info().rss)


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def measure_trials(folder: Path) -> Iterator[Figure]:
    """Run trials of the quickstart, send their journals through compression, and import them, as a run on a cluster does."""
    cells = Experiment.from_toml(CHECKOUT / "experiments" / "quickstart").grid[:TRIALS]
    sizes, packed_sizes, trial_seconds, packing_seconds, import_seconds = [], [], [], [], []
    with open_output(folder / "output") as output:
        for cell in cells:
            job = Job(
                trial=cell.trial,
                trial_id=cell.trial_id,
                experiment="bench",
                arm=cell.arm,
                axes=cell.axes,
                backend="bubblewrap",
                provenance=collect_provenance(""),
                journal=output.locate_trial_journal(cell.trial_id),
            )
            began = time.perf_counter()
            finished = run_trial(job)
            trial_seconds.append(time.perf_counter() - began)
            sizes.append(job.journal.stat().st_size)
            packed = folder / "packed"
            began = time.process_time()
            packed_sizes.append(compress_journal(job.journal, packed))
            write_journal(split(packed.read_bytes()), job.journal)
            packing_seconds.append(time.process_time() - began)
            began = time.process_time()
            output.import_trial(finished)
            import_seconds.append(time.process_time() - began)
    stored = (folder / "output" / JOURNAL_FILE).stat().st_size / TRIALS
    text = f"a trial of the quickstart, median of {TRIALS}"
    yield Figure(name=f"time of {text}, no action cache", value=median(trial_seconds), unit="s", bar=None)
    yield Figure(name=f"journal of {text}", value=median(sizes) / 1024, unit="KiB", bar=None)
    yield Figure(name=f"journal of {text}, as it is sent", value=median(packed_sizes) / 1024, unit="KiB", bar=None)
    yield Figure(name="journal of the experiment, per trial", value=stored / 1024, unit="KiB", bar=None)
    yield Figure(
        name="CPU time of compressing and decompressing a journal", value=1e3 * median(packing_seconds), unit="ms", bar=None
    )
    yield Figure(name="CPU time of importing a journal", value=1e3 * median(import_seconds), unit="ms", bar=None)


if __name__ == "__main__":
    from tests.bench.cluster import cluster as measure  # a function of `__main__` cannot be sent to a worker

    for figure in measure(int(sys.argv[1])):
        print(figure.line(), flush=True)
