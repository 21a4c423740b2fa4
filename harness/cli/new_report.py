"""Computing, printing and writing of a new report, apart from the command, because analysis and charts are slow to load."""

from pathlib import Path

import click
from rich.console import Console

from harness.analysis.chart_options import ChartOptions
from harness.cli.terminal import print_line
from harness.errors import format_count
from harness.reporting.current_report import PAGE_FILE, record_report
from harness.reporting.experiment_report import TEXT_WIDTH, Report, report, write_charts
from harness.reporting.explanations import explain_row
from harness.reporting.methods import write_methods
from harness.reporting.page.document import write_page
from harness.store.results import Results


def print_new_report(
    results: Results,
    folder: Path,
    made_from: str | None,
    chart_options: ChartOptions,
    against: str | None = None,
    *,
    full: bool = False,
    as_page: bool = False,
) -> None:
    """Print the report of an experiment (unless `full`, its short form), and write it to a folder.

    With `as_page`, the report is also written as an HTML page. `made_from` is the digest of the report's sources.
    """
    document = report(results, against)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(document.expand() if full else document)
    else:
        click.echo(document.render_text(TEXT_WIDTH, full=full), nl=False)
    click.echo()
    charts = write_charts(
        results,
        folder,
        chart_options.file_format,
        metric=chart_options.metric,
        baseline=chart_options.baseline,
        theme=chart_options.theme,
        width=chart_options.width,
    )
    paths = [*charts, *document.write_texts(folder)]
    for path in paths:
        print_line(f"wrote {path}")
    if as_page:
        page = write_page(results, folder / PAGE_FILE, against=against, document=document)
        print_line(f"wrote {page}")
        paths.append(page)
    record_report(results, folder, made_from, paths)


def print_explanation(results: Results, row: str) -> None:
    """Print the query and the trials behind each number of a row of the report.

    Raises:
        UnknownName: The report has no such row.
    """
    sections = explain_row(results, row)
    title = f"{row}, in the report on {format_count(len(results.trials), 'trial')} in {results.output}"
    document = Report(title=title, sections=sections, results=results)
    click.echo(document.render_text(TEXT_WIDTH, full=True), nl=False)


def print_methods(results: Results) -> None:
    """Print a paragraph on the methods of an experiment."""
    print_line(write_methods(results))
