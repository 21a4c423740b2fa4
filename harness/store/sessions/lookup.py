"""Lookup of sessions by their id in one or more places.

A place is a journal file, the folder of an experiment, its output folder, or a folder of journal files. A session is found by its
id or by the id of its trial. A unique beginning or end of the id is enough. The ends are useful because ids made at about the
same time begin alike.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.conversation.events import Entry
from harness.errors import NewerVersion, StoreError, UsageError, format_count
from harness.store.database import is_database
from harness.store.journal import Journal
from harness.store.records import UnfinishedStep
from harness.store.sessions.failures import record_noted_failures

JOURNAL_FILE = "journal.sqlite"
JOURNALS_FOLDER = "journals"
"""Name of the folder, in the output of an experiment, with journals of trials that are running or not merged yet."""
SESSIONS_FOLDER = "sessions"
"""Name of the folder in which notebook widgets and `harness agent` store their journals."""
OUTPUT_FOLDER = "output"
MAX_NAMES_SHOWN = 5
_JOURNAL_FILES = "*.sqlite"
_SESSIONS_SQL = (
    "SELECT s.id, r.trial_id FROM session AS s LEFT JOIN trial AS r ON r.session_id = s.id ORDER BY s.created_at_ms, s.key"
)
_Row = TypeVar("_Row")


class StoredSession(NamedTuple):
    """Contents of a logged session: events with their times, and the unfinished answer."""

    entries: tuple[Entry, ...]
    times_ms: tuple[int, ...]
    """Times at which the events of the session were logged, in milliseconds since the epoch."""
    draft: UnfinishedStep | None
    """Answer that the model was writing when the journal was read or the process was killed; None if all answers are logged."""
    saved_outputs: frozenset[str] | None
    """Names of the saved tool outputs that were not deleted; None if the session is not in a journal."""


class SessionLocation(NamedTuple):
    """Location of a logged session, given by the journal file that holds it and the session's id."""

    journal: Path
    session_id: str
    trial_id: str
    """Id of the trial that ran the session; empty if the session belongs to no trial."""

    def read(self) -> StoredSession:
        """Return the contents of the session as they are in the journal now.

        Raises:
            StoreError: The file cannot be read or has no such session.
        """
        record_noted_failures(self.journal)
        with Journal.open(self.journal, read_only=True) as journal:
            entries, draft = tuple(journal.read_entries(self.session_id)), journal.read_draft(self.session_id)
            times = journal.query(
                "SELECT at_ms FROM event WHERE session = ? ORDER BY seq LIMIT ?", journal.find_key(self.session_id), len(entries)
            )
            saved_outputs = journal.list_saved_outputs(self.session_id)
        return StoredSession(entries, tuple([row[0] for row in times]), draft, saved_outputs)

    def read_entries(self) -> tuple[Entry, ...]:
        """Return the log of the session as it is in the journal now, as events with their numbers.

        Raises:
            StoreError: The file cannot be read or has no such session.
        """
        return self.read().entries


def name_default_journal(session_id: str) -> Path:
    """Return the path of a new journal in `SESSIONS_FOLDER`, for a session for which the user names none."""
    return Path(SESSIONS_FOLDER) / f"{session_id}.sqlite"


def list_journals(place: Path) -> tuple[Path, ...]:
    """Return the journal files in a place (a journal file or a folder); empty if nothing was run there.

    Journals of running trials come first. A trial that is merged into the experiment's journal meanwhile is then read twice
    instead of being missed.
    """
    if place.is_file():
        return (place,)
    output = place / OUTPUT_FOLDER if (place / OUTPUT_FOLDER).is_dir() else place
    return (*list_trial_journals(output), *sorted(output.glob(_JOURNAL_FILES)))


def quote_journals(folder: Path) -> str:
    """Return the names of the journal files that lie in a folder, for an error message, e.g. `'gateway.sqlite'`; else empty."""
    names = [repr(str(path)) for path in sorted(folder.glob(_JOURNAL_FILES)) if is_database(path)]
    suffix = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    return ", ".join(names[:MAX_NAMES_SHOWN]) + suffix


def list_trial_journals(output: Path) -> list[Path]:
    """Return the journal files of those trials in an output folder that are running or not merged yet."""
    return sorted((output / JOURNALS_FOLDER).glob(_JOURNAL_FILES))


