"""Options of the boundary probe of `harness replay`, apart from `harness.cli.probe_run`, which most replays need not load."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from harness.cli import options
from harness.errors import UsageError
from harness.replay.settings import DEFAULT_PROBE_BOUNDARIES, DEFAULT_PROBE_LIMIT_USD


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
            help=f"With --probe: largest number of boundaries for each policy.  [default: {DEFAULT_PROBE_BOUNDARIES}]",
        ),
        click.option(
            "--probe-limit-usd",
            type=click.FloatRange(min=0),
            help=f"With --probe: cost in dollars above which nothing is asked.  [default: {DEFAULT_PROBE_LIMIT_USD:g}]",
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
