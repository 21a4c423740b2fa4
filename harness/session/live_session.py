"""Interactive session of several turns. Messages are queued while the agent works; a turn can be stopped and resumed.

One thread runs the session and calls the listener; every method can be called from any thread. Each event is written to the
journal file before the listener receives it, so a session survives the end of its process: `LiveSession.reopen` restores the
log, the queue and the workspace.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.agent.loop import Outcome, Stop
from harness.agent.tool_execution import LoopDecision
from harness.conversation.codec import to_path
from harness.conversation.events import Compaction, Entry, Event, EventListener, MessageQueued, SessionState
from harness.conversation.messages import File
from harness.conversation.tokens import Budget
from harness.conversation.view import View, fold_all
from harness.errors import StoreError, UsageError
from harness.files.bounded_input import read_input
from harness.models.cassette import Cassette
from harness.policies import resolve_policy
from harness.protocols import Clock, FileChange, IdFactory, Policy, ignore
from harness.sandboxes.snapshots import diff_snapshots
from harness.session import history
from harness.session.control import SessionControl, UnfinishedWork
from harness.session.diffs import FilePatch, build_patches
from harness.session.execution import CopiedFiles, SessionResult
from harness.session.ids import TIME_ORDERED_IDS
from harness.session.preflight import check_spec
from harness.session.spec import SessionSpec, encode_setup
from harness.session.storage import FAILED_SAVE, SessionMemory, fail_on_error, load_log, refuse_without_workspace, restore_spec
from harness.session.twin_run import TwinPlan, TwinSource, plan_fork, run_twins
from harness.session.twins import Twins
from harness.session.worker import SessionWorker
from harness.store.journal import Journal
from harness.store.log import MemoryOutputs
from harness.store.sessions.failures import fail_or_note
from harness.store.sessions.locks import lock_session
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces, Workspaces, copy_workspaces
from harness.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSummary:
    """Changes of the workspace in a session: files that its steps changed, and what remains of the changes at its end."""

    files: int
    """Number of files that a step added, modified or deleted, also of those that a later step changed back."""
    additions: int
    """Number of lines added from the first to the last snapshot of the workspace."""
    deletions: int
    """Number of lines removed from the first to the last snapshot of the workspace."""
    changes: tuple[FileChange, ...]
    """Files that differ between the first and the last snapshot of the workspace, sorted by path."""


MAX_ATTACHMENT_BYTES = 1_000_000
"""Maximum size of a file that is attached to a user message, in bytes."""


def _read_attachment(file: Path) -> File:
    try:
        return File(path=str(file), content=read_input(file, MAX_ATTACHMENT_BYTES).decode())
    except OSError as error:
        raise UsageError(f"cannot attach {str(file)!r}: {error.strerror}; attach a smaller file or quote what matters") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot attach {str(file)!r}: it is not UTF-8 text; attach a text file") from None


ResultT = TypeVar("ResultT")

NO_COMPACTION_MESSAGE = "nothing was compacted: the compaction was stopped, or the policy has no rule that can compact"
"""Message to the user that explains why `LiveSession.compact` returned None."""


class LiveSession:
    """Interactive session that runs in its own daemon thread. Thread-safe.

    Close the session after use: its sandbox otherwise stays until the process ends.

    Args:
        spec: Configuration of the session. With an empty request, the first message that is sent is the request.
        session_id: Name of the session in its journal and of its sandbox. None takes a new id from `ids`. Default: `None`.
        on_event: Listener for every log entry and every transient event, called in order in the session's thread; must return
            quickly.
            Default: no listener.
        clock: Source of the time of each event, in seconds since the epoch. Default: `time.time`.
        ids: Source of the ids of the session, its sub-agents and its forks. Default: ids of 26 characters that sort by time, the
            newest session first.

    Example::

        spec = harness.SessionSpec(request="Fix the failing test", policy="keep-last", model="openai/gpt-5")
        session = harness.LiveSession(spec).start()
        session.wait()
        session.send("Now add a test for it")
        session.wait()
        print(session.close().outcome)
    """

    def __init__(
        self,
        spec: SessionSpec,
        *,
        session_id: str | None = None,
        on_event: EventListener = ignore,
        clock: Clock = time.time,
        ids: IdFactory = TIME_ORDERED_IDS,
    ) -> None:
        """Create a live session; nothing runs before `start` is called."""
        # a notebook may change its working folder while the session lives
        self.spec = spec if spec.journal is None else replace(spec, journal=spec.journal.absolute())
        self.session_id = session_id or ids.make_descending()
        self._clock, self._ids = clock, ids
        self._control = SessionControl(self.session_id, on_event)
        self._memory = SessionMemory(MemoryWorkspaces(), MemoryOutputs())
        self._worker: SessionWorker | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def reopen(
        cls,
        journal: str | os.PathLike[str],
        session_id: str,
        *,
        spec: SessionSpec | None = None,
        task: Task | None = None,
        cassette: Cassette | None = None,
        on_event: EventListener = ignore,
        clock: Clock = time.time,
        ids: IdFactory = TIME_ORDERED_IDS,
    ) -> "LiveSession":
        """Return a session that was closed, or whose process ended, so that it can be continued.

        Call `start`, then `send` or `resume`. The log and the queue are restored at once. `start` restores the workspace as it
        was after the last step. Only one process can run a session at a time.

        Args:
            journal: Journal file that stores the session.
            session_id: Name of the session in the journal.
            spec: Configuration for the continued session. None restores the configuration from the log, except `unsafe_local`:
                the permission to run commands without isolation must be given again.
            task: Task that replaces the task of the configuration. The checks of a task that is neither built in nor made in this
                process get no verdict unless the task is passed again, because a name in a log is never a reason to run a file.
                Default: `None`.
            cassette: Cassette for the continued session, if `spec` is None; required if the session used one. Default: `None`.
            on_event: Listener that receives new log entries and transient events.
            clock: Source of the time of each event, in seconds since the epoch.
            ids: Source of the ids of the session's further sub-agents and forks.

        Raises:
            StoreError: The journal does not exist or does not contain the session.
            UsageError: The session has not begun, `spec` asks for another sandbox backend, the workspace was not saved, or the
                cassette is missing.
        """
        journal = Path(journal)
        entries = load_log(journal, session_id)
        refuse_without_workspace(entries, journal, session_id)
        restored = restore_spec(entries, journal, spec, cassette)
        spec = replace(restored, task=task or restored.task)
        live = cls(spec, session_id=session_id, on_event=on_event, clock=clock, ids=ids)
        live._control = SessionControl(session_id, on_event, entries)
        return live

    @property
    def state(self) -> SessionState:
        """Current state of the session, e.g. `working` or `idle`."""
        return self._control.state

    @property
    def failure(self) -> str:
        """Why the session failed, or else why its last turn did, with advice; empty if neither failed.

        A turn that the user stopped has not failed. While the agent works, the failure of the turn before is no longer reported.
        """
        return self._control.failure or self._control.turn_failure

    @property
    def is_stopping(self) -> bool:
        """Whether a caller has asked the running turn to stop and the turn has not stopped yet."""
        cancellation = self._control.cancellation
        return cancellation is not None and cancellation.is_requested

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Entries of the session's log so far, in order."""
        return self._control.log.entries()

    @property
    def queued_messages(self) -> tuple[str, ...]:
        """User messages that wait in the queue, the next one first."""
        return self._control.log.queued_messages

    @property
    def view(self) -> View:
        """Messages that the model will see at its next call."""
        loop_session = self._control.inner
        return loop_session.conversation.view if loop_session else fold_all(self.entries)

    @property
    def budget(self) -> Budget | None:
        """Sizes in tokens of the context window, its reserves and the compaction threshold; None before the start."""
        loop_session = self._control.inner
        return loop_session.agent.compactor.budget if loop_session else None

    @property
    def _awaits_request(self) -> bool:
        """Whether the next message becomes the request of the session."""
        return not self.spec.request and self._control.log.awaits_first_message

    def start(self) -> Self:
        """Start the sandbox and the model in the session's thread, then work on the request.

        The method returns at once.

        Returns:
            This session.

        Raises:
            UsageError: A name is unknown, a key is missing, the request cannot fit the window, the session was started before, or
                another process runs the session.
            StoreError: The folder of the journal cannot be written.
        """
        self._control.claim_start()
        exit_stack = ExitStack()
        try:
            check_spec(self.spec)
            exit_stack.enter_context(lock_session(self.spec.journal, self.session_id))
        except BaseException:
            with self._control.condition:
                self._control.is_coming_up = False
                self._control.update_state("closed" if self._control.is_closing else "new")
            raise
        with self._control.condition:
            if self._control.is_closing:
                exit_stack.close()
            else:
                sources = self._clock, self._ids
                self._worker = SessionWorker(self._control, self.spec, self._memory, sources, exit_stack)
                self._thread = threading.Thread(target=self._worker.run, name=f"harness-session-{self.session_id}", daemon=True)
                self._thread.start()
        return self

    def send(self, text: str, files: Sequence[str | os.PathLike[str]] = ()) -> int:
        """Add a user message to the queue; the agent begins with the message when the running turn has ended.

        The message is in the journal when this method returns, so that it survives the end of the process. In two cases, the
        message is only kept in memory: in a new session before its sandbox has started, and in a reopened session before `start`.

        Args:
            text: Text of the user message.
            files: Text files on this machine whose paths and contents the agent reads with the message, each of at most 1 MB. The
                message that is the request of a session cannot have files. Default: no files.

        Returns:
            Position in the queue; 1 is the next message.

        Raises:
            UsageError: The message is empty, a file cannot be read as text, or the session is over.
            StoreError: The message could not be logged.
        """
        if not text.strip():
            raise UsageError("the message is empty; send a text")
        message = MessageQueued(text=text, files=tuple([_read_attachment(Path(file)) for file in files]))
        with self._control.condition:
            self._control.refuse_if_over()
            if files and self._awaits_request and not self.queued_messages:
                raise UsageError("the first message is the request of the session and cannot have files; send them with the next")
            position = self._control.log.enqueue(message)
            self._control.request_work()
        return position

    def withdraw(self, position: int) -> str:
        """Remove a user message from the queue and return its text.

        Args:
            position: Position of the message in the queue; 1 is the next message.

        Raises:
            UsageError: No message is queued at that position, or a message with files would become the request of the session.
        """
        with self._control.condition:
            text = self._control.log.withdraw(position, first_is_request=self._awaits_request)
            self._control.update_state()
        return text

    def stop(self) -> UnfinishedWork | None:
        """Stop the running turn. The text that the model has written so far is kept, and a running tool finishes.

        This method returns at once. Use `wait` to wait until the session is idle, which takes less than a second even if the
        provider does not answer. Queued messages stay in the queue until another message is sent or the session is resumed. A
        sandbox that is still starting continues to start.

        An interrupted model call is not repeated. A call to a provider that does not answer keeps one thread and one connection
        open in the background, for at most `SessionSpec.stall_seconds`. A local model handles one request at a time, so the next
        turn has to wait until the model has read the interrupted prompt.

        Returns:
            Unfinished work that the session keeps: `"partial-answer"` while the model writes an answer, `"running-tools"` while
            tool calls run. None if there is nothing to keep, for example in an idle session.
        """
        with self._control.condition:
            self._control.should_continue = self._control.should_resume = False
            return self._control.stop_turn()

    def resume(self) -> None:
        """Continue a turn that was stopped, failed or interrupted.

        Without such a turn, begin the next queued message.

        Raises:
            UsageError: The session is over.
        """
        with self._control.condition:
            self._control.refuse_if_over()
            self._control.request_work(resume_turn=True)

    def decide_repeated_call(self, decision: LoopDecision) -> None:
        """Decide about a repeated tool call for a session in state `asking`: run the call, or stop the turn.

        Args:
            decision: Decision to run the repeated call or to stop the turn.

        Raises:
            UsageError: The session is in another state.
        """
        with self._control.condition:
            if self.state != "asking":
                raise UsageError(f"session {self.session_id!r} waits for no decision; its state is {self.state!r}")
            self._control.decision = decision
            self._control.update_state("working")

    def wait(self, timeout_seconds: float | None = None) -> SessionState:
        """Wait until the session has no more work and does nothing before the next request of a caller.

        The state is then `idle` with no turn to begin or to continue, `asking`, `failed`, `closed` or `new` (not started).

        Args:
            timeout_seconds: Maximum time to wait in seconds. None waits without a limit.

        Returns:
            State of the session at the end of the wait.
        """
        at_a_time = MAIN_THREAD_WAIT_SECONDS if timeout_seconds is None else timeout_seconds
        with self._control.condition:
            while not self._control.condition.wait_for(self._control.is_resting, at_a_time) and timeout_seconds is None:
                pass
            return self._control.state

    def close(self) -> SessionResult:
        """End the session: stop the running turn, copy the files, run the task's checks, and remove the sandbox.

        The method does not wait for a sandbox or model server that is still starting; such a part is removed when its start has
        ended. Closing twice is allowed. The listener must not call this method, because the listener runs in the session's
        thread. `reopen` can continue the session later.
        """
        with self._control.condition:
            self._control.end_request.request()
            self._control.stop_turn()
            if self._thread is None:
                self._control.update_state("closed")
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(MAIN_THREAD_WAIT_SECONDS)
        if self._worker is not None and self._worker.result is not None:
            return self._worker.result
        detail = self.failure or "the session never began"
        return SessionResult(Outcome.from_stop(Stop("cancelled", detail), self.view), (), CopiedFiles(0, ()))

    def list_changes(self, turn: int | None = None) -> tuple[FileChange, ...]:
        """Return the files that a turn changed in the workspace, sorted by path.

        The result is empty if the session keeps no snapshots.

        Args:
            turn: Number of the turn, from 1. None is the newest turn.

        Raises:
            UsageError: There is no such turn.
        """
        trees = history.find_turn_trees(self.entries, turn)
        return self._diff_trees(*trees) if trees else ()

    def list_patches(self, turn: int | None = None, *, whole_session: bool = False) -> tuple[FilePatch, ...]:
        """Return the changes of a turn in the workspace as one readable diff for each file.

        The result is empty if the session keeps no snapshots.

        Args:
            turn: Number of the turn, from 1. None is the newest turn.
            whole_session: Whether to return the changes of the whole session instead of one turn.

        Raises:
            UsageError: There is no such turn.
        """
        entries = self.entries
        trees = history.find_session_trees(entries) if whole_session else history.find_turn_trees(entries, turn)
        if trees is None:
            return ()
        with self._open_workspaces() as workspaces:
            return build_patches(workspaces, *map(workspaces.load, trees))

    def summarize_changes(self) -> ChangeSummary:
        """Return the numbers of files and lines that the whole session changed in its workspace."""
        entries = self.entries
        trees = history.find_session_trees(entries)
        changes = self._diff_trees(*trees) if trees else ()
        # the changes of a step are unknown after a crash, so the remaining changes are added
        files = {*history.list_changed_files(entries), *(change.path for change in changes)}
        additions, deletions = sum(change.added_lines for change in changes), sum(change.removed_lines for change in changes)
        return ChangeSummary(files=len(files), additions=additions, deletions=deletions, changes=changes)

    def list_saved_outputs(self) -> frozenset[str] | None:
        """Return the names of the saved tool outputs that were not deleted.

        None if the session has no journal, so that its outputs live as long as the session, or if the journal cannot be read.
        """
        if self.spec.journal is None:
            return None
        try:
            with Journal.open(self.spec.journal, read_only=True) as journal:
                return journal.list_saved_outputs(self.session_id)
        except StoreError:
            return None

    def compact(self) -> Compaction | None:
        """Run the policy's compaction now, whether or not it is due, and wait for its summary.

        `stop` interrupts the wait.

        Returns:
            Logged compaction, which may have failed or changed nothing. None if the policy has no rule that can compact, or if
                the compaction was stopped.

        Raises:
            UsageError: The session is not idle.
        """
        return self._run_in_thread(SessionWorker.compact)

    def change_policy(self, policy: str | Policy) -> None:
        """Let another policy, or other values of its fields, decide about compactions from the next step on.

        The change is logged, holds after `reopen`, too, and leaves the messages as they are. To compare both policies, fork the
        session before: `session.fork(step, spec=replace(session.spec, policy=policy))`. Sub-agents keep the former policy.

        Args:
            policy: New policy, as an object or by its public name.

        Raises:
            UsageError: The session is not idle, the policy is unknown or cannot work in the window, it shortens tool outputs or
                counts tokens in another way, or it needs a local model that this session has not started.
        """
        resolved = resolve_policy(policy)
        self._run_in_thread(lambda worker: worker.change_policy(resolved))
        self.spec = replace(self.spec, policy=resolved)

    def roll_back(self, step: int) -> None:
        """Restore the conversation and the workspace as they were after a step.

        Later log entries stay, but no longer count.

        Args:
            step: Number of the step whose end is restored; 0 is the state before the first step.

        Raises:
            UsageError: The session is not idle, there is no such step, or no snapshot of the workspace was kept.
        """
        self._run_in_thread(lambda worker: worker.roll_back(step))

    def fork(
        self,
        step: int,
        journal: str | os.PathLike[str] | None = None,
        *,
        spec: SessionSpec | None = None,
        on_event: EventListener = ignore,
    ) -> "LiveSession":
        """Create another session with the log and the workspace of this session up to a step.

        This session is not changed.

        Args:
            step: Number of the last step that both sessions share; 0 is the state before the first step.
            journal: Journal file of the new session. None uses the journal of this session.
            spec: Configuration of the new session, e.g. with another policy. None copies the configuration of this session,
                except `keep`.
            on_event: Listener that receives log entries and transient events of the new session.

        Returns:
            New session, which is not started yet; call `start`, then `send` or `resume`.

        Raises:
            UsageError: There is no such step, or the workspace could not be saved then.
            StoreError: The new session could not be written.
        """
        entries = self.entries
        return self._branch(entries, history.find_step_end(entries, step), (), (to_path(journal), spec), on_event)

    def fork_at_compaction(
        self,
        compaction: int,
        arm: str | Policy,
        journal: str | os.PathLike[str] | None = None,
        *,
        spec: SessionSpec | None = None,
        on_event: EventListener = ignore,
    ) -> "LiveSession":
        """Create another session that continues from a compaction, as it was or with another effect of the compaction.

        Unlike twins, the fork can be talked to, and its policy stays active. If the compaction took place at the beginning of a
        turn, the fork also has the user message of that turn.

        Args:
            compaction: Number of the compaction among the applied compactions of the session, from 1.
            arm: `as it was` changes nothing. `facts put back` puts the facts that the compaction lost back where they stood.
                `not compacted` leaves out this and all later compactions, in the largest window that the model has. Another
                policy, as an object or by name, continues from before the compaction. The other names in
                `harness.session.twins.TWIN_ARMS` are allowed, too.
            journal: Journal file of the new session. None uses the journal of this session.
            spec: Configuration of the new session, in which `arm` may change policy and window. None copies the configuration
                of this session, except `keep`.
            on_event: Listener that receives log entries and transient events of the new session.

        Returns:
            New session, which is not started yet; call `start`, then `resume`.

        Raises:
            UnknownName: There is no such arm or policy.
            UsageError: There is no such compaction, the facts of the session are not known, or its workspace was not saved.
            StoreError: The new session could not be written.
        """
        entries = self.entries
        fork = plan_fork(entries, self.spec, compaction, arm, spec)
        return self._branch(entries, fork.to_event, fork.events, (to_path(journal), fork.spec), on_event)

    @classmethod
    def fork_source(
        cls,
        source: TwinSource,
        compaction: int,
        arm: str | Policy,
        *,
        on_event: EventListener = ignore,
        clock: Clock = time.time,
        ids: IdFactory = TIME_ORDERED_IDS,
    ) -> "LiveSession":
        """Return the same fork of a stored trial or session. The log of the new session is kept in memory.

        Args:
            source: Stored session with its configuration and workspaces, which is only read.
            compaction: Number of the compaction among the applied compactions of the session, from 1.
            arm: Effect of the compaction, as in `fork_at_compaction`.
            on_event: Listener that receives log entries and transient events of the new session.
            clock: Source of the time of each event, in seconds since the epoch.
            ids: Source of the ids of the new session.

        Raises:
            UnknownName: There is no such arm or policy.
            UsageError: There is no such compaction, the facts of the session are not known, or its workspace was not saved.
        """
        origin = cls(replace(source.spec, journal=None), session_id=source.session_id, clock=clock, ids=ids)
        origin._control = SessionControl(source.session_id, ignore, source.entries)
        fork = plan_fork(source.entries, origin.spec, compaction, arm)
        kept = [*source.entries[: fork.to_event], *(Entry(fork.to_event + 1, event) for event in fork.events)]
        if not history.find_tree(kept) and history.find_last_step(kept):
            raise UsageError(f"session {source.session_id!r} cannot be forked: no workspace was saved; {source.snapshot_advice}")
        copy_workspaces(history.list_trees(kept), source.workspaces, origin._memory.workspaces)
        for text in source.outputs:
            origin._memory.outputs.save(text)
        return origin._branch(source.entries, fork.to_event, fork.events, (None, fork.spec), on_event)

    def twins(
        self,
        compaction: int,
        arms: Sequence[str | Policy] | None = None,
        *,
        repetitions: int | None = None,
        later_compactions: bool = False,
        facts: Collection[str] | None = None,
    ) -> Twins:
        """Continue the session from a compaction several times, as it was and with other effects of the compaction, and compare.

        All twins start from the same messages, workspace and number of remaining steps. Each runs to its end in a sandbox of its
        own, one after the other, and is graded by the checks of the task. This session is not changed.

        Args:
            compaction: Number of the compaction among the applied compactions of the session, from 1.
            arms: Names from `harness.session.twins.TWIN_ARMS`, and other policies as objects or by name. None is `as it was`,
                `not compacted`, `facts put back` and `control text`, or the first two without a task.
            repetitions: Number of twins in each arm, whose seeds are equal in all arms; the first has the seed of the session.
                None is 8, or 1 for a scripted model that makes the same decisions with every seed.
            later_compactions: Whether the policy stays active after the compaction, and the window as it was. Otherwise later
                compactions are off and the window is lifted in every arm, which shows the effect of this compaction alone.
            facts: Names of the facts that are put back. None puts back all facts that the compaction lost.

        Returns:
            Results, with a table of one row per twin: arm, repetition, score, passed, steps, cost, failed checks.

        Raises:
            UnknownName: There is no such arm or policy.
            UsageError: There is no such compaction, no workspace was saved, an arm needs a task, or a number is out of range.
            SandboxError: A sandbox did not start.
            StoreError: The saved workspace is missing.
        """
        plan = TwinPlan(
            compaction=compaction, arms=arms, repetitions=repetitions, later_compactions=later_compactions, facts=facts
        )
        with self._open_workspaces(read_only=True) as workspaces:
            source = TwinSource(
                session_id=self.session_id,
                entries=self.entries,
                spec=self.spec,
                workspaces=workspaces,
                outputs=self._list_outputs(),
            )
            return run_twins(source, plan, self._clock)

    def _branch(
        self,
        entries: Sequence[Entry],
        to_event: int,
        extra_events: Sequence[Event],
        overrides: tuple[Path | None, SessionSpec | None],
        on_event: EventListener,
    ) -> "LiveSession":
        """Create a session from this session's events up to `to_event` and its snapshots, followed by `extra_events`."""
        if history.find_tree(entries, to_event) == "" and history.find_last_step(entries[:to_event]):
            raise UsageError(
                f"session {self.session_id!r} cannot be forked at this point: its workspace is missing ({FAILED_SAVE})"
            )
        path = overrides[0].absolute() if overrides[0] else self.spec.journal
        spec = replace(overrides[1] or replace(self.spec, keep=None), journal=path)
        new_id = self._ids.make_descending()
        events = (*history.build_fork_events(entries, new_id, to_event, encode_setup(spec)), *extra_events)
        entries_copy = tuple(Entry(seq, event) for seq, event in enumerate(events, 1))
        if path is not None:
            with (
                lock_session(path, new_id),  # a clean-up keeps the copied files, although no event refers to them yet
                self._open_workspaces() as source,
                closing(JournalWorkspaces(path)) as target,
                Journal.open(path) as opened,
                fail_on_error(
                    lambda stop: fail_or_note(opened, new_id, reason=stop.reason, detail=stop.detail, clock=self._clock)
                ),
            ):
                if path != self.spec.journal:
                    copy_workspaces(history.list_trees(entries_copy), source, target)
                opened.open_session_log(new_id, created_at_ms=int(self._clock() * 1000), clock=self._clock).append(events)
                outputs = opened.open_outputs(new_id, self._clock)
                for text in self._list_outputs():
                    outputs.save(text)
        branch = type(self)(spec, session_id=new_id, on_event=on_event, clock=self._clock, ids=self._ids)
        branch._control = SessionControl(new_id, on_event, entries_copy)
        branch._memory = self._memory
        return branch

    def _diff_trees(self, older: str, newer: str) -> tuple[FileChange, ...]:
        with self._open_workspaces() as workspaces:
            return diff_snapshots(workspaces, workspaces.load(older), workspaces.load(newer))

    def _list_outputs(self) -> list[str]:
        """Return the tool outputs that this session has saved outside its log."""
        if self.spec.journal is None:
            return self._memory.outputs.list_texts()
        with Journal.open(self.spec.journal) as journal:
            return journal.open_outputs(self.session_id, self._clock).list_texts()

    @contextmanager
    def _open_workspaces(self, *, read_only: bool = False) -> Iterator[Workspaces]:
        if self.spec.journal is None:
            yield self._memory.workspaces
        else:
            with closing(JournalWorkspaces(self.spec.journal, read_only=read_only)) as workspaces:
                yield workspaces

    def _run_in_thread(self, operation: Callable[[SessionWorker], ResultT]) -> ResultT:
        """Run a function in the session's own thread and return its result; the session must be idle."""
        if threading.get_ident() == self._control.thread_number:
            raise UsageError(
                f"session {self.session_id!r} cannot wait for itself: its listener runs in the session's own thread; call this "
                "from another thread"
            )
        future: Future[ResultT] = Future()
        worker = self._worker

        def job() -> None:
            assert worker is not None
            try:
                result = operation(worker)
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, UsageError):
                    raise
            else:
                future.set_result(result)

        with self._control.condition:
            if self.state != "idle" or self._control.inner is None or not self._control.is_resting():
                raise UsageError(f"session {self.session_id!r} is {self.state}, not idle; stop it and wait until it is idle")
            self._control.jobs.append(job)
            self._control.condition.notify_all()
            while not self._control.condition.wait_for(
                lambda: future.done() or self.state in {"failed", "closed"}, MAIN_THREAD_WAIT_SECONDS
            ):
                pass
            if not future.done():
                raise UsageError(f"session {self.session_id!r} is {self.state}: {self.failure}")
        return future.result()
