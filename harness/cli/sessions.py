"""`harness sessions`: list, read and search logged sessions, archive old ones and clean up (S3.13, S3.14)."""

import datetime as dt
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
from rich.text import Text

from harness.cli import options
from harness.cli.session_lookup import IN_OPTION, resolve_places, resolve_session
from harness.cli.terminal import build_table, format_line, list_first, print_line, print_parts
from harness.errors import UsageError, format_count
from harness.experiment.output import lock_folder
from harness.inspection.import_export import export_session, import_session
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.sessions import archive, queries
from harness.store.sessions import cleanup as cleaning
from harness.store.sessions.lookup import JOURNAL_FILE, JOURNALS_FOLDER, find_scope, list_journals, read_journal
from harness.text import replace_control_characters

DEFAULT_LIMIT = 50
UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


@click.group("sessions")
def command() -> None:
    """List, read and search logged sessions, put old ones away and clean up.

    Sessions stand in journals: of experiments, and those of `harness agent --journal`. A message is named SESSION/NUMBER.
    """


@command.command("list")
@IN_OPTION
@click.option("--status", type=click.Choice(["active", "completed", "failed"]), help="Only these.")
@click.option("--limit", type=options.POSITIVE, default=DEFAULT_LIMIT, help="How many.")
def list_sessions(given: tuple[Path, ...], status: str | None, limit: int) -> None:
    """List sessions, newest first. A session whose process was killed stays active.

    A sub-agent has a session of its own, named after the one that asked, with what it took.
    """
    by_name = {
        (find_scope(path, place), row.session_id): (path, row)
        for place in resolve_places(given)
        for path in list_journals(place)
        for row in read_journal(path, queries.list_sessions)
    }
    rows = sorted(by_name.values(), key=lambda found: -found[1].created_at_ms)
    rows = [(path, row) for path, row in rows if status in {None, row.status}]
    counts = Counter(row.session_id for _, row in rows)
    columns = ("session", "begun (UTC)", "ended", "steps", "rounds", "tokens sent", "USD", "trial", "model", "task")
    print_parts(build_table(columns, (_format_cells(path, row, counts) for path, row in rows[:limit])))
    if len(rows) > limit:
        click.echo(f"and {len(rows) - limit} more; --limit shows them")


@command.command("search")
@click.argument("text")
@IN_OPTION
@click.option("--limit", type=options.POSITIVE, default=DEFAULT_LIMIT, help="How many.")
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
                print_line(f"{hit.message_id}  {hit.role} {hit.tool}".rstrip() + f", step {hit.step}{gone}")
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
    cells = (
        (row.message_id, row.step, row.role, row.tokens, "compacted" if row.is_compacted else "", format_line(row.content, 80))
        for row in rows
    )
    print_parts(build_table(("message", "step", "role", "tokens", "", "begins"), cells))


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
    title = f"{replace_control_characters(row.message_id)}  {row.role}, step {row.step}, {row.tokens:,} tokens{gone}"
    print_parts(Text(title, style="bold"))
    for part in row.parts:
        label = " ".join(word for word in (f"[{part.position}]", part.type, part.tool, part.call_id, part.state) if word)
        print_parts(Text(replace_control_characters(label), style="dim"), part.text)


def _format_cells(path: Path, row: queries.SessionRow, counts: Mapping[str, int]) -> tuple[str | int, ...]:
    where = f" in {path}" if counts[row.session_id] > 1 else ""
    begun = dt.datetime.fromtimestamp(row.created_at_ms / 1000, tz=dt.UTC).strftime("%Y-%m-%d %H:%M")
    ended = f"{row.status} ({row.reason})" if row.reason else row.status
    trial = f"{row.experiment}: {row.arm}" if row.trial_id else ""
    cost = "?" if row.cost_usd is None else f"{row.cost_usd:.4f}"
    texts = (format_line(text, width) for text, width in ((trial, 40), (row.model, 30), (row.task, 40)))
    return (f"{row.session_id}{where}", begun, ended, row.steps, row.compactions, row.prompt_tokens, cost, *texts)


def parse_age(value: str) -> int:
    """A time span as a person writes it (`30d`), in milliseconds."""
    match_result = re.fullmatch(r"(\d{1,6})([mhdw])", value)
    if not match_result:
        raise click.BadParameter(f"{value!r} is no time span; write 90m, 12h, 30d or 8w")
    return int(match_result[1]) * UNITS_MS[match_result[2]]


