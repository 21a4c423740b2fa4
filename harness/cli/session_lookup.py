"""Search for a stored session in the places that a user gives with `--in`, by the id with which the user names the session."""

import time
from pathlib import Path

import click

from harness.conversation.events import MessageAdded
from harness.errors import UsageError
from harness.inspection import session_sources
from harness.inspection.autopsy import SessionAutopsy
from harness.inspection.import_export import load_entries
from harness.inspection.session_sources import RecordedFile, SessionSource
from harness.inspection.session_task import build_session_autopsy, build_stored_autopsy
from harness.inspection.stored_twins import open_twin_source
from harness.recordings.session_log import Reading
from harness.session.twin_run import TwinPlan, run_twins
from harness.session.twins import Twins
from harness.store.journal import Journal
from harness.store.sessions import queries
from harness.store.sessions.lookup import (
    SESSIONS_FOLDER,
    SessionLocation,
    StoredSession,
    find_session,
    list_journals,
    quote_journals,
    read_journal,
)

EXPERIMENTS_FOLDER = "experiments"

IN_OPTION = click.option(
    "--in",
    "places",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PLACE",
    help="Journal file, folder of journals, or folder of an experiment to search; repeatable.  "
    "[default: every folder in `experiments`, and `sessions`]",
)


def resolve_places(named_places: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the journal files and folders to search: those given with `--in`, or the results in the current folder.

    Raises:
        UsageError: A place given with `--in` contains no journal file, or the current folder contains no results.
    """
    for place in named_places:
        if not list_journals(place):
            missing = f"journal in {str(place)!r}" if place.exists() else f"{str(place)!r}"
            raise UsageError(f"there is no {missing}; pass a journal file or the folder of an experiment to --in")
    searched_places = named_places or tuple(
        folder for folder in (*sorted(Path(EXPERIMENTS_FOLDER).glob("*")), Path(SESSIONS_FOLDER)) if list_journals(folder)
    )
    if not searched_places:
        nearby = quote_journals(Path())
        advice = f"in this folder lies {nearby}: add --in FILE" if nearby else "pass a journal file or a folder to --in"
        raise UsageError(
            f"no experiment in {EXPERIMENTS_FOLDER!r} has results, and {SESSIONS_FOLDER!r} holds no journal; {advice}"
        )
    return searched_places


def resolve_source(name: str, named_places: tuple[Path, ...]) -> SessionSource:
    """Return the session with a given session id or trial id, or the one in a file or folder that a name is.

    A unique beginning or end of the id is enough. The path of a journal file or folder stands for the only session in it.

    Raises:
        UsageError: Not exactly one session matches.
    """
    places = resolve_places(named_places) if named_places else ()
    return session_sources.resolve_session(name, places=places, list_default_places=lambda: resolve_places(()))


def resolve_session(name: str, named_places: tuple[Path, ...]) -> SessionLocation:
    """Return the location of the session in a journal with a given name, as `resolve_source` finds it.

    Raises:
        UsageError: Not exactly one session matches, or the name is that of a recording, which is in no journal.
    """
    source = resolve_source(name, named_places)
    if isinstance(source, SessionLocation):
        return source
    try:  # a file may have the same name as a session
        return find_session(name, resolve_places(()))
    except UsageError:
        raise UsageError(f"{name!r} is a file that is no journal; if it is a recording, add it with `harness import`") from None


def find_session_of_request(request: str, named_places: tuple[Path, ...]) -> SessionLocation:
    """Return the location of the newest session in which a message of the user contains a text; sub-agents are left out.

    Raises:
        UsageError: No session has such a message.
    """
    places = resolve_places(named_places)
    rows = [
        (row.created_at_ms, path, row.session_id)
        for place in places
        for path in list_journals(place)
        for row in read_journal(path, queries.list_sessions)
        if "." not in row.session_id
    ]
    for _, path, session_id in sorted(rows, reverse=True):
        with Journal.open(path, read_only=True) as journal:
            for _, event in journal.read_entries(session_id, kinds=("message-added",)):
                assert isinstance(event, MessageAdded)
                if event.message.role == "user" and request.strip() in event.message.text:
                    return SessionLocation(path, session_id, "")
    listed = ", ".join(map(str, places))
    raise UsageError(
        f"no session in {listed} has the request of this task; check --in and --seed, or mark a session by its id with "
        "`harness sessions mark`"
    )


def load_session(name: str, named_places: tuple[Path, ...], reading: Reading = "recorded") -> StoredSession:
    """Read a stored session from a journal, or from a file that another agent or `harness export` wrote.

    Args:
        name: Name of the session or the file.
        named_places: Journals and folders that the user named for the search.
        reading: Whether the session of another agent has the compactions that the agent made.

    Raises:
        UsageError: Not exactly one session matches.
        MalformedRecording: The file is not a recording in a known format.
    """
    source = resolve_source(name, named_places)
    if isinstance(source, RecordedFile):
        return StoredSession(load_entries(source.path, reading), times_ms=(), draft=None, saved_outputs=None)
    assert isinstance(source, SessionLocation)
    return source.read()


def load_autopsy(name: str, named_places: tuple[Path, ...], reading: Reading = "recorded") -> SessionAutopsy:
    """Return the autopsy of a session in a journal or in a file, found and read as `load_session` does it.

    Raises:
        UsageError: Not exactly one session matches.
        MalformedRecording: The file is not a recording in a known format.
    """
    source = resolve_source(name, named_places)
    if isinstance(source, SessionLocation):
        return build_stored_autopsy(source)
    return build_session_autopsy(load_session(name, named_places, reading).entries)


def run_stored_twins(name: str, named_places: tuple[Path, ...], compaction: int, repetitions: int) -> Twins:
    """Run the twins of a compaction of a session in a journal, as it was and with the lost facts put back.

    Raises:
        UsageError: The session is a recording, or it cannot have twins.
        SandboxError: A sandbox did not start.
    """
    source = resolve_source(name, named_places)
    if not isinstance(source, SessionLocation):
        raise UsageError(f"the recording {name!r} has no workspace to continue from; leave --twins out")
    plan = TwinPlan(compaction=compaction, arms=("as it was", "facts put back"), repetitions=repetitions)
    with open_twin_source(source) as twin_source:
        return run_twins(twin_source, plan, time.time)
