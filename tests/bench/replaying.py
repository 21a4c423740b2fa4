"""CPU time of `harness replay` beside that of importing the same recordings, each in a process of its own.

All parts run with one worker and an empty cache. The import reads every file and builds its tables. The bill reads every file,
too, and prices what was run under the default rules, without a policy; the replay adds the default policies and thresholds.
Loading Python modules does not count, except those that are loaded where they are first needed.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figure import Figure

PLACE = Path(os.environ.get("HARNESS_TRAJECTORIES", Path(__file__).parents[3] / "shared" / "data" / "trajectories"))
RUNS = 3
PROGRAM = """
import resource, sys, time
from pathlib import Path
from harness.inspection.recording_folder import build_tables, read_folder
from harness.replay.sessions import replay_sessions
part, folder, cache = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
began = time.process_time()
if part == "import":
    build_tables(read_folder([folder], workers=1, cache_folder=cache))
elif part == "bill":
    replay_sessions(folder, policies=["none"], workers=1, cache_folder=cache)
else:
    replay_sessions(folder, workers=1, cache_folder=cache)
print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(part: str, cache: Path) -> tuple[float, float]:
    """Return the CPU time of a part in seconds and the largest memory of its process in MB."""
    command = [sys.executable, "-c", PROGRAM, part, str(PLACE), str(cache)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = re.findall(r"[\d.]+", printed)
    return float(seconds), float(megabytes)


def replaying() -> Iterator[Figure]:
    if not PLACE.is_dir():
        note = "no recorded sessions: set HARNESS_TRAJECTORIES to their folder"
        yield Figure(name="harness replay ÷ import of the same files", value=None, unit="×", bar=None, note=note)
        return
    seconds: dict[str, list[float]] = {"import": [], "bill": [], "replay": [], "again": []}
    megabytes = 0.0
    for _ in range(RUNS):  # interleaved, since a shared machine is slower at times
        with tempfile.TemporaryDirectory() as folder:
            for part in ("import", "bill", "replay"):
                took, used = measure(part, Path(folder) / part)
                seconds[part].append(took)
                megabytes = max(megabytes, used)
            seconds["again"].append(measure("replay", Path(folder) / "replay")[0])
    import_s, bill_s, replay_s, again_s = (statistics.median(values) for values in seconds.values())
    note = f"CPU: import {import_s:.2f} s, bill {bill_s:.2f} s, replay {replay_s:.2f} s; reading the files is part of each"
    yield Figure(
        name="harness replay, 16 settings ÷ import of the same files", value=replay_s / import_s, unit="×", bar=5, note=note
    )
    yield Figure(name="the bill alone ÷ import", value=bill_s / import_s, unit="×", bar=None)
    added = "the bill without reading the files again, ÷ import"
    yield Figure(name=added, value=(bill_s - import_s) / import_s, unit="×", bar=0.5)
    yield Figure(name="the same replay again, from its cache", value=again_s, unit="s", bar=None)
    yield Figure(name="largest memory of a process", value=megabytes, unit="MB", bar=1_000)
