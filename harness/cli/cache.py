"""`harness cache`: what the action cache holds, and how to empty it."""

import datetime as dt
from pathlib import Path

import click

from harness.cli.terminal_text import printable
from harness.errors import StoreError, UnknownName, counted
from harness.sandboxes.action_cache import ActionCache, default_folder, has_cache
from harness.tasks import SUITE

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
    if cache is None:
        return
    if task is not None and task not in (known := {*SUITE, *cache.tasks()}):
        raise UnknownName("task", task, known)
    summary = cache.summary()
    click.echo(f"folder   {printable(str(summary.folder))}")
    click.echo(f"entries  {summary.entries:,}")
    click.echo(f"bytes    {summary.size_bytes:,}")
    click.echo(f"hits     {summary.hits:,}")
    found = cache.largest(largest, task=task)
    if task is not None and not found:
        click.echo(printable(f"there are no entries of task {task!r}"))
    for kept in found:
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
    if cache is None:
        return
    summary = cache.summary()
    cache.clear()
    click.echo(f"forgot {counted(summary.entries, 'entry')}, {summary.size_bytes:,} bytes")


def _opened(folder: Path | None) -> ActionCache | None:
    """The cache; looking for one makes none. None = the user has none yet, and that was said.

    Raises:
        StoreError: there is none in the folder that was named.
    """
    place = (folder or default_folder()).absolute()
    if has_cache(place):
        return ActionCache(place)
    told = f"there is no action cache in {str(place)!r}; a run that keeps actions there makes it"
    if folder is not None:
        raise StoreError(told)
    click.echo(printable(told))
    return None
