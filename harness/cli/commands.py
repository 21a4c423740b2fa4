"""The list of commands, and the one place where an error becomes a line and an exit code."""

import importlib
import signal
from collections.abc import Mapping
from types import FrameType
from typing import Any

import click

from harness.errors import HarnessError, UsageError
from harness.signals import install_signal_handler
from harness.text import replace_control_characters

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Run an experiment: what is there already is not run again."),
    "report": ("report", "Show the table and draw the charts of an experiment."),
    "inspect": ("inspect_session", "Show what a session came to, or what was sent at one of its steps."),
    "sessions": ("sessions", "List, read and search sessions, put old ones away and clean up."),
    "export": ("sessions:export_command", "Write a session to a file of JSONL."),
    "import": ("sessions:import_command", "Log a session from a file into a journal."),
    "agent": ("agent", "Give the agent a task on standard input and watch it work."),
    "tasks": ("tasks:tasks_command", "List the tasks of the suite, or show one."),
    "task": ("tasks:task_command", "Begin a task of your own, or find out what is wrong with one."),
    "policies": ("policies", "List the compaction policies, or draw what one of them does."),
    "models": ("models:models_command", "List the small real models of this machine, and fetch them."),
    "serve-scripted": (
        "models:serve_command",
        "Serve the scripted models to whoever speaks OpenAI's format, with faults to order.",
    ),
    "cache": ("cache", "Show or empty the action cache: commands that need not run again."),
    "doctor": ("doctor", "Find out what works on this machine and what to install."),
}
"""Module and short help of each command. A module loads when its command is used; after a colon stands the name of the click
command in it, by default `command`."""


def load_command(name: str) -> click.Command:
    """Return a command from its module."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(importlib.import_module(f"harness.cli.{module}"), attribute or "command")
    return command


class LazyCommandGroup(click.Group):
    """A group that loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None = there is none."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list for the help page, without loading any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of ours becomes one line, with --debug a traceback.

        SIGTERM unwinds like Ctrl-C, so that whatever was opened is closed, other processes included.
        """
        try:
            with install_signal_handler(_raise_interrupt, (signal.SIGTERM,)):
                return super().invoke(ctx)
        except HarnessError as error:
            if ctx.params["debug"]:
                raise
            click.echo(f"error: {replace_control_characters(str(error))}", err=True)
            ctx.exit(2 if isinstance(error, UsageError) else 1)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            ctx.exit(130)


def _raise_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="harness", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Run grids of coding-agent sessions and measure what context compaction does to them."""
    # `debug` is read where errors are caught, in `LazyCommandGroup.invoke`
