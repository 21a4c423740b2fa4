"""Where a live session is kept: in a journal file, or in memory as long as the object lives."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.compaction.presets import policy_from_plain
from harness.errors import UsageError
from harness.events import Entry, SessionResumed, SessionStarted
from harness.experiment.interactive import Interactive
from harness.experiment.life.history import broken_off
from harness.protocols import Clock, Log, OutputStore
from harness.store.journal import Journal
from harness.store.kept.workspaces import JournalWorkspaces, MemoryWorkspaces, Workspaces
from harness.store.log import RETENTION_MS
from harness.store.memory import MemoryLog, MemoryOutputs


class Place(NamedTuple):
    """The log of one session, its long outputs and its workspaces, each to be used on its own."""

    log: Log
    outputs: OutputStore
    workspaces: Workspaces
    draft: Callable[[int, str], None]
    """Keeps what the model has written so far of its answer in a step."""


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
    """
    if journal is None:
        log = MemoryLog()
        log.append([event for _, event in entries])
        yield Place(log, MemoryOutputs(), memory, lambda _step, _text: None)
        return
    now_ms = int(clock() * 1000)
    with Journal.open(journal) as ours, Journal.open(journal) as beside, closing(JournalWorkspaces(journal)) as workspaces:
        beside.remove_outputs(now_ms - RETENTION_MS)
        session = ours.session(session_id, created_at_ms=now_ms, clock=clock)
        if session.length < len(entries):
            session.append([event for _, event in entries[session.length :]])
        yield Place(session, beside.outputs(session_id, clock), workspaces, session.draft)


def logged(journal: Path, session_id: str) -> tuple[Entry, ...]:
    """The log of a session, with the answer that its process was in the middle of when it was killed.

    Raises:
        StoreError: no such journal or session.
    """
    with Journal.open(journal, read_only=True) as opened:
        entries, draft = tuple(opened.entries(session_id)), opened.draft(session_id)
    return entries if draft is None else (*entries, *broken_off(entries, draft.step, draft.text))


def recorded(entries: Sequence[Entry], journal: Path, session: Interactive | None) -> Interactive:
    """How a session goes on: as given, or with the model, policy and window of its log; always in the sandbox of its log.

    Raises:
        UsageError: it has not begun, or another kind of sandbox is asked for.
    """
    started = entries[0].event if entries else None
    if not isinstance(started, SessionStarted):
        raise UsageError(f"the session in journal {str(journal)!r} has not begun; start a new one")
    if session is None:
        newest = next((event for _, event in reversed(entries) if isinstance(event, SessionStarted | SessionResumed)), started)
        session = Interactive(
            request=started.task,
            policy=policy_from_plain(json.loads(newest.policy_json)),
            model=newest.model,
            window_tokens=newest.window_tokens or None,
        )
    if session.sandbox.backend not in {"auto", started.sandbox}:
        raise UsageError(
            f"the session ran in the sandbox {started.sandbox!r}, which never changes; {session.sandbox.backend!r} was asked for"
        )
    choice = replace(session.sandbox, backend=started.sandbox)  # type: ignore[arg-type]  # it is one that ran
    return replace(session, request=started.task, journal=journal, sandbox=choice)
