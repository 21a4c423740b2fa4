"""Command `harness replay`, which shows what recorded sessions would have cost under other compaction settings."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import pandas as pd
from rich.console import Console
from rich.progress import Progress

from harness.cli import options, probe
from harness.cli.terminal import build_table, format_line, list_first, print_line, print_parts
from harness.errors import UsageError
from harness.inspection.recording_folder import list_installed_folders
from harness.replay.excerpts import Excerpt, list_excerpts
from harness.replay.forecast import check_forecast, describe_check, make_forecast, read_forecast, save_forecast
from harness.replay.sentences import (
    PART_NAMES,
    build_headline,
    describe_agreement,
    describe_method,
    describe_reading,
    describe_rule_name,
    describe_settings,
    format_usd,
    list_uncounted,
    sum_paid,
)
from harness.replay.sessions import SIMULATED, Replay, replay_sessions
from harness.replay.settings import DEFAULT_POLICIES, DEFAULT_THRESHOLDS, format_thousands, parse_thresholds
from harness.text import format_percent

if TYPE_CHECKING:
    from harness.replay.probe import Probe, ProbePlan

TABLES = ("sessions", "settings", "costs", "boundaries", "survival")
"""Tables that `--csv` writes."""
BILL_TABLES = ("sessions", "costs")
"""Tables that `--csv` writes with `--bill`."""
MAX_SETTINGS = 3
"""Number of settings in the summary; `--full` lists all."""
_THRESHOLDS = ",".join(map(format_thousands, DEFAULT_THRESHOLDS))


@click.command("replay")
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option("--policies", metavar="NAMES", help="Policies, with commas.  [default: four, see above]")
@click.option("--thresholds", metavar="TOKENS", help=f"Thresholds, with commas.  [default: {_THRESHOLDS}]")
@click.option(
    "--rules",
    metavar="NAMES",
    help="Price rules, with commas, each with an optional lifetime.  [default: three, see above]",
)
@click.option("--file", type=options.FILE, help="TOML file with price rules of your own, which are added to the shipped ones.")
@click.option(
    "--reread",
    metavar="TOKENS",
    help="Tokens read again after each compaction: low end, middle and high end, with commas, or the word simulated.  "
    "[default: 0,10K,20K, assumed]",
)
@click.option(
    "--bill", is_flag=True, help="Show only what you paid for; no setting is tried, which takes a fraction of the time."
)
@click.option("--page", type=options.FILE, help="Write one HTML page with everything to this file; it fetches nothing.")
@click.option("--csv", type=options.FOLDER, help="Write the tables of sessions, settings and costs to files in this folder.")
@click.option(
    "--excerpts",
    is_flag=True,
    help="Add the words used later with the text around them to page and tables, with keys and home folders masked.",
)
@click.option("--freeze", type=options.FILE, help="Store the predicted bill of the setting --setting in this new file.")
@click.option(
    "--setting",
    metavar="NAME",
    help="With --freeze or --probe: the setting, e.g. 'claude-code at 80K'.  [default: the chosen one; for a probe, the "
    "cheapest of each policy]",
)
@click.option("--verify", type=options.FILE, help="Compare the forecast in this file with the sessions recorded after it.")
@click.option(
    "--control", "controls", multiple=True, metavar="PROJECT", help="With --verify: project that kept its setting. Repeatable."
)
@probe.add_options
@click.option("--full", is_flag=True, help="List all settings under each rule, and everything that was not counted.")
@click.option("--workers", type=options.POSITIVE, help="Number of processes.  [default: one for each processor]")
def command(
    folder: Path | None,
    policies: str | None,
    thresholds: str | None,
    rules: str | None,
    file: Path | None,
    reread: str | None,
    page: Path | None,
    csv: Path | None,
    freeze: Path | None,
    setting: str | None,
    verify: Path | None,
    controls: tuple[str, ...],
    workers: int | None,
    *,
    bill: bool,
    excerpts: bool,
    full: bool,
    **probe_values: Any,
) -> None:
    """Show what your sessions would have cost under other compaction settings and price rules.

    FOLDER holds recorded sessions of other agents, or journals of this package; without it, the folders are read in which agents
    on this machine store their sessions. Each policy runs with each threshold on what was recorded between two compactions of
    the agent, and a simulated prompt cache prices its requests under each rule. `own` is the rule of each session's provider
    with the prices of its model; NAME:1h takes another lifetime of the cache.
    The default rules are own, own:1h and anthropic-2026-10:1h.

    The default policies are claude-code, codex, keep-last and anthropic-clear-tool-uses.

    The setting is always chosen on one half of your projects, and its saving estimated on the other half, then the halves change
    places. The agent's actions are taken as recorded, so a saving says nothing about success. What must be read again after a
    compaction is a band, not a number. Nothing leaves this machine, unless --probe names a model that runs elsewhere: then the
    host and the largest cost are printed before the first call.

    Example: `harness replay ~/.claude/projects --thresholds 80K,150K`
    """
    places = [folder] if folder is not None else [path for _, path in list_installed_folders()]
    if not places:
        raise UsageError("pass a FOLDER with recorded sessions: no agent has stored sessions here")
    if csv is not None and csv.exists() and not csv.is_dir():
        raise UsageError(f"{str(csv)!r} is a file; name a folder for the tables")
    if page is not None:
        from harness.reporting.page.document import check_page_path  # noqa: PLC0415  (slow, and the terminal does not need it)

        check_page_path(page)
    if excerpts and page is None and csv is None:
        raise UsageError("--excerpts adds texts to a page or to tables; add --page FILE or --csv FOLDER")
    probe_options = probe.ProbeOptions(**probe_values)
    probe_options.check()
    if bill:
        given = {"policies": policies, "thresholds": thresholds, "reread": reread, "page": page, "excerpts": excerpts or None}
        given |= {"freeze": freeze, "setting": setting, "verify": verify, "probe": probe_options.probe}
        for name in (name for name, value in given.items() if value is not None):
            raise UsageError(f"--{name} has no effect with --bill, which tries no setting; leave one of them out")
    forecast = read_forecast(verify) if verify is not None else None
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying")
        replay = replay_sessions(
            places,
            policies=_split(policies) or DEFAULT_POLICIES,
            thresholds=parse_thresholds(thresholds) if thresholds else DEFAULT_THRESHOLDS,
            rules=_split(rules) or None,
            file=file,
            reread_tokens=parse_reread(reread),
            bill_only=bill,
            workers=workers,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    check = check_forecast(forecast, replay, controls) if forecast is not None else None  # refused before anything is printed
    plan = _plan_probe(probe_options, replay, setting) if probe_options.probe is not None else None
    for line in build_lines(replay, full=full, hosts=plan.hosts if plan and plan.calls else ()):
        print_line(line)
    if full and not bill:
        for rule in replay.rules:
            heading = ("setting", "change", "over the band", "break-even")
            print_parts(
                "", f"{describe_rule_name(rule)}, against what was run:", build_table(heading, describe_settings(replay, rule))
            )
    if check is not None:
        print_line(describe_check(check))
    probed = _run_probe(plan) if plan is not None else None
    if freeze is not None:
        choice = replay.choices[replay.rules[0]]
        made = make_forecast(replay, setting or (choice.chosen[0] if choice else ""), dt.datetime.now(dt.UTC))
        save_forecast(made, freeze)
        print_line(f"wrote the forecast of {made.setting} to {freeze}; compare it later with --verify")
    shown = list_excerpts(replay) if excerpts else []
    if page is not None:
        from harness.reporting.page.bill import write_bill_page  # noqa: PLC0415  (slow, and the terminal does not need it)

        print_line(f"wrote {write_bill_page(replay, page, shown, probed)}")
    if csv is not None:
        csv.mkdir(parents=True, exist_ok=True)
        tables = BILL_TABLES if bill else TABLES
        for name in tables:
            getattr(replay, name).to_csv(csv / f"{name}.csv", index=False)
        names = [*tables, *(["excerpts"] if excerpts else []), *(_write_probe(probed, csv) if probed is not None else ())]
        if excerpts:
            pd.DataFrame(shown, columns=list(Excerpt._fields)).to_csv(csv / "excerpts.csv", index=False)
        print_line(f"wrote {', '.join(f'{name}.csv' for name in names)} to {csv}")


def _plan_probe(chosen: probe.ProbeOptions, replay: Replay, setting: str | None) -> "ProbePlan":
    from harness.cli.probe_run import make_plan  # noqa: PLC0415  (slow, and only a probe needs it)

    return make_plan(chosen, replay, setting)


def _run_probe(plan: "ProbePlan") -> "Probe":
    from harness.cli.probe_run import run_plan  # noqa: PLC0415  (slow, and only a probe needs it)

    return run_plan(plan)


def _write_probe(probed: "Probe", folder: Path) -> tuple[str, ...]:
    from harness.cli.probe_run import write_tables  # noqa: PLC0415  (slow, and only a probe needs it)

    return write_tables(probed, folder)


def parse_reread(text: str | None) -> Sequence[float] | Literal["simulated"] | None:
    """Return the tokens read again that an option gives: three numbers, `simulated`, or None for the default.

    Raises:
        UsageError: The text is neither.
    """
    if not text:
        return None
    return "simulated" if text.strip() == SIMULATED else parse_thresholds(text, least=0)


def build_lines(replay: Replay, *, full: bool = False, hosts: Sequence[str] = ()) -> list[str]:
    """Return the summary of a replay: the headline, and the most important numbers below it, about ten lines.

    Args:
        replay: Replay to summarize.
        full: Whether to list everything that was not counted.
        hosts: Hosts to which a probe sends texts of sessions.
    """
    paid = sum_paid(replay)
    parts = [(getattr(paid, name), text) for name, text in PART_NAMES.items() if getattr(paid, name) > 0]
    lines = build_headline(replay)
    if parts:
        lines.append(
            "Paid for: "
            + ", ".join(
                f"{text} {format_usd(usd)} ({format_percent(usd / paid.total_usd)})" for usd, text in sorted(parts, reverse=True)
            )
        )
    cheapest = describe_settings(replay, replay.rules[0])[:MAX_SETTINGS]
    if cheapest:
        listed = "; ".join(f"{name} {change} ({band}; break-even: {even})" for name, change, band, even in cheapest)
        lines.append(f"Cheapest under {describe_rule_name(replay.rules[0])}: {listed}")
    if agreement := describe_agreement(replay):
        lines.append(agreement)
    if replay.reading is not None:
        lines.append(describe_reading(replay))
    uncounted = list_uncounted(replay)
    if uncounted:
        shown = uncounted if full else list_first(uncounted, 2)
        lines.append(f"Not counted: {'; '.join(format_line(text) for text in shown)}")
    return [*lines, describe_method(replay, hosts)]


def _split(names: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in names.split(",") if part.strip()) if names else ()
