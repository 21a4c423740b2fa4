"""Plan and output of the boundary probe of `harness replay`, imported only with `--probe`: what a probe needs is slow to load."""

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from harness.analysis.view_agreement import describe_asking, describe_probe, measure_view_agreement
from harness.cli.probe import ProbeOptions
from harness.cli.terminal import print_line
from harness.models.factory import SAME_MODEL
from harness.replay.probe import Probe, ProbePlan, plan_probe, run_probe
from harness.replay.sessions import Replay
from harness.replay.settings import DEFAULT_PROBE_BOUNDARIES, DEFAULT_PROBE_LIMIT_USD

TABLES = ("probe", "probe_answers")
"""Tables of a probe."""


def make_plan(chosen: ProbeOptions, replay: Replay, setting: str | None) -> ProbePlan:
    """Return what the probe would ask.

    Args:
        chosen: Options, `--probe` among them.
        replay: Replay of the sessions.
        setting: Setting to probe; None takes the cheapest of each policy.

    Raises:
        UsageError: The model or the setting is unknown, no boundary can be asked, or the cost is above the limit.
    """
    assert chosen.probe is not None
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("finding boundaries")
        return plan_probe(
            replay,
            chosen.probe,
            settings=[setting] if setting else (),
            summarizer=chosen.probe_summarizer or SAME_MODEL,
            boundaries=DEFAULT_PROBE_BOUNDARIES if chosen.probe_boundaries is None else chosen.probe_boundaries,
            limit_usd=DEFAULT_PROBE_LIMIT_USD if chosen.probe_limit_usd is None else chosen.probe_limit_usd,
            seed=chosen.probe_seed or 0,
            record=chosen.record,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )


def run_plan(plan: ProbePlan) -> Probe:
    """Say where texts will go and what that costs at most, ask, and print the answers' agreement."""
    print_line(plan.describe())
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("asking")
        probe = run_probe(plan, lambda done, total: progress.update(task, completed=done, total=total))
    for line in (*describe_probe(probe), *describe_asking(probe)):
        print_line(line)
    return probe


def write_tables(probe: Probe, folder: Path) -> tuple[str, ...]:
    """Write the agreement by setting with all counts, and the actions at each boundary, to a folder; return the files' names."""
    table = probe.counts.merge(measure_view_agreement(probe), on="setting")
    for name, one in zip(TABLES, (table, probe.answers), strict=True):
        one.to_csv(folder / f"{name}.csv", index=False)
    return TABLES
