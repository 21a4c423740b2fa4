"""Measurement of one system in its own process; it uses only the standard library."""

import gc
import platform
import re
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.workload import make_outputs
from tests.peers.drivers.serving import serve

WARM_UP_STEPS = 5
EDITING_TRIGGER_TOKENS = 20_000
"""Number of tokens above which old tool results are cleared, in systems that edit."""
EDITING_KEPT_RESULTS = 3
"""Number of newest tool results that are never cleared."""

Run = Callable[[list[str], Path], int]
"""Function that runs a session, with one step for each tool output and a last one, and returns the tool results in its history.

It writes its log into a folder, if the system has one.
"""
Read = Callable[[Path], Any]
"""Function that reads the logs in a folder as a pandas frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """System under measurement."""

    run: Run
    packages: tuple[str, ...]
    """Names of the packages whose versions are reported."""
    readers: Mapping[str, Read] = field(default_factory=dict)
    """Functions that read logs, by the name of what a row of the frame holds: `messages` or `steps`."""
    record: Callable[[list[list[str]], Path], None] | None = None
    """Function that runs several sessions in the way the system is meant to; None runs one after the other."""

    def serve(self) -> None:
        """Answer the operations of the benchmark until its end."""
        serve({"versions": self.report_versions, "measure": self.measure, "record": self.record_sessions, "read": self.read})

    def report_versions(self) -> dict[str, str]:
        return {"Python": platform.python_version(), **{name: version(name) for name in self.packages}}

    def measure(self, steps: int, session: int, folder: str) -> dict[str, float]:
        """Run a session and return its CPU seconds and its bytes in memory and on disk.

        A short session before it makes the imports and first-time work of a process, which are not counted. Memory is the peak of
        the resident memory during the session, above that before it.
        """
        where = Path(folder)
        self._run(make_outputs(WARM_UP_STEPS), where / "warm-up")
        outputs = make_outputs(steps, session)
        gc.collect()
        before = reset_peak_memory()
        began = read_cpu_seconds()
        results = self._run(outputs, where / "measured")
        cpu_seconds = read_cpu_seconds() - began
        assert results == steps - 1, f"the history has {results} tool results instead of {steps - 1}"
        disk_bytes = sum(path.stat().st_size for path in (where / "measured").rglob("*") if path.is_file())
        return {"cpu_seconds": cpu_seconds, "memory_bytes": read_status("VmHWM") - before, "disk_bytes": disk_bytes}

    def _run(self, outputs: list[str], folder: Path) -> int:
        folder.mkdir(parents=True)
        return self.run(outputs, folder)

    def record_sessions(self, sessions: int, steps: int, folder: str) -> None:
        """Run sessions whose logs the operation `read` reads."""
        outputs = [make_outputs(steps, session) for session in range(sessions)]
        if self.record is not None:
            Path(folder).mkdir(parents=True)
            self.record(outputs, Path(folder))
            return
        for number, output in enumerate(outputs):
            self._run(output, Path(folder) / str(number))

    def read(self, sessions: int, steps: int, folder: str, rows: str) -> dict[str, float] | None:
        """Read the logs of a folder as a frame and return the CPU seconds and the memory; None if the system cannot."""
        import pandas as pd

        if rows not in self.readers:
            return None
        reader = self.readers[rows]
        gc.collect()
        before = reset_peak_memory()
        began = read_cpu_seconds()
        frame = reader(Path(folder))
        measured = {"cpu_seconds": read_cpu_seconds() - began, "memory_bytes": read_status("VmHWM") - before, "rows": len(frame)}
        assert isinstance(frame, pd.DataFrame)
        if rows == "messages":
            texts = "\0".join(map(str, frame["content"]))
            missing = sum(output not in texts for session in range(sessions) for output in make_outputs(steps, session))
            assert not missing, f"{missing} tool outputs are missing in the frame"
        assert len(frame) >= sessions * steps, f"the frame has {len(frame)} rows"
        return measured


def is_edited(outputs: list[str]) -> bool:
    """Return whether the outputs of a session are certainly more than the tokens above which they are cleared."""
    return sum(map(len, outputs[:-EDITING_KEPT_RESULTS])) > 5 * EDITING_TRIGGER_TOKENS


def read_cpu_seconds() -> float:
    """Return the CPU seconds of all threads of this process, and of its ended child processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def reset_peak_memory() -> int:
    """Set the peak of the resident memory back to its present size, and return that in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return read_status("VmRSS")


def read_status(name: str) -> int:
    """Return a size of this process in bytes, such as `VmRSS`."""
    match = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None
    return 1_024 * int(match[1])
