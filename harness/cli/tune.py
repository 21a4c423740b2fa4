"""Command `harness tune`, which shows the numbers of a policy between which cost is traded for evicted tokens."""

from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from harness.cli import options
from harness.cli.replay import parse_reread
from harness.cli.terminal import build_table, print_line, print_parts
from harness.errors import UsageError, format_count
from harness.inspection.recording_folder import list_installed_folders
from harness.replay.bills import OWN
from harness.replay.sentences import describe_rule_name
from harness.replay.settings import AS_IT_WAS, format_thousands, parse_thresholds
from harness.replay.tuning import TUNED_THRESHOLDS, Tuning, describe_agent_setting, tune_policy, write_plan_line
from harness.text import format_percent

_THRESHOLDS = ",".join(map(format_thousands, TUNED_THRESHOLDS))


@click.command("tune")
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option("--policy", required=True, metavar="NAME", help="Policy whose numbers are tried, e.g. claude-code.")
@click.option("--thresholds", metavar="TOKENS", help=f"Thresholds, with commas.  [default: {_THRESHOLDS}]")
@click.option(
    "--vary", "fields", multiple=True, metavar="FIELD=VALUES", help="Values of a field of the policy, with commas. Repeatable."
)
@click.option(
    "--rule", default=OWN, show_default=True, metavar="NAME", help="Price rule, with an optional lifetime, e.g. own:1h."
)
@click.option("--file", type=options.FILE, help="TOML file with price rules of your own, which are added to the shipped ones.")
@click.option(
    "--reread", metavar="TOKENS", help="Tokens read again after each compaction: three numbers.  [default: 0,10K,20K, assumed]"
)
@click.option("--csv", type=options.FILE, help="Write the front to this file.")
@click.option("--workers", type=options.POSITIVE, help="Number of processes.  [default: one for each processor]")
def command(
    folder: Path | None,
    policy: str,
    thresholds: str | None,
    fields: tuple[str, ...],
    rule: str,
    file: Path | None,
    reread: str | None,
    csv: Path | None,
    workers: int | None,
) -> None:
    """Show which numbers of a policy are worth considering on your sessions: none costs less and evicts less.

    FOLDER holds recorded sessions, as for `harness replay`. The front is chosen on half of your projects, and its cost and its
    evicted tokens are those of the other half. Without --vary, half, once and twice the default of each number that says how
    much is kept are tried. The agent's actions are taken as recorded, so nothing is said about success.

    Example: `harness tune ~/.claude/projects --policy claude-code`
    """
    places = [folder] if folder is not None else [path for _, path in list_installed_folders()]
    if not places:
        raise UsageError("pass a FOLDER with recorded sessions: no agent has stored sessions here")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying")
        tuning = tune_policy(
            places,
            policy,
            parse_thresholds(thresholds) if thresholds else TUNED_THRESHOLDS,
            variations=dict(map(_parse_variation, fields)) if fields else None,
            rule=rule,
            file=file,
            reread_tokens=parse_reread(reread),
            workers=workers,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    for line in build_lines(tuning):
        print_line(line)
    rows = [
        (
            row.setting,
            format_percent(row.change, 1, signed=True),
            format_percent(row.chosen_change, 1, signed=True),
            f"{row.evicted_tokens:,}",
            str(row.compactions),
            "yes" if row.on_other_front else "no",
        )
        for row in tuning.front.itertuples()
    ]
    columns = ("setting", "cost, other half", "half that chose", "evicted tokens", "compactions", "front of both")
    print_parts("", build_table(columns, rows, "right"), "")
    for text in describe_settings(tuning):
        print_line(text)
    if csv is not None:
        tuning.front.to_csv(csv, index=False)
        print_line(f"wrote {csv}")


def build_lines(tuning: Tuning) -> list[str]:
    """Return what the front was chosen from and how, in two lines."""
    tried, shown = format_count(len(tuning.settings), "setting"), len(tuning.front)
    halves = f"chosen on half of your {tuning.groups} {tuning.group_kind}s and measured on the other half"
    again = f"{format_thousands(tuning.reread_tokens)} tokens are assumed to be read again after each compaction"
    return [
        f"{shown} of {tried} and what you ran are on the front of cost and evicted tokens, {halves}.",
        f"Costs are modelled under {describe_rule_name(tuning.rule)} (level L2-open: the same actions are assumed); {again}.",
    ]


def describe_settings(tuning: Tuning) -> list[str]:
    """Return the lines of a plan for the cheapest setting of the front, and the agent's own setting if one is documented."""
    names = [name for name in tuning.front["setting"] if name != AS_IT_WAS]
    if not names:
        return ["No setting is on the front but what you ran."]
    setting = tuning.settings[names[0]]
    lines = [f"{setting.name} in a plan, under [trial]:", *write_plan_line(setting).splitlines()]
    agent = describe_agent_setting(setting)
    return [*lines, f"In the agent itself: {agent}" if agent else "No documented setting of an agent is known for it."]


def _parse_variation(text: str) -> tuple[str, tuple[int, ...]]:
    field, _, values = text.partition("=")
    try:
        return field.strip(), tuple(int(value.replace("_", "")) for value in values.split(","))
    except ValueError:
        raise UsageError(f"--vary {text!r}: expected a field and whole numbers, such as keep_last=5,10,20") from None
