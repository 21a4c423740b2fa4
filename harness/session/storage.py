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
from harness.session.diffs import FilePatch, build_patches
from harness.session.history import (
    build_interrupted_entries,
    find_last_step,
    find_session_trees,
    find_step_trees,
    find_tree,
    list_offloaded_texts,
)
from harness.session.spec import SessionSpec, decode_setup, find_setup
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS, MemoryLog, MemoryOutputs
from harness.store.records import Draft
from harness.store.sessions.lookup import SessionLocation
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces, Workspaces


class SessionStorage(NamedTuple):
    """The log of one session, its long outputs and its workspaces, each to be used on its own."""

    log: Log
    outputs: OutputStore
    workspaces: Workspaces
    save_draft: Callable[[Draft], None]
    """Keeps an answer as far as it has come."""


@contextmanager
def open_storage(
    journal: Path | None, session_id: str, entries: Sequence[Entry], memory_workspaces: MemoryWorkspaces, clock: Clock
) -> Iterator[SessionStorage]:
    """Open the place of a session, and close it.

    Args:
        journal: the file; None = memory.
        session_id: its name in the file.
        entries: what it has logged so far; what the file lacks of it is logged now.
        memory_workspaces: keeps its workspaces where there is no file.
        clock: the time of each event.

    Raises:
        StoreError: the file cannot be written.
        UsageError: the file holds more of the session.
    """
    if journal is None:
        memory_log = MemoryLog()
        memory_log.append([event for _, event in entries])
        yield SessionStorage(memory_log, _save_offloaded(MemoryOutputs(), entries), memory_workspaces, lambda _: None)
        return
    now_ms = int(clock() * 1000)
    with (
        Journal.open(journal) as journal_writer,
        Journal.open(journal) as outputs_journal,
        closing(JournalWorkspaces(journal)) as workspaces,
    ):
        outputs_journal.remove_outputs(now_ms - RETENTION_MS)
        log = journal_writer.open_session_log(session_id, created_at_ms=now_ms, clock=clock)
        if log.length > len(entries):
            raise UsageError(f"session {session_id!r} was gone on with since it was opened here; reopen it to have all of it")
        if log.length < len(entries):
            log.append([event for _, event in entries[log.length :]])
        outputs = _save_offloaded(outputs_journal.open_outputs(session_id, clock), entries)
        yield SessionStorage(log, outputs, workspaces, log.save_draft)


def _save_offloaded(outputs: OutputStore, entries: Sequence[Entry]) -> OutputStore:
    """The saved outputs with all that the log moved there: a fork has none of its origin's, and none is kept for ever."""
    for text in list_offloaded_texts(entries):
        outputs.save(text)
    return outputs


def load_log(journal: Path, session_id: str) -> tuple[Entry, ...]:
    """The log of a session, with the answer that its process was in the middle of when it was killed.

    Raises:
        StoreError: no such journal or session.
    """
    entries, _, draft = SessionLocation(journal, session_id, trial_id="").read()
    return entries if draft is None else (*entries, *build_interrupted_entries(entries, draft))


def restore_spec(entries: Sequence[Entry], journal: Path, spec: SessionSpec | None) -> SessionSpec:
    """How a session goes on: as given, or as its log tells; always in the sandbox of its log.

    Raises:
        UsageError: it has not begun, another kind of sandbox is asked for, or its log names what is not known here.
    """
    start_event = entries[0].event if entries else None
    if not isinstance(start_event, SessionStarted):
        raise UsageError(f"the session in journal {str(journal)!r} has not begun; start a new one")
    spec = spec or _decode_spec(entries, start_event)
    if spec.sandbox.backend not in {"auto", start_event.sandbox}:
        raise UsageError(
            f"the session ran in the sandbox {start_event.sandbox!r}, which never changes; {spec.sandbox.backend!r} was asked for"
        )
    choice = replace(spec.sandbox, backend=start_event.sandbox)
    return replace(spec, request=start_event.task, journal=journal, sandbox=choice)


def refuse_without_workspace(entries: Sequence[Entry], journal: Path, session_id: str) -> None:
    """Refuse to go on where nothing is left to go on in.

    Raises:
        UsageError: the workspace of the newest step is not kept; says why, and what can still be done.
    """
    tree_id = find_tree(entries)
    if tree_id is None and not find_last_step(entries):
        return
    reason = "none was kept, as in a trial, in a session of a pipe, and where snapshots = False"
    if tree_id is not None:
        with closing(JournalWorkspaces(journal)) as workspaces:
            if workspaces.has_workspace(tree_id):
                return
        reason = "a session that was imported has its log alone; go on in the journal that it was exported from"
    name, place = shlex.quote(session_id), shlex.quote(str(journal))
    raise UsageError(
        f"session {session_id!r} cannot go on, its workspace is not in journal {str(journal)!r}: {reason}. Its log can be read "
        f"(harness inspect {name} --in {place}), stepped through (SessionInspector), tried under other policies "
        f"(CompactionExplorer) and written to a file (harness export {name} FILE --in {place})"
    )


def load_patches(location: SessionLocation, step: int | None = None) -> tuple[FilePatch, ...]:
    """What a session in a journal changed in its workspace, as its log stands; None = in all, else in that step.

    Raises:
        UsageError: its workspace was not kept, or is not in its journal.
        StoreError: the journal cannot be read.
    """
    entries = location.read_entries()
    tree_pair = find_session_trees(entries) if step is None else find_step_trees(entries, step)
    if step is not None and not 1 <= step <= find_last_step(entries):
        raise UsageError(f"session {location.session_id!r} has no step {step}; there are 1 to {find_last_step(entries)}")
    with closing(JournalWorkspaces(location.journal, read_only=True)) as workspaces:
        if tree_pair is None or not all(map(workspaces.has_workspace, tree_pair)):
            raise UsageError(
                f"the workspaces of session {location.session_id!r} are not in journal {str(location.journal)!r}: those of "
                "trials, of sessions of a pipe and of imported ones are not kept"
            )
        return build_patches(workspaces, *map(workspaces.load, tree_pair))


def _decode_spec(entries: Sequence[Entry], start_event: SessionStarted) -> SessionSpec:
    """What a log tells of its session: its setup, or where there is none model, policy and window."""
    if setup := find_setup(entries):
        return SessionSpec(request=start_event.task, **decode_setup(setup))
    newest_start = [event for _, event in entries if isinstance(event, SessionStarted | SessionResumed)][-1]
    return SessionSpec(
        request=start_event.task,
        policy=policy_from_plain(json.loads(newest_start.policy_json)),
        model=newest_start.model,
        window_tokens=newest_start.window_tokens or None,
    )
