"""Commands for logged sessions: `harness sessions` lists, reads, searches, archives and exports; `harness export` copies one."""

import datetime as dt
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path

import click
from rich.text import Text

from harness.cli import options
from harness.cli.session_lookup import IN_OPTION, resolve_places, resolve_session, resolve_source
from harness.cli.terminal import build_table, format_counts, format_line, print_line, print_parts
from harness.conversation.truncation import note_expired_outputs
from harness.errors import UsageError, format_count
from harness.experiment.output import lock_folder
from harness.inspection.exchange.writing import WRITERS, ExchangeFormat, write_session
from harness.inspection.import_export import export_session, read_session, read_timed_log
from harness.inspection.session_sources import RecordedFile
from harness.models.scripted.profiles import is_scripted
from harness.session.totals import TOTALLED_KINDS, SessionTotals
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.sessions import archive, queries
from harness.store.sessions import cleanup as cleaning
from harness.store.sessions.lookup import (
    JOURNAL_FILE,
    JOURNALS_FOLDER,
    find_scope,
    is_partial_id,
    list_journals,
    read_journal,
)
from harness.text import replace_control_characters

DEFAULT_LIMIT = 50
MAX_CHECKS_CHARACTERS = 60
"""Maximum number of characters of the failed checks of one session in a list."""
LIST_PRICE_NOTE = " list"
"""Note in a list behind a cost at the list prices of the models, which the recording does not give."""
MARKS: Mapping[str, bool | None] = {"success": True, "failure": False, "none": None}
"""Marks of a session by the words of the command line; `none` removes a mark."""
UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


class SessionsGroup(click.Group):
    """Group of the commands for sessions, which knows the name that one of them has now."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, or None if there is no such command.

        Raises:
            UsageError: The command has another name now.
        """
        if cmd_name == "import":
            raise UsageError("`harness sessions import` is now `harness import FILE --journal J` or `harness import FOLDER`")
        return super().get_command(ctx, cmd_name)


@click.group("sessions", cls=SessionsGroup)
def command() -> None:
    """List, read, search, archive and clean up logged sessions.

    Sessions are logged in journals: SQLite files written by experiments, notebook widgets and `harness agent`. The id of a
    message is SESSION/NUMBER.

    Example: `harness sessions list experiments/quickstart`
    """


@command.command("list")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@IN_OPTION
@click.option("--status", type=click.Choice(["active", "completed", "failed"]), help="List only sessions of this status.")
@click.option("--limit", type=options.POSITIVE, default=DEFAULT_LIMIT, help="Maximum number of rows.")
def list_sessions(folders: tuple[Path, ...], places: tuple[Path, ...], status: str | None, limit: int) -> None:
    """List the sessions in FOLDERS (experiments, folders of journals or journal files), newest first.

    Without FOLDERS, the places that `--in` names are listed, or else those that it searches by default. A session whose
    process was killed stays `active`. A session that could not log its failure, because its journal could not be written, is
    marked as failed now. A sub-agent has a session of its own; its id begins with the id of the session that started it.
    Seed, score and failed checks are those of the trial that ran the session, or those of `harness task grade --mark`. A cost
    with the note `list` is that of a recording at the list prices of its models on the day of the import.

    Example: `harness sessions list --status failed`
    """
    by_name = {
        (find_scope(path), row.session_id): (path, row)
        for place in resolve_places((*folders, *places))
        for path in list_journals(place)
        for row in read_journal(path, queries.list_sessions)
    }
    rows = sorted(by_name.values(), key=lambda located_row: -located_row[1].created_at_ms)
    rows = [(path, row) for path, row in rows if status in {None, row.status}]
    counts = Counter(row.session_id for _, row in rows)
    numbers = ("steps", "compactions", "prompt tokens", "USD", "seed", "score")
    columns = ("session", "started (UTC)", "ended", *numbers, "trial", "model", "task", "failed checks")
    cells = [_format_cells(path, row, counts) for path, row in rows[:limit]]
    print_parts(build_table(columns, cells))
    if any(str(cell).endswith(LIST_PRICE_NOTE) for cell in (row[columns.index("USD")] for row in cells)):
        print_line("list: the recording gives no cost; this one is at the list prices of its models")
    if any(is_scripted(row.model) for _, row in rows[:limit]):
        print_line("scripted: costs of scripted models are simulated; nobody pays them")
    if len(rows) > limit:
        print_line(f"and {len(rows) - limit} more; --limit shows more of them")


