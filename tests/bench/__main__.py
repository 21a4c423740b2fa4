"""`make bench`: measure all figures; exit with 1 if a figure exceeds its limit or has a limit and cannot be measured here."""

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from harness.process import reduce_garbage_collection
from tests.bench import (
    attacks,
    charts,
    cluster,
    demo,
    editing,
    gateway,
    importing,
    lab,
    large,
    marching,
    overhead,
    panel,
    planning,
    reading,
    replaying,
    round_trips,
    starting,
    stopping,
    studies,
    suite,
    warm,
    widgets,
)
from tests.bench.figure import Figure, write

OUTPUT = Path(__file__).parents[2] / "bench.json"


IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
PARTS: Mapping[str, tuple[Callable[[], Iterable[Figure]], ...]] = {
    "starting": (starting.starts,),
    "overhead": (overhead.trivial, overhead.whole, overhead.scripted, overhead.operations, overhead.management),
    "editing": (editing.editing, editing.counterfactual, editing.edits, editing.live),
    "reading": (reading.reading,),
    "importing": (importing.importing,),
    "replaying": (replaying.replaying,),
    "round_trips": (round_trips.starts, partial(round_trips.round_trips, IMAGE)),
    "stopping": (stopping.stopping,),
    "demo": (demo.demo,),
    "warm": (warm.warm,),
    "marching": (marching.marching,),
    "planning": (planning.planning,),
    "charts": (charts.charts,),
    "large": (large.large,),
    "cluster": (cluster.cluster,),
    "attacks": (partial(attacks.attacks, IMAGE),),
    "widgets": (widgets.widgets,),
    "panel": (panel.streaming, panel.paging),
    "lab": (lab.streaming, lab.exploring, lab.browsing),
    "studies": (studies.studies,),
    "gateway": (gateway.gateway,),
    "suite": (suite.suite,),
}
"""Benchmarks by the name of their module, in the order in which they run."""


def main() -> int:
    """Measure the figures of the named parts, or all of them; only the figures of all parts are written to `bench.json`."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"parts to run, of {', '.join(PARTS)}; default: all, into bench.json"
    )
    chosen = parser.parse_args().parts
    if unknown := sorted({*chosen} - {*PARTS}):
        parser.error(f"unknown parts: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    reduce_garbage_collection()  # as in the commands and the workers of this package
    figures = []
    for name in chosen or PARTS:
        for figure in itertools.chain.from_iterable(measure() for measure in PARTS[name]):
            print(figure.line(), flush=True)
            figures.append(figure)
    if not chosen:
        write(figures, OUTPUT)
    return 0 if all(figure.ok for figure in figures if figure.bar is not None) else 1


if __name__ == "__main__":
    sys.exit(main())
