"""A session that is over, wherever it is kept: a journal, an experiment's folder, another agent's recording, or none yet.

What is opened is the log and nothing else; whoever shows or rehearses it does so for all of these alike.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from harness.compaction.presets.none import NoCompaction
from harness.errors import UnknownName, UsageError
from harness.events import Entry, SessionStarted
from harness.inspection.import_export import load_entries
from harness.inspection.sample_run import SampleOracle, build_sample_log
from harness.protocols import Oracle
from harness.replay.document import open_document
from harness.replay.formats import detect_format, read_recordings
from harness.replay.session_file import NAME
from harness.replay.session_log import build_entries
from harness.session.execution import execute_session
from harness.session.oracle import build_scripted_oracle
from harness.session.spec import SessionSpec
from harness.store.database import is_database
from harness.store.sessions.lookup import find_session
from harness.task import Task
from harness.tasks import SUITE, make_task
from harness.tokens import UNLIMITED_WINDOW

SAMPLE_NAME = "sample"
"""Name of the session that policies are shown on: made up, of one request, one and a half times 200,000 tokens long."""
MAX_STEPS = 10_000
MAX_NAMES_SHOWN = 5
"""Sessions that are named to who has to choose one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """A log with a name."""

    name: str
    """For people; hostile text, since it may come from a file."""
    entries: tuple[Entry, ...]
    journal: Path | None = None
    """The file that holds it, and its workspaces if they were kept; None = it is in no journal."""
    oracle: Oracle | None = None
    """What a clairvoyant policy can be told of it; None = nothing is known."""

    @property
    def start_event(self) -> SessionStarted | None:
        """How it began; None where the log does not tell."""
        return next((entry.event for entry in self.entries if isinstance(entry.event, SessionStarted)), None)


def open_recorded_session(source: str | os.PathLike[str] = SAMPLE_NAME, session_id: str | None = None) -> RecordedSession:
    """A session to look at.

    Args:
        source: a journal file, the folder of an experiment or of its output, a recorded session of another agent
            (`harness.replay.formats.FORMATS`), the name of a task, whose scripted session is then run in a sandbox without
            any compaction, or `sample`.
        session_id: which session of a file or folder that holds several; its beginning is enough.

    Raises:
        UnknownName: it is none of these, or no such session is in it.
        UsageError: it holds several sessions and none was named, or it cannot be read.
        StoreError: a folder holds no journal, or it is broken.
        SandboxError: a task's session cannot be run here.
    """
    path = Path(source)
    if path.is_dir() or (path.is_file() and is_database(path)):
        location = find_session(session_id or "", (path,))
        return RecordedSession(name=location.session_id, entries=tuple(location.read_entries()), journal=location.journal)
    if path.is_file():
        return _open_file(path, session_id)
    if session_id is not None:
        raise UsageError(f"there is no journal or folder {str(source)!r} in which a session {session_id!r} could be")
    return _open_named(str(source))


def _open_file(path: Path, session_id: str | None) -> RecordedSession:
    if detect_format(open_document(path)) == NAME:
        return RecordedSession(name=path.name, entries=load_entries(path))
    recordings = read_recordings(path)
    names = [one.session_id or f"session {number}" for number, one in enumerate(recordings, 1)]
    recording = recordings[names.index(_choose_name(path, tuple(names), session_id))]
    return RecordedSession(name=f"{path.name} ({recording.source})", entries=build_entries(recording))


def _choose_name(path: Path, names: tuple[str, ...], prefix: str | None) -> str:
    """The one name that is wanted."""
    matching_names = names if prefix is None else tuple(name for name in names if name.startswith(prefix))
    if len(matching_names) == 1:
        return matching_names[0]
    if not matching_names:
        raise UnknownName(f"session in {str(path)!r}:", str(prefix), names)
    more = f" and {len(matching_names) - MAX_NAMES_SHOWN} more" if len(matching_names) > MAX_NAMES_SHOWN else ""
    listed = ", ".join(matching_names[:MAX_NAMES_SHOWN])
    raise UsageError(f"{str(path)!r} holds {len(matching_names)} sessions; name one: {listed}{more}")


def _open_named(name: str) -> RecordedSession:
    """The session of a name: the sample, or a task's."""
    if name == SAMPLE_NAME:
        return RecordedSession(name="sample session", entries=build_sample_log(), oracle=SampleOracle())
    if ":" not in name and name not in SUITE:
        raise UnknownName("session: no such file or folder, and no such task:", name, (*SUITE, SAMPLE_NAME))
    task = make_task(name, 0)
    return RecordedSession(name=f"task {name}", entries=_run_scripted(task), oracle=build_scripted_oracle(task))


def _run_scripted(task: Task) -> tuple[Entry, ...]:
    """The log of a task's scripted session in a window that holds all of it."""
    entries_log: list[Entry] = []
    session = SessionSpec(request=task.prompt, policy=NoCompaction(), task=task, window_tokens=UNLIMITED_WINDOW.tokens)
    session = replace(session, limits=replace(session.limits, max_steps=MAX_STEPS))
    execute_session(session, "looked-at", on_event=lambda one: entries_log.append(one) if isinstance(one, Entry) else None)
    return tuple(entries_log)
