"""CPU time of `harness replay` beside that of importing the same recordings, measured in two ways, with empty caches.

*Work*: one process reads every file and builds the tables. The bill reads every file, too, and prices what was run under the
default rules, without a policy and without what was used later; the replay adds the default policies and thresholds, and the
words used later. Loading Python modules does not count, except those that are loaded where they are first needed.

*Command*: the whole command as a user starts it, with its worker processes, the start of Python and all modules. The bill alone
is measured as what it takes beyond the import, since both read the same files.
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
WORK = """
import resource, sys, time
from pathlib import Path
from harness.inspection.recording_folder import build_tables, read_folder
from harness.replay.sessions import replay_sessions
part, folder, cache = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
began = time.process_time()
if part == "import":
    build_tables(read_folder([folder], workers=1, cache_folder=cache))
else:
    replay_sessions(folder, bill_only=part == "bill", workers=1, cache_folder=cache)
print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
COMMAND = """
import ctypes, os, resource, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36  # so that the server of the worker processes, which outlives the command, becomes a child of this one
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
os.environ["XDG_CACHE_HOME"] = sys.argv[1]
program = "import sys; from harness.cli import main; sys.exit(main())"
subprocess.run([sys.executable, "-c", program, *sys.argv[2:]], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    while True:
        os.wait()
except ChildProcessError:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
COMMANDS = {"import": ["import", str(PLACE)], "bill": ["replay", str(PLACE), "--bill"], "replay": ["replay", str(PLACE)]}


def measure(program: str, *arguments: str) -> tuple[float, float]:
    """Return the CPU time in seconds and the largest memory of a process in MB, as a program of this module prints them."""
    printed = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True).stdout
    seconds, megabytes = re.findall(r"[\d.]+", printed)
    return float(seconds), float(megabytes)


def replaying() -> Iterator[Figure]:
    if not PLACE.is_dir():
        note = "no recorded sessions: set HARNESS_TRAJECTORIES to their folder"
        yield Figure(name="harness replay ÷ import of the same files", value=None, unit="×", bar=None, note=note)
        return
    seconds: dict[str, list[float]] = {}
    megabytes = 0.0
    for _ in range(RUNS):  # interleaved, since a shared machine is slower at times
        with tempfile.TemporaryDirectory() as folder:
            for part, arguments in COMMANDS.items():
                took, used = measure(WORK, part, str(PLACE), f"{folder}/{part}")
                seconds.setdefault(f"work {part}", []).append(took)
                seconds.setdefault(f"command {part}", []).append(measure(COMMAND, f"{folder}/command-{part}", *arguments)[0])
                megabytes = max(megabytes, used)
            seconds.setdefault("again", []).append(measure(WORK, "replay", str(PLACE), f"{folder}/replay")[0])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for way in ("work", "command"):
        import_s, bill_s, replay_s = (medians[f"{way} {part}"] for part in COMMANDS)
        note = f"CPU: import {import_s:.2f} s, bill {bill_s:.2f} s, replay {replay_s:.2f} s; reading the files is part of each"
        yield Figure(
            name=f"harness replay, 16 settings ÷ import of the same files, {way}",
            value=replay_s / import_s,
            unit="×",
            bar=5,
            note=note,
        )
        added = f"the bill alone beyond the import, ÷ import, {way}"
        yield Figure(name=added, value=(bill_s - import_s) / import_s, unit="×", bar=0.5)
    yield Figure(name="the same replay again, from its cache", value=medians["again"], unit="s", bar=None)
    yield Figure(name="largest memory of a process", value=megabytes, unit="MB", bar=1_000)
