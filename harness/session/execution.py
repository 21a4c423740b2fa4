"""Execution of one session without a user: run to the end, copy the files, run the checks of the task.

Unlike a trial (a run in an experiment), the session can be followed by a listener and stopped, its files can be kept, and its
errors are raised instead of recorded. If the session has a journal file, the workspace is saved there after each step, so that
`LiveSession.reopen` can continue the session.
"""

import errno
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from harness.agent.cancellation import Cancellation, raise_if_abandoned
from harness.agent.loop import Agent, Outcome
from harness.agent.prompts import SYSTEM_PROMPT
from harness.conversation.advisories import format_advisories
from harness.conversation.events import SANDBOX_LOST_REASONS, Entry, EventListener, Notice, SessionStarted, TransientEvent
from harness.errors import StoreError, ToolError
from harness.models.local.server import serve_models
from harness.protocols import BlobStore, Clock, Sandbox, ignore
from harness.sandboxes.client import ServedSandbox
from harness.session.assembly import (
    SessionResources,
    assemble_session,
    open_agent_model,
    write_workspace,
)
from harness.session.grading import GradedCheck, grade_workspace
from harness.session.preflight import check_spec, find_session_advisories
from harness.session.spec import SessionSpec, encode_setup
from harness.session.storage import ProgressSaver, SessionMemory, fail_on_error, open_storage
from harness.store.log import MemoryOutputs
from harness.store.records import UnfinishedStep
from harness.store.sessions.locks import lock_session
from harness.store.workspaces import MemoryWorkspaces, Workspaces

_NAME_ERRORS = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ)
"""Errors with which a file system refuses a name: too long, with a character that is not allowed, or equal to another name."""


class CopiedFiles(NamedTuple):
    """Result of copying a workspace into a folder: the number of copied files, and the files that were skipped."""

    files: int
    """Number of files that were copied from the session's workspace into the folder."""
    skipped: tuple[tuple[str, str], ...]
    """Path of each file that was not copied, with the reason, but no directories. Both texts may contain control characters."""


class SessionResult(NamedTuple):
    """Outcome, check verdicts and copied files of a session that is over."""

    outcome: Outcome
    checks: tuple[GradedCheck, ...]
    """Verdict on each check of the task; empty for a session without a task."""
    copied_files: CopiedFiles


def execute_session(
    spec: SessionSpec,
    session_id: str,
    *,
    on_event: EventListener = ignore,
    cancellation: Cancellation | None = None,
    clock: Clock = time.time,
) -> SessionResult:
    """Run a session from start to end without a user, copy its files and run the checks of its task.

    Args:
        spec: Configuration of the session that is run.
        session_id: Name of the session in the journal, and of its container.
        on_event: Listener for every log entry and every transient event, called in the thread where the event happens.
        cancellation: Request that other code can make to end the session early.
        clock: Source of the time of each event, in seconds since the epoch.

    Raises:
        WindowTooSmall: The first request cannot fit the window; nothing was started.
        UsageError: A name is unknown, a key is missing, the folder for the files is not empty, or another process runs the
            session; nothing was started.
        ProviderFailed: The server of a local model did not start.
        SandboxError: The sandbox did not start.
        StoreError: The journal or the copied files cannot be written.
    """
    check_spec(spec)
    with (
        lock_session(spec.journal, session_id),
        open_storage(spec.journal, session_id, (), SessionMemory(MemoryWorkspaces(), MemoryOutputs()), clock) as storage,
        fail_on_error(storage.fail_session),
    ):

        def handle_event(event: Entry | TransientEvent) -> None:
            storage.remove_old_outputs()
            on_event(event)

        resources = SessionResources(
            session_id=session_id,
            log=storage.log,
            clock=clock,
            outputs=storage.outputs,
            on_event=handle_event,
            cancellation=cancellation,
        )
        workspaces = storage.workspaces if spec.snapshots and spec.journal is not None else None
        with open_session(spec, resources, workspaces) as opened:
            write_workspace(spec.task, opened.sandbox)
            connect_saver(opened, spec, workspaces, storage.save_draft)
            return finish_session(spec, opened.sandbox, opened.agent.run(opened.start_event, SYSTEM_PROMPT, spec.session_context))


class OpenSession(NamedTuple):
    """Session whose sandbox has started and whose agent is ready to run."""

    agent: Agent
    sandbox: ServedSandbox
    start_event: SessionStarted
    """First event of the session's log, which contains the configuration that is needed to reopen the session."""
    resources: SessionResources
    """Log, sandbox, model and servers of the session, with which its agent was built."""


