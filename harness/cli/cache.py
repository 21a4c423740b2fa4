"""`harness cache`: what the action cache holds, and how to empty it."""

import datetime as dt
from pathlib import Path

import click

from harness.cli.printable import printable
from harness.errors import counted
from harness.sandboxes.actions import ActionCache, default_folder

_FOLDER = click.option(
    "--cache", "folder", type=click.Path(path_type=Path, file_okay=False), help="Folder of the cache.  [default: the user's]"
)


@click.group("cache", invoke_without_command=True)
@_FOLDER
@click.option("--task", help="Show the entries of this task only.")
@click.option("--largest", type=click.IntRange(min=1), default=10, show_default=True, help="How many entries to show.")
@click.pass_context
def command(context: click.Context, folder: Path | None, task: str | None, largest: int) -> None:
    """Show where the action cache is and what it holds: commands that were run once and are remembered."""
    context.obj = folder
    if context.invoked_subcommand is not None:
        return
    cache = _opened(folder)
    summary = cache.summary()
    click.echo(f"folder   {printable(str(summary.folder))}")
    click.echo(f"entries  {summary.entries:,}")
    click.echo(f"bytes    {summary.size_bytes:,}")
    click.echo(f"hits     {summary.hits:,}")
    for kept in cache.largest(largest, task=task):
        used = dt.datetime.fromtimestamp(kept.used_at, tz=dt.UTC).strftime("%Y-%m-%d %H:%M")
        line = (
            f"{kept.size_bytes:>10,} bytes  {kept.hits:>6,} hits  last used {used}  {kept.task}: {' '.join(kept.command.split())}"
        )
        click.echo(printable(line))


@command.command("clear")
@_FOLDER
@click.pass_context
def clear(context: click.Context, folder: Path | None) -> None:
    """Forget everything. Runs that are at work go on and fill it again."""
    cache = _opened(folder or context.obj)
    summary = cache.summary()
    cache.clear()
    click.echo(f"forgot {counted(summary.entries, 'entry')}, {summary.size_bytes:,} bytes")


def _opened(folder: Path | None) -> ActionCache:
    return ActionCache((folder or default_folder()).absolute())
