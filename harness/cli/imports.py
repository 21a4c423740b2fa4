"""Command `harness import`, which reads the recorded sessions in a folder, or copies them or one file into a journal."""

from collections.abc import Iterable
from pathlib import Path

import click
import pandas as pd
from rich.console import Console, RenderableType
from rich.progress import Progress

from harness.cli import options
from harness.cli.terminal import build_table, format_counts, format_line, list_first, print_line, print_parts
from harness.errors import UsageError, format_count
from harness.inspection.import_export import import_session
from harness.inspection.import_folder import import_files
from harness.inspection.recording_folder import (
    FolderRecordings,
    build_tables,
    count_caveats,
    find_files,
    list_installed_folders,
    read_folder,
)
from harness.models.registry import TABLE_VARIABLE
from harness.recordings.session_log import Reading
from harness.text import format_percent

MAX_LISTED = 12
MAX_PLACE_CHARACTERS = 50
"""Largest number of characters of a path in the line of a refused file."""


@click.command("import")
@click.argument("source", required=False, type=click.Path(path_type=Path), metavar="[FILE|FOLDER]")
@click.option("--installed", is_flag=True, help="Read the folders in which agents on this machine store their sessions.")
@click.option("--journal", type=options.FILE, help="Journal (SQLite file) to write to.  [required with FILE]")
@click.option("--as", "name", metavar="ID", help="With FILE: id of the session in the journal.  [default: its id in FILE]")
@click.option("--workers", type=options.POSITIVE, help="Number of processes.  [default: one for each processor]")
@options.READING
def command(
    source: Path | None, journal: Path | None, name: str | None, workers: int | None, reading: Reading, *, installed: bool
) -> None:
    """Read recorded sessions of agents from a file or folder.

    FOLDER and all folders below it are searched for sessions of all known formats. Tables show their tokens, costs and
    compactions, and the files that were refused. Files that did not change since the last import are not read again, and a model
    call that several files hold counts once. With --journal, the sessions are also logged in a journal, for `harness inspect`,
    tables and figures.

    FILE was written by `harness export` or by another agent, and is imported into a journal. An exported session is restored
    without loss. The session of another agent is imported with the compactions that the agent made, as far as the file says what
    they kept, or as if nobody had compacted (`--reading uncompacted`).

    Example: `harness import session.jsonl --journal mine.sqlite`
    """
    if journal is not None and not journal.parent.is_dir():
        raise UsageError(
            f"the folder {str(journal.parent)!r} of the journal does not exist; create it or choose another --journal"
        )
    if source is not None and not source.is_dir():
        _import_file(source, journal, name, reading)
        return
    places = _list_installed() if installed else []
    places += [source] if source is not None else []
    if not places:
        raise UsageError("pass a file or folder, or --installed" + (": no agent has stored sessions here" if installed else ""))
    if name is not None:
        raise UsageError("--as names one session, and a folder may hold many; leave it out")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading")
        files = read_folder(
            places, workers=workers, on_progress=lambda done, total: progress.update(task, completed=done, total=total)
        )
    recordings = build_tables(files)
    print_parts(*_build_parts(recordings))
    if journal is not None:
        done = import_files(files, journal, reading)
        counts = (
            (done.added, "session"),
            (done.replaced, "changed session"),
            (done.unchanged, "unchanged session"),
            (done.duplicates, "duplicate"),
        )
        print_line(f"{format_line(str(journal))}: {format_counts(*counts)}")
        if done.without_texts:
            print_line(f"{format_count(done.without_texts, 'session')} not added, because the files have no texts")


def _import_file(file: Path, journal: Path | None, name: str | None, reading: Reading) -> None:
    if journal is None:
        raise UsageError(f"name the journal to which {str(file)!r} is added, with --journal")
    imported = import_session(file, journal, name or "", reading)
    events = format_count(imported.event_count, "event")
    print_line(f"imported session {format_line(imported.session_id)} ({events}, format {imported.format_name})")
    for line in list_first([format_line(caveat) for caveat in imported.caveats]):
        print_line(f"  {line}")


