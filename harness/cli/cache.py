"""Command `harness cache`, which shows or empties the action cache."""

import datetime as dt
from pathlib import Path

import click

from harness.cli import options
from harness.cli.terminal import print_line
from harness.errors import StoreError, UnknownName, format_count
from harness.sandboxes.action_cache import ActionCache, find_default_folder, has_cache
from harness.tasks import TASKS

_FOLDER_OPTION = click.option("--cache", "folder", type=options.FOLDER, help="Folder of the cache.  [default: the user's cache]")


@click.group("cache", invoke_without_command=True)
@_FOLDER_OPTION
@click.option("--task", help="Show only entries of this task.")
@click.option("--largest", type=options.POSITIVE, default=10, help="Number of entries to show, largest first.")
@click.pass_context
def command(context: click.Context, folder: Path | None, task: str | None, largest: int) -> None:
    """Show the folder, the size and the largest entries of the action cache.

    The action cache stores the results of sandbox commands. If several trials of an experiment use the same command in the same
    workspace, the command runs only once. The cache also stores which checks of a task a final workspace has passed.

    Example: `harness cache --task flashcards`
    """
    context.obj = folder
    if context.invoked_subcommand is not None:
        return
    cache = _open_cache(folder)
    if cache is None:
        return
    if task is not None and task not in (known := {*TASKS, *cache.list_tasks()}):
        raise UnknownName("task", task, known)
    summary = cache.read_summary()
    print_line(f"folder   {summary.folder}")
    print_line(f"entries  {summary.entries:,}\nbytes    {summary.size_bytes:,}\nhits     {summary.hits:,}")
    entries = cache.list_largest(largest, task=task)
    if task is not None and not entries:
        print_line(f"the cache has no entries of task {task!r}")
    for entry in entries:
        used = dt.datetime.fromtimestamp(entry.used_at, tz=dt.UTC).strftime("%Y-%m-%d %H:%M")
        line = f"{entry.size_bytes:>10,} bytes  {entry.hits:>6,} hits  last used {used}  {entry.task}: "
        print_line(line + " ".join(entry.command.split()))


@command.command("clear")
@_FOLDER_OPTION
@click.pass_context
def clear_cache(context: click.Context, folder: Path | None) -> None:
    """Delete all entries of the action cache.

    Running experiments continue and fill the cache again.

    Example: `harness cache clear`
    """
    cache = _open_cache(folder or context.obj)
    if cache is None:
        return
    summary = cache.read_summary()
    cache.clear()
    click.echo(f"deleted {format_count(summary.entries, 'entry')}, {summary.size_bytes:,} bytes")


def _open_cache(folder: Path | None) -> ActionCache | None:
    """Open the action cache; if the default folder has none, print that and return None.

    Raises:
        StoreError: The folder given by `--cache` contains no cache.
    """
    cache_folder = (folder or find_default_folder()).absolute()
    if has_cache(cache_folder):
        return ActionCache(cache_folder)
    message = f"there is no action cache in {str(cache_folder)!r}; the first run that uses this folder creates it"
    if folder is not None:
        raise StoreError(message)
    print_line(message)
    return None
