"""CPU time to compute and draw each chart of a report: of results like those of the quickstart, and of a grid with 50 arms."""

import time
from collections.abc import Iterator

from harness.analysis.figures import FIGURES
from harness.analysis.figures.files import build_table
from harness.analysis.figures.style import render
from harness.analysis.tables import Tables
from tests.analysis.made import grid
from tests.bench.figure import Figure

TRIALS = 168
"""Number of trials of the quickstart."""
ARMS = 50
"""Number of arms of a large grid."""


def charts() -> Iterator[Figure]:
    summarizers = ("scripted/extractive", "scripted/empty")
    results = grid(thresholds=(0.5, 0.8), keeps=(10,), summarizers=summarizers, seeds=tuple(range(28)))
    assert (len(results.trials), results.trials["arm"].nunique()) == (TRIALS, 6)
    yield from measure(results)
    large = grid(thresholds=tuple(0.4 + 0.1 * place for place in range(6)), keeps=(4, 8, 12, 16), summarizers=summarizers)
    assert large.trials["arm"].nunique() == ARMS
    yield from measure(large)


def measure(results: Tables) -> Iterator[Figure]:
    arms = results.trials["arm"].nunique()
    for name, module in FIGURES.items():
        table = build_table(name, results)
        if table.empty:
            yield Figure(name=f"chart {name}", value=None, unit="s", bar=None, note="no data in made results")
            continue
        render(module.draw(table))  # loads matplotlib
        began = time.process_time()
        render(module.draw(build_table(name, results)))
        yield Figure(
            name=f"chart {name} of {len(results.trials)} trials of {arms} arms, CPU",
            value=time.process_time() - began,
            unit="s",
            bar=1.0,
        )


if __name__ == "__main__":
    for figure in charts():
        print(figure.line(), flush=True)
