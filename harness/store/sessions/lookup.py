"""From the name of a session and the places where it may be to a journal file.

A place is a journal file, the folder of an experiment, its output folder, or a folder of journal files. A name is that of a
session or of a trial, or the beginning of one that no other shares.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.errors import StoreError, UsageError
from harness.events import Entry
from harness.store.journal import Journal
from harness.store.records import Draft

JOURNAL_FILE = "journal.sqlite"
JOURNALS_FOLDER = "journals"
SESSIONS_FOLDER = "sessions"
"""Where the panels of notebooks keep their journals."""
OUTPUT_FOLDER = "output"
NAMES_SHOWN = 5
_JOURNAL_FILES = "*.sqlite"


class Found(NamedTuple):
    """A session and the file that holds it."""

    journal: Path
    session_id: str
    trial_id: str
    """Empty = it belongs to no trial."""

    def entries(self) -> tuple[Entry, ...]:
        """Its log.

        Raises:
            StoreError: the file cannot be read, or was changed meanwhile.
        """
        with Journal.open(self.journal, read_only=True) as journal:
            return tuple(journal.entries(self.session_id))

    def draft(self) -> Draft | None:
        """What its model has written of an answer that is still coming, or was when its process was killed; None = nothing.

        Raises:
            StoreError: as `entries`.
        """
        with Journal.open(self.journal, read_only=True) as journal:
            return journal.draft(self.session_id)


def journals_in(place: Path) -> tuple[Path, ...]:
    """The journal files of a place; none where nothing was run.

    Those of trials at work come first: one that is brought in meanwhile is then read twice and never missed.
    """
    if place.is_file():
        return (place,)
    output = place / OUTPUT_FOLDER if (place / OUTPUT_FOLDER).is_dir() else place
    return (*sorted((output / JOURNALS_FOLDER).glob(_JOURNAL_FILES)), *sorted(output.glob(_JOURNAL_FILES)))


def whole(journal: Path, place: Path) -> Path:
    """Where a name stands for one session: of an experiment all its journals together, else the file alone.

    A trial's own journal is brought into that of its experiment; then its session is in both for a moment.
    """
    return place if journal.parent.name == JOURNALS_FOLDER or journal.name == JOURNAL_FILE else journal


def sessions_in(places: Iterable[Path]) -> Iterator[Found]:
    """Every session of some places, once.

    Raises:
        StoreError: there is no journal at a place, or one cannot be read.
    """
    seen: set[tuple[Path, str]] = set()
    for place in places:
        journals = journals_in(place)
        if not journals:
            raise StoreError(f"there is no journal in {str(place)!r}; name a journal file or the folder of an experiment")
        for path in journals:
            for row in _rows(path):
                found = Found(path, row["id"], row["trial_id"] or "")
                if (whole(path, place), found.session_id) not in seen:
                    seen.add((whole(path, place), found.session_id))
                    yield found


def _rows(path: Path) -> list[sqlite3.Row]:
    """Sessions and their trials; none of a trial's own journal that was just brought in, or is just being made."""
    sql = "SELECT s.id, r.trial_id FROM session AS s LEFT JOIN trial AS r ON r.session_id = s.id ORDER BY s.created_at_ms, s.key"
    try:
        with Journal.open(path, read_only=True) as journal:
            return journal.rows(sql)
    except StoreError:
        if path.parent.name != JOURNALS_FOLDER:
            raise
        return []


def find_session(name: str, places: Sequence[Path]) -> Found:
    """The session of a name.

    Args:
        name: of a session or a trial, or the beginning of one; empty = the only one there is.
        places: where to look.

    Raises:
        UsageError: there is none, or there are several.
        StoreError: a place holds no journal, or one cannot be read.
    """
    known = list(sessions_in(places))
    exact = [one for one in known if name and name in {one.session_id, one.trial_id}]
    fitting = exact or _without_sub_agents(
        [one for one in known if one.session_id.startswith(name) or one.trial_id.startswith(name)]
    )
    if not fitting:
        raise UsageError(f"none of {len(known)} sessions is called {name!r} or begins so; `harness sessions list` shows them")
    if len(fitting) > 1:
        raise UsageError(_several(name, fitting))
    return fitting[0]


def _without_sub_agents(found: list[Found]) -> list[Found]:
    """Sessions but those that are named after another of them, with a point between."""
    names = {one.session_id for one in found}
    return [one for one in found if one.session_id.rpartition(".")[0] not in names]


def _several(name: str, fitting: Sequence[Found]) -> str:
    shown = ", ".join(f"{one.session_id} in {str(one.journal)!r}" for one in fitting[:NAMES_SHOWN])
    more = f" and {len(fitting) - NAMES_SHOWN} more" if len(fitting) > NAMES_SHOWN else ""
    what = f"{len(fitting)} sessions fit {name!r}" if name else f"there are {len(fitting)} sessions"
    return f"{what}: {shown}{more}; name one"
