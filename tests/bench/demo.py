"""Quickstart experiment with bubblewrap, with an empty and with a filled action cache, and its report.

Measured are the wall time of the runs, the peak memory of a worker, the size of the journal, and the CPU time of the report with
its page and of every chart.
"""

import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from harness.inspection.loading import load
from tests.bench import charts
from tests.bench.figure import Figure
from tests.bench.large import PAGE_ACTION, PAGE_FILE, measure

QUICKSTART = Path(__file__).parents[2] / "experiments" / "quickstart"
LOOK_EVERY_SECONDS = 0.5


def demo() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        cold_seconds, peak_kib = run(Path(folder), "cold")
        warm_seconds, _ = run(Path(folder), "output")
        page = measure(PAGE_ACTION, Path(folder))
        command_seconds = run_report(Path(folder) / "output")
        page_bytes = (Path(folder) / "output" / PAGE_FILE).stat().st_size
        drawn = list(charts.measure(load(Path(folder) / "output")))
        steps = len(load(Path(folder) / "output").steps)
        step_kib = (Path(folder) / "output" / "journal.sqlite").stat().st_size / 1024 / steps
    yield Figure(name="quickstart, 2 workers, bubblewrap, cold action cache", value=cold_seconds, unit="s", bar=300.0)
    yield Figure(name="quickstart, the same from a warm action cache", value=warm_seconds, unit="s", bar=60.0)
    yield Figure(name="memory of the largest worker of the quickstart", value=peak_kib * 1024 / 1e6, unit="MB", bar=300.0)
    yield Figure(name="text and page of the quickstart's report", value=page.cpu_seconds, unit="CPU s", bar=6.0)
    yield Figure(
        name="harness report --html on the quickstart, with its start and a chart", value=command_seconds, unit="CPU s", bar=8.0
    )
    yield Figure(name="disk for a step of the quickstart, in its journal", value=step_kib, unit="KiB", bar=1.3)
    yield Figure(name="size of the quickstart's report page", value=page_bytes / 1e6, unit="MB", bar=30.0)
    yield from drawn


def run_report(results: Path) -> float:
    """Return the CPU seconds of the command that writes the report on finished results and its page, in all its processes."""
    script = str(Path(sys.executable).with_name("harness"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, script, "report", str(results), "--html"], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(folder: Path, output: str) -> tuple[float, int]:
    """Return the seconds of a run into an empty folder, and the peak memory of its largest worker in KiB."""
    script = str(Path(sys.executable).with_name("harness"))
    options = ["--backend", "bubblewrap", "--workers", "2", "--cache", str(folder / "cache"), "--output", str(folder / output)]
    began, peak_kib = time.perf_counter(), 0
    process = subprocess.Popen(
        [sys.executable, script, "run", str(QUICKSTART), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None:
        peak_kib = max(peak_kib, *workers_peak_kib(process.pid), 0)
        time.sleep(LOOK_EVERY_SECONDS)
    assert process.returncode == 0
    return time.perf_counter() - began, peak_kib


def workers_peak_kib(parent: int) -> list[int]:
    """Return the peak resident memory of each worker process so far. A worker is a child process with a sandbox of its own."""
    peaks: list[int] = []
    with suppress(psutil.NoSuchProcess):  # the run has just ended
        for worker in psutil.Process(parent).children():
            with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):  # the worker has just ended
                if any("spawn_main" in word for word in worker.cmdline()) and worker.children():
                    status = Path(f"/proc/{worker.pid}/status").read_text()
                    peaks += map(int, re.findall(r"^VmHWM:\s+(\d+)", status, re.MULTILINE))
    return peaks
