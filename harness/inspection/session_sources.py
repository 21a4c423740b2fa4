"""Resolution of what a user names to a session: an id, a journal, a recording, a task or the sample.

The command line and the widgets resolve names here only; `harness.store.sessions.lookup.find_session` finds ids in journals.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from harness.errors import UnknownName, UsageError
from harness.store.database import is_database
from harness.store.sessions.lookup import SessionLocation, find_session
from harness.tasks import TASKS

SAMPLE_NAME = "sample"
"""Name that a user gives in place of a file or folder to open the readable sample session.

In the sample, an agent repairs a service that sends flood alerts too late; see `harness.inspection.sample_story`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """File that another agent or `harness export` wrote, with one or more sessions."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInSession:
    """Session that needs no file: the sample, or the scripted session of a task."""

    name: str
    """`SAMPLE_NAME`, or the name of a task."""


SessionSource: TypeAlias = SessionLocation | RecordedFile | BuiltInSession


def resolve_session(
    name: str | os.PathLike[str],
    session_id: str | None = None,
    *,
    places: Sequence[Path] = (),
    list_default_places: Callable[[], Sequence[Path]] | None = None,
) -> SessionSource:
    """Return the session that a user names.

    Args:
        name: Path of a journal, folder or recording, or else the id of a session or trial, the name of a task, or `sample`. A
            unique beginning or end of an id is enough. Empty stands for the only session in the places.
        session_id: Id of the session in the journal or folder that `name` is, or a unique beginning or end of it; None if there
            is only one session.
        places: Journals and folders that the user named for the search; `name` is then always an id.
        list_default_places: Function that returns the journals and folders to search for an id if the user named none; None if
            only paths and built-in sessions are allowed.

    Raises:
        UnknownName: `name` is no path, and there is no such task.
        UsageError: Not exactly one session matches.
        StoreError: A folder contains no journal, or the journal is damaged.
    """
    text, path = os.fspath(name), Path(name)
    if places:
        return find_session(text, places)
    if text and (path.is_dir() or (path.is_file() and is_database(path))):
        return find_session(session_id or "", (path,))
    if text and path.is_file():
        return RecordedFile(path=path)
    if list_default_places is not None:
        return find_session(text, list_default_places())
    if session_id is not None:
        raise UsageError(f"there is no journal or folder {text!r} to look for session {session_id!r}; check the path")
    if text != SAMPLE_NAME and ":" not in text and text not in TASKS:
        raise UnknownName("session: no such file or folder, and no such task:", text, (*TASKS, SAMPLE_NAME))
    return BuiltInSession(name=text)
