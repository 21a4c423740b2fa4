"""Work of a live session's thread, which starts the session, runs its turns, saves its workspace, rolls back and finishes."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

from harness.agent.cancellation import Cancellation, run_interruptibly
from harness.agent.conversation import Inbox
from harness.agent.loop import Outcome, Session, Stop
from harness.agent.prompts import SYSTEM_PROMPT
from harness.compaction.description import choose_truncation
from harness.conversation.events import (
    SANDBOX_LOST_REASONS,
    Compaction,
    Event,
    MessageAdded,
    RolledBack,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    TurnEnded,
)
from harness.conversation.messages import user
from harness.errors import HarnessError, SandboxDied, StoreError, UsageError
from harness.models.local.catalogue import is_local
from harness.protocols import Clock, IdFactory, Policy
from harness.session import history
from harness.session.assembly import SessionResources, assemble_session, write_workspace
from harness.session.control import SessionControl
from harness.session.execution import OpenSession, SessionResult, connect_saver, finish_session, open_session
from harness.session.spec import SessionSpec, encode_setup, find_setup
from harness.session.storage import (
    FAILED_SAVE,
    UNSAVED_WORKSPACES,
    SessionMemory,
    SessionStorage,
    open_storage,
)
from harness.store.sessions.failures import record_failure
from harness.store.sessions.locks import NotedFailure, write_note

CONTINUE_MESSAGE = "Go on."
"""Text of the user message that is added when an interrupted turn continues after a message of the agent.

