"""Opening of finished sessions: from a journal, an experiment folder, a recording of another agent, or a scripted task."""

import os
from dataclasses import replace
from pathlib import Path

from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Entry
from harness.conversation.tokens import UNLIMITED_WINDOW
from harness.errors import UnknownName, UsageError
from harness.inspection.import_export import load_entries
from harness.inspection.recorded_cost import measure_cost
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import SampleOracle
from harness.inspection.sample_story import find_last_use, load_story
from harness.inspection.session_sources import SAMPLE_NAME, BuiltInSession, RecordedFile, resolve_session
from harness.inspection.session_task import SessionTask, find_session_task
from harness.recordings.document import open_document
from harness.recordings.reading import detect_format, read_recordings, select_main_sessions
from harness.recordings.session_file import NAME
from harness.recordings.session_log import build_timed_log
from harness.session.execution import execute_session
from harness.session.oracle import build_scripted_oracle
from harness.session.spec import SessionSpec
from harness.store.journal import Journal
from harness.store.sessions.lookup import SessionLocation, is_partial_id
from harness.task import Task
from harness.tasks import make_task

MAX_STEPS = 10_000
MAX_NAMES_SHOWN = 5
"""Maximum number of session names listed in an error message."""


def open_recorded_session(source: str | os.PathLike[str] = SAMPLE_NAME, session_id: str | None = None) -> RecordedSession:
    """Open a finished session from a journal, an experiment folder, a recording of another agent, or a task name.

    Args:
        source: One of these:

            - Journal file.
            - Folder of an experiment or of its output.
            - Recording of another agent (see `harness.recordings.reading.FORMATS`).
            - Name of a task; its scripted session is run in a sandbox without compaction.
            - `sample`, a readable session that is built in.
        session_id: Name of the session, or a unique beginning or end of it, if the source contains several sessions.

    Raises:
        UnknownName: There is no such source, or the source does not contain the session.
        UsageError: The source contains several sessions and `session_id` is missing, or the source cannot be read.
        StoreError: A folder contains no journal, or the journal is damaged.
        SandboxError: The session of a task cannot be run here.
    """
    match resolve_session(os.fspath(source) or os.curdir, session_id):
        case SessionLocation() as location:
            return open_stored_session(location)
        case RecordedFile(path=path):
            return _open_file(path, session_id)
        case BuiltInSession(name=name):
            return _open_built_in(name)


def open_stored_session(location: SessionLocation) -> RecordedSession:
    """Return a session in a journal, with its task and the results of its checks as far as they are known.

    Raises:
        StoreError: The journal cannot be read or has no such session.
    """
    stored = location.read()
    with Journal.open(location.journal, read_only=True) as journal:
        known_task = find_session_task(stored.entries, journal, location.session_id)
    return RecordedSession(
        name=location.session_id,
        entries=stored.entries,
        times_ms=stored.times_ms,
        journal=location.journal,
        saved_outputs=stored.saved_outputs,
        known_task=known_task,
    )


def _open_file(path: Path, session_id: str | None) -> RecordedSession:
    if detect_format(open_document(path)) == NAME:
        return RecordedSession(name=path.name, entries=load_entries(path))
    recordings = read_recordings(path)
    if session_id is None:
        recordings = select_main_sessions(recordings)
    names = [recording.session_id or f"session {number}" for number, recording in enumerate(recordings, 1)]
    recording = recordings[names.index(_choose_name(path, tuple(names), session_id))]
    log = build_timed_log(recording, reading="recorded", measure_cost=measure_cost)
    times_ms = tuple(timed.at_ms for timed in log)
    return RecordedSession(
        name=f"{path.name} ({recording.source})",
        entries=tuple(timed.entry for timed in log),
        times_ms=times_ms if any(times_ms) else (),
    )


def _choose_name(path: Path, names: tuple[str, ...], part: str | None) -> str:
    """Return the only session name that begins or ends with `part`; None allows any name.

    Raises:
        UnknownName: No name fits.
        UsageError: Several names fit.
    """
    matching_names = names if part is None else tuple(name for name in names if is_partial_id(part, name))
    if len(matching_names) == 1:
        return matching_names[0]
    if not matching_names:
        raise UnknownName(f"session in {str(path)!r}:", str(part), names)
    suffix = f" and {len(matching_names) - MAX_NAMES_SHOWN} more" if len(matching_names) > MAX_NAMES_SHOWN else ""
    listed = ", ".join(matching_names[:MAX_NAMES_SHOWN])
    raise UsageError(f"{str(path)!r} contains {len(matching_names)} sessions; choose one of {listed}{suffix}")


def _open_built_in(name: str) -> RecordedSession:
    if name == SAMPLE_NAME:
        return RecordedSession(name="sample session", entries=load_story(), oracle=SampleOracle(find_last_use))
    task = make_task(name, 0)
    oracle, known_task = build_scripted_oracle(task), SessionTask(task=task)
    return RecordedSession(name=f"task {name}", entries=_run_scripted(task), oracle=oracle, known_task=known_task)


def _run_scripted(task: Task) -> tuple[Entry, ...]:
    entries_log: list[Entry] = []
    explores = "explore" in task.tools
    session = SessionSpec(
        request=task.prompt, policy=NoCompaction(), task=task, window_tokens=UNLIMITED_WINDOW.tokens, explore=explores
    )
    session = replace(session, max_steps=MAX_STEPS)
    execute_session(session, "looked-at", on_event=lambda item: entries_log.append(item) if isinstance(item, Entry) else None)
    return tuple(entries_log)
