"""A session of several turns in front of a person: messages queue while it works, and it can be stopped and gone on with.

One thread does the work and tells the listener; every method may be called from any thread. What is told is in the journal by
then, so a session outlives its process: `LiveSession.reopen` brings back log, queue and workspace.
"""

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
from harness.agent.loop import Outcome, ignore
from harness.agent.loop_detection import LoopDecision
from harness.errors import UsageError
from harness.events import Compaction, Entry, Event, MessageAdded, SessionState, Signal
from harness.messages import user
from harness.protocols import Clock, FileChange
from harness.sandboxes.snapshots import diff_snapshots
from harness.session import history
from harness.session.control import Desk
from harness.session.diffs import FilePatch, patches
from harness.session.restoration import compaction_of_round, dropped
from harness.session.setup import setup_json
from harness.session.spec import Ended, Interactive, Kept, check
from harness.session.storage import logged, refuse_without_workspace, reopened
from harness.session.worker import Worker
from harness.store.journal import Journal
from harness.store.sessions.locks import lock_session
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces, Workspaces, copy_workspaces
from harness.tokens import Budget
from harness.view import View, fold_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The first workspace of a session beside the last."""

    files: int
    """Added, modified or deleted."""
    additions: int
    """Lines."""
    deletions: int
    """Lines."""
    changes: tuple[FileChange, ...]
    """By path."""


def summed(changes: Sequence[FileChange]) -> Summary:
    """The sums of some changes."""
    return Summary(
        files=len(changes),
        additions=sum(change.added_lines for change in changes),
        deletions=sum(change.removed_lines for change in changes),
        changes=tuple(changes),
    )


Done = TypeVar("Done")

NOT_COMPACTED = "nothing was compacted: it was stopped, or the policy has no rule that could"
"""What `LiveSession.compact` means by None."""


class LiveSession:
    """One session in one daemon thread. Thread-safe; close it, or its sandbox lives as long as the process."""

    def __init__(
        self,
        session: Interactive,
        *,
        session_id: str | None = None,
        listen: Callable[[Entry | Signal], None] = ignore,
        clock: Clock = time.time,
    ) -> None:
        """Prepare the session; nothing runs before `start`.

        Args:
            session: what decides how it goes. An empty request means that the first message is the request.
            session_id: names it in the journal and the sandbox; None = a new name.
            listen: hears every logged entry and every signal in order, in the session's thread; must return quickly.
            clock: the time of each event.
        """
        self.session = session
        self.session_id = session_id or secrets.token_hex(6)
        self._clock = clock
        self._desk = Desk(self.session_id, listen)
        self._memory = MemoryWorkspaces()
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def reopen(
        cls,
        journal: Path,
        session_id: str,
        *,
        session: Interactive | None = None,
        listen: Callable[[Entry | Signal], None] = ignore,
        clock: Clock = time.time,
    ) -> "LiveSession":
        """A session that was closed, or whose process ended, to be gone on with: `start`, then `send` or `resume`.

        Its queue and its log are back at once, its workspace as it was after the last step when it has started. One at a time
        runs it: `start` refuses as long as another one does.

        Args:
            journal: the file that it is logged in.
            session_id: its name there.
            session: how it goes from here; None = as it was set up, which its log tells, but for `unsafe_local`: the leave to run
                commands without walls is never taken from a log.
            listen: hears what is new.
            clock: the time of each event.

        Raises:
            StoreError: no such journal or session.
            UsageError: the session has not begun, ran in another kind of sandbox, or its workspace is not there.
        """
        entries = logged(journal, session_id)
        refuse_without_workspace(entries, journal, session_id)
        return cls._over(entries, reopened(entries, journal, session), session_id, listen, clock)

    @classmethod
    def _over(
        cls,
        entries: Sequence[Entry],
        session: Interactive,
        session_id: str,
        listen: Callable[[Entry | Signal], None],
        clock: Clock,
    ) -> "LiveSession":
        made = cls(session, session_id=session_id, listen=listen, clock=clock)
        made._desk = Desk(session_id, listen, entries)
        return made

    @property
    def state(self) -> SessionState:
        """What it does."""
        return self._desk.state

    @property
    def failure(self) -> str:
        """Why it failed and what to do; empty = it did not."""
        return self._desk.failure

    @property
    def stopping(self) -> bool:
        """Whether the running turn was asked to end and has not yet."""
        cancellation = self._desk.cancellation
        return cancellation is not None and cancellation.is_requested

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that was logged so far."""
        return self._desk.ledger.entries()

    @property
    def queued(self) -> tuple[str, ...]:
        """The messages that wait for their turn, the next one first."""
        return self._desk.ledger.queued

    @property
    def view(self) -> View:
        """What the model sees next."""
        inner = self._desk.inner
        return inner.conversation.view if inner else fold_all(self.entries)

    @property
    def budget(self) -> Budget | None:
        """How the window is divided; None = not known before it has started."""
        inner = self._desk.inner
        return inner.agent.compactor.budget if inner else None

    def start(self) -> Self:
        """Bring up sandbox and model in the session's thread, and begin with the request.

        Raises:
            UsageError: an unknown name, a missing key, a request that cannot fit the window; it was started before, or somebody
                else runs the session of that name.
            StoreError: the folder of its journal cannot be written.
        """
        self._desk.claim()
        held = ExitStack()
        try:
            check(self.session)
            held.enter_context(lock_session(self.session.journal, self.session_id))
        except BaseException:
            with self._desk.changed:
                self._desk.coming_up = False
                self._desk.change("closed" if self._desk.closing else "new")
            raise
        with self._desk.changed:
            if self._desk.closing:
                held.close()
            else:
                self._worker = Worker(self._desk, self.session, self._memory, self._clock, held)
                self._thread = threading.Thread(target=self._worker.live, name=f"harness-session-{self.session_id}", daemon=True)
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
        with self._desk.changed:
            self._desk.refuse_over()
            position = self._desk.ledger.put(text)
            self._desk.wish()
        return position

    def withdraw(self, position: int) -> str:
        """Take a waiting message back, 1 = next; returns its text.

        Raises:
            UsageError: none waits there.
        """
        with self._desk.changed:
            text = self._desk.ledger.withdraw(position)
            self._desk.change()
        return text

    def stop(self) -> None:
        """End the running turn: what the model had written is kept, a running tool finishes (S1.5).

        Returns at once; `wait` tells when it rests, which is within a second even when the provider stalls, or the sandbox takes
        its time to come up: it comes up none the less, and is there for what is wished next. Messages that wait stay until
        somebody sends another one or resumes.

        A call that was broken off is left at the next piece of its answer and not made again. Of a provider that says nothing it
        keeps one thread and one connection in the background, for `Interactive.stall_seconds` at most. A model on this machine
        answers one request at a time: the next turn begins when it has read the prompt of the call that was broken off.
        """
        with self._desk.changed:
            self._desk.goes_on = self._desk.resumed = False
            self._desk.stop()

    def resume(self) -> None:
        """Go on with a turn that was stopped, failed or broken off; without one, with the next message that waits.

        Raises:
            UsageError: the session is over.
        """
        with self._desk.changed:
            self._desk.refuse_over()
            self._desk.wish(resume=True)

    def answer(self, answer: LoopDecision) -> None:
        """Say what is to be done about a repeated call, when it is `asking` (S3.10).

        Raises:
            UsageError: it does not ask.
        """
        with self._desk.changed:
            if self.state != "asking":
                raise UsageError(f"session {self.session_id!r} asks nothing; it is {self.state}")
            self._desk.answer = answer
            self._desk.change("working")

    def wait(self, timeout_seconds: float | None = None) -> SessionState:
        """Wait until it rests: idle with nothing to do, asking, failed, closed or never started; or for that long.

        Returns:
            The state by then.
        """
        at_a_time = MAIN_THREAD_WAIT_SECONDS if timeout_seconds is None else timeout_seconds
        with self._desk.changed:
            while not self._desk.changed.wait_for(self._desk.rests, at_a_time) and timeout_seconds is None:
                pass
            return self._desk.state

    def close(self) -> Ended:
        """End the session: a running turn is stopped, files are kept, the checks of a task are run, the sandbox goes.

        What is still coming up is not waited for: a sandbox or a server that comes nevertheless goes at once.

        Idempotent. Not for the listener, which runs in the session's thread. The log can be gone on with by `reopen`.
        """
        with self._desk.changed:
            self._desk.ending.request()
            self._desk.stop()
            if self._thread is None:
                self._desk.change("closed")
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(MAIN_THREAD_WAIT_SECONDS)
        if self._worker is not None and self._worker.ended is not None:
            return self._worker.ended
        detail = self.failure or "it never began"
        return Ended(Outcome(status="failed", reason="cancelled", detail=detail, steps=self.view.steps), (), Kept())

    def diff(self, turn: int | None = None) -> tuple[FileChange, ...]:
        """What a turn changed in the workspace, by path; None = the newest turn. Nothing where no snapshots are kept.

        Raises:
            UsageError: no such turn.
        """
        trees = history.trees_of_turn(self.entries, turn)
        return () if trees is None else self._between(*trees)

    def patch(self, turn: int | None = None, *, whole: bool = False) -> tuple[FilePatch, ...]:
        """What a turn changed in the workspace, line by line, fit to be shown; as `diff`, and with `whole` the whole session.

        Raises:
            UsageError: no such turn.
        """
        kept = history.trees(self.entries)
        trees = ((kept[0], kept[-1]) if kept else None) if whole else history.trees_of_turn(self.entries, turn)
        if trees is None:
            return ()
        with self._workspaces() as here:
            return patches(here, *map(here.load, trees))

    def summary(self) -> Summary:
        """What the whole session changed in its workspace (S3.11)."""
        trees = history.trees(self.entries)
        return summed(self._between(trees[0], trees[-1]) if trees else ())

    def compact(self) -> Compaction | None:
        """Compact now, as the policy would before the next step if it were due; waits for the summary, which `stop` ends.

        Returns:
            What was logged: applied, or come to nothing with the reason. None: the policy has no rule for it, or it was stopped.

        Raises:
            UsageError: it is not idle.
        """
        return self._do(Worker.compact)

    def rollback(self, step: int) -> None:
        """Bring view and workspace back to what they were after a step; 0 = before the first. What came since counts no more.

        Raises:
            UsageError: it is not idle, there is no such step, or no workspace was kept.
        """
        self._do(lambda worker: worker.roll_back(step))

    def fork(
        self,
        step: int,
        journal: Path | None = None,
        *,
        session: Interactive | None = None,
        listen: Callable[[Entry | Signal], None] = ignore,
    ) -> "LiveSession":
        """Another session that is this one up to a step, log and workspace; this one goes on as it was.

        Args:
            step: 0 = before the first.
            journal: the file in which the new one is logged; None = that of this one.
            session: how the new one goes on, e.g. under another policy; None = as this one, its files not kept.
            listen: hears the new one.

        Returns:
            The new one, not started: `start`, then `send` or `resume`.

        Raises:
            UsageError: there is no such step.
            StoreError: it could not be written.
        """
        entries = self.entries
        return self._branch(entries, history.end_of_step(entries, step), (), (journal, session), listen)

    def fork_behind(
        self,
        round_number: int,
        journal: Path | None = None,
        *,
        remind: bool = True,
        session: Interactive | None = None,
        listen: Callable[[Entry | Signal], None] = ignore,
    ) -> "LiveSession":
        """Another session that is this one up to a compaction, which dropped nothing of what will be needed (RESEARCH 5.6).

        The lines that told the facts of the task which the compaction took out of view are told again by a user message. With
        `remind = False` they are not: what the two do differently is what the loss of these facts did.

        Args:
            round_number: of the applied compaction, from 1.
            journal: as in `fork`.
            remind: tell the facts again.
            session: as in `fork`.
            listen: hears the new one.

        Raises:
            UsageError: there is no such round, or no task that knows its facts.
            StoreError: it could not be written.
        """
        task, entries = self.session.task, self.entries
        if task is None:
            raise UsageError("only a session of a task knows which facts a compaction dropped; name its task")
        at = compaction_of_round(entries, round_number)
        lost = dropped(entries, task, at, self.session.policy.counter)
        step = history.last_step(entries[:at]) + 1
        reminder = (MessageAdded(message=user(lost.reminder), step=step),) if remind and lost.lines else ()
        return self._branch(entries, at, reminder, (journal, session), listen)

    def _branch(
        self,
        entries: Sequence[Entry],
        to_event: int,
        more: Sequence[Event],
        given: tuple[Path | None, Interactive | None],
        listen: Callable[[Entry | Signal], None],
    ) -> "LiveSession":
        """The beginning of a log as a session of its own, with its workspaces."""
        path = given[0] or self.session.journal
        base = replace(given[1] or replace(self.session, keep=None), journal=path)
        new_id = secrets.token_hex(6)
        events = (*history.forked(entries, new_id, to_event, setup_json(base)), *more)
        new = tuple(Entry(seq, event) for seq, event in enumerate(events, 1))
        if path is not None:
            with self._workspaces() as here, closing(JournalWorkspaces(path)) as there, Journal.open(path) as opened:
                if path != self.session.journal:
                    copy_workspaces(history.trees(new), here, there)
                opened.open_session_log(new_id, created_at_ms=int(self._clock() * 1000), clock=self._clock).append(events)
        made = self._over(new, base, new_id, listen, self._clock)
        made._memory = self._memory
        return made

    def _between(self, older: str, newer: str) -> tuple[FileChange, ...]:
        with self._workspaces() as kept:
            return diff_snapshots(kept, kept.load(older), kept.load(newer))

    @contextmanager
    def _workspaces(self) -> Iterator[Workspaces]:
        if self.session.journal is None:
            yield self._memory
        else:
            with closing(JournalWorkspaces(self.session.journal)) as kept:
                yield kept

    def _do(self, work: Callable[[Worker], Done]) -> Done:
        """Have something done in the session's thread, which must be idle."""
        done: Future[Done] = Future()
        worker = self._worker

        def job() -> None:
            assert worker is not None
            try:
                result = work(worker)
            except BaseException as error:
                done.set_exception(error)
                if not isinstance(error, UsageError):
                    raise
            else:
                done.set_result(result)

        with self._desk.changed:
            if self.state != "idle" or self._desk.inner is None or not self._desk.rests():
                raise UsageError(f"session {self.session_id!r} is {self.state}; stop it and wait until it is idle")
            self._desk.jobs.append(job)
            self._desk.changed.notify_all()
            while not self._desk.changed.wait_for(
                lambda: done.done() or self.state in {"failed", "closed"}, MAIN_THREAD_WAIT_SECONDS
            ):
                pass
            if not done.done():
                raise UsageError(f"session {self.session_id!r} is {self.state}: {self.failure}")
        return done.result()
