"""The list of commands, and the one place where an error becomes a line and an exit code."""

import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any

import click

from harness.cli.terminal_text import replace_control_characters
from harness.errors import HarnessError, UsageError

COMMANDS = {
    "run": "Run an experiment: what is there already is not run again.",
    "report": "Show the table and draw the charts of an experiment.",
    "inspect": "Show what a session came to, or what was sent at one of its steps.",
    "sessions": "List, read and search sessions, put old ones away and clean up.",
    "export": "Write a session to a file of JSONL.",
    "import": "Log a session from a file into a journal.",
    "agent": "Give the agent a task on standard input and watch it work.",
    "tasks": "List the tasks of the suite, or show one.",
    "task": "Begin a task of your own, or find out what is wrong with one.",
    "policies": "List the compaction policies, or draw what one of them does.",
    "models": "List the small real models of this machine, and fetch them.",
    "serve-scripted": "Serve the scripted models to whoever speaks OpenAI's format, with faults to order.",
    "cache": "Show or empty the action cache: commands that need not run again.",
    "doctor": "Find out what works on this machine and what to install.",
}
"""Name and short help; the command itself is in the module of its name and loads only when it is used."""

COMMAND_MODULES = {
    "inspect": "sessions.inspect_command",
    "export": "sessions.export_command",
    "import": "sessions.import_command",
}
"""Of the commands that are not in the module of their name."""


def load_command(name: str) -> click.Command:
    """The command of a name, from its module."""
    command: click.Command = importlib.import_module(f"harness.cli.{COMMAND_MODULES.get(name, name.replace('-', '_'))}").command
    return command


class CommandError(click.ClickException):
    """An error of ours on its way to the terminal."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it as one line."""
        click.echo(f"error: {self.message}", file=file or sys.stderr)


class CommandUsageError(CommandError):
    """The caller asked for something that cannot be."""

    exit_code = 2


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
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of ours becomes one line, with --debug a traceback."""
        try:
            with unwind_on_sigterm():
                return super().invoke(ctx)
        except HarnessError as error:
            if ctx.params["debug"]:
                raise
            raise (CommandUsageError if isinstance(error, UsageError) else CommandError)(
                replace_control_characters(str(error))
            ) from None
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            ctx.exit(130)


@contextmanager
def unwind_on_sigterm() -> Iterator[None]:
    """While open, SIGTERM unwinds like Ctrl-C: whatever was opened is closed, other processes among it."""
    if threading.current_thread() is not threading.main_thread():  # signals come only there
        yield
        return

    def raise_interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous_handler = signal.signal(signal.SIGTERM, raise_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="harness", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Run grids of coding-agent sessions and measure what context compaction does to them."""
    # `debug` is read where errors are caught, in `LazyCommandGroup.invoke`
