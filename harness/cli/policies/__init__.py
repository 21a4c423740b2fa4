"""`harness policies`: every policy with its source, its stages and its defaults, and what it does to a sample session."""

import inspect

import click
from rich.table import Table
from rich.text import Text

from harness.cli.agent import parse_fields
from harness.cli.policies.layout import build_rows_table, describe_walk, draw_walk, format_heading, list_properties
from harness.cli.tasks import print_renderables
from harness.compaction.description import extract_description
from harness.compaction.scaling import fit_policy
from harness.inspection.sample_run import WINDOW_TOKENS, open_sample_summarizer, run_on_sample
from harness.policies import list_policy_names, load_policy_class, policy_from_plain
from harness.tokens import Window

FAST_SUMMARIZER = "scripted/empty"
"""Writes the summaries where only the kind of what happens counts."""
MAX_COMPACTIONS = 20
"""Compactions that show that a policy acts."""

_WINDOW_OPTION = click.option(
    "--window",
    type=click.IntRange(min=1),
    default=WINDOW_TOKENS,
    show_default=True,
    help="Context window in tokens; the sample session is longer.",
)


@click.group("policies", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the policies, ours and those of installed packages.

    Each is tried on a sample session that overflows: one request of the user, then only the agent and its tools. A policy that
    does nothing there waits for a second message of the user, or for more than the window holds.
    """
    if context.invoked_subcommand is not None:
        return
    for name in list_policy_names():
        print_renderables(*_build_entry(name), Text())


@command.command("show")
@click.argument("name")
@click.option("--set", "fields", multiple=True, metavar="FIELD=VALUE", help="A field of the policy, the value as in TOML.")
@_WINDOW_OPTION
@click.option("--nominal-window", type=click.IntRange(min=1), help="Scale the policy's constants from this window.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="How many compactions to draw.")
def show_policy(name: str, fields: tuple[str, ...], window: int, nominal_window: int | None, rounds: int) -> None:
    """Draw what the policy NAME does to a sample session: which messages it keeps, masks, summarizes and drops."""
    policy = policy_from_plain({"kind": name, **parse_fields(fields)})
    context_window = Window(tokens=window, source="configuration")
    policy = fit_policy(policy, context_window, nominal_window).policy
    sample_walk = run_on_sample(policy, window)
    description = inspect.getdoc(type(policy)) or ""
    print_renderables(
        format_heading(name, description),
        build_rows_table(list_properties(type(policy), policy, context_window)),
        Text(),
        *draw_walk(sample_walk, rounds),
    )


def _build_entry(name: str) -> tuple[Text, Table]:
    """What is listed of a policy; of one that fails, by what."""
    title = format_heading(name)
    try:
        kind = load_policy_class(name)
        title, policy = format_heading(name, extract_description(kind)), policy_from_plain({"kind": name})
        sample_walk = run_on_sample(policy, summarizer=open_sample_summarizer(FAST_SUMMARIZER), max_compactions=MAX_COMPACTIONS)
        return title, build_rows_table([*list_properties(kind, policy), ("sample", describe_walk(sample_walk))])
    except Exception as error:  # noqa: BLE001  (foreign code is run here, and one policy must not hide the others)
        return title, build_rows_table([("fails", f"{type(error).__name__}: {error}")])
