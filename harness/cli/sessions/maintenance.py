"""`harness sessions archive`, `restore` and `clean`: old sessions are put away, and what nobody needs goes (S3.13, S3.14)."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from harness.cli.sessions.lookup import IN_OPTION, resolve_places
from harness.cli.terminal_text import format_line
from harness.errors import UsageError, format_count
from harness.experiment.output import lock_folder
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.sessions import archive
from harness.store.sessions import cleanup as cleaning
from harness.store.sessions.lookup import JOURNAL_FILE, JOURNALS_FOLDER, list_journals

_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def parse_age(_context: click.Context, _option: click.Parameter, value: str) -> int:
    """A time span as a person writes it (`30d`), in milliseconds."""
    match_result = re.fullmatch(r"(\d{1,6})([mhdw])", value)
    if not match_result:
        raise click.BadParameter(f"{value!r} is no time span; write 90m, 12h, 30d or 8w")
    return int(match_result[1]) * _UNITS_MS[match_result[2]]


@click.command("archive")
@IN_OPTION
@click.option(
    "--older-than",
    "age_ms",
    callback=parse_age,
    metavar="AGE",
    required=True,
    help="Nothing was logged of them for so long: 12h, 30d, 8w.",
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
            for archived_session in archive.archive_sessions(journal, names):
                click.echo(
                    f"{format_line(archived_session.session_id)}: {archived_session.size_bytes:,} bytes in "
                    f"{format_line(str(archived_session.file))}"
                )
        left = f"; {len(due.trial_sessions)} belong to trials and stay (--with-trials)" if due.trial_sessions else ""
        click.echo(f"{format_line(str(journal.path))}: {format_count(len(names), 'session')} old enough{left}")
        if names and not dry_run:
            _clean_journal(journal)


@click.command("restore")
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


@click.command("clean")
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
    outputs, texts, files = (
        format_count(removed.outputs, "saved output"),
        format_count(removed.texts, "text"),
        format_count(removed.files, "file"),
    )
    click.echo(f"{format_line(str(journal.path))}: {outputs}, {texts} and {files} went, {removed.freed_bytes:,} bytes are free")


def _list_journal_files(named_places: tuple[Path, ...]) -> list[Path]:
    """The journals of some places, those of trials at work aside."""
    return [
        path for place in resolve_places(named_places) for path in list_journals(place) if path.parent.name != JOURNALS_FOLDER
    ]


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
