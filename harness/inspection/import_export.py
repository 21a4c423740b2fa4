"""Import of sessions from other files into journal files, and export to JSONL files. Events and times stay unchanged."""

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from harness.conversation.events import Entry, SessionStarted
from harness.errors import StoreError, UsageError
from harness.inspection.recorded_cost import measure_cost
from harness.recordings.document import open_document
from harness.recordings.reading import detect_format, read_document, select_main_sessions
from harness.recordings.session_file import NAME, TimedEntry, encode_lines, read_log
from harness.recordings.session_log import Reading, build_timed_log
from harness.store.database import replace_file
from harness.store.journal import Journal
from harness.store.sessions.lookup import SessionLocation

MAX_NAME_CHARACTERS = 200
"""Maximum length of the name of an imported session."""


class ImportedSession(NamedTuple):
    """Result of importing a session from a file: its name, its number of events, the file's format, and notes."""

    session_id: str
    event_count: int
    format_name: str
    """Name of the format of the imported file, as in `harness.recordings.reading.FORMATS`."""
    caveats: tuple[str, ...]
    """Notes about data in the file that was dropped or repaired during the import."""


def read_timed_log(location: SessionLocation) -> tuple[TimedEntry, ...]:
    """Return the log of a session from its journal file, with the time of each event.

    Raises:
        StoreError: The journal cannot be read.
    """
    stored = location.read()
    return tuple([TimedEntry(entry, at_ms) for entry, at_ms in zip(stored.entries, stored.times_ms, strict=True)])


def export_session(location: SessionLocation, file: str | os.PathLike[str]) -> int:
    """Copy a session from a journal file to a new JSONL file, and return the number of events.

    If an error occurs, no file is left.

    Args:
        location: Journal that contains the session, and name of the session.
        file: File to create.

    Raises:
        UsageError: The file exists.
        StoreError: The journal cannot be read, or the file cannot be written.
    """
    file = Path(file)
    if file.exists():
        raise UsageError(f"{str(file)!r} exists; choose another file")
    log = read_timed_log(location)
    try:
        with replace_file(file) as unfinished, unfinished.open("w", encoding="utf-8") as opened:
            opened.writelines(encode_lines(log))
    except OSError as error:
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror}; choose another file") from None
    return len(log)


def read_session(
    file: str | os.PathLike[str], reading: Reading = "recorded"
) -> tuple[tuple[TimedEntry, ...], str, tuple[str, ...]]:
    """Read the session in a file of any known format, without the sessions of its sub-agents.

    Args:
        file: File with one session.
        reading: Whether the session of another agent has the compactions that the agent made. A session of this package always
            has its compactions.

    Returns:
        Log of the session, name of the file's format, and notes about repaired data.

    Raises:
        MalformedRecording: The format of the file is unknown, or the file breaks its format.
        UsageError: The file cannot be read, or contains several sessions.
    """
    document = open_document(Path(file))
    format_name = detect_format(document)
    if format_name == NAME:
        return read_log(document), format_name, tuple(caveat.text for caveat in document.caveats)
    recordings = read_document(document, format_name)
    main = select_main_sessions(recordings)
    if len(main) > 1:
        raise UsageError(f"{file}: the file contains {len(main)} sessions; pass a file with a single session")
    children = [child for child in recordings if child.parent_id and child.parent_id == main[0].session_id]
    log = build_timed_log(main[0], reading=reading, sub_agents=children, measure_cost=measure_cost)
    return log, format_name, tuple(caveat.text for caveat in main[0].caveats)


def import_session(
    file: str | os.PathLike[str], journal: str | os.PathLike[str], session_id: str = "", reading: Reading = "recorded"
) -> ImportedSession:
    """Import a session from a file into a journal, which is created if necessary.

    Args:
        file: Exported session, or recording of another agent in any known format.
        journal: Journal file to which the session is added.
        session_id: Name of the session in the journal; empty keeps the name in the file.
        reading: Whether the session of another agent has the compactions that the agent made.

    Raises:
        MalformedRecording: The format of the file is unknown, or the file breaks its format.
        UsageError: The file cannot be read, the name is missing, unprintable or used in the journal already; nothing was written.
        StoreError: The journal cannot be written.
    """
    log, format_name, caveats = read_session(file, reading)
    name = session_id or _find_session_name(log)
    if not name:
        raise UsageError(f"{str(file)!r} contains no name for its session; name it with --as")
    if len(name) > MAX_NAME_CHARACTERS:
        raise UsageError(f"the session's name has {len(name):,} characters; name it with --as, in at most {MAX_NAME_CHARACTERS}")
    if "/" in name or not name.isprintable():
        origin, fault = "--as" if session_id else repr(str(file)), "a slash" if "/" in name else "control characters"
        raise UsageError(f"the session's name {name!r} from {origin} contains {fault}; choose another name with --as")
    with Journal.open(journal) as opened:
        if name in opened.list_session_ids():
            raise UsageError(f"journal {str(journal)!r} already contains a session {name!r}; choose another name with --as")
        write_log(opened, name, log)
    return ImportedSession(name, len(log), format_name, caveats)


def write_log(journal: Journal, name: str, log: Sequence[TimedEntry]) -> None:
    """Add a session with its log to a journal; the events keep their times.

    Args:
        journal: Open journal without a session of this name.
        name: Name of the session in the journal.
        log: Events of the session with their times, which never decrease.
    """
    times = _iter_times(log)
    session = journal.open_session_log(name, created_at_ms=log[0].at_ms, clock=times.__next__)
    # events with the same time are added together
    for _, group in groupby(log, key=lambda timed: timed.at_ms):
        session.append([entry.event for entry, _ in group])


def _find_session_name(log: tuple[TimedEntry, ...]) -> str:
    first = log[0].entry.event if log else None
    return first.session_id if isinstance(first, SessionStarted) else ""


def _iter_times(log: Sequence[TimedEntry]) -> Iterator[float]:
    for at_ms, _ in groupby(log, key=lambda timed: timed.at_ms):
        yield (at_ms + 0.5) / 1000  # the log truncates to milliseconds; half a millisecond avoids rounding errors


def load_entries(file: Path, reading: Reading = "recorded") -> tuple[Entry, ...]:
    """Return the log of the session in a file of any known format, without times (see `read_session`).

    Raises:
        MalformedRecording: The format of the file is unknown, or the file breaks its format.
        UsageError: The file cannot be read, or contains several sessions.
    """
    return tuple(timed.entry for timed in read_session(file, reading)[0])
