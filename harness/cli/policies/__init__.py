"""`harness policies`: every policy with its source, its stages and its defaults, and what it does to a sample session."""

import inspect

import click
from rich.table import Table
from rich.text import Text

from harness.cli.agent import parsed
from harness.cli.policies.layout import described, heading, in_words, picture, rows
from harness.cli.tasks import show
from harness.compaction.description import sentence
from harness.compaction.scaling import fitted
from harness.inspection.walk import WINDOW_TOKENS, walk, writer
from harness.policies import policy_from_plain, policy_kind, policy_names
from harness.tokens import Window

QUICK = "scripted/empty"
"""Writes the summaries where only the kind of what happens counts."""
ENOUGH = 20
"""Compactions that show that a policy acts."""

_WINDOW = click.option(
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
    for name in policy_names():
        show(*_entry(name), Text())


@command.command("show")
@click.argument("name")
@click.option("--set", "fields", multiple=True, metavar="FIELD=VALUE", help="A field of the policy, the value as in TOML.")
@_WINDOW
@click.option("--nominal-window", type=click.IntRange(min=1), help="Scale the policy's constants from this window.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="How many compactions to draw.")
def show_one(name: str, fields: tuple[str, ...], window: int, nominal_window: int | None, rounds: int) -> None:
    """Draw what the policy NAME does to a sample session: which messages it keeps, masks, summarizes and drops."""
    policy = policy_from_plain({"kind": name, **parsed(fields)})
    given = Window(tokens=window, source="configuration")
    policy = fitted(policy, given, nominal_window).policy
    tried = walk(policy, window)
    said = inspect.getdoc(type(policy)) or ""
    show(heading(name, said), rows(described(type(policy), policy, given)), Text(), *picture(tried, rounds))


def _entry(name: str) -> tuple[Text, Table]:
    """What is listed of a policy; of one that fails, by what."""
    title = heading(name)
    try:
        kind = policy_kind(name)
        title, policy = heading(name, sentence(kind)), policy_from_plain({"kind": name})
        tried = walk(policy, summarizer=writer(QUICK), most_compactions=ENOUGH)
        return title, rows([*described(kind, policy), ("sample", in_words(tried))])
    except Exception as error:  # noqa: BLE001  (foreign code is run here, and one policy must not hide the others)
        return title, rows([("fails", f"{type(error).__name__}: {error}")])
