"""Command `harness run`, which describes an experiment before it starts, runs it and prints its report."""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from harness.cli import options
from harness.compaction.description import find_summarizer
from harness.errors import format_count
from harness.experiment.experiment import Experiment, connect_cluster
from harness.experiment.limits import RunLimits, is_paid
from harness.experiment.preflight import choose_backends, collect_warnings
from harness.experiment.trial import Trial
from harness.models.factory import SAME_MODEL, resolve_summarizer_name
from harness.models.local.catalogue import is_local
from harness.models.prices import look_up_prices
from harness.models.registry import look_up_window
from harness.sandboxes.backends import BACKEND_CHOICES, BackendName
from harness.session.assembly import EXPLORE_MAX_STEPS
from harness.session.totals import add_costs

if TYPE_CHECKING:
    import pandas as pd

    from harness.store.results import Results

ASSUMED_REPLY_TOKENS = 4_000
"""Assumed number of tokens in the longest reply of a real model, used for the upper bound on the cost."""


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
    dry_run: bool,
) -> None:
    """Run an experiment; finished trials are not run again.

    EXPERIMENT is a folder with a plan.toml. Ctrl-C stops the run and keeps its finished trials; the same command continues it.

    The exit code is 1 when a trial crashed, failed because of its provider, sandbox or disk, or ended because its policy made an
    invalid edit. Failed checks of a task and trials that took too long do not change the exit code.

    Example: `harness run experiments/quickstart --dry-run`
    """
    limits = RunLimits(max_trials=max_trials, max_usd=max_usd, max_hours=max_hours)
    plan = Experiment.from_toml(experiment)
    if backend is not None:
        plan = plan.with_sandbox(backend)
    if no_cache or cache is not None:
        folder_mode: Literal["auto", "on"] = "on" if plan.settings.action_cache == "on" else "auto"  # a folder implies caching
        plan = plan.with_cache("off" if no_cache else folder_mode, cache)
    if cassette := options.choose_cassette(record, replay):
        plan = plan.with_cassette(cassette.path, cassette.mode)
    plan.check()
    click.echo(describe_plan(plan))
    client = None
    if cluster is None:
        click.echo(describe_sandboxes(plan, unsafe_local))
    else:
        client = connect_cluster(cluster)
        click.get_current_context().call_on_close(client.close)
        workers_text = format_count(len(client.nthreads()), "worker")  # type: ignore[no-untyped-call]
        click.echo(f"cluster: {workers_text} at {cluster}; sandboxes are tested on each machine")
    from harness.cli.report import print_current_report  # noqa: PLC0415  (imports pandas and scipy slowly; plan errors show first)

    click.echo(describe_comparability(plan))
    if dry_run:
        return
    folder = output or plan.output
    try:
        with print_warnings():
            results = plan.run(
                folder,
                workers=workers,
                progress=progress,
                retry_failed=retry_failed,
                unsafe_local=unsafe_local,
                executor=client,
                limits=limits,
            )
    except KeyboardInterrupt:
        click.echo("stopped; finished trials are kept, and the same command continues the run", err=True)
        raise click.exceptions.Exit(130) from None
    print_current_report(results, folder)
    missing = len(plan.grid) - count_finished(results, plan)
    if missing:
        click.echo(f"{format_count(missing, 'trial')} not run yet; the same command continues the run", err=True)
    trials = results.trials[results.trials["trial_id"].isin({cell.trial_id for cell in plan.grid})]
    failed = list(describe_failures(trials))
    for line in failed:
        click.echo(line, err=True)
    if failed:
        raise click.exceptions.Exit(1)


def count_finished(results: "Results", experiment: Experiment) -> int:
    """Return how many trials of an experiment's grid have results."""
    return len({cell.trial_id for cell in experiment.grid} & set(results.trials["trial_id"]))


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print warnings, such as those that name machines without a sandbox, as one line each."""

    def show(message: Warning | str, *_: object) -> None:
        click.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", category=UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


EXTERNAL_CAUSES = {"model_error": "provider", "sandbox_error": "sandbox", "store_error": "disk"}
"""Names of the causes, such as `provider`, of failures that the compared policies did not cause, by the trial's stop reason."""


def describe_failures(trials: "pd.DataFrame") -> Iterator[str]:
    """Yield one line of text for each cause of failed trials, with the way to run these trials again.

    Args:
        trials: Table with one row per trial and the columns `status`, `reason` and `error`.
    """
    crashed = int((trials["status"] == "crashed").sum())
    if crashed:
        yield f"{format_count(crashed, 'trial')} crashed; the same command runs crashed trials again"
    for reason, cause in EXTERNAL_CAUSES.items():
        lost = int((trials["reason"] == reason).sum())
        if lost:
            yield f"{format_count(lost, 'trial')} failed because of the {cause} ({reason}); --retry-failed runs such trials again"
    for error, count in trials[trials["reason"] == "repeated_crash"]["error"].value_counts().items():
        yield f"{format_count(count, 'trial')} crashed in every attempt: {error}; fix the error and use --retry-failed"
    broken = trials[trials["reason"] == "illegal_plan"]
    for error, count in broken["error"].value_counts().items():
        yield f"{format_count(count, 'trial')} ended by an error of the policy: {error}; fix the policy and use --retry-failed"


