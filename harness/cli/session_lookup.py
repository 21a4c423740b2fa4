"""Where the commands on sessions look, and what a person may call a session."""

from pathlib import Path

import click

from harness.errors import UsageError
from harness.inspection.import_export import load_entries
from harness.store.database import is_database
from harness.store.sessions.lookup import SESSIONS_FOLDER, SessionLocation, StoredSession, find_session, list_journals

EXPERIMENTS_FOLDER = "experiments"

IN_OPTION = click.option(
    "--in",
    "given",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PLACE",
    help="A journal file, a folder of them, or that of an experiment; may be given again.  "
    "[default: all experiments below this folder, and `sessions`]",
)


def resolve_places(named_places: tuple[Path, ...]) -> tuple[Path, ...]:
    """Where to look: what was given, or every experiment with results and the panels' journals below the current folder.

    Raises:
        UsageError: there is no journal at a place, or nothing was given and nothing found.
    """
    for place in named_places:
        if not list_journals(place):
            missing = f"journal in {str(place)!r}" if place.exists() else f"{str(place)!r}"
            raise UsageError(f"there is no {missing}; name a journal file or the folder of an experiment with --in")
    searched_places = named_places or tuple(
        folder for folder in (*sorted(Path(EXPERIMENTS_FOLDER).glob("*")), Path(SESSIONS_FOLDER)) if list_journals(folder)
    )
    if not searched_places:
        raise UsageError(
            f"no experiment below this folder has results, and {SESSIONS_FOLDER!r} holds no journal; "
            "name a journal file or a folder with --in"
        )
    return searched_places


def resolve_session(name: str, named_places: tuple[Path, ...]) -> SessionLocation:
    """The session of a name; the name of a journal file or a folder means the only session there.

    Raises:
        UsageError: there is none, or more than one.
    """
    path = Path(name)
    if name and not named_places and (path.is_dir() or is_database(path)):
        return find_session("", (path,))
    return find_session(name, resolve_places(named_places))


def load_session(name: str, named_places: tuple[Path, ...]) -> StoredSession:
    """A session in a journal, or one recorded in a file.

    Raises:
        UsageError: there is none, or more than one.
        MalformedRecording: the file is no recording of a known format.
    """
    path = Path(name)
    if name and not named_places and path.is_file() and not is_database(path):
        return StoredSession(load_entries(path), times_ms=(), draft=None)
    return resolve_session(name, named_places).read()
