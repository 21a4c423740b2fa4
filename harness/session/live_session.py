"""A session of several turns in front of a person: messages queue while it works, and it can be stopped and gone on with.

One thread does the work and tells the listener; every method may be called from any thread. What is told is in the journal by
then, so a session outlives its process: `LiveSession.reopen` brings back log, queue and workspace.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.agent.loop import Outcome
from harness.agent.tool_execution import LoopDecision
from harness.codec import to_path
from harness.errors import UsageError
from harness.events import Compaction, Entry, Event, MessageAdded, SessionState, Signal
from harness.messages import user
from harness.protocols import Clock, FileChange, ignore
from harness.sandboxes.snapshots import diff_snapshots
from harness.session import history
from harness.session.control import SessionControl
from harness.session.diffs import FilePatch, build_patches
from harness.session.execution import CopiedFiles, SessionResult
from harness.session.preflight import check_spec
from harness.session.restoration import find_compaction, find_dropped_facts
from harness.session.setup import encode_setup
from harness.session.spec import SessionSpec
from harness.session.storage import load_log, refuse_without_workspace, restore_spec
from harness.session.worker import SessionWorker
from harness.store.journal import Journal
from harness.store.sessions.locks import lock_session
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces, Workspaces, copy_workspaces
from harness.tokens import Budget
from harness.view import View, fold_all


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSummary:
    """The first workspace of a session beside the last."""

    files: int
    """Added, modified or deleted."""
    additions: int
    """Lines."""
    deletions: int
    """Lines."""
    changes: tuple[FileChange, ...]
    """By path."""


def summarize_changes(changes: Sequence[FileChange]) -> ChangeSummary:
    """The sums of some changes."""
    return ChangeSummary(
        files=len(changes),
        additions=sum(change.added_lines for change in changes),
        deletions=sum(change.removed_lines for change in changes),
        changes=tuple(changes),
    )


ResultT = TypeVar("ResultT")

NO_COMPACTION_MESSAGE = "nothing was compacted: it was stopped, or the policy has no rule that could"
"""What `LiveSession.compact` means by None."""


class LiveSession:
    """One session in one daemon thread. Thread-safe; close it, or its sandbox lives as long as the process."""

    def __init__(
        self,
        spec: SessionSpec,
        *,
        session_id: str | None = None,
        on_event: Callable[[Entry | Signal], None] = ignore,
        clock: Clock = time.time,
    ) -> None:
        """Prepare the session; nothing runs before `start`.

        Args:
            spec: what decides how it goes. An empty request means that the first message is the request.
            session_id: names it in the journal and the sandbox; None = a new name.
            on_event: hears every logged entry and every signal in order, in the session's thread; must return quickly.
            clock: the time of each event.
        """
        self.spec = spec
        self.session_id = session_id or secrets.token_hex(6)
        self._clock = clock
        self._control = SessionControl(self.session_id, on_event)
        self._memory_workspaces = MemoryWorkspaces()
        self._worker: SessionWorker | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def reopen(
        cls,
        journal: str | os.PathLike[str],
        session_id: str,
        *,
        spec: SessionSpec | None = None,
        on_event: Callable[[Entry | Signal], None] = ignore,
        clock: Clock = time.time,
    ) -> "LiveSession":
        """A session that was closed, or whose process ended, to be gone on with: `start`, then `send` or `resume`.

        Its queue and its log are back at once, its workspace as it was after the last step when it has started. One at a time
        runs it: `start` refuses as long as another one does.

        Args:
            journal: the file that it is logged in.
            session_id: its name there.
            spec: how it goes from here; None = as it was set up, which its log tells, but for `unsafe_local`: the leave to run
                commands without walls is never taken from a log.
            on_event: hears what is new.
            clock: the time of each event.

        Raises:
            StoreError: no such journal or session.
            UsageError: the session has not begun, ran in another kind of sandbox, or its workspace is not there.
        """
        journal = Path(journal)
        entries = load_log(journal, session_id)
        refuse_without_workspace(entries, journal, session_id)
        return cls._from_entries(entries, restore_spec(entries, journal, spec), session_id, on_event, clock)

    @classmethod
    def _from_entries(
        cls,
        entries: Sequence[Entry],
        spec: SessionSpec,
        session_id: str,
        on_event: Callable[[Entry | Signal], None],
        clock: Clock,
    ) -> "LiveSession":
        live = cls(spec, session_id=session_id, on_event=on_event, clock=clock)
        live._control = SessionControl(session_id, on_event, entries)
        return live

    @property
    def state(self) -> SessionState:
        """What it does."""
        return self._control.state

    @property
    def failure(self) -> str:
        """Why it failed and what to do; empty = it did not."""
        return self._control.failure

    @property
    def is_stopping(self) -> bool:
        """Whether the running turn was asked to end and has not yet."""
        cancellation = self._control.cancellation
        return cancellation is not None and cancellation.is_requested

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that was logged so far."""
        return self._control.log.entries()

    @property
    def queued_messages(self) -> tuple[str, ...]:
        """The messages that wait for their turn, the next one first."""
        return self._control.log.queued_messages

    @property
    def view(self) -> View:
        """What the model sees next."""
        loop_session = self._control.inner
        return loop_session.conversation.view if loop_session else fold_all(self.entries)

    @property
    def budget(self) -> Budget | None:
        """How the window is divided; None = not known before it has started."""
        loop_session = self._control.inner
        return loop_session.agent.compactor.budget if loop_session else None

    def start(self) -> Self:
        """Bring up sandbox and model in the session's thread, and begin with the request.

        Raises:
            UsageError: an unknown name, a missing key, a request that cannot fit the window; it was started before, or somebody
                else runs the session of that name.
            StoreError: the folder of its journal cannot be written.
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
                self._worker = SessionWorker(self._control, self.spec, self._memory_workspaces, self._clock, exit_stack)
                self._thread = threading.Thread(target=self._worker.run, name=f"harness-session-{self.session_id}", daemon=True)
                self._thread.start()
        return self

    def send(self, text: str) -> int:
        """Queue a user message; it is logged when this returns, and waits until the running turn has ended (S1.4).

        Before there is a log to write to it waits in memory, and is lost with the process: of a new session until its sandbox is
        up and its first event is logged, of one that was reopened until `start`.

        Returns:
            Its position, 1 = next.

        Raises:
            UsageError: it says nothing, or the session is over.
            StoreError: it could not be logged.
        """
        if not text.strip():
            raise UsageError("the message is empty")
        with self._control.condition:
            self._control.refuse_if_over()
            position = self._control.log.enqueue(text)
            self._control.request_work()
        return position

    def withdraw(self, position: int) -> str:
        """Take a waiting message back, 1 = next; returns its text.

        Raises:
            UsageError: none waits there.
        """
        with self._control.condition:
            text = self._control.log.withdraw(position)
            self._control.update_state()
        return text

    def stop(self) -> None:
        """End the running turn: what the model had written is kept, a running tool finishes (S1.5).

        Returns at once; `wait` tells when it rests, which is within a second even when the provider stalls, or the sandbox takes
        its time to come up: it comes up none the less, and is there for what is wished next. Messages that wait stay until
        somebody sends another one or resumes.

        A call that was broken off is left at the next piece of its answer and not made again. Of a provider that says nothing it
        keeps one thread and one connection in the background, for `SessionSpec.stall_seconds` at most. A model on this machine
        answers one request at a time: the next turn begins when it has read the prompt of the call that was broken off.
        """
        with self._control.condition:
            self._control.should_continue = self._control.should_resume = False
            self._control.stop_turn()

    def resume(self) -> None:
        """Go on with a turn that was stopped, failed or broken off; without one, with the next message that waits.

        Raises:
            UsageError: the session is over.
        """
        with self._control.condition:
            self._control.refuse_if_over()
            self._control.request_work(resume_turn=True)

    def decide_repeated_call(self, decision: LoopDecision) -> None:
        """Say what is to be done about a repeated call, when it is `asking` (S3.10).

        Raises:
            UsageError: it does not ask.
        """
        with self._control.condition:
            if self.state != "asking":
                raise UsageError(f"session {self.session_id!r} asks nothing; it is {self.state}")
            self._control.decision = decision
            self._control.update_state("working")

    def wait(self, timeout_seconds: float | None = None) -> SessionState:
        """Wait until it rests: idle with nothing to do, asking, failed, closed or never started; or for that long.

        Returns:
            The state by then.
        """
        at_a_time = MAIN_THREAD_WAIT_SECONDS if timeout_seconds is None else timeout_seconds
        with self._control.condition:
            while not self._control.condition.wait_for(self._control.is_resting, at_a_time) and timeout_seconds is None:
                pass
            return self._control.state

    def close(self) -> SessionResult:
        """End the session: a running turn is stopped, files are kept, the checks of a task are run, the sandbox goes.

        What is still coming up is not waited for: a sandbox or a server that comes nevertheless goes at once.

        Idempotent. Not for the listener, which runs in the session's thread. The log can be gone on with by `reopen`.
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
        detail = self.failure or "it never began"
        return SessionResult(Outcome("cancelled", detail, self.view.steps), (), CopiedFiles())

    def list_changes(self, turn: int | None = None) -> tuple[FileChange, ...]:
        """What a turn changed in the workspace, by path; None = the newest turn. Nothing where no snapshots are kept.

        Raises:
            UsageError: no such turn.
        """
        trees = history.find_turn_trees(self.entries, turn)
        return () if trees is None else self._diff_trees(*trees)

    def list_patches(self, turn: int | None = None, *, whole_session: bool = False) -> tuple[FilePatch, ...]:
        """What a turn changed in the workspace, line by line, fit to be shown; see `list_changes`.

        Raises:
            UsageError: no such turn.
        """
        entries = self.entries
        trees = history.find_session_trees(entries) if whole_session else history.find_turn_trees(entries, turn)
        if trees is None:
            return ()
        with self._open_workspaces() as workspaces:
            return build_patches(workspaces, *map(workspaces.load, trees))

    def summarize_changes(self) -> ChangeSummary:
        """What the whole session changed in its workspace (S3.11)."""
        trees = history.find_session_trees(self.entries)
        return summarize_changes(self._diff_trees(*trees) if trees else ())

    def compact(self) -> Compaction | None:
        """Compact now, as the policy would before the next step if it were due; waits for the summary, which `stop` ends.

        Returns:
            What was logged: applied, or come to nothing with the reason. None: the policy has no rule for it, or it was stopped.

        Raises:
            UsageError: it is not idle.
        """
        return self._run_in_thread(SessionWorker.compact)

    def roll_back(self, step: int) -> None:
        """Bring view and workspace back to what they were after a step; 0 = before the first. What came since counts no more.

        Raises:
            UsageError: it is not idle, there is no such step, or no workspace was kept.
        """
        self._run_in_thread(lambda worker: worker.roll_back(step))

    def fork(
        self,
        step: int,
        journal: str | os.PathLike[str] | None = None,
        *,
        spec: SessionSpec | None = None,
        on_event: Callable[[Entry | Signal], None] = ignore,
    ) -> "LiveSession":
        """Another session that is this one up to a step, log and workspace; this one goes on as it was.

        Args:
            step: 0 = before the first.
            journal: the file in which the new one is logged; None = that of this one.
            spec: how the new one goes on, e.g. under another policy; None = as this one, its files not kept.
            on_event: hears the new one.

        Returns:
            The new one, not started: `start`, then `send` or `resume`.

        Raises:
            UsageError: there is no such step.
            StoreError: it could not be written.
        """
        entries = self.entries
        return self._branch(entries, history.find_step_end(entries, step), (), (to_path(journal), spec), on_event)

    def fork_after_compaction(
        self,
        round_number: int,
        journal: str | os.PathLike[str] | None = None,
        *,
        remind: bool = True,
        spec: SessionSpec | None = None,
        on_event: Callable[[Entry | Signal], None] = ignore,
    ) -> "LiveSession":
        """Another session that is this one up to a compaction, which dropped nothing of what will be needed (RESEARCH 5.6).

        The lines that told the facts of the task which the compaction took out of view are told again by a user message. With
        `remind = False` they are not: what the two do differently is what the loss of these facts did.

        Args:
            round_number: of the applied compaction, from 1.
            journal: as in `fork`.
            remind: tell the facts again.
            spec: as in `fork`.
            on_event: hears the new one.

        Raises:
            UsageError: there is no such round, or no task that knows its facts.
            StoreError: it could not be written.
        """
        task, entries = self.spec.task, self.entries
        if task is None:
            raise UsageError("only a session of a task knows which facts a compaction dropped; name its task")
        compaction_seq = find_compaction(entries, round_number)
        dropped_facts = find_dropped_facts(entries, task, compaction_seq, self.spec.policy.counter)
        step = history.find_last_step(entries[:compaction_seq]) + 1
        reminder = (MessageAdded(message=user(dropped_facts.reminder), step=step),) if remind and dropped_facts.lines else ()
        return self._branch(entries, compaction_seq, reminder, (to_path(journal), spec), on_event)

    def _branch(
        self,
        entries: Sequence[Entry],
        to_event: int,
        extra_events: Sequence[Event],
        overrides: tuple[Path | None, SessionSpec | None],
        on_event: Callable[[Entry | Signal], None],
    ) -> "LiveSession":
        """The beginning of a log as a session of its own, with its workspaces."""
        path = overrides[0] or self.spec.journal
        spec = replace(overrides[1] or replace(self.spec, keep=None), journal=path)
        new_id = secrets.token_hex(6)
        events = (*history.build_fork_events(entries, new_id, to_event, encode_setup(spec)), *extra_events)
        entries_copy = tuple(Entry(seq, event) for seq, event in enumerate(events, 1))
        if path is not None:
            with self._open_workspaces() as source, closing(JournalWorkspaces(path)) as target, Journal.open(path) as opened:
                if path != self.spec.journal:
                    copy_workspaces(history.list_trees(entries_copy), source, target)
                opened.open_session_log(new_id, created_at_ms=int(self._clock() * 1000), clock=self._clock).append(events)
        branch = self._from_entries(entries_copy, spec, new_id, on_event, self._clock)
        branch._memory_workspaces = self._memory_workspaces
        return branch

    def _diff_trees(self, older: str, newer: str) -> tuple[FileChange, ...]:
        with self._open_workspaces() as workspaces:
            return diff_snapshots(workspaces, workspaces.load(older), workspaces.load(newer))

    @contextmanager
    def _open_workspaces(self) -> Iterator[Workspaces]:
        if self.spec.journal is None:
            yield self._memory_workspaces
        else:
            with closing(JournalWorkspaces(self.spec.journal)) as workspaces:
                yield workspaces

    def _run_in_thread(self, operation: Callable[[SessionWorker], ResultT]) -> ResultT:
        """Have something done in the session's thread, which must be idle."""
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
                raise UsageError(f"session {self.session_id!r} is {self.state}; stop it and wait until it is idle")
            self._control.jobs.append(job)
            self._control.condition.notify_all()
            while not self._control.condition.wait_for(
                lambda: future.done() or self.state in {"failed", "closed"}, MAIN_THREAD_WAIT_SECONDS
            ):
                pass
            if not future.done():
                raise UsageError(f"session {self.session_id!r} is {self.state}: {self.failure}")
        return future.result()
