"""The work of a live session's thread: bring it up, take one turn after the other, keep workspaces, roll back, end."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from harness.agent.cancellation import Cancellation, run_interruptibly
from harness.agent.inbox import Inbox
from harness.agent.loop import Outcome, Session, Stop
from harness.agent.loop_detection import LoopDetector, decide_always
from harness.agent.prompts import build_system_prompt
from harness.errors import HarnessError, SandboxDied, UsageError
from harness.events import (
    Compaction,
    Event,
    Hook,
    MessageAdded,
    RolledBack,
    SessionEnded,
    SessionResumed,
    Signal,
    TurnEnded,
    Waiting,
    WorkspaceSaved,
)
from harness.messages import user
from harness.protocols import Clock, Compactor, Policy
from harness.session import history
from harness.session.control import Desk
from harness.session.setup import recorded
from harness.session.spec import Ended, Interactive, Wired, ended, lay, wired
from harness.session.storage import Place, placed
from harness.store.workspaces import MemoryWorkspaces
from harness.tokens import Budget, Usage
from harness.view import View


class AnnouncedCompactor:
    """Another compactor, watched."""

    def __init__(self, inner: Compactor, announce: Callable[[bool], None]) -> None:
        """Call `announce` with True when a summary is asked for, and with False when that is over."""
        self._inner, self._announce = inner, announce

    @property
    def policy(self) -> Policy:
        """See `harness.protocols.Compactor`."""
        return self._inner.policy

    @property
    def budget(self) -> Budget:
        """See `harness.protocols.Compactor`."""
        return self._inner.budget

    def compact(
        self, view: View, usage: Usage | None, step: int, hook: Hook, signal: Callable[[Signal], None]
    ) -> Compaction | None:
        """See `harness.protocols.Compactor`."""
        announced = False

        def hear(heard: Signal) -> None:
            nonlocal announced
            if isinstance(heard, Waiting) and not announced:
                announced = True
                self._announce(True)
            signal(heard)

        try:
            return self._inner.compact(view, usage, step, hook, hear)
        finally:
            if announced:
                self._announce(False)


GO_ON = "Go on."
"""Said for the user where the last words of an interrupted turn are the agent's own: several providers refuse to go on there."""


