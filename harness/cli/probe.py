"""Options of the boundary probe of `harness replay`, and its output."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from harness.analysis.view_agreement import describe_asking, describe_probe, measure_view_agreement
from harness.cli import options
from harness.cli.terminal import print_line
from harness.errors import UsageError
from harness.models.factory import SAME_MODEL
from harness.replay.probe import DEFAULT_BOUNDARIES, DEFAULT_LIMIT_USD, Probe, ProbePlan, plan_probe, run_probe
from harness.replay.sessions import Replay

TABLES = ("probe", "probe_answers")
"""Tables of a probe that `--csv` writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """Values of the options that begin with `--probe`, and of `--record`; None if an option is not given."""

    probe: str | None
    probe_boundaries: int | None
    probe_limit_usd: float | None
    probe_summarizer: str | None
    probe_seed: int | None
    record: Path | None

    def check(self) -> None:
        """Check that an option of the probe is given only with `--probe`.

        Raises:
            UsageError: It is not.
        """
        if self.probe is not None:
            return
        for name in ("probe_boundaries", "probe_limit_usd", "probe_summarizer", "probe_seed", "record"):
            if getattr(self, name) is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} has no effect without --probe MODEL; add it, or leave the option out"
                )

    def plan(self, replay: Replay, setting: str | None) -> ProbePlan | None:
        """Return what the probe would ask; None without `--probe`.

        Raises:
            UsageError: The model or the setting is unknown, no boundary can be asked, or the cost is above the limit.
        """
        if self.probe is None:
            return None
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("finding boundaries")
            return plan_probe(
                replay,
                self.probe,
                settings=[setting] if setting else (),
                summarizer=self.probe_summarizer or SAME_MODEL,
                boundaries=DEFAULT_BOUNDARIES if self.probe_boundaries is None else self.probe_boundaries,
                limit_usd=DEFAULT_LIMIT_USD if self.probe_limit_usd is None else self.probe_limit_usd,
                seed=self.probe_seed or 0,
                record=self.record,
                on_progress=lambda done, total: progress.update(task, completed=done, total=total),
            )


def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the probe to a command."""
    decorators = (
        click.option(
            "--probe",
            metavar="MODEL",
            help="Ask this model for its next action with the full and with the compacted view, where policies would have "
            "compacted. Sends texts of your sessions to the model.",
        ),
        click.option(
            "--probe-boundaries",
            type=options.POSITIVE,
            help=f"With --probe: largest number of boundaries for each policy.  [default: {DEFAULT_BOUNDARIES}]",
        ),
        click.option(
            "--probe-limit-usd",
            type=click.FloatRange(min=0),
            help=f"With --probe: cost in dollars above which nothing is asked.  [default: {DEFAULT_LIMIT_USD:g}]",
        ),
        click.option(
            "--probe-summarizer",
            metavar="MODEL",
            help="With --probe: model that writes the summaries of policies.  [default: the same model]",
        ),
        click.option(
            "--probe-seed", type=click.IntRange(min=0), help="With --probe: seed of the draw of boundaries.  [default: 0]"
        ),
        click.option(
            "--record",
            type=options.FILE,
            help="With --probe: cassette file with the answers, so that none is asked again.  [default: in your cache folder]",
        ),
    )
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def run_plan(plan: ProbePlan) -> Probe:
    """Say where texts will go and what that costs at most, ask, and print the answers' agreement."""
    print_line(plan.describe())
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("asking")
        probe = run_probe(plan, lambda done, total: progress.update(task, completed=done, total=total))
    for line in (*describe_probe(probe), *describe_asking(probe)):
        print_line(line)
    return probe


def write_tables(probe: Probe, folder: Path) -> None:
    """Write the agreement by setting with all counts, and the actions at each boundary, to files in a folder."""
    table = probe.counts.merge(measure_view_agreement(probe), on="setting")
    for name, one in zip(TABLES, (table, probe.answers), strict=True):
        one.to_csv(folder / f"{name}.csv", index=False)