def describe_plan(experiment: Experiment) -> str:
    """Return a text that describes a planned run: number of trials, maximum cost, values of quantiles in the plan, warnings."""
    cells = experiment.grid
    trials = [cell.trial for cell in cells]
    counts = f"{format_count(len(cells), 'trial')}, {format_count(len({cell.arm for cell in cells}), 'arm')}"
    quantile_lines = (
        f"{path}={one.text} of {cell.trial.problem}: {one}" for cell in cells for path, one in cell.quantiles.items()
    )
    warnings = (f"warning: {text}" for text in collect_warnings(trials))
    lines = f"{experiment.name}: {counts}", f"cost: {describe_cost(trials)}", *dict.fromkeys(quantile_lines), *warnings
    return "\n".join(lines)


def describe_sandboxes(experiment: Experiment, unsafe_local: bool) -> str:
    """Return a text that names the sandboxes in which commands will run, after starting each sandbox once.

    Raises:
        SandboxUnavailable: No sandbox works; the message says what to install.
        UsageError: The plan asks for the sandbox `local` without `--unsafe-local`.
    """
    backends = choose_backends(experiment.grid, unsafe_local=unsafe_local)
    counts = Counter(backends.values())
    if len(counts) == 1:
        return f"sandbox: {next(iter(counts))}"
    return "sandbox: " + ", ".join(f"{name} of {format_count(count, 'trial')}" for name, count in sorted(counts.items()))


def describe_comparability(experiment: Experiment) -> str:
    """Return a text on what the planned trials can show about the difference of two arms (configurations)."""
    from harness.analysis.planning import PowerAssumptions, describe_power  # noqa: PLC0415  (loads scipy)

    settings, declared = experiment.settings, len(experiment.contrasts)
    assumptions = PowerAssumptions(discordance=settings.discordance, contrasts=max(1, declared), looks=settings.looks)
    power = describe_power(*experiment.count_tasks_and_seeds(), assumptions)
    family = f"declared contrasts: {declared}" + ("" if declared else "; all comparisons will be exploratory")
    return f"comparison of two arms: {power}\n{family}"


def describe_cost(trials: list[Trial]) -> str:
    """Return a text with an upper bound on the cost of the real models of some trials."""
    paid = [bounds for trial in trials if (bounds := compute_cost_bounds_usd(trial))]
    if not paid:
        if any(is_local(name) for trial in trials for name in trial.models):
            return "none, since all models are scripted (costs in the tables are simulated) or run on this machine"
        return "none, since all models are scripted (costs in the tables are simulated)"
    unknown = [bounds for bounds in paid if None in bounds.values()]
    known_usd = sum(bound or 0.0 for bounds in paid if None not in bounds.values() for bound in bounds.values())
    if not unknown:
        explores = any(trial.explore and compute_cost_bounds_usd(trial) for trial in trials)
        return f"at most ${known_usd:,.2f}" + (", if no step sends more than one sub-agent" if explores else "")
    names = ", ".join(sorted({name for bounds in unknown for name, bound in bounds.items() if bound is None}))
    what = f"the cost of {format_count(len(unknown), 'trial')} is unknown, since the price or the window of {names} is unknown"
    known_count = len(paid) - len(unknown)
    return f"at most ${known_usd:,.2f} for {format_count(known_count, 'trial')}; {what}" if known_count else what


def compute_cost_bounds_usd(trial: Trial) -> dict[str, float | None]:
    """Return the maximum cost in USD of each paid model of a trial, by model name; None for an unknown price or window.

    The bound assumes that every step sends a full window to the agent's model and to the summarizer, and that nothing is cached.
    With the tool `explore`, it assumes that every step starts one sub-agent, whose steps cost as much.
    """
    calls = _list_calls(trial, trial.model, trial.window_tokens, trial.max_steps)
    if trial.sub_agent_model is not None:
        window_tokens = trial.window_tokens if trial.explore_model == SAME_MODEL else None
        calls += _list_calls(trial, trial.sub_agent_model, window_tokens, trial.max_steps * EXPLORE_MAX_STEPS)
    bounds = dict[str, float | None]()
    for name, name_window_tokens, count in calls:
        if is_paid(name):
            bound = _compute_model_cost_bound_usd(name, name_window_tokens, count)
            bounds[name] = add_costs(bounds.get(name, 0.0), bound)
    return bounds


def _list_calls(trial: Trial, model: str, window_tokens: int | None, count: int) -> list[tuple[str, int | None, int]]:
    """Return name, window and number of calls of an agent's or sub-agent's model, and of its summarizer if that is another model.

    A window of None stands for the model's own window.
    """
    chosen = find_summarizer(trial.policy)
    summarizer = model if chosen is None else resolve_summarizer_name(chosen, model)
    return [(model, window_tokens, count), *([(summarizer, None, count)] if summarizer != model else [])]


def _compute_model_cost_bound_usd(name: str, window_tokens: int | None, calls: int) -> float | None:
    """Return the maximum cost in USD of a number of calls of a model; None if its price or its window is unknown."""
    window = look_up_window(name, window_tokens).tokens
    prices = [price for price in look_up_prices(name) if price.above_prompt_tokens < window]
    if not prices or not window:
        return None
    dearest = max(prices, key=lambda price: price.input_usd)
    full = replace(dearest, cache_read_usd=None, cache_write_usd=None)
    return calls * (window * full.input_usd + ASSUMED_REPLY_TOKENS * full.output_usd) / 1e6