@command.command("archive")
@IN_OPTION
@click.option(
    "--older-than",
    "age_ms",
    type=parse_age,
    metavar="AGE",
    required=True,
    help="Nothing was logged of them for so long: 30d, 8w.",
)
@click.option("--with-trials", is_flag=True, help="Also sessions of trials; their experiment then has not run them.")
@click.option("--dry-run", is_flag=True, help="Only say which.")
def archive_sessions(given: tuple[Path, ...], age_ms: int, with_trials: bool, dry_run: bool) -> None:
    """Put old sessions away: each into a compressed file in the folder `archive` beside its journal.

    `harness sessions restore` brings one back. Sessions of trials stay, since reports are made of them.
    """
    before_ms = int(time.time() * 1000) - age_ms
    for journal in _open_journals(given, read_only=dry_run):
        due = archive.find_due_sessions(journal, before_ms, with_trials=with_trials)
        names = [row.session_id for row in due.sessions]
        if dry_run:
            for name in names:
                click.echo(f"would put away {format_line(name)}")
        else:
            for file in archive.archive_sessions(journal, names):
                click.echo(f"{format_line(file.session_id)}: {file.size_bytes:,} bytes in {format_line(str(file.file))}")
        left = f"; {len(due.trial_sessions)} belong to trials and stay (--with-trials)" if due.trial_sessions else ""
        click.echo(f"{format_line(str(journal.path))}: {format_count(len(names), 'session')} old enough{left}")
        if names and not dry_run:
            _clean_journal(journal)


@command.command("restore")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@IN_OPTION
def restore_sessions(sessions: tuple[str, ...], given: tuple[Path, ...]) -> None:
    """Bring archived sessions back into their journal; without a name list what was put away."""
    archived_sessions = [(path, one) for path in _list_journal_files(given) for one in archive.list_archived(path)]
    if not sessions:
        for _, one in archived_sessions:
            click.echo(f"{format_line(one.session_id)}  {one.size_bytes:>10,} bytes  {format_line(str(one.file))}")
        click.echo(f"{format_count(len(archived_sessions), 'session')} put away")
        return
    for name in sessions:
        where = [path for path, one in archived_sessions if one.session_id == name]
        if len(where) != 1:
            what = "is not among the archived ones" if not where else "was put away in several places; name one with --in"
            raise UsageError(f"session {name!r} {what}; `harness sessions restore` lists them")
        with _open_journal(where[0]) as journal:
            archive.restore(journal, [name])
        click.echo(f"{format_line(name)} is back in {format_line(str(where[0]))}")


@command.command("clean")
@IN_OPTION
def clean_journals(given: tuple[Path, ...]) -> None:
    """Remove tool outputs that were saved for seven days and contents that no session has any more, and give the space back.

    The first happens at each start of a run or session too.
    """
    for journal in _open_journals(given):
        _clean_journal(journal)


def _clean_journal(journal: Journal) -> None:
    now_ms = int(time.time() * 1000)
    removed = cleaning.clean(journal, outputs_before_ms=now_ms - RETENTION_MS, quiet_before_ms=now_ms - cleaning.QUIET_MS)
    counts = (removed.outputs, "saved output"), (removed.texts, "text"), (removed.files, "file")
    outputs, texts, files = (format_count(count, noun) for count, noun in counts)
    click.echo(f"{format_line(str(journal.path))}: {outputs}, {texts} and {files} went, {removed.freed_bytes:,} bytes are free")


def _list_journal_files(named_places: tuple[Path, ...]) -> list[Path]:
    """The journals of some places, those of trials at work aside."""
    paths = (path for place in resolve_places(named_places) for path in list_journals(place))
    return [path for path in paths if path.parent.name != JOURNALS_FOLDER]


def _open_journals(named_places: tuple[Path, ...], *, read_only: bool = False) -> Iterator[Journal]:
    for path in _list_journal_files(named_places):
        with _open_journal(path, read_only=read_only) as journal:
            yield journal


@contextmanager
def _open_journal(path: Path, *, read_only: bool = False) -> Iterator[Journal]:
    """A journal; that of an experiment only while no run is at work in it."""
    needs_lock = path.name == JOURNAL_FILE and path.with_name("run.lock").exists() and not read_only
    with lock_folder(path.parent) if needs_lock else nullcontext(), Journal.open(path, read_only=read_only) as journal:
        yield journal


@click.command("export")
@click.argument("session")
@click.argument("file", type=options.FILE)
@IN_OPTION
@click.option("--format", "_format", type=click.Choice(["jsonl"]), default="jsonl", help="Of the file.")
def export_command(session: str, file: Path, given: tuple[Path, ...], _format: str) -> None:
    """Write SESSION to the new FILE as JSONL: one row an event, with a row `compaction` and its `first_kept_entry_id`.

    `harness import` reads it back as it was. What a row means stands in harness/replay/session_file.py.
    """
    events = export_session(resolve_session(session, given), file)
    click.echo(f"wrote {format_line(str(file))}: {events:,} events")


@click.command("import")
@click.argument("file", type=options.FILE)
@click.option("--journal", required=True, type=options.FILE, help="Log it into this SQLite file.")
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
    for line in list_first([format_line(caveat) for caveat in imported.caveats]):
        click.echo(f"  {line}")