class Worker:
    """Runs in one thread; what others wish is on the desk."""

    def __init__(self, desk: Desk, session: Interactive, memory: MemoryWorkspaces, clock: Clock, held: ExitStack) -> None:
        """Prepare.

        Args:
            desk: shared with those who wish something.
            session: what decides how it goes.
            memory: keeps workspaces where there is no journal.
            clock: the time of each event.
            held: what is let go of at the end, when the journal is closed.
        """
        self._held = held
        self._desk, self._session, self._memory, self._clock = desk, session, memory, clock
        self._tree: str | None = None
        self.ended: Ended | None = None

    def live(self) -> None:
        """The whole life; whatever breaks it is told by the state."""
        desk, failure = self._desk, ""
        desk.thread_number = threading.get_ident()
        try:
            with self._held as stack:
                entries = desk.ledger.entries()
                place = stack.enter_context(placed(self._session.journal, desk.session_id, entries, self._memory, self._clock))
                desk.ledger.open(place.log, place.draft)
                started = desk.ledger.started
                request = started.task if started else (self._session.request or desk.first_message())
                if request is not None:
                    self._work(place, stack, replace(self._session, request=request))
        except HarnessError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001  (the thread's edge: a session that breaks says so instead of dying unheard)
            failure = f"{type(error).__name__}: {error}; a bug: what was logged is kept"
        with desk.changed:
            desk.failure = failure
            desk.change("failed" if failure else "closed")
        desk.flush()

    def roll_back(self, step: int) -> None:
        """See `LiveSession.rollback`."""
        desk, entries = self._desk, self._desk.ledger.entries()
        to_event = history.end_of_step(entries, step)
        tree = history.tree_at(entries, to_event)
        if tree is None:
            raise UsageError(f"session {desk.session_id!r} keeps no workspaces (snapshots = False), so it cannot be rolled back")
        self._it.sandbox.restore(self._place.workspaces.load(tree))
        self._tree = tree
        inner = self._inner
        inner.record(RolledBack(step=step, to_event=to_event))
        inner.request_builder.forget_view()
        inner.usage = inner.conversation.usage
        self._it.agent.inbox = self._inbox()
        with desk.changed:
            desk.unfinished, desk.goes_on, desk.resumed, desk.last_stop = True, False, False, None

    def compact(self) -> Compaction | None:
        """See `LiveSession.compact`."""
        desk, inner = self._desk, self._inner
        with desk.changed:
            desk.cancellation = self._it.agent.cancellation = Cancellation(desk.flush)
        before = len(desk.ledger.entries())
        try:
            inner.compact(inner.conversation.view.steps + 1, "manual")
        finally:
            with desk.changed:
                desk.cancellation = None
        events = [entry.event for entry in desk.ledger.entries()[before:]]
        return next((event for event in events if isinstance(event, Compaction)), None)

    def _work(self, place: Place, stack: ExitStack, session: Interactive) -> None:
        desk = self._desk
        blobs = place.workspaces if session.snapshots else None
        kept = (desk.ledger, place.outputs)
        it = self._up(wired(session, desk.session_id, kept, listen=desk.tell, clock=self._clock, blobs=blobs), stack)
        if it is None:
            return
        it.agent.compactor = AnnouncedCompactor(it.agent.compactor, desk.compacting)
        it.agent.loop_detector = LoopDetector(desk.ask if session.repeated == "ask" else decide_always(session.repeated))
        it.agent.save_workspace = self._keep
        self._session, self._place, self._it = session, place, it
        self._inner = desk.inner = self._opened() if desk.ledger.begun else self._begun()
        desk.ledger.log_early()
        desk.coming_up = False
        while (todo := desk.next(self._turn)) is not None:
            todo()
        self._finish()

    def _up(self, needed: AbstractContextManager[Wired], stack: ExitStack) -> Wired | None:
        """Enter a context in a thread of its own, since a sandbox may have to fetch its image; None = it is closed instead."""
        it = run_interruptibly(needed.__enter__, self._desk.ending, undo=lambda _: needed.__exit__(None, None, None))
        if it is not None:
            stack.push(needed)
        return it

    def _begun(self) -> Session:
        lay(self._session, self._it.sandbox)
        inner = Session(self._it.agent)
        inner.begin(self._it.started, build_system_prompt(self._session.needed_runtime), *self._keep(0))
        return inner

    def _opened(self) -> Session:
        """Go on where the log ends, in the workspace that it names."""
        entries = self._desk.ledger.entries()
        self._tree = history.tree_at(entries)
        if self._tree is not None:
            self._it.sandbox.restore(self._place.workspaces.load(self._tree))
        elif history.last_step(entries):
            raise UsageError(
                f"the workspace of session {self._desk.session_id!r} was not kept (snapshots = False): it cannot go on"
            )
        else:
            lay(self._session, self._it.sandbox)
        self._it.agent.inbox = self._inbox()
        inner = Session(self._it.agent)
        now = self._it.started
        inner.record(
            SessionResumed(
                model=now.model,
                policy_json=now.policy_json,
                window_tokens=now.window_tokens,
                threshold_tokens=now.threshold_tokens,
                budget_rule=now.budget_rule,
                sandbox=now.sandbox,
                setup_json="" if now.setup_json == recorded(entries) else now.setup_json,
            )
        )
        return inner

    def _inbox(self) -> Inbox:
        task = self._session.task
        return Inbox(history.still_due(task.later_messages if task else (), self._desk.ledger.entries()))

    def _keep(self, step: int) -> Sequence[Event]:
        """Keep the workspace if it is another than the one kept last."""
        if not self._session.snapshots:
            return ()
        snapshot = self._it.sandbox.snapshot()
        if snapshot.tree_id == self._tree:
            return ()
        self._place.workspaces.save(snapshot)
        self._tree = snapshot.tree_id
        return (WorkspaceSaved(step=step, tree_id=snapshot.tree_id),)

    def _turn(self) -> None:
        """Go on with the turn that is not finished, if that was wished, or begin one with the next message."""
        desk, inner = self._desk, self._inner
        with desk.changed:
            goes_on, desk.resumed = desk.resumed and desk.unfinished, False
            self._it.agent.cancellation = desk.cancellation
        step = inner.conversation.view.steps + 1
        said = self._prompted(step) if goes_on else desk.ledger.take(step)
        stop = inner.run_turn(*said)
        number = history.turn(desk.ledger.entries())
        inner.record(TurnEnded(turn=number, status=stop.status, reason=stop.reason, detail=stop.detail))
        with desk.changed:
            desk.last_stop, desk.unfinished, desk.cancellation = stop, stop.status == "failed", None
            if stop.status == "failed" and stop.reason != "cancelled":
                desk.goes_on = desk.resumed = False
        if stop.reason == "sandbox_error":
            raise SandboxDied(f"{stop.detail}; reopen the session: its log and its last workspace come back")

    def _prompted(self, step: int) -> Sequence[Event]:
        items = self._inner.conversation.view.items
        return (MessageAdded(message=user(GO_ON), step=step),) if items[-1].message.role == "assistant" else ()

    def _finish(self) -> None:
        stop = self._desk.last_stop or Stop("cancelled", "closed before it rested")
        self._inner.record(SessionEnded(status=stop.status, reason=stop.reason, detail=stop.detail))
        steps = self._inner.conversation.view.steps
        outcome = Outcome(status=stop.status, reason=stop.reason, detail=stop.detail, steps=steps)
        self.ended = ended(self._session, self._it.sandbox, outcome)
