"""Command `harness run`, which describes an experiment before it starts, runs it and prints its report."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from harness.analysis.planning import describe_comparability
from harness.cli import options
from harness.cli.report import print_current_report
from harness.cli.terminal import print_line
from harness.errors import PolicyWarning, format_count
from harness.experiment.experiment import Experiment, connect_cluster
from harness.experiment.forecast import Forecast, count_undeclared_trials, find_next_interim_analysis
from harness.experiment.limits import RunLimits
from harness.experiment.margins import read_margins
from harness.experiment.preflight import SandboxNeeds, choose_backends, describe_thresholds
from harness.models.cassette import Cassette
from harness.sandboxes.backends import BACKEND_CHOICES, BackendName
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE

if TYPE_CHECKING:
    from distributed import Client


@click.command("run")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--workers", type=options.POSITIVE, help="Number of trials run in parallel.  [default: number of processors]")
@click.option(
    "--cluster", metavar="ADDRESS", help="Run trials on the Dask cluster with this scheduler, such as tcp://10.0.0.5:8786."
)
@click.option(
    "--backend", type=click.Choice(BACKEND_CHOICES), help="Sandbox of all trials, instead of the plan's; gives new trial ids."
)
@options.UNSAFE_LOCAL
@click.option("--output", type=options.FOLDER, help="Folder for the results.  [default: EXPERIMENT/output]")
@click.option("--cache", type=options.FOLDER, help="Folder of the action cache, instead of the plan's.")
@click.option("--no-cache", is_flag=True, help="Run every sandbox command and grade every trial, without the action cache.")
@options.RECORD
@options.REPLAY
@click.option("--retry-failed", is_flag=True, help="Also rerun trials that failed because of provider, sandbox, disk or policy.")
@click.option(
    "--progress",
    type=click.Choice(["auto", "rich", "plain", "off"]),
    default="auto",
    envvar="HARNESS_PROGRESS",
    help="Progress display.",
)
@click.option("--max-trials", type=options.POSITIVE, help="Begin at most this many trials; the next run continues.")
@click.option("--max-usd", type=float, help="Begin no further trial once real models have cost this much in US dollars.")
@click.option("--max-hours", type=float, help="Begin no further trial after this many hours.")
@click.option("--pilot", is_flag=True, help="Run one trial of each task and model only, then show the expected cost and time.")
@click.option("--dry-run", is_flag=True, help="Check the plan and the sandbox and show the cost, without starting a trial.")
def command(
    experiment: Path,
    workers: int | None,
    cluster: str | None,
    backend: BackendName | None,
    unsafe_local: bool,
    output: Path | None,
    cache: Path | None,
    no_cache: bool,
    record: Path | None,
    replay: Path | None,
    retry_failed: bool,
    progress: str,
    max_trials: int | None,
    max_usd: float | None,
    max_hours: float | None,
    pilot: bool,
    dry_run: bool,
) -> None:
    """Run an experiment; finished trials are not run again.

    EXPERIMENT is a folder with a plan.toml. Ctrl-C stops the run and keeps its finished trials; the same command continues it.

    The exit code is 1 when a trial crashed, failed because of its provider, sandbox or disk, or ended because its policy made an
    invalid edit. Failed checks of a task and trials that took too long do not change the exit code.

    Example: `harness run experiments/quickstart --dry-run`
    """
    limits = RunLimits(max_trials=max_trials, max_usd=max_usd, max_hours=max_hours)
    plan = configure_cache(read_experiment(experiment, backend, options.choose_cassette(record, replay)), cache, is_off=no_cache)
    plan.check()
    folder = output or plan.output
    print_line(describe_plan(plan, plan.estimate(folder, workers=workers)))
    client = None
    if cluster is None:
        print_line(describe_sandboxes(plan, unsafe_local))
    else:
        client = connect_until_exit(cluster)
        print_line(describe_cluster(client, cluster))
    print_prospects(plan, folder)
    if dry_run:
        return
    with print_warnings(), exit_if_interrupted():
        results = plan.run(
            folder,
            workers=workers,
            progress=progress,
            retry_failed=retry_failed,
            unsafe_local=unsafe_local,
            executor=client,
            limits=limits,
            pilot=pilot,
        )
    if pilot:
        print_line(describe_forecast(plan.estimate(folder, workers=workers)))
    else:
        print_current_report(results, folder)
    if print_losses(folder, plan):
        raise click.exceptions.Exit(1)


def read_experiment(path: Path, backend: BackendName | None, cassette: Cassette | None) -> Experiment:
    """Read an experiment from a plan file, with the sandbox and the cassette that the command line names, if any.

    Raises:
        UsageError: The plan cannot be read, or a value in it is invalid.
    """
    experiment = Experiment.from_toml(path)
    if backend is not None:
        experiment = experiment.with_sandbox(backend)
    return experiment if cassette is None else experiment.with_cassette(cassette.path, cassette.mode)


def configure_cache(experiment: Experiment, folder: Path | None, *, is_off: bool) -> Experiment:
    """Return the experiment with the action cache in another folder, or without action cache.

    Args:
        experiment: Planned experiment.
        folder: Folder of the action cache, which implies caching even if the plan switches it off; None keeps the plan's folder.
        is_off: Whether to switch the action cache off.
    """
    if is_off:
        return experiment.with_cache("off", folder)
    if folder is None:
        return experiment
    return experiment.with_cache("on" if experiment.settings.action_cache == "on" else "auto", folder)


def connect_until_exit(address: str) -> "Client":
    """Connect to a Dask cluster and return its client, which is closed when the command ends.

    Raises:
        UsageError: The package `distributed` is not installed, or no scheduler answers at the address.
    """
    client = connect_cluster(address)
    click.get_current_context().call_on_close(client.close)
    return client


def describe_cluster(client: "Client", address: str) -> str:
    """Return a line of text with the number of workers of a Dask cluster."""
    workers = format_count(len(client.nthreads()), "worker")  # type: ignore[no-untyped-call]
    return f"cluster: {workers} at {address}; sandboxes are tested on each machine"


def print_prospects(experiment: Experiment, folder: Path) -> None:
    """Print what the trials can show about the difference of two arms, and whether the report can claim anything.

    Args:
        experiment: Planned experiment.
        folder: Output folder with the finished trials; it need not exist.
    """
    print_line(describe_comparability(experiment))
    if note := describe_next_interim_analysis(experiment, folder):
        print_line(note)
    if note := describe_margin_change(experiment.not_worse_margin, read_margins(folder)):
        print_line(note)


@contextmanager
def exit_if_interrupted() -> Iterator[None]:
    """End the command with exit code 130 if Ctrl-C interrupts the `with` block."""
    try:
        yield
    except KeyboardInterrupt:
        print_line("stopped; finished trials are kept, and the same command continues the run", to_stderr=True)
        raise click.exceptions.Exit(130) from None


def print_losses(folder: Path, experiment: Experiment) -> bool:
    """Print how many planned trials have no results, and why trials failed; return whether any trial failed.

    Args:
        folder: Output folder with the finished trials.
        experiment: Planned experiment.
    """
    endings = list_endings(folder, experiment)
    if missing := len(experiment.grid) - len(endings):
        print_line(f"{format_count(missing, 'trial')} not run yet; the same command continues the run", to_stderr=True)
    failures = list(describe_failures(endings))
    for line in failures:
        print_line(line, to_stderr=True)
    return bool(failures)


def describe_next_interim_analysis(experiment: Experiment, folder: Path) -> str:
    """Return a line of text that says whether the report after a run can claim anything, or an empty text if nothing is special.

    The report claims nothing if trials finished before the contrasts were declared, or if it would be one interim analysis too
    many, e.g. because the plan was extended by seeds after its outcomes were shown.

    Args:
        experiment: Planned experiment.
        folder: Output folder with the finished trials; it need not exist.

    Raises:
        StoreError: The journal or the record of interim analyses in the folder cannot be read.
    """
    if undeclared := count_undeclared_trials(experiment.grid, experiment.family, folder):
        return (
            f"warning: {format_count(undeclared, 'trial')} finished before these contrasts were declared, so nothing can be "
            "claimed; declare them in an experiment of another name, with new seeds"
        )
    declared, number = experiment.settings.looks, find_next_interim_analysis(experiment.grid, experiment.family, folder)
    if number is None or number == 1:
        return ""
    if number <= declared:
        return f"looks: the next report will be look {number} of {declared} at the outcomes"
    return (
        f"warning: the next report will be look {number} at the outcomes, and the plan declares "
        f"{format_count(declared, 'look')}, so nothing can be claimed; run the new trials as an experiment of another name, "
        "with new seeds"
    )


def describe_margin_change(margin: float | None, declared: Sequence[float | None]) -> str:
    """Return a warning if a plan declares another margin than its first run did, up to which an arm is called not worse.

    Args:
        margin: Margin that the plan declares now; None if it declares none.
        declared: Margins that its runs declared, in their order.
    """
    if not declared or declared[0] == margin:
        return ""
    first, now = ("none" if value is None else f"{value:g}" for value in (declared[0], margin))
    return (
        f"warning: not_worse_margin is {now} and was {first} at the first run, which counts; the report prints the change. Run "
        "an experiment of another name for another margin"
    )


class TrialEnding(NamedTuple):
    """Status of a finished trial, with the reason why it ended and the message of its error, if any."""

    status: str
    reason: str
    error: str


def list_endings(folder: Path, experiment: Experiment) -> list[TrialEnding]:
    """Return how those planned trials of an experiment ended that have results, read from the journal in the output folder."""
    with Journal.open(folder / JOURNAL_FILE, read_only=True) as journal:
        rows = journal.query("SELECT trial_id, status, reason, error FROM trial ORDER BY revision")
    endings = {trial_id: TrialEnding(*values) for trial_id, *values in rows}
    planned_ids = {cell.trial_id for cell in experiment.grid if cell.trial_id in endings}
    return [ending for trial_id, ending in endings.items() if trial_id in planned_ids]


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print each Python warning inside of the `with` block as one line, except for those that `describe_plan` has printed."""

    def show(message: Warning | str, *_: object) -> None:
        print_line(f"warning: {message}", to_stderr=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", category=UserWarning)
        warnings.simplefilter("ignore", category=PolicyWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


EXTERNAL_CAUSES = {"model_error": "provider", "sandbox_error": "sandbox", "store_error": "disk"}
"""Causes of failed trials for which the compared policies are not to blame, such as `provider`, by the trial's stop reason."""


def describe_failures(endings: Sequence[TrialEnding]) -> Iterator[str]:
    """Yield one line of text for each cause of failed trials, which also says how to run these trials again."""
    crashed = sum(ending.status == "crashed" for ending in endings)
    if crashed:
        yield f"{format_count(crashed, 'trial')} crashed; the same command runs crashed trials again"
    for reason, cause in EXTERNAL_CAUSES.items():
        lost = sum(ending.reason == reason for ending in endings)
        if lost:
            yield f"{format_count(lost, 'trial')} failed because of the {cause} ({reason}); --retry-failed runs such trials again"
    for error, count in Counter(ending.error for ending in endings if ending.reason == "repeated_crash").most_common():
        yield f"{format_count(count, 'trial')} crashed in every attempt: {error}; fix the error and use --retry-failed"
    for error, count in Counter(ending.error for ending in endings if ending.reason == "illegal_plan").most_common():
        yield f"{format_count(count, 'trial')} ended by an error of the policy: {error}; fix the policy and use --retry-failed"


def describe_plan(experiment: Experiment, forecast: Forecast | None = None) -> str:
    """Describe an experiment before it runs: number of trials, cost, time, settings given as quantiles, and thresholds.

    Warnings follow at the end.

    Args:
        experiment: Planned experiment.
        forecast: Forecast of the cost and time of the experiment; None estimates them from the experiment's own folder.
    """
    forecast = forecast or experiment.estimate()
    grid = experiment.grid
    counts = f"{format_count(len(grid), 'trial')}, {format_count(len(grid.arms), 'arm')}"
    quantile_lines = (
        f"{path}={quantile.text} of {cell.trial.problem}: {quantile}"
        for cell in grid.cells_with_quantiles
        for path, quantile in cell.quantiles.items()
    )
    trials = [trial for trial, _ in grid.iter_seed_groups()]
    warnings = (f"warning: {text}" for text in experiment.collect_warnings())
    plan_lines = [f"{experiment.name}: {counts}"]
    if forecast.finished_trials:
        left = len(grid) - forecast.finished_trials
        rest = f"{format_count(left, 'trial')} left to run" if left else "nothing is left to run"
        plan_lines.append(f"finished: {forecast.finished_trials} of {format_count(len(grid), 'trial')}; {rest}")
    if outdated := forecast.describe_outdated():
        plan_lines.append(f"revisions: {outdated}")
    replay = experiment.cassette is not None and experiment.cassette.mode == "replay"
    note = ("answers are replayed from a cassette and cost nothing; without it:",) if replay else ()
    details = (*dict.fromkeys(quantile_lines), *describe_thresholds(trials), *warnings)
    return "\n".join((*plan_lines, *note, describe_forecast(forecast), *details))


def describe_forecast(forecast: Forecast) -> str:
    """Return expected cost, maximum cost and expected duration of the trials still to run, as two lines."""
    return f"cost: {forecast.describe_cost()}\ntime: {forecast.describe_time()}"


def describe_sandboxes(experiment: Experiment, unsafe_local: bool) -> str:
    """Start each sandbox in which commands will run once, and return a text that names the sandboxes.

    Raises:
        SandboxUnavailable: No sandbox works; the message says what to install.
        UsageError: The plan asks for the sandbox `local` without `--unsafe-local`.
    """
    needs = SandboxNeeds().count(experiment.grid.iter_seed_groups())
    backends = choose_backends(needs, unsafe_local=unsafe_local)
    counts = Counter[str]()
    for need, count in needs.items():
        counts[backends[need]] += count
    if len(counts) == 1:
        return f"sandbox: {next(iter(counts))}"
    return "sandbox: " + ", ".join(f"{name} of {format_count(count, 'trial')}" for name, count in sorted(counts.items()))
