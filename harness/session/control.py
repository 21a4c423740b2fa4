"""What a live session's thread and everybody else share: state, queue, wishes, and what is still to be told. Thread-safe."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from harness.agent.cancellation import POLL_SECONDS, Cancellation, raise_if_abandoned
from harness.agent.loop import Session, Stop
from harness.agent.loop_detection import LoopDecision
from harness.agent.stream_buffer import StreamBuffer
from harness.errors import UsageError
from harness.events import (
    CallRepeated,
    Entry,
    MessageQueued,
    MessageUnqueued,
    SessionState,
    Signal,
    StateChanged,
    TextDelta,
    ToolStarted,
)
from harness.messages import ToolCall
from harness.session import history
from harness.session.queue import Ledger
from harness.store import records

KEEP_SECONDS = 1.0
"""From one keeping to the next, at least."""


class Draft:
    """Hears all that a session tells. Not thread-safe: used in the session's thread."""

    def __init__(self, keep: Callable[[records.Draft], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was written yet.

        Args:
            keep: takes the answer so far.
            clock: seconds that never go back.
        """
        self._keep, self._clock = keep, clock
        self._answer, self._calls = StreamBuffer(), list[ToolCall]()
        self._kept = True
        self._next_seconds = clock()

    def hear(self, heard: Entry | Signal) -> None:
        """Take note of what the model wrote, of its calls that run, and of the end of the step."""
        match heard:
            case TextDelta():
                self._answer.add(heard)
                self._kept = False
            case ToolStarted():
                self._calls.append(heard.call)
                self._kept = False
            case Entry(event=MessageQueued() | MessageUnqueued()):
                pass
            case Entry():
                self._answer.clear()
                self._calls.clear()
                self._kept = True
            case _:
                pass

    def keep(self, step: int) -> None:
        """Keep what is new, unless something was kept just now.

        Raises:
            StoreError: it was not kept.
        """
        now = self._clock()
        if self._kept or now < self._next_seconds:
            return
        self._keep(records.Draft(step, self._answer.text, self._answer.reasoning, tuple(self._calls)))
        self._kept, self._next_seconds = True, now + KEEP_SECONDS


class Desk:
    """Where wishes are left and states are told. Its lock is held for moments only."""

    def __init__(self, session_id: str, listen: Callable[[Entry | Signal], None], entries: Sequence[Entry] = ()) -> None:
        """Nothing has started yet.

        Args:
            session_id: names the session in errors.
            listen: hears everything in order, in the session's thread.
            entries: of a session that is gone on with: it rests until somebody wishes otherwise.
        """
        self.session_id = session_id
        self.changed = threading.Condition()
        self.outbox: deque[Entry | Signal] = deque()
        self.ledger = Ledger(self.outbox.append, entries)
        self.state: SessionState = "new"
        self.failure = ""
        self.goes_on = self.resumed = not entries
        """Wishes: to take what waits; to go on with what is not finished."""
        self.unfinished = history.unfinished(entries) if entries else True
        self.last_stop: Stop | None = history.last_stop(entries)
        self.ending = Cancellation(self.flush)
        """The wish to end the session itself."""
        self.coming_up = False
        """Whether what it needs is not all there yet. A stop lets it rest meanwhile; it comes up none the less."""
        self.jobs: deque[Callable[[], None]] = deque()
        self.cancellation: Cancellation | None = None
        self.inner: Session | None = None
        self.answer: LoopDecision | None = None
        self.thread_number: int | None = None
        """Of the session's thread, which is the only one to tell."""
        self._listen, self._telling = listen, False
        self._told: StateChanged | None = None
        self._draft = Draft(self.ledger.draft)

    @property
    def closing(self) -> bool:
        """Whether somebody wishes it to end."""
        return self.ending.is_requested

    @property
    def _step(self) -> int:
        """The one that is at work."""
        return self.inner.conversation.view.steps + 1 if self.inner else 1

    def change(self, state: SessionState | None = None) -> None:
        """Be in a state, None = the same, and tell if that or the queue is another."""
        with self.changed:
            self.state = state or self.state
            now = StateChanged(state=self.state, queued=self.ledger.queued)
            if now != self._told:
                self._told = now
                self.outbox.append(now)
            self.changed.notify_all()

    def due(self) -> bool:
        """Whether a turn is to begin or to be gone on with."""
        return self.goes_on and ((self.resumed and self.unfinished and self.ledger.begun) or bool(self.ledger.queued))

    def rests(self) -> bool:
        """Whether nothing happens until somebody wishes it."""
        if self.state == "idle":
            return not (self.jobs or self.closing or self.due())
        return self.state in {"new", "asking", "failed", "closed"}

    def refuse_over(self) -> None:
        """Refuse to wish anything of a session that is over. Raises UsageError."""
        if self.closing or self.state in {"failed", "closed"}:
            why = f": {self.failure}" if self.failure else "; reopen it from its journal to go on"
            raise UsageError(f"session {self.session_id!r} is {'closed' if self.closing else self.state}{why}")

    def claim(self) -> None:
        """Begin to come up. Raises UsageError: it did before."""
        with self.changed:
            if self.state != "new":
                raise UsageError(f"session {self.session_id!r} was started before; it is {self.state}")
            self.coming_up = True
            self.change("starting")

    def wish(self, *, resume: bool = False) -> None:
        """Wish it to go on: with what waits, or with what is not finished too."""
        self.goes_on, self.resumed = True, self.resumed or resume
        self.change("starting" if self.coming_up else None)

    def stop(self) -> None:
        """Wish the running turn to end; what waits stays."""
        if self.cancellation is not None:
            self.cancellation.request()
        after: dict[SessionState, SessionState] = {"asking": "working", "starting": "idle"}
        self.change(after.get(self.state))

    def tell(self, heard: Entry | Signal) -> None:
        """Have something told; an entry was handed over by the ledger already.

        Raises:
            GivenUp: it comes from work that nobody waits for, which ends here.
        """
        raise_if_abandoned()
        if not isinstance(heard, Entry):
            self.outbox.append(heard)
        elif isinstance(heard.event, MessageUnqueued):
            self.change()
        self.flush()

    def flush(self) -> None:
        """Tell all that is still to be told; does nothing outside of the session's thread, and while the listener is at it."""
        if threading.get_ident() != self.thread_number or self._telling:
            return
        self._telling = True
        try:
            while self.outbox:
                heard = self.outbox.popleft()
                self._draft.hear(heard)
                self._listen(heard)
            if self.state == "working":  # what a call says that was broken off belongs to no answer
                self._draft.keep(self._step)
        finally:
            self._telling = False

    def compacting(self, begins: bool) -> None:
        """A summary is being written, or no longer."""
        with self.changed:
            if self.state == ("working" if begins else "compacting"):
                self.change("compacting" if begins else "working")

    def ask(self, call: ToolCall, times: int) -> LoopDecision:
        """What somebody answers about a repeated call; `stop` when the turn is stopped meanwhile."""
        with self.changed:
            self.answer = None
            self.outbox.append(CallRepeated(call=call, times=times))
            self.change("asking")
        while True:
            self.flush()
            with self.changed:
                if answer := self._answered():
                    return answer
                if self.cancellation is None or self.cancellation.is_requested:
                    self.change("working")
                    return "stop"
                self.changed.wait(POLL_SECONDS)

    def _answered(self) -> LoopDecision | None:
        return self.answer

    def next(self, turn: Callable[[], None]) -> Callable[[], None] | None:
        """The next thing to do in the session's thread, waiting for it: a job, `turn`, or None = to end."""
        while True:
            self.flush()
            with self.changed:
                if self.jobs:
                    self.change("working")
                    return self.jobs.popleft()
                if self.closing:
                    return None
                if self.due():
                    self.cancellation = Cancellation(self.flush)
                    self.change("working")
                    return turn
                if self.state == "idle" and not self.outbox:
                    self.changed.wait()
                else:
                    self.change("idle")

    def first_message(self) -> str | None:
        """The first message of a session that begins with it, waiting for it; None = it is closed instead."""
        while True:
            self.flush()
            with self.changed:
                if self.closing:
                    return None
                if first := self.ledger.first():
                    self.change("starting")
                    return first
                if self.state == "idle" and not self.outbox:
                    self.changed.wait()
                else:
                    self.change("idle")
