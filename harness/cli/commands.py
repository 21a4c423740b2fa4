"""List of all `harness` commands, and the code that turns an error of a command into one line of output and an exit code."""

import importlib
import signal
from collections.abc import Mapping
from types import FrameType
from typing import Any

import click

from harness.distribution import DISTRIBUTION
from harness.errors import HarnessError, UsageError
from harness.process import install_signal_handler, reduce_garbage_collection
from harness.text import replace_control_characters

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Run an experiment; finished trials are not run again."),
    "report": ("report", "Show the tables and draw the charts of an experiment."),
    "compare": ("compare", "Compare arms of two experiments on the tasks and seeds that both ran."),
    "view": ("view", "Serve the report of an experiment as a page on this machine."),
    "price": ("price", "Show what stored sessions would have cost under other price rules."),
    "replay": ("replay", "Show what your sessions would have cost under other compaction settings."),
    "tune": ("tune", "Show which numbers of a policy are worth considering on your sessions."),
    "experiments": ("experiments", "List experiments with their titles, tags and notes."),
    "inspect": ("inspect_session", "Show the totals and the timeline of a session, or one of its requests."),
    "sessions": ("sessions", "List, read, search, archive and clean up logged sessions."),
    "export": ("sessions:export_command", "Write a session to a JSONL file."),
    "import": ("imports", "Read recorded sessions of agents from a file or folder."),
    "agent": ("agent", "Give the agent a request and watch it work."),
    "gateway": ("gateway", "Serve an endpoint for other agents that applies a policy and records."),
    "tasks": ("tasks:tasks_command", "List the built-in tasks, or show one task."),
    "task": ("tasks:task_command", "Create a task of your own, or check one."),
    "policies": ("policies", "List the compaction policies, describe one, or show its effect."),
    "models": ("models:models_command", "List the small local models, or download them."),
    "serve-scripted": ("models:serve_command", "Serve the scripted models in the formats of OpenAI, Anthropic and Gemini."),
    "cache": ("cache", "Show or empty the cache of sandbox commands and their results."),
    "doctor": ("doctor", "Check which sandboxes, models and keys work on this machine."),
}
"""Module and short help of each `harness` command, by the name of the command.

After the module and a colon, the text can name the variable that holds the click command; the default is `command`.
"""


def load_command(name: str) -> click.Command:
    """Import the module of a `harness` command and return the click command."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(importlib.import_module(f"harness.cli.{module}"), attribute or "command")
    return command


class LazyCommandGroup(click.Group):
    """Group of click commands that imports the module of a command only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all `harness` commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, or None if there is no such command."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands on the help page without importing the modules of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a `harness` command, and print a `HarnessError` as one line.

        Under `--debug`, the error is raised with its traceback. SIGTERM is handled like Ctrl-C, so that open files, sandboxes and
        child processes are closed.
        """
        reduce_garbage_collection()
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
@click.version_option(package_name=DISTRIBUTION, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback when a command fails.")
def main(debug: bool) -> None:
    """Measure what context compaction does to coding agents.

    `harness doctor` checks this machine, `harness COMMAND --help` explains a command.

    Example: `harness run experiments/quickstart`
    """
    # `LazyCommandGroup.invoke` reads `debug` where it catches errors