@command.command("search")
@click.argument("text")
@IN_OPTION
@click.option("--limit", type=options.POSITIVE, default=DEFAULT_LIMIT, help="Maximum number of rows.")
def search_sessions(text: str, places: tuple[Path, ...], limit: int) -> None:
    """Find the messages that contain TEXT.

    Upper and lower case are not distinguished. Tool calls and their results, compacted messages included, are searched too.

    Example: `harness sessions search "config.toml"`
    """
    hit_count = 0

    def search_journal(journal: Journal) -> Sequence[queries.SearchHit]:
        return list(islice(queries.search(journal, text), limit + 1 - hit_count))

    for path in [path for place in resolve_places(places) for path in list_journals(place)]:
        for hit in read_journal(path, search_journal):
            hit_count += 1
            if hit_count > limit:
                print_line(f"more than {format_count(limit, 'message')} found; --limit shows more of them")
                return
            suffix = ", compacted" if hit.is_compacted else ""
            print_line(f"{hit.message_id}  {hit.role} {hit.tool}".rstrip() + f", step {hit.step}{suffix}")
            print_line(f"    {format_line(hit.excerpt)}")
    if not hit_count:
        print_line("no message contains the text")


@command.command("mark")
@click.argument("mark", type=click.Choice(list(MARKS)))
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@IN_OPTION
def mark_sessions(mark: str, sessions: tuple[str, ...], places: tuple[Path, ...]) -> None:
    """Mark each SESSION as a success or a failure.

    `none` removes a mark. No check says how a session outside of experiments ended, so that only its user knows. `harness report`
    compares the marks of the arms that `harness gateway --arm` drew, and the mark is the column `marked_success` of trials. The
    log of a session does not change. The sessions of trials have checks and cannot be marked.

    Example: `harness sessions mark success 3f416a`
    """
    for location in [resolve_session(name, places) for name in sessions]:  # all are found before any is marked
        with Journal.open(location.journal) as journal:
            journal.mark_session(location.session_id, MARKS[mark])
        print_line(f"{format_line(location.session_id)}: {'no mark' if MARKS[mark] is None else f'marked {mark}'}")


@command.command("export")
@click.argument("session")
@click.argument("file", type=options.FILE)
@IN_OPTION
@click.option("--format", "name", required=True, type=click.Choice(sorted(WRITERS)), help="Format of the file.")
@click.option("--redacted", is_flag=True, help="Replace texts by digests of their shape, so that the session can be published.")
def export_exchange(session: str, file: Path, places: tuple[Path, ...], name: ExchangeFormat, *, redacted: bool) -> None:
    """Write a session in a format of another program.

    SESSION is a session in a journal, or a file of a recording. FILE must not exist. `atif` is a trajectory of Harbor,
    `inspect` a log that Inspect View opens, `weka` a trace of token counts without texts, and `otel` OpenTelemetry spans. The
    guide to recorded sessions lists what each format loses. `harness export` writes a session without loss.

    Example: `harness sessions export 3f416a session.eval --format inspect --redacted`
    """
    source = resolve_source(session, places)
    is_file = isinstance(source, RecordedFile)
    log = read_session(session)[0] if is_file else read_timed_log(resolve_session(session, places))
    written = write_session(log, file, name, redacted=redacted)
    print_line(f"wrote {format_line(str(file))}: {format_count(sum(1 for _ in written.calls), 'model call')}")


@command.command("messages")
@click.argument("session", default="")
@IN_OPTION
@click.option("--active", is_flag=True, help="List only the last view, in the order in which it is sent.")
def list_messages(session: str, places: tuple[Path, ...], active: bool) -> None:
    """List the messages of SESSION, including summaries and replacements.

    Example: `harness sessions messages 3f416a --active`
    """
    location = resolve_session(session, places)
    with Journal.open(location.journal, read_only=True) as journal:
        rows = queries.list_messages(journal, location.session_id, active=active)
    cells = (
        (row.message_id, row.step, row.role, row.tokens, "compacted" if row.is_compacted else "", format_line(row.content, 80))
        for row in rows
    )
    print_parts(build_table(("message", "step", "role", "tokens", "", "text"), cells))


