"""`harness export`: a session as a file that other programs read (S2.6)."""

from pathlib import Path

import click

from harness.cli.sessions.lookup import IN_OPTION, resolve_session
from harness.cli.terminal_text import format_line
from harness.inspection.import_export import export_session


@click.command("export")
@click.argument("session")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@IN_OPTION
@click.option("--format", "_format", type=click.Choice(["jsonl"]), default="jsonl", show_default=True, help="Of the file.")
def command(session: str, file: Path, given: tuple[Path, ...], _format: str) -> None:
    """Write SESSION to the new FILE as JSONL: one row an event, with a row `compaction` and its `first_kept_entry_id`.

    `harness import` reads it back as it was. What a row means stands in harness/replay/session_file.py.
    """
    events = export_session(resolve_session(session, given), file)
    click.echo(f"wrote {format_line(str(file))}: {events:,} events")
