"""`make bench`: every figure beside its bar; exits with 1 if one is over."""

import itertools
import os
import sys
from pathlib import Path

from tests.bench import demo, marching, overhead, panel, planning, reading, round_trips, starting, warm, widgets
from tests.bench.figure import write

OUTPUT = Path(__file__).parents[2] / "bench.json"


def main() -> int:
    image = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
    parts = (
        starting.starts(),
        overhead.trivial(),
        overhead.scripted(),
        reading.reading(),
        round_trips.round_trips(image),
        demo.demo(),
        warm.warm(),
        marching.marching(),
        planning.planning(),
        widgets.widgets(),
        panel.streaming(),
        panel.paging(),
    )
    figures = []
    for figure in itertools.chain.from_iterable(parts):
        print(figure.line(), flush=True)
        figures.append(figure)
    write(figures, OUTPUT)
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
