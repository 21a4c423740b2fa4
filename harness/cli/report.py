"""Command `harness report`, which writes the tables and charts of an experiment."""

from collections.abc import Sequence
from pathlib import Path

import click

from harness.analysis.chart_options import FORMATS, METRIC_NAMES, ChartOptions, Format
from harness.cli import options
from harness.cli.terminal import print_line
from harness.errors import UsageError
from harness.inspection.loading import SessionResults, load
from harness.inspection.stored_twins import LoadedResults
from harness.reporting.current_report import digest_sources, read_current_report
from harness.store.results import Results
from harness.store.sessions.lookup import OUTPUT_FOLDER


@click.command("report")
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="EXPERIMENT|JOURNAL...")
@click.option("--against", metavar="ARM", help="Compare each arm with this one.  [default: control and repeated arms]")
@click.option(
    "--output",
    type=options.FOLDER,
    help="Folder to write to.  [default: the folder of the results, or NAME-report for the (first) journal NAME.sqlite]",
)
@click.option(
    "--figures",
    metavar="[FORMAT]",
    type=click.Choice(list(FORMATS)),
    is_flag=False,
    flag_value="png",
    help="Draw all charts, as png (default), svg or pdf, and not only the first one.",
)
@click.option(
    "--metric",
    type=click.Choice(METRIC_NAMES),
    help="Metric of the charts.  [default: success, or score if success is constant]",
)
@click.option("--dark", is_flag=True, help="Draw the charts for a dark page.")
@click.option("--paper", is_flag=True, help="Draw the charts for the width of a printed page.")
@click.option("--full", is_flag=True, help="Print all sections, not only the summary, the table of arms and validity.")
@click.option("--explain", "row", metavar="ROW", help="Print the query and the trials behind each number of one row, and stop.")
@click.option("--methods", "as_methods", is_flag=True, help="Print a paragraph on the methods for a paper, and stop.")
@click.option("--html", "as_page", is_flag=True, help="Also write report.html, one page with charts, cells and transcripts.")
def command(
    places: tuple[Path, ...],
    against: str | None,
    output: Path | None,
    figures: Format | None,
    metric: str | None,
    dark: bool,
    paper: bool,
    full: bool,
    row: str | None,
    as_methods: bool,
    as_page: bool,
) -> None:
    """Show the results of an experiment and draw its charts.

    EXPERIMENT is the folder of an experiment or of its results, JOURNAL a journal file or a folder of journals such as
    `sessions`. The sessions in a journal have no outcomes; of these, the report shows totals and alerts. The arms of `harness
    gateway --arm` are compared in cost, steps, compactions, prompt tokens, and success as marked by `harness sessions mark`.
    Several journals are reported together, and their arms are pooled, so that all must have drawn among the same ones.

    The command writes summary.txt (what it prints), report.txt and report.md (all sections) and the chart of cost against score;
    `--figures` draws all charts. The report of a running or stopped experiment covers its finished trials. A report that is up to
    date is printed from its files and not drawn again.

    With --html, the command also writes report.html, which fetches nothing and can be sent to others. It contains the sessions
    of all trials or, if there are more than 200, a sample of them.

    With --explain, ROW is the first cell of a row of the report: an arm, or a comparison, `A against B`. With --methods, the
    paragraph names versions, levels, estimands, declared comparisons and exclusions, as they are stored with the trials.

    Example: `harness report experiments/quickstart --figures svg --metric cost`
    """
    if row is not None and as_methods:
        raise UsageError("--explain and --methods both print a text instead of the report; use one of them")
    results = _load_places(places)
    if row is not None or as_methods:
        from harness.cli.new_report import print_explanation, print_methods

        if row is None:
            print_methods(results)
        else:
            print_explanation(results, row)
        return
    place = places[0]
    more = f"-and-{len(places) - 1}-more" if len(places) > 1 else ""
    inside = place.with_name(f"{place.stem}{more}-report") if place.is_file() or more else place / OUTPUT_FOLDER
    chart_options = ChartOptions(
        file_format=figures,
        metric=metric,
        baseline=against,
        theme="dark" if dark else "light",
        width="paper" if paper else "notebook",
    )
    print_current_report(
        results,
        output or (inside if inside.is_dir() or place.is_file() or more else place),
        against,
        chart_options,
        full=full,
        as_page=as_page,
    )


def _load_places(places: Sequence[Path]) -> LoadedResults:
    """Load the results of one place, or the sessions of several journals together.

    Raises:
        UsageError: One of several places is no journal, or their sessions drew among different arms.
    """
    if len(places) == 1:
        return load(places[0])
    parts = [load(place) for place in places]
    for place, part in zip(places, parts, strict=True):
        if not isinstance(part, SessionResults):
            raise UsageError(
                f"{str(place)!r} is an experiment, and only journals are reported together; report it alone, or compare two "
                "experiments with `harness compare`"
            )
    from harness.analysis.random_arms import read_choices  # noqa: PLC0415  (loads pandas and scipy, which are slow)

    drawn = {place: sorted(set(read_choices(part.trials))) for place, part in zip(places, parts, strict=True)}
    if len({choice for choices in drawn.values() for choice in choices}) > 1:
        listed = "; ".join(
            f"{place}: {' and '.join(', '.join(choice) or 'no arm was drawn' for choice in choices)}"
            for place, choices in drawn.items()
        )
        raise UsageError(
            f"these journals cannot be pooled, because their sessions did not draw among the same arms ({listed}); report those "
            "together whose gateways had the same --arm options, and each other one alone"
        )
    return load(places)


def print_current_report(
    results: Results,
    folder: Path,
    against: str | None = None,
    chart_options: ChartOptions | None = None,
    *,
    full: bool = False,
    as_page: bool = False,
) -> None:
    """Print the report of an experiment (unless `full`, its short form) from its folder.

    A report that is missing or outdated is written first. With `as_page`, the report is also written as an HTML page.
    """
    made_from = digest_sources(results, against, chart_options or ChartOptions())
    text = read_current_report(results, folder, made_from, full=full, as_page=as_page)
    if text is not None:
        print_line(f"{text}\nnothing has changed since the report was written to {folder}")
        return
    from harness.cli.new_report import print_new_report

    print_new_report(results, folder, made_from, chart_options or ChartOptions(), against, full=full, as_page=as_page)
