"""Storage of a session: in a journal file, or in memory until the process ends."""

import json
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from harness.agent.loop import Stop
from harness.conversation.events import (
    CallTiming,
    Entry,
    Event,
    EventListener,
    Notice,
    SessionResumed,
    SessionStarted,
    WorkspaceSaved,
)
from harness.conversation.messages import ToolResult
from harness.conversation.overhead import OverheadClock
from harness.errors import StoreError, ToolError, UsageError
from harness.models.cassette import Cassette
from harness.policies import policy_from_stored
from harness.protocols import Clock, Log, OutputStore, Sandbox, Snapshot, ignore
from harness.sandboxes.snapshots import summarize_patch
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
from harness.store.log import MemoryLog, MemoryOutputs
from harness.store.records import UnfinishedStep
from harness.store.sessions.cleanup import OutputCleaner
from harness.store.sessions.failures import fail_or_note, record_noted_failures
from harness.store.sessions.lookup import SessionLocation
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces, Workspaces


class SessionMemory(NamedTuple):
    """Snapshots of the workspace and saved tool outputs of a session without a journal file, which its forks share."""

    workspaces: MemoryWorkspaces
    outputs: MemoryOutputs


class SessionStorage(NamedTuple):
    """Log, saved tool outputs and workspace snapshots of one session, in a journal file or in memory."""

    log: Log
    outputs: OutputStore
    workspaces: Workspaces
    save_draft: Callable[[UnfinishedStep], None]
    """Function that saves an answer that the model has not finished yet."""
    fail_session: Callable[[Stop], None]
    """Function that marks the session and its sub-agents as failed if they are active.

    If the journal cannot be written, the failure is noted for the next process that opens the journal, and an error is raised."""
    remove_old_outputs: Callable[[], None]
    """Function that removes saved tool outputs older than a week. May be called often; it does the work at most once an hour."""