def _list_installed() -> list[Path]:
    """Print the folders in which agents on this machine store their sessions, and return them."""
    folders = list_installed_folders()
    for name, folder in folders:
        sizes = [path.stat().st_size for path in find_files(folder)]
        print_line(f"{name}: {format_line(str(folder))} ({format_count(len(sizes), 'file')}, {sum(sizes) / 1e6:,.1f} MB)")
    return [folder for _, folder in folders]


def _build_parts(recordings: FolderRecordings) -> Iterable[RenderableType]:
    sessions = recordings.sessions
    columns = ("agent", "model", "sessions", "from", "to", "calls", "prompt tokens", "output tokens", "compactions", "USD")
    if len(sessions):
        groups = sessions.groupby(["format", "models"], sort=True)
        yield build_table(columns, [_format_group(str(agent), str(models), group) for (agent, models), group in groups])
    apart = [
        f"{format_count(int(sessions[column].sum()), 'call')} {text}"
        for column, text in (
            ("placeholder_calls", "with a placeholder for output tokens, which are left out"),
            ("implausible_calls", "with a longer prompt than the model can read, left out"),
            ("estimated_calls", "without usage, left out"),
            ("copied_calls", "copied from another session, where they count"),
        )
        if sessions[column].sum()
    ]
    unpriced = sorted({model or "(not recorded)" for models in sessions["unpriced_models"] for model in models})
    if unpriced:
        apart.append(f"price unknown: {', '.join(unpriced)}; give it in a table of models, see {TABLE_VARIABLE}")
    apart += list(_describe_calibrations(sessions))
    caveats = [f"{count:,} × {kind}" for kind, count in count_caveats(recordings).most_common()]
    refused = [_describe_refusal(str(row.file), str(row.reason)) for row in recordings.refused.itertuples()]
    other = [f"{format_count(recordings.other_files, 'other file')} without a recording"] if recordings.other_files else []
    for title, lines in (("", apart), ("notes", caveats), ("refused", refused), ("", other)):
        yield from [f"{title}:"] if title and lines else []
        yield from (format_line(line) for line in list_first(lines, MAX_LISTED))


def _describe_refusal(file: str, reason: str) -> str:
    """Return a line with the end of a path and the reason, which a long path never pushes out of the line."""
    place = "/".join(Path(file).parts[-2:])
    shown = place if len(place) <= MAX_PLACE_CHARACTERS else f"…{place[1 - MAX_PLACE_CHARACTERS :]}"
    return f"{shown}: {reason.removeprefix(file).lstrip(':, ')}"


def _describe_calibrations(sessions: pd.DataFrame) -> Iterable[str]:
    """Yield a line for each way in which sessions were calibrated, with the median error."""
    for source, text in (("session", "its own usage"), ("agent and model", "other sessions of its agent and model")):
        rows = sessions[sessions["calibration_source"] == source]
        if len(rows):
            error = rows["calibration_error"].astype(float).median()
            yield (
                f"{format_count(len(rows), 'session')} calibrated, each by {text}: median error "
                f"{format_percent(error, 1)} of a prompt"
            )


def _format_group(agent: str, models: str, group: pd.DataFrame) -> tuple[str | int, ...]:
    start, end = group["started_at"].min(), group["ended_at"].max()
    days = ["?" if pd.isna(time) else f"{time:%Y-%m-%d}" for time in (start, end)]
    is_known = group["cost_usd"].notna()
    cost = (
        f"{group['cost_usd'].sum():,.2f}" if is_known.all() else f"{group['cost_usd'].sum():,.2f} + ?" if is_known.any() else "?"
    )
    compactions = int(group["compactions"].sum() + group["inferred_compactions"].sum())
    numbers = (int(group["calls"].sum()), int(group["prompt_tokens"].sum()), int(group["output_tokens"].sum()), compactions)
    return (agent, format_line(models, 40) or "?", len(group), *days, *numbers, cost)
