"""Command `harness report`, which writes the tables and charts of an experiment."""

import multiprocessing
from pathlib import Path
from typing import Any

import click
import pebble
from rich.console import Console

from harness.analysis.report import TEXT_WIDTH, report, write_charts
from harness.cli import options
from harness.signals import end_with_parent
from harness.store.results import Results, load


@click.command("report")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--against", metavar="ARM", help="Compare each arm with this one.  [default: control and repeated arms]")
@click.option("--output", type=options.FOLDER, help="Folder to write to.  [default: the folder of the results]")
def command(experiment: Path, against: str | None, output: Path | None) -> None:
    """Show the tables and draw the charts of an experiment.

    EXPERIMENT is the folder of an experiment or of its results. The command writes report.txt, report.md and the charts. The
    report of a running or stopped experiment covers its finished trials.

    Example: `harness report experiments/quickstart`
    """
    results = load(experiment)
    inside = experiment / "output"
    print_report(results, output or (inside if inside.is_dir() else experiment), against)


def print_report(results: Results, folder: Path, against: str | None = None) -> None:
    """Print the report of an experiment and write it to a folder, while another process draws the charts."""
    pool: Any = pebble.ProcessPool(1, initializer=end_with_parent, context=multiprocessing.get_context("spawn"))
    try:
        charts = pool.schedule(_write_charts, args=(results.output, folder))
        document = report(results, against)
        console = Console(highlight=False)
        if console.is_terminal:
            console.print(document)
        else:
            click.echo(document.render_text(TEXT_WIDTH), nl=False)
        click.echo()
        for path in [*charts.result(), *document.write_texts(folder)]:
            click.echo(f"wrote {path}")
    finally:
        pool.stop()
        pool.join()


def _write_charts(output: Path, folder: Path) -> list[Path]:
    return write_charts(load(output), folder)