class ProgressSaver:
    """Saver of a session's workspace and tool results.

    With these, the session can be continued after its process was killed.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        workspaces: Workspaces | None,
        save_draft: Callable[[UnfinishedStep], None],
        *,
        listen: EventListener,
        saves_after_each_call: bool,
        overhead: OverheadClock | None = None,
    ) -> None:
        """Create a saver that has saved nothing yet.

        Args:
            sandbox: Sandbox of the session, which uses `workspaces` as the store for the contents of its files.
            workspaces: Store that receives the snapshots of the workspace; None saves no snapshots.
            save_draft: Function that saves the results of a step that has not ended yet.
            listen: Listener for a notice when the workspace is too large for a snapshot.
            saves_after_each_call: Whether the workspace is saved after each tool call, instead of only at the end of each step.
            overhead: Clock to which the time of saving is added; None measures nothing.
        """
        self._sandbox, self._workspaces, self._save_draft = sandbox, workspaces, save_draft
        self._listen, self._saves_after_each_call = listen, saves_after_each_call
        self._overhead = overhead or OverheadClock()
        self._draft, self._results_lock = UnfinishedStep(0, ""), threading.Lock()
        self._snapshot: Snapshot | None = None
        self._left_out = tuple[str, ...]()
        """Lines on what the newest saved snapshot lacks, which the user and the log know."""
        self._is_unsaved = False
        """Whether the newest attempt to save the workspace failed, so that `_snapshot` may be out of date."""

    def restore_workspace(self, snapshot: Snapshot, left_out: Sequence[str] = ()) -> None:
        """Restore the workspace of the sandbox to a saved snapshot, which then needs no saving.

        Args:
            snapshot: Snapshot with which the workspace agrees afterwards.
            left_out: Lines on what the snapshot lacks, which the user is reminded of.
        """
        self._sandbox.restore(snapshot)
        self._snapshot, self._is_unsaved, self._left_out = snapshot, False, ()
        if left_out:
            self._listen(Notice(text=f"the restored workspace lacks {'; '.join(left_out)}"))

    def forget_results(self) -> None:
        """Forget the tool results of the last step, since a step after a rollback can have the same number."""
        with self._results_lock:
            self._draft = UnfinishedStep(0, "")

    def save_workspace(self, step: int) -> Sequence[Event]:
        """Save a snapshot of the workspace if it has changed since the last snapshot, and return the event to log.

        A workspace that cannot be saved is logged as well, because an older snapshot must not be taken for it.
        """
        if self._workspaces is None:
            return ()
        snapshot, former, was_unsaved = self._take_snapshot(), self._snapshot, self._is_unsaved
        self._is_unsaved = snapshot is None
        if snapshot is None:
            return (WorkspaceSaved(step=step, tree_id="", patch_hash=""),)
        is_said = snapshot.left_out == self._left_out
        if former is not None and snapshot.tree_id == former.tree_id and is_said and not was_unsaved:
            return ()
        self._store_snapshot(snapshot)
        self._snapshot, self._left_out = snapshot, snapshot.left_out
        if snapshot.left_out and not is_said:
            self._listen(Notice(text=f"the saved workspace lacks {'; '.join(snapshot.left_out)}"))
        event = WorkspaceSaved(step=step, tree_id=snapshot.tree_id, left_out=snapshot.left_out)
        return (event if former is None else replace(event, **summarize_patch(former, snapshot)._asdict()),)

    def save_result(self, step: int, result: ToolResult, timing: CallTiming) -> None:
        """Save the result and the timing of a tool call, then the workspace, so that a crash during the step loses none."""
        with self._results_lock:
            former = self._draft if self._draft.step == step else UnfinishedStep(step, "")
            self._store_draft(former._replace(results=(*former.results, result), timings=(*former.timings, timing)))
        if self._workspaces is None or not self._saves_after_each_call:
            return
        snapshot = self._take_snapshot()
        tree_id = snapshot.tree_id if snapshot else ""
        with self._results_lock:
            former_id = self._draft.tree_id
            if former_id is None:
                former_id = self._snapshot.tree_id if self._snapshot and not self._is_unsaved else ""
            if tree_id == former_id:
                return
            if snapshot:
                self._store_snapshot(snapshot)
            self._store_draft(self._draft._replace(tree_id=tree_id))

    def _store_draft(self, draft: UnfinishedStep) -> None:
        start_seconds = perf_counter()
        self._draft = draft
        self._save_draft(draft)
        self._overhead.add("writing", perf_counter() - start_seconds)

    def _store_snapshot(self, snapshot: Snapshot) -> None:
        assert self._workspaces is not None
        start_seconds = perf_counter()
        self._workspaces.save(snapshot)
        self._overhead.add("snapshot", perf_counter() - start_seconds)

    def _take_snapshot(self) -> Snapshot | None:
        start_seconds = perf_counter()
        try:
            return self._sandbox.snapshot()
        except ToolError as error:
            self._listen(Notice(text=f"the workspace is not saved at this step: {error}"))
            return None
        finally:
            self._overhead.add("snapshot", perf_counter() - start_seconds)


@contextmanager
def fail_on_error(fail_session: Callable[[Stop], None]) -> Iterator[None]:
    """Mark a session as failed if the `with` block raises an error; otherwise the session would seem to be running."""
    try:
        yield
    except BaseException as error:
        with suppress(StoreError):  # the disk may still be full, and the first error says so; the failure is noted
            fail_session(Stop.from_error(error))
        raise


@contextmanager
def open_storage(
    journal: Path | None, session_id: str, entries: Sequence[Entry], memory: SessionMemory, clock: Clock
) -> Iterator[SessionStorage]:
    """Open the log, saved tool outputs and snapshots of a session, and close them at the end of the context.

    Args:
        journal: Path of the journal file; None keeps everything in memory.
        session_id: Name under which the journal stores the session.
        entries: Log of the session so far. Entries that the journal does not contain yet are added to it.
        memory: Stores for a session without a journal.
        clock: Source of the time of each event, in seconds since the epoch.

    Raises:
        StoreError: The journal cannot be written.
        UsageError: The journal contains more entries of the session than `entries`, because another process continued it.
    """
    if journal is None:
        memory_log = MemoryLog()
        memory_log.append([event for _, event in entries])
        outputs = save_offloaded(memory.outputs, entries)
        yield SessionStorage(memory_log, outputs, memory.workspaces, ignore, ignore, ignore)
        return
    now_ms = int(clock() * 1000)
    record_noted_failures(journal)
    with (
        Journal.open(journal) as journal_writer,
        Journal.open(journal) as outputs_journal,
        closing(JournalWorkspaces(journal)) as workspaces,
    ):
        cleaner = OutputCleaner(journal_writer, clock)
        cleaner.remove_if_due()
        log = journal_writer.open_session_log(session_id, created_at_ms=now_ms, clock=clock)
        if log.length > len(entries):
            raise UsageError(f"session {session_id!r} was continued elsewhere since it was opened here; reopen it")
        if log.length < len(entries):
            log.append([event for _, event in entries[log.length :]])
        outputs = save_offloaded(outputs_journal.open_outputs(session_id, clock), entries)

        def fail_session(stop: Stop) -> None:
            fail_or_note(journal_writer, session_id, reason=stop.reason, detail=stop.detail, clock=clock)

        def remove_old_outputs() -> None:
            with suppress(StoreError):  # the next event reports a journal that cannot be written
                cleaner.remove_if_due()

        yield SessionStorage(log, outputs, workspaces, log.save_draft, fail_session, remove_old_outputs)


def save_offloaded(outputs: OutputStore, entries: Sequence[Entry]) -> OutputStore:
    """Save the tool outputs that compactions moved to the store there again, and return the store.

    The store may lack these outputs, since stored outputs expire.
    """
    for text in list_offloaded_texts(entries):
        outputs.save(text)
    return outputs


def load_log(journal: Path, session_id: str) -> tuple[Entry, ...]:
    """Return the log of a session from its journal file.

    If the process of the session was killed during a step, the saved part of the answer or the saved results are included.

    Raises:
        StoreError: The journal does not exist or does not contain the session.
    """
    stored = SessionLocation(journal, session_id, trial_id="").read()
    return (*stored.entries, *build_interrupted_entries(stored.entries, stored.draft))


def restore_spec(
    entries: Sequence[Entry], journal: Path, spec: SessionSpec | None, cassette: Cassette | None = None
) -> SessionSpec:
    """Return the configuration with which a reopened session continues.

    The sandbox backend is the one that the log names.

    Args:
        entries: Log of the session that is reopened.
        journal: Journal file that stores the session.
        spec: Configuration for the continued session; None restores the configuration from the log.
        cassette: Cassette that replaces the one in the log, if `spec` is None. A log may come from a stranger, so a cassette file
            that it names is never opened.

    Raises:
        UsageError: The session has not begun, `spec` asks for another sandbox backend, the log contains a name that is unknown
            here, or the session used a cassette and none is given.
    """
    start_event = entries[0].event if entries else None
    if not isinstance(start_event, SessionStarted):
        raise UsageError(f"the session in journal {str(journal)!r} has not begun; start a new one")
    if spec is None:
        stored = _decode_spec(entries, start_event)
        if stored.cassette is not None and cassette is None:
            flag, path = f"--{stored.cassette.mode}", str(stored.cassette.path)
            raise UsageError(f"the session used the cassette {path!r:.200}; pass the file again, by {flag} FILE or cassette=")
        spec = replace(stored, cassette=cassette)
    if spec.sandbox.backend not in {"auto", start_event.sandbox}:
        raise UsageError(
            f"the session ran in sandbox {start_event.sandbox!r} and cannot change to {spec.sandbox.backend!r}; set the sandbox "
            f"backend to {start_event.sandbox!r} or 'auto'"
        )
    choice = replace(spec.sandbox, backend=start_event.sandbox)
    return replace(spec, request=start_event.task, journal=journal, sandbox=choice)


UNSAVED_WORKSPACES = "workspaces of trials, of sessions with snapshots = False and of piped sessions of version 0.1 are not saved"
"""Reason why the workspace of a session may be missing in its journal."""
FAILED_SAVE = "it could not be saved when it last changed, and an older workspace would not fit the log"
"""Reason why the workspace of a session is missing although older ones were saved."""


def refuse_without_workspace(entries: Sequence[Entry], journal: Path, session_id: str) -> None:
    """Raise `UsageError` if the session cannot continue because the workspace of its newest step was not saved."""
    tree_id = find_tree(entries)
    if not tree_id and not find_last_step(entries):
        return
    reason = UNSAVED_WORKSPACES if tree_id is None else FAILED_SAVE
    if tree_id:
        with closing(JournalWorkspaces(journal)) as workspaces:
            if workspaces.has_workspace(tree_id):
                return
        reason = "an imported session has a log only; continue it in the journal from which it was exported"
    name, place = shlex.quote(session_id), shlex.quote(str(journal))
    raise UsageError(
        f"session {session_id!r} cannot be continued: its workspace is not in journal {str(journal)!r} ({reason}). You can still "
        f"read the log (harness inspect {name} --in {place}), step through it (SessionInspector), try other policies on it "
        f"(CompactionExplorer) and write it to a file (harness export {name} FILE --in {place})"
    )


def load_patches(location: SessionLocation, step: int | None = None) -> tuple[FilePatch, ...]:
    """Return the changes that a stored session made to its workspace, as one diff for each file.

    Args:
        location: Journal file and name of the stored session.
        step: Number of the step whose changes are returned, from 1. None returns the changes of the whole session.

    Raises:
        UsageError: There is no such step, or the snapshots of the workspace are not in the journal.
        StoreError: The journal cannot be read.
    """
    entries = location.read_entries()
    tree_pair = find_session_trees(entries) if step is None else find_step_trees(entries, step)
    if step is not None and not 1 <= step <= find_last_step(entries):
        raise UsageError(f"session {location.session_id!r} has no step {step}; it has steps 1 to {find_last_step(entries)}")
    with closing(JournalWorkspaces(location.journal, read_only=True)) as workspaces:
        if tree_pair is None or not all(map(workspaces.has_workspace, tree_pair)):
            raise UsageError(
                f"the workspaces of session {location.session_id!r} are not in journal {str(location.journal)!r}: the "
                "workspaces of trials and of imported sessions are not saved"
            )
        return build_patches(workspaces, *map(workspaces.load, tree_pair))


def _decode_spec(entries: Sequence[Entry], start_event: SessionStarted) -> SessionSpec:
    """Return the configuration of a session from its log.

    A log without a stored configuration only gives the policy, the model and the context window.
    """
    if setup := find_setup(entries):
        return SessionSpec(request=start_event.task, **decode_setup(setup))
    newest_start = [event for _, event in entries if isinstance(event, SessionStarted | SessionResumed)][-1]
    try:
        policy = json.loads(newest_start.policy_json)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the log is damaged: the compaction policy of the session is not JSON: {error!s:.200}") from None
    return SessionSpec(
        request=start_event.task,
        policy=policy_from_stored(policy),
        model=newest_start.model,
        window_tokens=newest_start.window_tokens or None,
    )