@command.command("message")
@click.argument("name", metavar="MESSAGE")
@IN_OPTION
def show_message(name: str, places: tuple[Path, ...]) -> None:
    """Show all parts of MESSAGE, whose id is SESSION/NUMBER.

    An answer of the model is shown with the parts of its step: snapshots, sub-agents, the reason why the answer ended, tokens and
    cost, and the changed files.

    Example: `harness sessions message 3f416a/12`
    """
    session, _, number = name.rpartition("/")
    if not number.isdecimal():
        raise UsageError(
            f"{name!r} is not the id of a message; write SESSION/NUMBER, as listed by `harness sessions messages SESSION`"
        )
    location = resolve_session(session, places)
    with Journal.open(location.journal, read_only=True) as journal:
        row = queries.read_message(journal, f"{location.session_id}/{number}")
        saved_outputs = journal.list_saved_outputs(location.session_id)
    suffix = ", compacted" if row.is_compacted else ""
    title = f"{replace_control_characters(row.message_id)}  {row.role}, step {row.step}, {row.tokens:,} tokens{suffix}"
    print_parts(Text(title, style="bold"))
    for part in row.parts:
        label = " ".join(word for word in (f"[{part.position}]", part.type, part.tool, part.call_id, part.state) if word)
        text = note_expired_outputs(part.text, saved_outputs) if part.type == "tool-result" else part.text
        print_parts(Text(replace_control_characters(label), style="dim"), text)
        if part.data_json:
            print_parts(Text(replace_control_characters(part.data_json), style="dim"))


def _read_totals(path: Path, session_id: str) -> SessionTotals:
    totals = SessionTotals()
    for entry in read_journal(path, lambda journal: list(journal.read_entries(session_id, kinds=TOTALLED_KINDS))):
        totals(entry)
    return totals


def _format_cells(path: Path, row: queries.SessionRow, counts: Mapping[str, int]) -> tuple[str | int, ...]:
    totals = _read_totals(path, row.session_id)
    folder = f" in {path}" if counts[row.session_id] > 1 else ""
    started_at = dt.datetime.fromtimestamp(row.created_at_ms / 1000, tz=dt.UTC)
    begin = f"{started_at:%Y-%m-%d %H:%M}" if row.created_at_ms else "?"  # a recording without times
    outcome = f"{row.status} ({row.reason})" if row.reason else row.status
    outcome += "" if row.marked_success is None else f", marked {'success' if row.marked_success else 'failure'}"
    trial = f"{row.experiment}: {row.arm}" if row.trial_id else ""
    cost = (
        "?"
        if totals.total_cost_usd is None
        else f"{totals.total_cost_usd:.4f}{LIST_PRICE_NOTE if totals.has_list_prices else ''}"
    )
    texts = ((trial, 40), (row.model, 30), (row.task, 40), (row.failed_checks, MAX_CHECKS_CHARACTERS))
    return (
        f"{row.session_id}{folder}",
        begin,
        outcome,
        totals.steps,
        totals.compactions,
        totals.prompt_tokens,
        cost,
        "" if row.seed is None else row.seed,
        "" if row.score is None else f"{row.score:.2f}",
        *(format_line(text, width) for text, width in texts),
    )


def parse_age(value: str) -> int:
    """Return the length of a time span such as `30d` in milliseconds."""
    match_result = re.fullmatch(r"(\d{1,6})([mhdw])", value)
    if not match_result:
        raise click.BadParameter(
            f"{value!r} is not a time span; write a number of minutes, hours, days or weeks: 90m, 12h, 30d or 8w"
        )
    return int(match_result[1]) * UNITS_MS[match_result[2]]


@command.command("archive")
@IN_OPTION
@click.option(
    "--older-than", "age_ms", type=parse_age, metavar="AGE", required=True, help="Age of the last log entry: 12h, 30d, 8w."
)
@click.option("--with-trials", is_flag=True, help="Archive sessions of trials too; these trials then count as not run.")
@click.option("--dry-run", is_flag=True, help="Only list the sessions that would be archived.")
def archive_sessions(places: tuple[Path, ...], age_ms: int, with_trials: bool, dry_run: bool) -> None:
    """Move old sessions out of their journals.

    Each session becomes a compressed file in the folder `archive` next to its journal; `harness sessions restore` brings it
    back. Sessions of trials are not archived by default, since reports are computed from them.

    Example: `harness sessions archive --older-than 30d --dry-run`
    """
    before_ms = int(time.time() * 1000) - age_ms
    for journal in _open_journals(places, read_only=dry_run):
        due = archive.find_due_sessions(journal, before_ms, with_trials=with_trials)
        names = [row.session_id for row in due.sessions]
        if dry_run:
            for name in names:
                print_line(f"would archive {format_line(name)}")
        else:
            for file in archive.archive_sessions(journal, names):
                print_line(f"{format_line(file.session_id)}: {file.size_bytes:,} bytes in {format_line(str(file.file))}")
        rest = f"; {format_count(len(due.trial_sessions), 'old session')} of trials not archived" if due.trial_sessions else ""
        outcome = f"{format_count(len(names), 'session')} {'to archive' if dry_run else 'archived'}{rest}"
        print_line(f"{format_line(str(journal.path))}: {outcome}")
        if names and not dry_run:
            _clean_journal(journal)


