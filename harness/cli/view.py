"""Command `harness view`, which serves the report page of an experiment on this machine, also while the experiment runs."""

import threading
import webbrowser
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
    until all trials have finished. The server is reachable from this machine only, at an address with a secret part that changes
    at every start. Ctrl-C stops the server.

    Example: `harness view experiments/quickstart`
    """
    results = LiveResults(experiment, against)
    _ = results.page  # an experiment without finished trials, or an unknown arm, is reported here
    stop = threading.Event()
    with serve_page(results, port=port) as address, install_signal_handler(lambda _number, _frame: stop.set()):
        click.echo(address)
        click.echo("Ctrl-C stops the server", err=True)
        if not no_browser:
            webbrowser.open(address)
        while not stop.wait(MAIN_THREAD_WAIT_SECONDS):
            pass
