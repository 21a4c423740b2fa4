"""`harness export` and `harness import`: sessions between journals and files (S2.6)."""

from pathlib import Path

import click

from harness.cli.session_lookup import IN_OPTION, resolve_session
from harness.cli.terminal import format_line
from harness.errors import UsageError
from harness.inspection.import_export import export_session, import_session


@click.command("export")
@click.argument("session")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@IN_OPTION
@click.option("--format", "_format", type=click.Choice(["jsonl"]), default="jsonl", show_default=True, help="Of the file.")
def export_command(session: str, file: Path, given: tuple[Path, ...], _format: str) -> None:
    """Write SESSION to the new FILE as JSONL: one row an event, with a row `compaction` and its `first_kept_entry_id`.

    `harness import` reads it back as it was. What a row means stands in harness/replay/session_file.py.
    """
    events = export_session(resolve_session(session, given), file)
    click.echo(f"wrote {format_line(str(file))}: {events:,} events")


MAX_CAVEATS_SHOWN = 10
"""Shown of what was repaired."""


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--journal", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Log it into this SQLite file.")
@click.option("--as", "name", default="", metavar="ID", help="Name of the session.  [default: its name in FILE]")
def import_command(file: Path, journal: Path, name: str) -> None:
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
