"""From the name of a session and the places where it may be to a journal file.

A place is a journal file, the folder of an experiment, its output folder, or a folder of journal files. A name is that of a
session or of a trial, or the beginning of one that no other shares.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.errors import StoreError, UsageError
from harness.events import Entry
from harness.store.journal import Journal
from harness.store.records import Draft

JOURNAL_FILE = "journal.sqlite"
JOURNALS_FOLDER = "journals"
"""Folder of the journals of trials that are running or not merged yet."""
SESSIONS_FOLDER = "sessions"
"""Where the panels of notebooks keep their journals."""
OUTPUT_FOLDER = "output"
MAX_NAMES_SHOWN = 5
_JOURNAL_FILES = "*.sqlite"
_SESSIONS_SQL = (
    "SELECT s.id, r.trial_id FROM session AS s LEFT JOIN trial AS r ON r.session_id = s.id ORDER BY s.created_at_ms, s.key"
)
_Row = TypeVar("_Row")


class StoredSession(NamedTuple):
    """All that a journal holds of the course of a session."""

    entries: tuple[Entry, ...]
    times_ms: tuple[int, ...]
    """When each entry was logged, in milliseconds since the epoch."""
    draft: Draft | None
    """Unfinished answer that is still coming, or was when its process was killed; None = every answer was logged."""


class SessionLocation(NamedTuple):
    """A session and the file that holds it."""

    journal: Path
    session_id: str
    trial_id: str
    """Empty = it belongs to no trial."""

    def read(self) -> StoredSession:
        """Read the session as it stands now.

        Raises:
            StoreError: the file cannot be read, or has no such session.
        """
        with Journal.open(self.journal, read_only=True) as journal:
            entries, draft = tuple(journal.read_entries(self.session_id)), journal.read_draft(self.session_id)
            times = journal.query(
                "SELECT at_ms FROM event WHERE session = ? ORDER BY seq LIMIT ?", journal.find_key(self.session_id), len(entries)
            )
        return StoredSession(entries, tuple([row[0] for row in times]), draft)

    def read_entries(self) -> tuple[Entry, ...]:
        """Read the log; errors as for `read`."""
        return self.read().entries


def list_journals(place: Path) -> tuple[Path, ...]:
    """The journal files of a place; none where nothing was run.

    Those of trials at work come first: one that is brought in meanwhile is then read twice and never missed.
    """
    if place.is_file():
        return (place,)
    output = place / OUTPUT_FOLDER if (place / OUTPUT_FOLDER).is_dir() else place
    return (*list_trial_journals(output), *sorted(output.glob(_JOURNAL_FILES)))


def list_trial_journals(output: Path) -> list[Path]:
    """Return the journals of trials that are running or not merged yet."""
    return sorted((output / JOURNALS_FOLDER).glob(_JOURNAL_FILES))


def find_scope(journal: Path, place: Path) -> Path:
    """Where a name stands for one session: of an experiment all its journals together, else the file alone.

    A trial's own journal is brought into that of its experiment; then its session is in both for a moment.
    """
    return place if journal.parent.name == JOURNALS_FOLDER or journal.name == JOURNAL_FILE else journal


def iter_sessions(places: Iterable[Path]) -> Iterator[SessionLocation]:
    """Every session of some places, once.

    Raises:
        StoreError: there is no journal at a place, or one cannot be read.
    """
    seen_sessions: set[tuple[Path, str]] = set()
    for place in places:
        journals = list_journals(place)
        if not journals:
            raise StoreError(f"there is no journal in {str(place)!r}; name a journal file or the folder of an experiment")
        for path in journals:
            for row in read_journal(path, lambda journal: journal.query(_SESSIONS_SQL)):
                location = SessionLocation(path, row["id"], row["trial_id"] or "")
                if (find_scope(path, place), location.session_id) not in seen_sessions:
                    seen_sessions.add((find_scope(path, place), location.session_id))
                    yield location


def read_journal(path: Path, read: Callable[[Journal], Sequence[_Row]]) -> Sequence[_Row]:
    """Rows of a journal; none of a trial's own journal that was just brought in, or is just being made."""
    try:
        with Journal.open(path, read_only=True) as journal:
            return read(journal)
    except StoreError:
        if path.parent.name != JOURNALS_FOLDER:
            raise
        return ()


def find_session(name: str, places: Sequence[str | os.PathLike[str]]) -> SessionLocation:
    """The session of a name.

    Args:
        name: of a session or a trial, or the beginning of one; empty = the only one there is.
        places: where to look.

    Raises:
        UsageError: there is none, or there are several.
        StoreError: a place holds no journal, or one cannot be read.
    """
    locations = list(iter_sessions(map(Path, places)))
    exact_matches = [one for one in locations if name and name in {one.session_id, one.trial_id}]
    matches = exact_matches or _exclude_sub_agents(
        [one for one in locations if one.session_id.startswith(name) or one.trial_id.startswith(name)]
    )
    if not matches:
        raise UsageError(f"none of {len(locations)} sessions is called {name!r} or begins so; `harness sessions list` shows them")
    if len(matches) > 1:
        raise UsageError(_describe_matches(name, matches))
    return matches[0]


def _exclude_sub_agents(locations: list[SessionLocation]) -> list[SessionLocation]:
    """Sessions but those that are named after another of them, with a point between."""
    names = {one.session_id for one in locations}
    return [one for one in locations if one.session_id.rpartition(".")[0] not in names]


def _describe_matches(name: str, matches: Sequence[SessionLocation]) -> str:
    shown = ", ".join(f"{one.session_id} in {str(one.journal)!r}" for one in matches[:MAX_NAMES_SHOWN])
    more = f" and {len(matches) - MAX_NAMES_SHOWN} more" if len(matches) > MAX_NAMES_SHOWN else ""
    what = f"{len(matches)} sessions fit {name!r}" if name else f"there are {len(matches)} sessions"
    return f"{what}: {shown}{more}; name one"
