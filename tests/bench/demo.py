"""The quickstart from an empty folder with bubblewrap: wall time, and the largest process below it."""

import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figure import Figure
from tests.bench.starting import wall_seconds

QUICKSTART = Path(__file__).parents[2] / "experiments" / "quickstart"


def demo() -> Iterator[Figure]:
    script = str(Path(sys.executable).with_name("harness"))
    with tempfile.TemporaryDirectory() as folder:
        options = ("--backend", "bubblewrap", "--workers", "2", "--output", folder)
        seconds = wall_seconds(sys.executable, script, "run", str(QUICKSTART), *options)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Figure(name="quickstart, 2 workers, bubblewrap, from nothing", value=seconds, unit="s", bar=300.0)
    yield Figure(name="largest process of the quickstart (workers and parent)", value=peak, unit="MiB", bar=300.0)
