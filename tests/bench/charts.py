"""CPU time to compute and draw each chart of a report: here of a grid with 50 arms, in `demo` of the quickstart."""

import time
from collections.abc import Iterator

from harness.analysis.figures import FIGURES
from harness.analysis.figures.files import build_table
from harness.analysis.figures.style import render
from harness.analysis.tables import Tables
from tests.analysis.selections import grid
from tests.bench.figure import Figure

ARMS = 50
"""Number of arms of a large grid."""


def charts() -> Iterator[Figure]:
    summarizers = ("scripted/extractive", "scripted/empty")
    large = grid(thresholds=tuple(0.4 + 0.1 * place for place in range(6)), keeps=(4, 8, 12, 16), summarizers=summarizers)
    assert large.trials["arm"].nunique() == ARMS
    yield from measure(large)


def measure(results: Tables) -> Iterator[Figure]:
    """Measure each chart that the results have data for; the first drawing, which loads matplotlib, does not count."""
    arms = results.trials["arm"].nunique()
    for name, module in FIGURES.items():
        table = build_table(name, results)
        if table.empty:
            yield Figure(name=f"chart {name}", value=None, unit="s", bar=None, note="no data in these results")
            continue
        render(module.draw(table))
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
