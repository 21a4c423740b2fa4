"""Start-up time of a command, without the start of the Python interpreter."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figure import Figure


def wall_seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def starts(repeats: int = 9) -> Iterator[Figure]:
    script = str(Path(sys.executable).with_name("harness"))
    times: dict[str, list[float]] = {"bare": [], "import": [], "help": []}
    for _ in range(repeats):
        times["bare"].append(wall_seconds(sys.executable, "-c", "pass"))
        times["import"].append(wall_seconds(sys.executable, "-c", "import harness"))
        times["help"].append(wall_seconds(sys.executable, script, "--help"))
    bare = statistics.median(times["bare"])
    yield Figure(name="import harness", value=statistics.median(times["import"]) - bare, unit="s", bar=0.3)
    yield Figure(name="harness --help", value=statistics.median(times["help"]) - bare, unit="s", bar=0.5)
