"""`make bench`: measure all figures; exit with 1 if a figure exceeds its limit or has a limit and cannot be measured here."""

import itertools
import os
import sys
from pathlib import Path

from tests.bench import (
    attacks,
    charts,
    cluster,
    demo,
    lab,
    large,
    marching,
    overhead,
    panel,
    planning,
    reading,
    round_trips,
    starting,
    stopping,
    studies,
    suite,
    warm,
    widgets,
)
from tests.bench.figure import write

OUTPUT = Path(__file__).parents[2] / "bench.json"


def main() -> int:
    image = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
    parts = (
        starting.starts(),
        overhead.trivial(),
        overhead.whole(),
        overhead.scripted(),
        overhead.operations(),
        overhead.management(),
        reading.reading(),
        round_trips.round_trips(image),
        stopping.stopping(),
        demo.demo(),
        warm.warm(),
        marching.marching(),
        planning.planning(),
        charts.charts(),
        large.large(),
        cluster.cluster(),
        attacks.attacks(image),
        widgets.widgets(),
        panel.streaming(),
        panel.paging(),
        lab.streaming(),
        lab.exploring(),
        studies.studies(),
        suite.suite(),
    )
    figures = []
    for figure in itertools.chain.from_iterable(parts):
        print(figure.line(), flush=True)
        figures.append(figure)
    write(figures, OUTPUT)
    return 0 if all(figure.ok for figure in figures if figure.bar is not None) else 1


if __name__ == "__main__":
    sys.exit(main())
