"""`harness import`: a session from a file into a journal (S2.6)."""

from pathlib import Path

import click

from harness.cli.terminal_text import format_line
from harness.errors import UsageError
from harness.inspection.import_export import import_session

MAX_CAVEATS_SHOWN = 10
"""Shown of what was repaired."""


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--journal", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Log it into this SQLite file.")
@click.option("--as", "name", default="", metavar="ID", help="Name of the session.  [default: its name in FILE]")
def command(file: Path, journal: Path, name: str) -> None:
    """Log the session in FILE into a journal: one of `harness export`, or the recorded session of another agent.

    An exported session is there as it was. One of another agent is there as if nobody had compacted it.
    """
    if not journal.parent.is_dir():
        raise UsageError(f"there is no folder {str(journal.parent)!r} for the journal; make it, or name another --journal")
    imported = import_session(file, journal, name)
    click.echo(
        f"session {format_line(imported.session_id)} from a file of {imported.format_name}: {imported.event_count:,} events"
    )
    for caveat in imported.caveats[:MAX_CAVEATS_SHOWN]:
        click.echo(f"  {format_line(caveat)}")
    if len(imported.caveats) > MAX_CAVEATS_SHOWN:
        click.echo(f"  and {len(imported.caveats) - MAX_CAVEATS_SHOWN} more like these")
