"""Where a live session is kept: in a journal file, or in memory as long as the object lives."""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.errors import UsageError
from harness.events import Entry, SessionResumed, SessionStarted
from harness.policies import policy_from_plain
from harness.protocols import Clock, Log, OutputStore
from harness.session.diffs import FilePatch, patches
from harness.session.history import broken_off, last_step, offloaded, tree_at, trees, trees_of_step
from harness.session.setup import fields_of, recorded
from harness.session.spec import Interactive
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.memory import MemoryLog, MemoryOutputs
from harness.store.records import Draft
from harness.store.sessions.lookup import SessionLocation
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces, Workspaces


class Place(NamedTuple):
    """The log of one session, its long outputs and its workspaces, each to be used on its own."""

    log: Log
    outputs: OutputStore
    workspaces: Workspaces
    draft: Callable[[Draft], None]
    """Keeps an answer as far as it has come."""


@contextmanager
def placed(
    journal: Path | None, session_id: str, entries: Sequence[Entry], memory: MemoryWorkspaces, clock: Clock
) -> Iterator[Place]:
    """Open the place of a session, and close it.

    Args:
        journal: the file; None = memory.
        session_id: its name in the file.
        entries: what it has logged so far; what the file lacks of it is logged now.
        memory: keeps its workspaces where there is no file.
        clock: the time of each event.

    Raises:
        StoreError: the file cannot be written.
        UsageError: the file holds more of the session.
    """
    if journal is None:
        log = MemoryLog()
        log.append([event for _, event in entries])
        yield Place(log, _with(MemoryOutputs(), entries), memory, lambda _: None)
        return
    now_ms = int(clock() * 1000)
    with Journal.open(journal) as ours, Journal.open(journal) as beside, closing(JournalWorkspaces(journal)) as workspaces:
        beside.remove_outputs(now_ms - RETENTION_MS)
        session = ours.open_session_log(session_id, created_at_ms=now_ms, clock=clock)
        if session.length > len(entries):
            raise UsageError(f"session {session_id!r} was gone on with since it was opened here; reopen it to have all of it")
        if session.length < len(entries):
            session.append([event for _, event in entries[session.length :]])
        yield Place(session, _with(beside.open_outputs(session_id, clock), entries), workspaces, session.save_draft)


def _with(outputs: OutputStore, entries: Sequence[Entry]) -> OutputStore:
    """The saved outputs with all that the log moved there: a fork has none of its origin's, and none is kept for ever."""
    for text in offloaded(entries):
        outputs.save(text)
    return outputs


def logged(journal: Path, session_id: str) -> tuple[Entry, ...]:
    """The log of a session, with the answer that its process was in the middle of when it was killed.

    Raises:
        StoreError: no such journal or session.
    """
    with Journal.open(journal, read_only=True) as opened:
        entries, draft = tuple(opened.read_entries(session_id)), opened.read_draft(session_id)
    return entries if draft is None else (*entries, *broken_off(entries, draft))


def reopened(entries: Sequence[Entry], journal: Path, session: Interactive | None) -> Interactive:
    """How a session goes on: as given, or as its log tells; always in the sandbox of its log.

    Raises:
        UsageError: it has not begun, another kind of sandbox is asked for, or its log names what is not known here.
    """
    started = entries[0].event if entries else None
    if not isinstance(started, SessionStarted):
        raise UsageError(f"the session in journal {str(journal)!r} has not begun; start a new one")
    session = session or _told(entries, started)
    if session.sandbox.backend not in {"auto", started.sandbox}:
        raise UsageError(
            f"the session ran in the sandbox {started.sandbox!r}, which never changes; {session.sandbox.backend!r} was asked for"
        )
    choice = replace(session.sandbox, backend=started.sandbox)  # type: ignore[arg-type]  # it is one that ran
    return replace(session, request=started.task, journal=journal, sandbox=choice)


def refuse_without_workspace(entries: Sequence[Entry], journal: Path, session_id: str) -> None:
    """Refuse to go on where nothing is left to go on in.

    Raises:
        UsageError: the workspace of the newest step is not kept; says why, and what can still be done.
    """
    tree = tree_at(entries)
    if tree is None and not last_step(entries):
        return
    why = "none was kept, as in a trial, in a session of a pipe, and where snapshots = False"
    if tree is not None:
        with closing(JournalWorkspaces(journal)) as kept:
            if kept.has_workspace(tree):
                return
        why = "a session that was imported has its log alone; go on in the journal that it was exported from"
    name, place = shlex.quote(session_id), shlex.quote(str(journal))
    raise UsageError(
        f"session {session_id!r} cannot go on, its workspace is not in journal {str(journal)!r}: {why}. Its log can be read "
        f"(harness inspect {name} --in {place}), stepped through (SessionInspector), tried under other policies "
        f"(CompactionExplorer) and written to a file (harness export {name} FILE --in {place})"
    )


def patches_of(found: SessionLocation, step: int | None = None) -> tuple[FilePatch, ...]:
    """What a session in a journal changed in its workspace, as its log stands; None = in all, else in that step.

    Raises:
        UsageError: its workspace was not kept, or is not in its journal.
        StoreError: the journal cannot be read.
    """
    entries = found.read_entries()
    kept = trees(entries)
    between = ((kept[0], kept[-1]) if kept else None) if step is None else trees_of_step(entries, step)
    if step is not None and not 1 <= step <= last_step(entries):
        raise UsageError(f"session {found.session_id!r} has no step {step}; there are 1 to {last_step(entries)}")
    with closing(JournalWorkspaces(found.journal, read_only=True)) as workspaces:
        if between is None or not all(map(workspaces.has_workspace, between)):
            raise UsageError(
                f"the workspaces of session {found.session_id!r} are not in journal {str(found.journal)!r}: those of trials, of "
                "sessions of a pipe and of imported ones are not kept"
            )
        return patches(workspaces, *map(workspaces.load, between))


def _told(entries: Sequence[Entry], started: SessionStarted) -> Interactive:
    """What a log tells of its session: its setup, or where there is none model, policy and window."""
    if setup := recorded(entries):
        return Interactive(request=started.task, **fields_of(setup))
    newest = next((event for _, event in reversed(entries) if isinstance(event, SessionStarted | SessionResumed)), started)
    return Interactive(
        request=started.task,
        policy=policy_from_plain(json.loads(newest.policy_json)),
        model=newest.model,
        window_tokens=newest.window_tokens or None,
    )
