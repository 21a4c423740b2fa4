"""`make studies`: simulate all designs, and write their results to `docs/simulated_studies.json` and into the documentation.

Exit with 1 if the intervals of a design miss the truth too often, or if too many of its claims are false.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from tests.bench.studies import STUDIES, Cell, Result, is_accepted, simulate_all, studies

DOCS = Path(__file__).parents[2] / "docs"
RESULTS, PAGE = DOCS / "simulated_studies.json", DOCS / "guide" / "reading-results.md"
BEGIN, END = "### How often the intervals are right\n", "## Glossary\n"
"""Headings of the page between which the sections stand."""

SECTIONS = """\
`make studies` simulates {studies:,} studies with known effects for each of {shown} designs, and writes this table. {refused} more
designs, with fewer than six tasks and one seed each, are refused. The designs have 1 to 24 tasks, 1, 5 or 20 seeds, success
rates of 0.3, 0.5 and 0.8, and effects of an arm that differ from task to task with a standard deviation of 0, 1 or 2 logits
(for cost: log units). Each line shows the worst of its designs.

- *Coverage*: share of 95 % intervals that contain the true effect, if it is 0, 10 or 20 points (cost: percent).
- *False claims*: share of studies that claim a difference although there is none.
- *Half-width*: smallest and largest median half-width of the interval without an effect (cost: of the logarithm of the ratio).
- *Power*: smallest and largest share of studies that find an effect of 10 or 20 points (cost: percent).

| metric | tasks | seeds | coverage, % | false claims, % | half-width | power at 10, % | power at 20, % |
|---|---:|---:|---:|---:|---:|---:|---:|
{rows}

Where effects differ much from task to task, more seeds do not help: only more tasks do.

### A paragraph for your paper

> We compared arms on the same tasks and seeds. With six tasks or more, the unit of analysis was the task: we averaged the paired
> differences (for tokens, steps and cost, the log-ratios) over the seeds of each task and report the mean over tasks with a 95 %
> Student's t interval and the p-value of a sign-flip test, exact up to 24 tasks; tasks that ran once were compared by Newcombe's
> interval and the exact McNemar test. With fewer tasks the results speak about these tasks only: intervals are those of Newcombe
> (success), of Gaffke for bounded variables, with half the weight for the extreme value (score), or Student's t on log-ratios
> (tokens, steps, cost) per task, combined over tasks by MOVER. The tests are the exact McNemar test for success on one task and a
> sign-flip test over pairs, weighted by the task, for success on several tasks and for scores. Differences are called significant
> only if interval and test agree. Exploratory p-values are adjusted by the method of Benjamini and Hochberg. In simulations with
> {studies:,} studies per design, the intervals covered the true effect in at least {coverage} % of studies, and at most
> {false_claims} % of studies without an effect claimed one.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate studies with known effects, and write the table of the documentation.")
    parser.add_argument("--page-only", action="store_true", help="write the page again from the file of results")
    if not parser.parse_args().page_only:
        write_results(simulate_all())
    results = read_results()
    write_page(results)
    for figure in studies(results):
        print(figure.line())
    return 0 if all(map(is_accepted, results)) else 1


def write_results(results: Sequence[Result]) -> None:
    """Write the results of all cells to the file of results, one line per cell."""
    lines = ",\n".join(f" {json.dumps(asdict(round_result(result)))}" for result in results)
    RESULTS.write_text(f'{{"studies": {STUDIES}, "cells": [\n{lines}\n]}}\n', "utf-8")


def read_results() -> list[Result]:
    """Return the results of all cells from the file of results."""
    cells = json.loads(RESULTS.read_text("utf-8"))["cells"]
    return [Result(**cell | {"cell": Cell(**cell["cell"]), "power": tuple(cell["power"])}) for cell in cells]


def round_result(result: Result) -> Result:
    """Return a result with the digits that are stored: shares to a tenth of a percent."""
    if result.refusal:
        return Result(cell=result.cell, refusal=result.refusal, coverage=0.0, false_claims=0.0, half_width=0.0)
    return Result(
        cell=result.cell,
        coverage=round(result.coverage, 3),
        false_claims=round(result.false_claims, 3),
        power=tuple(round(one, 3) for one in result.power),
        half_width=round(result.half_width, 2),
    )


def write_page(results: Sequence[Result]) -> None:
    """Replace the sections of the page of the documentation."""
    text = PAGE.read_text("utf-8")
    head, rest = text.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{build_sections(results)}{END}{rest.split(END)[1]}", "utf-8")


def read_sections() -> str:
    """Return the sections that the page of the documentation has."""
    return PAGE.read_text("utf-8").split(f"{BEGIN}\n")[1].split(END)[0]


def build_sections(results: Sequence[Result]) -> str:
    """Return the sections on the simulated studies."""
    shown = [result for result in results if not result.refusal]
    return SECTIONS.format(
        studies=STUDIES,
        shown=len(shown),
        refused=len(results) - len(shown),
        rows="\n".join(_build_rows(results)),
        coverage=_format_percent(min(one.coverage for one in shown)),
        false_claims=_format_percent(max(one.false_claims for one in shown)),
    )


def _build_rows(results: Sequence[Result]) -> Iterator[str]:
    for (metric, tasks, seeds), group in groupby(results, lambda one: (one.cell.metric, one.cell.tasks, one.cell.seeds)):
        cells = list(group)
        if all(cell.refusal for cell in cells):
            yield f"| {metric} | {tasks} | {seeds} | refused | | | | |"
            continue
        powers = [sorted(cell.power[place] for cell in cells) for place in range(2)]
        widths = sorted(cell.half_width for cell in cells)
        columns = (
            _format_percent(min(cell.coverage for cell in cells)),
            _format_percent(max(cell.false_claims for cell in cells)),
            f"{widths[0]:.2f}–{widths[-1]:.2f}",
            *(f"{100 * one[0]:.0f}–{100 * one[-1]:.0f}" for one in powers),
        )
        yield f"| {metric} | {tasks} | {seeds} | {' | '.join(columns)} |"


def _format_percent(share: float) -> str:
    return f"{100 * share:.1f}"


if __name__ == "__main__":
    sys.exit(main())
