"""Command `harness policies`, which lists the compaction policies, or describes one and shows its effect on a sample session."""

import re

import click

from harness.cli.terminal import build_named_grid, print_parts
from harness.compaction.description import extract_description
from harness.compaction.origins import find_origin
from harness.policies import find_kind, list_policy_names, load_policy_class


class PolicyGroup(click.Group):
    """Group of the `policies` commands, in which the name of a policy is a command that describes the policy."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands that are not names of policies."""
        return ["show"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return the command with this name, or else the command that describes the policy with this name."""
        from harness.cli.policy_description import show_command  # noqa: PLC0415  (slow, and the list does not need it)

        return show_command if cmd_name == "show" else _make_description_command(cmd_name)


def _make_description_command(name: str) -> click.Command:
    def describe_policy() -> None:
        from harness.cli.policy_description import build_entry  # noqa: PLC0415  (slow, and the list does not need it)

        load_policy_class(name)
        print_parts(*build_entry(name))

    help_text = f"Describe the policy {name}: source, stages, fields, and effect on a sample session."
    return click.Command(name, callback=describe_policy, help=help_text)


@click.group("policies", cls=PolicyGroup, invoke_without_command=True, subcommand_metavar="[NAME | show NAME]")
@click.option("--full", is_flag=True, help="Describe each policy as `harness policies NAME` does; takes some seconds.")
@click.pass_context
def command(context: click.Context, full: bool) -> None:
    """List the compaction policies, including those of installed packages, or describe the policy NAME.

    The list has one sentence for each policy, and in brackets the evidence that the policy acts as its original, the version of
    the original, and its date. *Differential* means that tests run the original beside the policy. *Modelled* means that no test
    does, so that results of the policy are no results of the system. NAME@VERSION is an older version of a policy.

    The description of a policy contains its source, its stages and its fields, and the effect on a sample session that overflows
    the window: one request of the user, followed by replies of the agent and tool results. A policy marked INERT has no effect
    there; it may need a second message of the user or a larger window.

    Example: `harness policies codex`
    """
    if context.invoked_subcommand is not None:
        return
    if full:
        from harness.cli.policy_description import build_entry  # noqa: PLC0415  (slow, and the list does not need it)

        for name in list_policy_names():
            print_parts(*build_entry(name), "")
    else:
        hint = "`harness policies NAME` describes a policy, `harness policies show NAME` draws its effect"
        print_parts(build_named_grid((name, _summarize_policy(name)) for name in list_policy_names()), "", hint)


def _summarize_policy(name: str) -> str:
    try:
        sentence = re.sub(r"^Policy that,? ", "", extract_description(load_policy_class(name)))
    except Exception as error:  # noqa: BLE001  (a policy of another package may raise anything, and the list must go on)
        return f"fails: {type(error).__name__}: {error}"
    origin = find_origin(find_kind(name))
    return f"{sentence[:1].upper()}{sentence[1:]}" + (f" [{origin}]" if origin else "")