Several providers reject a request that ends with a message of the agent.
"""


RECORD_INTERVAL_SECONDS = 1.0
"""Time in seconds between two attempts to log the end of a session whose journal cannot be written."""


class SessionWorker:
    """Worker that runs a live session in one thread. Other threads send it requests through a `SessionControl`."""

    def __init__(
        self,
        control: SessionControl,
        spec: SessionSpec,
        memory: SessionMemory,
        sources: tuple[Clock, IdFactory],
        exit_stack: ExitStack,
    ) -> None:
        """Prepare the worker of a live session; nothing is started.

        Args:
            control: State of the session that is shared with the callers of the session.
            spec: Configuration of the session that the worker runs.
            memory: Stores for a session without a journal file.
            sources: Source of the time of each event, in seconds since the epoch, and source of the ids of sub-agents.
            exit_stack: Open resources of the session, which are released after the journal is closed.
        """
        self._exit_stack = exit_stack
        self._control, self._spec, self._memory = control, spec, memory
        self._clock, self._ids = sources
        self.result: SessionResult | None = None
        self._unrecorded_failure: NotedFailure | None = None
        """End of the session if it could not be logged, because the journal cannot be written; else None."""

    def run(self) -> None:
        """Run the live session from its start to its end.

        An error sets the state to `failed` instead of being raised.
        """
        control, failure = self._control, ""
        control.thread_number = threading.get_ident()
        try:
            with self._exit_stack as stack:
                entries = control.log.entries()
                storage = stack.enter_context(
                    open_storage(self._spec.journal, control.session_id, entries, self._memory, self._clock)
                )
                with self._end_session(storage):
                    control.log.open(storage.log, storage.save_draft)
                    control.remove_old_outputs = storage.remove_old_outputs
                    start_event = control.log.start_event
                    request = start_event.task if start_event else (self._spec.request or control.wait_for_first_message())
                    if request is not None:
                        self._run_session(storage, stack, replace(self._spec, request=request))
        except HarnessError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001  (edge of the thread: a failed session reports its error)
            failure = f"{type(error).__name__}: {error}; this is a bug; the log is kept"
        with control.condition:
            control.failure = failure
            control.update_state("failed" if failure else "closed")
        try:
            control.flush()
        finally:  # even if the listener raises an error
            self._record_stop()

    @contextmanager
    def _end_session(self, storage: SessionStorage) -> Iterator[None]:
        """Log the end of the session if the `with` block has not done so, so that it does not seem to be running."""
        stop = Stop("cancelled", "closed before the session had started")
        try:
            yield
        except Exception as error:
            stop = Stop.from_error(error)
            raise
        finally:
            log = self._control.log
            try:
                if log.has_begun and history.is_active(log.entries()):
                    log.append((SessionEnded(status="failed", reason=stop.reason, detail=stop.detail),))
                storage.fail_session(stop)  # sub-agents, and a session that has not begun
            except StoreError:
                now_ms = int(self._clock() * 1_000)
                self._unrecorded_failure = NotedFailure(self._control.session_id, stop.reason, stop.detail, now_ms)
                if self._spec.journal is not None:
                    write_note(self._spec.journal, self._unrecorded_failure)

    def _record_stop(self) -> None:
        """Log the end of the session once the journal can be written again.

        When the session is closed, this is left to the next process that opens the journal.
        """
        control, journal = self._control, self._spec.journal
        while (failure := self._unrecorded_failure) is not None and journal is not None:
            with control.condition:
                is_closing = control.condition.wait_for(lambda: control.is_closing, RECORD_INTERVAL_SECONDS)
            if record_failure(journal, failure) or is_closing:
                return

    def roll_back(self, step: int) -> None:
        """Restore the conversation and the workspace of the session to their state at the end of an earlier step."""
        control, entries = self._control, self._control.log.entries()
        to_event = history.find_step_end(entries, step)
        tree_id = history.find_tree(entries, to_event)
        if not tree_id:
            reason = "its workspaces were not saved" if tree_id is None else f"its workspace is missing ({FAILED_SAVE})"
            raise UsageError(f"session {control.session_id!r} cannot be rolled back: {reason}")
        self._saver.restore_workspace(self._storage.workspaces.load(tree_id), history.find_left_out(entries, to_event))
        loop_session = self._loop_session
        loop_session.record(RolledBack(step=step, to_event=to_event))
        loop_session.request_builder.forget_view()
        loop_session.usage = loop_session.conversation.usage
        self._opened.agent.inbox = self._build_inbox()
        with control.condition:
            control.has_unfinished_turn, control.last_stop = True, None
            control.should_continue = control.should_resume = False

    def compact(self) -> Compaction | None:
        """Compact the conversation now, even if the policy would not, and return the logged compaction.

        The result is None if no compaction was attempted or the compaction was stopped.
        """
        control, loop_session = self._control, self._loop_session
        with control.condition:
            control.cancellation = self._opened.agent.cancellation = Cancellation(control.flush)
        entry_count = len(control.log.entries())
        try:
            loop_session.compact(loop_session.conversation.view.steps + 1, "manual")
        finally:
            with control.condition:
                control.cancellation = None
        events = [entry.event for entry in control.log.entries()[entry_count:]]
        return next((event for event in events if isinstance(event, Compaction)), None)

    def change_policy(self, policy: Policy) -> None:
        """Let another policy, or other values of its fields, decide about compactions from now on, and log the change."""
        spec, agent, resources = replace(self._spec, policy=policy), self._opened.agent, self._opened.resources
        if policy.counter != self._spec.policy.counter:
            raise UsageError("policy: it counts tokens in another way than the policy of this session; fork the session with it")
        if choose_truncation(policy, explore=spec.explore) != choose_truncation(self._spec.policy, explore=spec.explore):
            raise UsageError("policy: it shortens tool outputs in another way than this session; fork the session with it")
        if unserved := [name for name in spec.models if is_local(name) and name not in resources.endpoints]:
            raise UsageError(f"policy: the model {unserved[0]!r} is not running in this session; fork the session with it")
        session = assemble_session(spec, resources)
        agent.compactor, self._spec = session.agent.compactor, spec
        start_event = replace(session.start_event, setup_json=encode_setup(spec))
        self._loop_session.record(_make_resumed_event(start_event, start_event.setup_json))

    def _run_session(self, storage: SessionStorage, stack: ExitStack, spec: SessionSpec) -> None:
        control = self._control
        blobs = storage.workspaces if spec.snapshots else None
        resources = SessionResources(
            session_id=control.session_id,
            log=control.log,
            clock=self._clock,
            ids=self._ids,
            outputs=storage.outputs,
            on_event=control.notify,
            decide_repeated_call=control.ask_user,
        )
        opened = self._enter_context(open_session(spec, resources, blobs), stack)
        if opened is None:
            return
        self._spec, self._storage, self._opened = spec, storage, opened
        self._saver = connect_saver(opened, spec, blobs, control.log.save_draft)
        self._loop_session = control.inner = self._reopen_session() if control.log.has_begun else self._begin_session()
        control.log.log_early_messages()
        control.is_coming_up = False
        while (job := control.wait_for_job(self._run_turn)) is not None:
            job()
        self._finish_session()

    def _enter_context(self, context: AbstractContextManager[OpenSession], stack: ExitStack) -> OpenSession | None:
        """Open a session in a separate thread, because its sandbox may have to download an image.

        The result is None if the session is closed while it is being opened.
        """
        opened = run_interruptibly(
            context.__enter__, self._control.end_request, undo=lambda _: context.__exit__(None, None, None)
        )
        if opened is not None:
            stack.push(context)
        return opened

    def _begin_session(self) -> Session:
        write_workspace(self._spec.task, self._opened.sandbox)
        loop_session = Session(self._opened.agent)
        loop_session.begin(self._opened.start_event, SYSTEM_PROMPT, self._spec.session_context)
        return loop_session

    def _reopen_session(self) -> Session:
        entries = self._control.log.entries()
        tree_id = history.find_tree(entries)
        if tree_id:
            self._saver.restore_workspace(self._storage.workspaces.load(tree_id), history.find_left_out(entries))
        elif history.find_last_step(entries):
            name = self._control.session_id
            reason = UNSAVED_WORKSPACES if tree_id is None else FAILED_SAVE
            raise UsageError(f"session {name!r} cannot be continued: its workspace was not saved ({reason})")
        else:
            write_workspace(self._spec.task, self._opened.sandbox)
        self._opened.agent.inbox = self._build_inbox()
        loop_session = Session(self._opened.agent)
        setup_json = self._opened.start_event.setup_json
        new_setup_json = "" if setup_json == find_setup(entries) else setup_json
        loop_session.record(_make_resumed_event(self._opened.start_event, new_setup_json))
        return loop_session

    def _build_inbox(self) -> Inbox:
        task = self._spec.task
        return Inbox(history.select_due_messages(task.later_messages if task else (), self._control.log.entries()))

    def _run_turn(self) -> None:
        """Continue the unfinished turn if a caller requested that; otherwise begin with the next queued message."""
        control, loop_session = self._control, self._loop_session
        with control.condition:
            continues_turn, control.should_resume = control.should_resume and control.has_unfinished_turn, False
            self._opened.agent.cancellation = control.cancellation
        self._saver.forget_results()
        step = loop_session.conversation.view.steps + 1
        steps_before = history.count_turn_steps(control.log.entries()) if continues_turn else 0
        opening_events = self._make_continue_events(step) if continues_turn else control.log.take_next(step)
        stop = loop_session.run_turn(*opening_events, steps_before=steps_before)
        turn_number = history.find_turn_number(control.log.entries())
        loop_session.record(TurnEnded(turn=turn_number, status=stop.status, reason=stop.reason, detail=stop.detail))
        with control.condition:
            control.last_stop, control.has_unfinished_turn, control.cancellation = stop, stop.status == "failed", None
            if stop.status == "failed" and stop.reason != "cancelled":
                control.should_continue = control.should_resume = False
        if stop.reason in SANDBOX_LOST_REASONS:
            raise SandboxDied(f"{stop.detail}; reopen the session to continue with its log and its last workspace")

    def _make_continue_events(self, step: int) -> Sequence[Event]:
        items = self._loop_session.conversation.view.items
        return (MessageAdded(message=user(CONTINUE_MESSAGE), step=step),) if items[-1].message.role == "assistant" else ()

    def _finish_session(self) -> None:
        stop = self._control.last_stop or Stop("cancelled", "closed before the first turn ended")
        self._loop_session.record(SessionEnded(status=stop.status, reason=stop.reason, detail=stop.detail))
        outcome = Outcome.from_stop(stop, self._loop_session.conversation.view)
        self.result = finish_session(self._spec, self._opened.sandbox, outcome)


def _make_resumed_event(start_event: SessionStarted, setup_json: str) -> SessionResumed:
    """Return the event after which the settings of a start event apply; an empty setup is the one that holds already."""
    return SessionResumed(
        model=start_event.model,
        policy_json=start_event.policy_json,
        window_tokens=start_event.window_tokens,
        threshold_tokens=start_event.threshold_tokens,
        budget_rule=start_event.budget_rule,
        sandbox=start_event.sandbox,
        setup_json=setup_json,
        attended=start_event.attended,
    )