@contextmanager
def open_session(spec: SessionSpec, resources: SessionResources, blobs: BlobStore | None = None) -> Iterator[OpenSession]:
    """Start the local models and the sandbox of a session, and assemble its agent.

    The workspace of the sandbox is still empty.

    Args:
        spec: Configuration of the session that is opened.
        resources: Resources of the session, without the sandbox and the servers of local models, which this function starts.
        blobs: Store of file contents for workspace snapshots; None keeps the contents only until the sandbox ends.

    Raises:
        ProviderFailed: The server of a local model did not start.
        SandboxError: The sandbox did not start.
        WorkAbandoned: The caller no longer waits; everything that had started was stopped.
    """
    live_models = () if spec.wiring.is_replay else spec.models
    with (
        serve_models(live_models, raise_if_abandoned) as endpoints,
        closing(spec.sandbox.open(resources.session_id, spec.needed_runtime, unsafe_local=spec.unsafe_local)) as sandbox,
    ):
        resources = replace(resources, endpoints=endpoints, sandbox=sandbox)
        model = open_agent_model(spec, resources)
        advisories = find_session_advisories(spec, resources, model)
        for text in format_advisories(advisories):
            resources.on_event(Notice(text=text))
        if blobs is not None:
            sandbox.use_blobs(blobs)
        raise_if_abandoned()
        sandbox.start()
        resources = replace(resources, model=model)
        session = assemble_session(spec, resources)
        start_event = replace(session.start_event, setup_json=encode_setup(spec), advisories=advisories)
        yield OpenSession(session.agent, sandbox, start_event, resources)


def connect_saver(
    opened: OpenSession, spec: SessionSpec, workspaces: Workspaces | None, save_draft: Callable[[UnfinishedStep], None]
) -> ProgressSaver:
    """Let a new saver store an agent's tool results and workspace as the agent works, and return the saver.

    The saver passes the results to `save_draft` and stores the workspace in `workspaces`; None stores no workspace.
    """
    saver = ProgressSaver(
        opened.sandbox,
        workspaces,
        save_draft,
        listen=opened.agent.listen,
        saves_after_each_call=not spec.parallel_tools,
        overhead=opened.agent.overhead,
    )
    opened.agent.save_workspace, opened.agent.save_result = saver.save_workspace, saver.save_result
    return saver


def finish_session(spec: SessionSpec, sandbox: Sandbox, outcome: Outcome) -> SessionResult:
    """Copy the workspace into the configured folder, run the task's checks, and return the results.

    The checks are not run if the session was cancelled. If the sandbox was lost, nothing is copied or checked.
    """
    sandbox_lost = outcome.reason in SANDBOX_LOST_REASONS
    copied_files = CopiedFiles(0, ()) if sandbox_lost or spec.keep is None else copy_files(sandbox, spec.keep)
    checks = grade_workspace(spec.task, sandbox) if spec.task and not sandbox_lost and outcome.reason != "cancelled" else ()
    return SessionResult(outcome, checks, copied_files)


def copy_files(sandbox: Sandbox, folder: Path) -> CopiedFiles:
    """Copy the files of a workspace into a folder, without their permissions.

    A file whose name leads out of the folder or cannot exist there is skipped. Links, empty directories and unreadable files are
    not copied.

    Raises:
        StoreError: The folder cannot be written.
    """
    file_count, skipped_files = 0, list[tuple[str, str]]()
    try:
        snapshot = sandbox.snapshot()
    except ToolError as error:
        return CopiedFiles(0, (("/workspace", str(error)),))
    for name, state in sorted(snapshot.files.items()):
        if stat.S_ISDIR(state.mode):
            continue
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            skipped_files.append((name, "its name leads out of the folder"))
        elif not stat.S_ISREG(state.mode):
            skipped_files.append((name, "a link, not a file"))
        else:
            try:
                _write_file(folder.joinpath(*path.parts), sandbox.read(name), folder)
                file_count += 1
            except ToolError as error:
                skipped_files.append((name, str(error)))
            except _NameRefused as error:
                skipped_files.append((name, f"its name cannot exist in the folder: {error}"))
    skipped_files += [("/workspace", f"left out: {line}") for line in snapshot.left_out]
    return CopiedFiles(file_count, tuple(skipped_files))


class _NameRefused(Exception):
    """Raised when the file system of the folder for copied files refuses the name of a file."""


def _write_file(target: Path, content: bytes, folder: Path) -> None:
    has_folder = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        has_folder = True
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    except OSError as error:
        if has_folder and error.errno in _NAME_ERRORS:
            raise _NameRefused(error.strerror) from None
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror}; name another folder") from None