@command.command("restore")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@IN_OPTION
def restore_sessions(sessions: tuple[str, ...], places: tuple[Path, ...]) -> None:
    """Bring archived sessions back into their journal.

    SESSION is the id of a session, or a unique beginning or end of it. Without SESSION, list the archived sessions.

    Example: `harness sessions restore 3f416a59ee3d`
    """
    archived_sessions = [(path, session) for path in _list_journal_files(places) for session in archive.list_archived(path)]
    if not sessions:
        for _, session in archived_sessions:
            print_line(f"{format_line(session.session_id)}  {session.size_bytes:>10,} bytes  {format_line(str(session.file))}")
        print_line(f"{format_count(len(archived_sessions), 'archived session')}")
        return
    for name in sessions:
        path, session_id = _choose_archived(name, archived_sessions)
        with _open_journal(path) as journal:
            archive.restore(journal, [session_id])
        print_line(f"restored {format_line(session_id)} to {format_line(str(path))}")


def _choose_archived(name: str, archived_sessions: Sequence[tuple[Path, archive.ArchivedSession]]) -> tuple[Path, str]:
    """Return the journal and the full id of the only archived session whose id begins or ends with the given text.

    Raises:
        UsageError: No session matches, several match, or the session is archived in several places.
    """
    archived_ids = [(path, session.session_id) for path, session in archived_sessions]
    matches = [match for match in archived_ids if match[1] == name] or [
        match for match in archived_ids if is_partial_id(name, match[1])
    ]
    if len(matches) == 1:
        return matches[0]
    if len({session_id for _, session_id in matches}) > 1:
        problem = f"may be any of {format_count(len(matches), 'archived session')}; write more of its id"
    else:
        problem = "is archived in several places; choose one with --in" if matches else "is not archived"
    raise UsageError(f"session {name!r} {problem}; `harness sessions restore` lists them")


@command.command("clean")
@IN_OPTION
def clean_journals(places: tuple[Path, ...]) -> None:
    """Delete data that is no longer needed from journals.

    Deleted are full tool outputs saved more than seven days ago, and texts and files that no session refers to any more. The
    disk space is released. Files are kept while a session of the journal runs. Each run deletes old tool outputs at its start
    too, and each session at its start and every hour.

    Example: `harness sessions clean --in experiments/quickstart`
    """
    for journal in _open_journals(places):
        _clean_journal(journal)


def _clean_journal(journal: Journal) -> None:
    now_ms = int(time.time() * 1000)
    removed = cleaning.clean(journal, outputs_before_ms=now_ms - RETENTION_MS)
    counts = format_counts((removed.outputs, "tool output"), (removed.texts, "text"), (removed.files or 0, "file"))
    note = "; files are kept while a session runs, close it and try again" if removed.files is None else ""
    print_line(f"{format_line(str(journal.path))}: deleted {counts}; released {removed.freed_bytes:,} bytes{note}")


def _list_journal_files(named_places: tuple[Path, ...]) -> list[Path]:
    paths = (path for place in resolve_places(named_places) for path in list_journals(place))
    # running trials have journals of their own
    return [path for path in paths if path.parent.name != JOURNALS_FOLDER]


def _open_journals(named_places: tuple[Path, ...], *, read_only: bool = False) -> Iterator[Journal]:
    for path in _list_journal_files(named_places):
        with _open_journal(path, read_only=read_only) as journal:
            yield journal


@contextmanager
def _open_journal(path: Path, *, read_only: bool = False) -> Iterator[Journal]:
    # while the lock is held, no run of the experiment writes to the journal
    needs_lock = path.name == JOURNAL_FILE and path.with_name("run.lock").exists() and not read_only
    with lock_folder(path.parent) if needs_lock else nullcontext(), Journal.open(path, read_only=read_only) as journal:
        yield journal


@click.command("export")
@click.argument("session")
@click.argument("file", type=options.FILE)
@IN_OPTION
@click.option("--format", "_format", type=click.Choice(["jsonl"]), default="jsonl", help="Format of the file.")
def export_command(session: str, file: Path, places: tuple[Path, ...], _format: str) -> None:
    """Write a session to a JSONL file.

    FILE must not exist. It gets one row for each event of SESSION; a row `compaction` has a `first_kept_entry_id`. The module
    `harness.recordings.session_file` documents the rows. `harness import` reads the file back without loss.

    Example: `harness export 3f416a session.jsonl`
    """
    events = export_session(resolve_session(session, places), file)
    print_line(f"wrote {format_line(str(file))}: {events:,} events")