def find_scope(journal: Path) -> Path:
    """Return the path within which the ids of a journal's sessions are unique.

    This is the output folder of the journal's experiment or, without one, the journal file. Two files of an experiment may hold
    the same session, because the journal of a trial is merged into the experiment's journal.
    """
    if journal.parent.name == JOURNALS_FOLDER:
        return journal.parent.parent
    return journal.parent if journal.name == JOURNAL_FILE else journal


def iter_sessions(places: Iterable[Path]) -> Iterator[SessionLocation]:
    """Yield the location of every session in some places (files or folders), each session once.

    Raises:
        StoreError: A place holds no journal, or a journal cannot be read.
    """
    seen_sessions: set[tuple[Path, str]] = set()
    for place in places:
        journals = list_journals(place)
        if not journals:
            raise StoreError(f"there is no journal in {str(place)!r}; specify a journal file or the folder of an experiment")
        for path in journals:
            for row in read_journal(path, lambda journal: journal.query(_SESSIONS_SQL)):
                location = SessionLocation(path, row["id"], row["trial_id"] or "")
                if (find_scope(path), location.session_id) not in seen_sessions:
                    seen_sessions.add((find_scope(path), location.session_id))
                    yield location


def read_journal(path: Path, read: Callable[[Journal], Sequence[_Row]]) -> Sequence[_Row]:
    """Open a journal, call a function that reads rows from it, and return the rows.

    The result is empty if the journal of a trial cannot be read because it is just being created, or was merged and deleted.
    """
    if path.parent.name != JOURNALS_FOLDER:  # the runner itself records failures of trials
        record_noted_failures(path)
    try:
        with Journal.open(path, read_only=True) as journal:
            return read(journal)
    except NewerVersion:
        raise
    except StoreError:
        if path.parent.name != JOURNALS_FOLDER:
            raise
        return ()


def find_session(name: str, places: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> SessionLocation:
    """Find a session by its id or the id of its trial.

    Args:
        name: Id of the session or of its trial, or a unique beginning or end of the id; empty if there is only one session.
        places: Journal file, folder of an experiment or folder of journals, or several of them.

    Raises:
        UsageError: No session matches, or several do.
        StoreError: A place holds no journal, or a journal cannot be read.

    Example::

        location = harness.find_session("3f9a", "experiments/threshold")
        entries = location.read_entries()
    """
    places = [places] if isinstance(places, str | os.PathLike) else places
    locations = list(iter_sessions(map(Path, places)))
    exact_matches = [location for location in locations if name and name in {location.session_id, location.trial_id}]
    matches = exact_matches or _exclude_sub_agents(
        [location for location in locations if is_partial_id(name, location.session_id) or is_partial_id(name, location.trial_id)]
    )
    if not matches:
        count_text = format_count(len(locations), "session")
        fault = f"no session id begins or ends with {name!r} (searched {count_text})" if name else "there are no sessions"
        raise UsageError(f"{fault}; `harness sessions list` shows all sessions")
    if len(matches) > 1:
        raise UsageError(_describe_matches(name, matches))
    return matches[0]


def is_partial_id(name: str, session_id: str) -> bool:
    """Return whether a session id begins or ends with a name that a user typed."""
    return session_id.startswith(name) or session_id.endswith(name)


def _exclude_sub_agents(locations: list[SessionLocation]) -> list[SessionLocation]:
    """Leave out sessions of sub-agents, whose ids are the calling session's id, a dot and a suffix."""
    names = {location.session_id for location in locations}
    return [location for location in locations if location.session_id.rpartition(".")[0] not in names]


def _describe_matches(name: str, matches: Sequence[SessionLocation]) -> str:
    names = ", ".join(f"{match.session_id} in {str(match.journal)!r}" for match in matches[:MAX_NAMES_SHOWN])
    suffix = f" and {len(matches) - MAX_NAMES_SHOWN} more" if len(matches) > MAX_NAMES_SHOWN else ""
    beginning = f"{len(matches)} sessions match {name!r}" if name else f"there are {len(matches)} sessions"
    return f"{beginning}: {names}{suffix}; specify one of them, which `harness sessions list` shows with their arms"
