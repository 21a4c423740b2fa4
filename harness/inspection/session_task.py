"""Task of a stored session, with the results of its checks, from which an autopsy knows the facts of the session.

The log of a live session holds its task. A trial names its task, which is made again from its seed. If the task has changed since
the trial, e.g. because its file was edited, the facts of today would be those of another task, so none are used.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.conversation import codec
from harness.conversation.events import Entry, SessionStarted
from harness.errors import HarnessError, UsageError
from harness.inspection.autopsy import SessionAutopsy, build_autopsy
from harness.inspection.timeline import find_counter
from harness.models.scripted.profiles import EXACT, READERS, Reader
from harness.session.spec import decode_setup, find_setup
from harness.store.journal import Journal
from harness.store.records import CheckRecord
from harness.store.sessions.lookup import SessionLocation
from harness.task import Task, World
from harness.tasks import make_shared_task

_TRIAL_SQL = "SELECT trial_id, config_json FROM trial WHERE session_id = ? ORDER BY revision DESC LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTask:
    """Task of a session, as far as it is known."""

    task: Task | None = None
    """Task with its answer key; None if the session has none, or if it is not known."""
    reader: Reader = EXACT
    """Rule by which the scripted model of the session finds values in texts."""
    checks: tuple[CheckRecord, ...] | None = None
    """Results of the checks of the task; None if they are not stored."""
    notice: str = ""
    """Reason why the task is not known; empty if it is known, or if the session has none."""


def find_session_task(
    entries: Sequence[Entry],
    journal: Journal | None = None,
    session_id: str = "",
    make_task: Callable[[str, int, World], Task] = make_shared_task,
) -> SessionTask:
    """Return the task of a session with the results of its checks.

    Args:
        entries: Log of the session.
        journal: Journal that contains the session, and the record of its trial if it belongs to one; None for a session without.
        session_id: Id of the session in the journal.
        make_task: Function that makes the task of a trial again from its name, seed and world.
    """
    rows = [] if journal is None else journal.query(_TRIAL_SQL, session_id)
    if journal is not None and rows:
        trial_id, config_json = rows[0]
        return find_trial_task(entries, config_json, journal.list_checks(trial_id), make_task)
    try:
        setup = decode_setup(find_setup(entries))
    except UsageError:  # of another program, or with a policy of a package that is not installed
        return SessionTask()
    return SessionTask(task=setup.get("task"), reader=setup.get("reader", EXACT))


def find_trial_task(
    entries: Sequence[Entry],
    config_json: str,
    checks: Sequence[CheckRecord],
    make_task: Callable[[str, int, World], Task] = make_shared_task,
) -> SessionTask:
    """Return the task of a trial, made again from the configuration with which the trial was stored.

    Args:
        entries: Log of the trial's session.
        config_json: Configuration of the trial as JSON.
        checks: Results of the trial's checks.
        make_task: Function that makes the task again from its name, seed and world.
    """
    try:
        plain: dict[str, Any] = json.loads(config_json)
        world = codec.from_plain(World, plain.get("world") or {}, "world")
        task = make_task(str(plain["task"]), int(plain["seed"]), world)
    except (HarnessError, ValueError, KeyError, TypeError) as error:
        notice = f"The task of the trial cannot be made again, so its facts are not known: {error}"
        return SessionTask(checks=tuple(checks), notice=notice)
    reader = plain.get("reader", EXACT)
    requests = [entry.event.task for entry in entries if isinstance(entry.event, SessionStarted)]
    if requests and requests[0] != task.prompt:
        notice = "The task has changed since the trial, so the facts of the trial are not known."
        return SessionTask(checks=tuple(checks), notice=notice)
    return SessionTask(task=task, reader=reader if reader in READERS else EXACT, checks=tuple(checks))


def build_session_autopsy(entries: Sequence[Entry], known: SessionTask | None = None) -> SessionAutopsy:
    """Return the autopsy of a session with its task, if that is known.

    Args:
        entries: Log of the session.
        known: Task of the session; None searches the log for it.
    """
    known = find_session_task(entries) if known is None else known
    return build_autopsy(
        entries, known.task, find_counter(entries), reader=known.reader, checks=known.checks, notice=known.notice
    )


def build_stored_autopsy(location: SessionLocation) -> SessionAutopsy:
    """Return the autopsy of a session in a journal, with the task and the checks of its trial.

    Raises:
        StoreError: The journal cannot be read or has no such session.
    """
    entries = location.read_entries()
    with Journal.open(location.journal, read_only=True) as journal:
        known = find_session_task(entries, journal, location.session_id)
    return build_session_autopsy(entries, known)
