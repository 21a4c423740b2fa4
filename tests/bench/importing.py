"""CPU time and memory of importing a folder of recordings, beside parsing the same bytes with `json.loads`.

The files are copies of the shared recordings, each with other ids, so that no file or call is known from another one. The folder
of shared recordings is that of the tests of importers (`HARNESS_TRAJECTORIES`). Memory is that of all processes together, with
shared pages counted once.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.bench.figure import Figure
from tests.recordings.test_recording import PLACE

FILES = 500
LARGE_FILES, LARGE_BYTES = 1_000, 1_350_000
"""Number of files of the large folder, and least size of the files that are copied into it: 2 GB together."""
SAMPLE_SECONDS = 0.2
IMPORT = """
import sys
from harness.inspection.recording_folder import load_sessions
load_sessions(sys.argv[1], cache_folder=sys.argv[2])
"""
ID_BEGINNINGS = (b'"msg_', b'"req_', b'"toolu_', b'"uuid":"', b'"uuid": "')


class ImportCost(NamedTuple):
    """CPU time and peak memory of an import."""

    cpu_seconds: float
    peak_mb: float


def importing() -> Iterator[Figure]:
    originals = [path for path in sorted(PLACE.rglob("*")) if path.suffix in {".json", ".jsonl", ".traj"}]
    if not originals:
        yield Figure(name=f"import of {FILES} recordings", value=None, unit="×", bar=6.0, note="no recorded sessions here")
        return
    with tempfile.TemporaryDirectory() as folder:
        copy_files(originals, Path(folder), FILES)
        parsing = measure_parsing(Path(folder))
        cost = measure_import(Path(folder))
        name = f"import of {FILES} recordings"
        yield Figure(name=f"{name} : json.loads", value=cost.cpu_seconds / parsing, unit="×", bar=6.0)
        yield Figure(name=f"{name}, CPU", value=cost.cpu_seconds, unit="s", bar=None)
        yield Figure(name=f"{name}, peak memory", value=cost.peak_mb, unit="MB", bar=500.0)
    with tempfile.TemporaryDirectory() as folder:
        copy_files([path for path in originals if path.stat().st_size >= LARGE_BYTES], Path(folder), LARGE_FILES)
        yield Figure(name="import of 2 GB, peak memory", value=measure_import(Path(folder)).peak_mb, unit="MB", bar=500.0)


def copy_files(originals: Sequence[Path], folder: Path, count: int) -> None:
    """Write copies of some recordings in turn, each with ids of its own."""
    for number in range(count):
        original, copy = originals[number % len(originals)], number // len(originals)
        data = original.read_bytes()
        for beginning in ID_BEGINNINGS:
            data = data.replace(beginning, beginning + b"%03d" % copy)
        place = folder / original.parent.name / f"{copy:03}-{original.name}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data + b" " * copy + b"\n")  # files without such ids differ, too


def measure_parsing(folder: Path) -> float:
    """Return the CPU seconds to read all files of a folder and parse them, as a whole or by line."""
    began = time.process_time()
    for path in (path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        try:
            json.loads(data)
        except ValueError:
            for line in data.splitlines():
                try:
                    json.loads(line)
                except ValueError:
                    continue  # two rows on a line
    return time.process_time() - began


def measure_import(folder: Path) -> ImportCost:
    """Return CPU time and peak memory of an import with an empty cache, in processes of its own."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        process = psutil.Popen([sys.executable, "-c", IMPORT, str(folder), cache], env=environment)
        seconds: dict[int, float] = {}
        peak_bytes = 0
        while process.poll() is None:
            used_bytes = 0
            for member in [process, *process.children(recursive=True)]:
                try:
                    times = member.cpu_times()
                    used_bytes += member.memory_full_info().pss
                except psutil.Error:
                    continue  # it has ended
                seconds[member.pid] = times.user + times.system
            peak_bytes = max(peak_bytes, used_bytes)
            time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "import")
    return ImportCost(sum(seconds.values()), peak_bytes / 2**20)


if __name__ == "__main__":
    for figure in importing():
        print(figure.line(), flush=True)
