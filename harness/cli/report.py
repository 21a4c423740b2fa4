"""Command `harness report`, which writes the tables and charts of an experiment."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

import harness.analysis
import harness.reporting
import harness.store
from harness.analysis.figures.style import FORMATS, Format, Theme, Width
from harness.analysis.measures import METRICS
from harness.cli import options
from harness.cli.terminal import print_line
from harness.files.bounded_input import read_input
from harness.inspection.loading import load
from harness.reporting.experiment_report import TEXT_WIDTH, report, write_charts
from harness.store.database import replace_file
from harness.store.results import Results
from harness.store.sessions.lookup import OUTPUT_FOLDER


@click.command("report")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--against", metavar="ARM", help="Compare each arm with this one.  [default: control and repeated arms]")
@click.option(
    "--output",
    type=options.FOLDER,
    help="Folder to write to.  [default: the folder of the results, or NAME-report for the journal NAME.sqlite]",
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
    type=click.Choice(list(METRICS)),
    help="Metric of the charts.  [default: success, or score if success is constant]",
)
@click.option("--dark", is_flag=True, help="Draw the charts for a dark page.")
@click.option("--paper", is_flag=True, help="Draw the charts for the width of a printed page.")
@click.option("--full", is_flag=True, help="Print all sections, not only the summary, the table of arms and validity.")
@click.option("--html", "as_page", is_flag=True, help="Also write report.html, one page with charts, cells and transcripts.")
def command(
    experiment: Path,
    against: str | None,
    output: Path | None,
    figures: Format | None,
    metric: str | None,
    dark: bool,
    paper: bool,
    full: bool,
    as_page: bool,
) -> None:
    """Show the results of an experiment and draw its charts.

    EXPERIMENT is the folder of an experiment or of its results, a journal file, or a folder of journals such as `sessions`. The
    sessions in a journal have no outcomes; of these, the report shows totals and alerts.

    The command writes summary.txt (what it prints), report.txt and report.md (all sections) and the chart of cost against score;
    `--figures` draws all charts. The report of a running or stopped experiment covers its finished trials.

    With --html, the command also writes report.html, which fetches nothing and can be sent to others. It contains the sessions
    of all trials or, if there are more than 200, a sample of them.

    Example: `harness report experiments/quickstart --figures svg --metric cost`
    """
    results = load(experiment)
    inside = experiment.with_name(f"{experiment.stem}-report") if experiment.is_file() else experiment / OUTPUT_FOLDER
    chart_options = ChartOptions(
        file_format=figures,
        metric=metric,
        baseline=against,
        theme="dark" if dark else "light",
        width="paper" if paper else "notebook",
    )
    print_report(
        results,
        output or (inside if inside.is_dir() or experiment.is_file() else experiment),
        against,
        chart_options,
        full=full,
        as_page=as_page,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartOptions:
    """Options of the command `harness report` about charts: which charts are drawn, and how they look."""

    file_format: Format | None = None
    """File format of all charts; None draws only the first one, as PNG."""
    metric: str | None = None
    baseline: str | None = None
    theme: Theme = "light"
    width: Width = "notebook"


PAGE_FILE = "report.html"
MAX_REPORT_BYTES = 16 * 2**20
"""Maximum size of an earlier report's files that are read back."""
RECORD_FILE = "report.json"
"""Name of the file beside a report that lists the report's files, with a digest of the data and code behind them."""


def print_current_report(results: Results, folder: Path) -> None:
    """Print the report of an experiment from its folder; write it first if it is missing or outdated."""
    made_from = digest_report(results, None, ChartOptions())
    try:
        record = json.loads(read_input(folder / RECORD_FILE, MAX_REPORT_BYTES))
        paths = [folder / name for name in record["files"]]
        if made_from is None or record["made_from"] != made_from or not all(path.is_file() for path in paths):
            raise KeyError(made_from)
        text = read_input(folder / "summary.txt", MAX_REPORT_BYTES).decode()
    except (OSError, ValueError, TypeError, KeyError):
        print_report(results, folder)
        return
    print_line(f"{text}\nnothing has changed since the report was written to {folder}")


def print_report(
    results: Results,
    folder: Path,
    against: str | None = None,
    chart_options: ChartOptions | None = None,
    *,
    full: bool = False,
    as_page: bool = False,
) -> None:
    """Print the report of an experiment (unless `full`, its short form), and write it to a folder.

    With `as_page`, the report is also written as an HTML page.
    """
    chart_options = chart_options or ChartOptions(baseline=against)
    made_from = digest_report(results, against, chart_options)
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
    record = {"made_from": made_from, "files": [path.relative_to(folder).as_posix() for path in paths]}
    with replace_file(folder / RECORD_FILE) as unfinished:
        unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if as_page:
        from harness.reporting.page.document import write_page  # noqa: PLC0415  (imports what reads sessions)

        print_line(f"wrote {write_page(results, folder / PAGE_FILE, against=against, document=document)}")


def digest_report(results: Results, against: str | None, chart_options: ChartOptions) -> str | None:
    """Return a digest of all that determines a report: results, code, options of the charts, and the arm to compare with.

    An equal digest means that a report on disk is up to date. The result is None if the digest of the results is unknown.
    """
    if results.digest is None:
        return None
    digest = hashlib.sha256(f"{results.digest} {against!r} {chart_options!r}".encode())
    for path in list_sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def list_sources() -> list[Path]:
    """Return the files of this package, code and data, that decide what a report says."""
    folders = [Path(package.__path__[0]) for package in (harness.analysis, harness.reporting, harness.store)]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".json"})
