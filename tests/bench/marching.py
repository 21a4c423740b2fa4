"""CPU time of a step of a `long-march` trial, and of a step in its last tenth compared with the first tenth.

The CPU time of the trial is all that its process spends until the trial is recorded, with metrics, grading and journal. The
runner runs the trial in a process of its own, with the CPU time of the process as the clock of the trial, so that the journal
contains the CPU time of each step. Commands in the sandbox run in other processes and count in the wall time only. Summaries are
included; their rate is constant.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from harness.compaction.presets.keep_last import KeepLast
from harness.experiment.job import Job, collect_provenance
from harness.experiment.run_trial import run_trial
from harness.experiment.trial import Trial
from harness.store.journal import Journal
from harness.task import World
from tests.bench.figure import Figure

STEPS = 10_000
SHORT = 120
"""Number of steps of a warm-up session, so that the measured session does not import libraries."""


class Clock:
    """Clock of the CPU time of this process, which records the wall time of each call."""

    def __init__(self) -> None:
        self._cpu, self._wall = array("d"), array("d")

    def __call__(self) -> float:
        self._cpu.append(time.process_time())
        self._wall.append(time.monotonic())
        return self._cpu[-1]

    def wall_at(self, cpu_ms: int) -> float:
        """Return the wall time in seconds at which the clock first showed this CPU time."""
        return self._wall[bisect_left(self._cpu, cpu_ms / 1_000)]


def own_peak_kib() -> int:
    """Return the peak resident memory of this process in KiB. `getrusage` may return the peak of the parent process."""
    (peak,) = re.findall(r"^VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(peak)


def measured(steps: int) -> dict[str, float]:
    """Return the milliseconds of a step in the first tenth, in the last tenth and in the whole trial, and the peak memory."""
    policy = KeepLast(summarizer="scripted/extractive")
    trial = Trial(task="long-march", policy=policy, window_tokens=32_768, max_steps=2 * steps, world=World(steps=steps))
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            trial=trial, trial_id="march", experiment="bench", arm="march", axes={}, backend="bubblewrap",
            provenance=collect_provenance("none"), journal=Path(folder) / "journal.sqlite",
        )  # fmt: skip
        clock = Clock()
        began, began_wall = time.process_time(), time.monotonic()
        finished = run_trial(job, clock=clock)
        spent, spent_wall = time.process_time() - began, time.monotonic() - began_wall
        peak_kib = own_peak_kib()
        with Journal.open(job.journal) as journal:
            marks = [row[0] for row in journal.query("SELECT at_ms FROM event WHERE kind = 'step-finished' ORDER BY seq")]
    assert finished.record.status == "completed", finished.record.error
    tenth = len(marks) // 10
    on_wall = [clock.wall_at(mark) for mark in marks]
    return {
        "steps": len(marks),
        "compactions": finished.record.compactions,
        "score": finished.record.score,
        "first_ms": (marks[tenth] - marks[0]) / tenth,
        "last_ms": (marks[-1] - marks[-1 - tenth]) / tenth,
        "first_wall_ms": 1_000 * (on_wall[tenth] - on_wall[0]) / tenth,
        "last_wall_ms": 1_000 * (on_wall[-1] - on_wall[-1 - tenth]) / tenth,
        "trial_ms": 1_000 * spent / len(marks),
        "trial_wall_ms": 1_000 * spent_wall / len(marks),
        "peak_mib": peak_kib / 1024,
    }


def marching(steps: int = STEPS) -> Iterator[Figure]:
    process = subprocess.run([sys.executable, "-m", __name__, str(steps)], capture_output=True, text=True, check=True)
    measurement = json.loads(process.stdout)
    name = f"long-march of {steps:,} steps"
    yield Figure(
        name=f"{name}, CPU: last tenth ÷ first tenth", value=measurement["last_ms"] / measurement["first_ms"], unit="×", bar=1.3
    )
    yield Figure(
        name=f"{name}, on the wall: last tenth ÷ first tenth",
        value=measurement["last_wall_ms"] / measurement["first_wall_ms"],
        unit="×",
        bar=None,
    )
    yield Figure(name=f"{name}, peak memory", value=measurement["peak_mib"], unit="MiB", bar=300.0)
    yield Figure(name=f"{name}, CPU of a step, whole trial", value=measurement["trial_ms"], unit="ms", bar=None)
    yield Figure(name=f"{name}, a step on the wall, whole trial", value=measurement["trial_wall_ms"], unit="ms", bar=None)


if __name__ == "__main__":
    measured(SHORT)
    print(json.dumps(measured(int(sys.argv[1]))))
