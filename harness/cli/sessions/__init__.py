"""`harness sessions`: list, read and search logged sessions, put old ones away and clean up.

`harness inspect`, `harness export` and `harness import` stand beside it in this folder.
"""

import datetime as dt
from collections import Counter
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from harness.cli.sessions.lookup import IN_OPTION, resolve_places, resolve_session
from harness.cli.sessions.maintenance import archive_sessions, clean_journals, restore_sessions
from harness.cli.tasks import print_renderables
from harness.cli.terminal_text import format_line, replace_control_characters
from harness.errors import StoreError, UsageError
from harness.store.journal import Journal
from harness.store.sessions import queries
from harness.store.sessions.lookup import JOURNALS_FOLDER, find_scope, list_journals

DEFAULT_LIMIT = 50


@click.group("sessions")
def command() -> None:
    """List, read and search logged sessions, put old ones away and clean up.

    Sessions stand in journals: of experiments, and those of `harness agent --journal`. A message is named SESSION/NUMBER.
    """


for _one in (archive_sessions, restore_sessions, clean_journals):
    command.add_command(_one)


@command.command("list")
@IN_OPTION
@click.option("--status", type=click.Choice(["active", "completed", "failed"]), help="Only these.")
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_LIMIT, show_default=True, help="How many.")
def list_sessions(given: tuple[Path, ...], status: str | None, limit: int) -> None:
    """List sessions, newest first. A session whose process was killed stays active.

    A sub-agent has a session of its own, named after the one that asked, with what it took.
    """
    by_name = {
        (find_scope(path, place), row.session_id): (path, row)
        for place in resolve_places(given)
        for path in list_journals(place)
        for row in _read_sessions(path)
    }
    rows = sorted(by_name.values(), key=lambda found: -found[1].created_at_ms)
    rows = [(path, row) for path, row in rows if status in {None, row.status}]
    names = Counter(row.session_id for _, row in rows)
    table = _build_table("session", "begun (UTC)", "ended", "steps", "rounds", "tokens sent", "USD", "trial", "model", "task")
    for path, row in rows[:limit]:
        name, *cells = _format_cells(row)
        where = f" in {format_line(str(path))}" if names[row.session_id] > 1 else ""
        table.add_row(*map(Text, (f"{name}{where}", *cells)))
    print_renderables(table)
    if len(rows) > limit:
        click.echo(f"and {len(rows) - limit} more; --limit shows them")


@command.command("search")
@click.argument("text")
@IN_OPTION
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_LIMIT, show_default=True, help="How many.")
def search_sessions(text: str, given: tuple[Path, ...], limit: int) -> None:
    """Find TEXT, word for word in any case of letters, in all that was said, called and printed, compacted or not."""
    hit_count = 0
    for path in [path for place in resolve_places(given) for path in list_journals(place)]:
        with Journal.open(path, read_only=True) as journal:
            for hit in queries.search(journal, text):
                hit_count += 1
                if hit_count > limit:
                    click.echo(f"more than {limit} found; --limit shows them")
                    return
                gone = ", compacted" if hit.is_compacted else ""
                click.echo(
                    replace_control_characters(f"{hit.message_id}  {hit.role} {hit.tool}".rstrip() + f", step {hit.step}{gone}")
                )
                click.echo(f"    {format_line(hit.excerpt)}")
    if not hit_count:
        click.echo("not found")


@command.command("messages")
@click.argument("session", default="")
@IN_OPTION
@click.option("--active", is_flag=True, help="Only what is in view at the end, in the order in which it is sent.")
def list_messages(session: str, given: tuple[Path, ...], active: bool) -> None:
    """List the messages of SESSION, summaries and replacements included."""
    location = resolve_session(session, given)
    with Journal.open(location.journal, read_only=True) as journal:
        rows = queries.list_messages(journal, location.session_id, active=active)
    table = _build_table("message", "step", "role", "tokens", "", "begins")
    for row in rows:
        gone = "compacted" if row.is_compacted else ""
        cells = (format_line(row.message_id), str(row.step), row.role, f"{row.tokens:,}", gone, format_line(row.content, 80))
        table.add_row(*map(Text, cells))
    print_renderables(table)


@command.command("message")
@click.argument("name", metavar="MESSAGE")
@IN_OPTION
def show_message(name: str, given: tuple[Path, ...]) -> None:
    """Show MESSAGE, a SESSION/NUMBER, part after part."""
    session, _, number = name.rpartition("/")
    if not number.isdecimal():
        raise UsageError(f"{name!r} names no message; write SESSION/NUMBER, as `harness sessions messages SESSION` lists them")
    location = resolve_session(session, given)
    with Journal.open(location.journal, read_only=True) as journal:
        row = queries.read_message(journal, f"{location.session_id}/{number}")
    gone = ", compacted" if row.is_compacted else ""
    print_renderables(
        Text(
            f"{replace_control_characters(row.message_id)}  {row.role}, step {row.step}, {row.tokens:,} tokens{gone}",
            style="bold",
        )
    )
    for part in row.parts:
        of = " ".join(one for one in (part.tool, part.call_id, part.state) if one)
        print_renderables(
            Text(replace_control_characters(f"[{part.position}] {part.type} {of}".rstrip()), style="dim"),
            Text(replace_control_characters(part.text)),
        )


def _read_sessions(path: Path) -> tuple[queries.SessionRow, ...]:
    """The sessions of a file; none of a trial's own journal that was brought in meanwhile."""
    try:
        with Journal.open(path, read_only=True) as journal:
            return queries.list_sessions(journal)
    except StoreError:
        if path.parent.name != JOURNALS_FOLDER:
            raise
        return ()


def _format_cells(row: queries.SessionRow) -> tuple[str, ...]:
    begun = dt.datetime.fromtimestamp(row.created_at_ms / 1000, tz=dt.UTC).strftime("%Y-%m-%d %H:%M")
    ended = f"{row.status} ({row.reason})" if row.reason else row.status
    trial = f"{row.experiment}: {row.arm}" if row.trial_id else ""
    return (
        *(format_line(row.session_id), begun, format_line(ended), str(row.steps), str(row.compactions), f"{row.prompt_tokens:,}"),
        "?" if row.cost_usd is None else f"{row.cost_usd:.4f}",
        *(format_line(trial, 40), format_line(row.model, 30), format_line(row.task, 40)),
    )


def _build_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
