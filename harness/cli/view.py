"""Command `harness view`, which serves the report page of an experiment on this machine, also while the experiment runs."""

import threading
import webbrowser
from concurrent.futures import Future
from pathlib import Path

import click

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.process import install_signal_handler
from harness.reporting.page.live_results import LiveResults
from harness.reporting.page.server import serve_page


@click.command("view")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--against", metavar="ARM", help="Baseline at first.  [default: declared in the plan, or a control]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 = any free port.")
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
def command(experiment: Path, against: str | None, port: int, no_browser: bool) -> None:
    """Serve the report of an experiment as a page on this machine, with the transcripts of all its trials.

    EXPERIMENT is the folder of an experiment or of its results. The experiment may be running: the page shows its progress and
    the remaining time, and it is updated whenever a trial ends. If the plan declares contrasts, the page shows only the progress
    until all trials have finished. The address is printed at once; the page says what it waits for until the tables are read. The
    server is reachable from this machine only, at an address with a secret part that changes at every start. Ctrl-C stops it.

    Example: `harness view experiments/quickstart`
    """
    results = LiveResults(experiment, against)
    stop = threading.Event()
    with serve_page(results, port=port) as address, install_signal_handler(lambda _number, _frame: stop.set()):
        click.echo(address)
        click.echo("Ctrl-C stops the server", err=True)
        if not no_browser:
            webbrowser.open(address)
        prepared: Future[None] | None = _prepare_in_background(results)
        while not stop.wait(MAIN_THREAD_WAIT_SECONDS):
            if prepared is not None and prepared.done():
                prepared.result()  # an experiment without finished trials, or an unknown arm, is reported here
                click.echo("the page is ready", err=True)
                prepared = None


def _prepare_in_background(results: LiveResults) -> "Future[None]":
    """Read the results in a thread that does not keep the process alive, so that Ctrl-C works meanwhile."""
    prepared: Future[None] = Future()

    def prepare() -> None:
        try:
            results.prepare(lambda stage: click.echo(f"{stage} ...", err=True))
        except Exception as error:  # noqa: BLE001  (edge of the thread: the main thread raises it again)
            prepared.set_exception(error)
        else:
            prepared.set_result(None)

    threading.Thread(target=prepare, name="harness-view-tables", daemon=True).start()
    return prepared
