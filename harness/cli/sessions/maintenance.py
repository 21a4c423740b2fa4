"""`harness sessions archive`, `restore` and `clean`: old sessions are put away, and what nobody needs goes (S3.13, S3.14)."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from harness.cli.sessions.lookup import IN, places
from harness.cli.terminal_text import one_line
from harness.errors import UsageError, counted
from harness.experiment.output import locked
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.sessions import archive
from harness.store.sessions import cleanup as cleaning
from harness.store.sessions.lookup import JOURNAL_FILE, JOURNALS_FOLDER, journals_in

_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def age(_context: click.Context, _option: click.Parameter, value: str) -> int:
    """A time span as a person writes it (`30d`), in milliseconds."""
    found = re.fullmatch(r"(\d{1,6})([mhdw])", value)
    if not found:
        raise click.BadParameter(f"{value!r} is no time span; write 90m, 12h, 30d or 8w")
    return int(found[1]) * _UNITS_MS[found[2]]


@click.command("archive")
@IN
@click.option(
    "--older-than",
    "age_ms",
    callback=age,
    metavar="AGE",
    required=True,
    help="Nothing was logged of them for so long: 12h, 30d, 8w.",
)
@click.option("--with-trials", is_flag=True, help="Also sessions of trials; their experiment then has not run them.")
@click.option("--dry-run", is_flag=True, help="Only say which.")
def put_away(given: tuple[Path, ...], age_ms: int, with_trials: bool, dry_run: bool) -> None:
    """Put old sessions away: each into a compressed file in the folder `archive` beside its journal.

    `harness sessions restore` brings one back. Sessions of trials stay, since reports are made of them.
    """
    before_ms = int(time.time() * 1000) - age_ms
    for journal in _journals(given, read_only=dry_run):
        due = archive.due(journal, before_ms, with_trials=with_trials)
        names = [row.session_id for row in due.sessions]
        if dry_run:
            for name in names:
                click.echo(f"would put away {one_line(name)}")
        else:
            for one in archive.put_away(journal, names):
                click.echo(f"{one_line(one.session_id)}: {one.size_bytes:,} bytes in {one_line(str(one.file))}")
        left = f"; {len(due.of_trials)} belong to trials and stay (--with-trials)" if due.of_trials else ""
        click.echo(f"{one_line(str(journal.path))}: {counted(len(names), 'session')} old enough{left}")
        if names and not dry_run:
            _clean(journal)


@click.command("restore")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@IN
def restore(sessions: tuple[str, ...], given: tuple[Path, ...]) -> None:
    """Bring archived sessions back into their journal; without a name list what was put away."""
    known = [(path, one) for path in _files(given) for one in archive.archived(path)]
    if not sessions:
        for _, one in known:
            click.echo(f"{one_line(one.session_id)}  {one.size_bytes:>10,} bytes  {one_line(str(one.file))}")
        click.echo(f"{counted(len(known), 'session')} put away")
        return
    for name in sessions:
        where = [path for path, one in known if one.session_id == name]
        if len(where) != 1:
            what = "is not among the archived ones" if not where else "was put away in several places; name one with --in"
            raise UsageError(f"session {name!r} {what}; `harness sessions restore` lists them")
        with _opened(where[0]) as journal:
            archive.restore(journal, [name])
        click.echo(f"{one_line(name)} is back in {one_line(str(where[0]))}")


@click.command("clean")
@IN
def clean(given: tuple[Path, ...]) -> None:
    """Remove tool outputs that were saved for seven days and contents that no session has any more, and give the space back.

    The first happens at each start of a run or session too.
    """
    for journal in _journals(given):
        _clean(journal)


def _clean(journal: Journal) -> None:
    now_ms = int(time.time() * 1000)
    gone = cleaning.clean(journal, outputs_before_ms=now_ms - RETENTION_MS, quiet_before_ms=now_ms - cleaning.QUIET_MS)
    outputs, texts, files = counted(gone.outputs, "saved output"), counted(gone.texts, "text"), counted(gone.files, "file")
    click.echo(f"{one_line(str(journal.path))}: {outputs}, {texts} and {files} went, {gone.freed_bytes:,} bytes are free")


def _files(given: tuple[Path, ...]) -> list[Path]:
    """The journals of some places, those of trials at work aside."""
    return [path for place in places(given) for path in journals_in(place) if path.parent.name != JOURNALS_FOLDER]


def _journals(given: tuple[Path, ...], *, read_only: bool = False) -> Iterator[Journal]:
    for path in _files(given):
        with _opened(path, read_only=read_only) as journal:
            yield journal


@contextmanager
def _opened(path: Path, *, read_only: bool = False) -> Iterator[Journal]:
    """A journal; that of an experiment only while no run is at work in it."""
    runs = path.name == JOURNAL_FILE and path.with_name("run.lock").exists() and not read_only
    with locked(path.parent) if runs else nullcontext(), Journal.open(path, read_only=read_only) as journal:
        yield journal
