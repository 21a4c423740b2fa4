"""What a live session's thread and everybody else share: state, queue, wishes, and what is still to be told. Thread-safe."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from harness.agent.cancellation import POLL_SECONDS, Cancellation, raise_if_abandoned
from harness.agent.conversation import StreamBuffer
from harness.agent.loop import Session, Stop
from harness.agent.tool_execution import LoopDecision
from harness.errors import UsageError
from harness.events import (
    CallRepeated,
    Compaction,
    Entry,
    MessageQueued,
    MessageUnqueued,
    SessionState,
    Signal,
    StateChanged,
    TextDelta,
    ToolStarted,
    Waiting,
)
from harness.messages import ToolCall
from harness.session import history
from harness.session.queue import QueuedLog
from harness.store import records

SAVE_INTERVAL_SECONDS = 1.0
"""From one keeping to the next, at least."""


class DraftSaver:
    """Hears all that a session tells. Not thread-safe: used in the session's thread."""

    def __init__(self, save_draft: Callable[[records.Draft], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was written yet.

        Args:
            save_draft: takes the answer so far.
            clock: seconds that never go back.
        """
        self._save_draft, self._clock = save_draft, clock
        self._stream_buffer, self._calls = StreamBuffer(), list[ToolCall]()
        self._is_saved = True
        self._next_seconds = clock()

    def add_event(self, item: Entry | Signal) -> None:
        """Take note of what the model wrote, of its calls that run, and of the end of the step."""
        match item:
            case TextDelta():
                self._stream_buffer.add(item)
                self._is_saved = False
            case ToolStarted():
                self._calls.append(item.call)
                self._is_saved = False
            case Entry(event=MessageQueued() | MessageUnqueued()):
                pass
            case Entry():
                self._stream_buffer.clear()
                self._calls.clear()
                self._is_saved = True
            case _:
                pass

    def save_if_due(self, step: int) -> None:
        """Keep what is new, unless something was kept just now.

        Raises:
            StoreError: it was not kept.
        """
        now = self._clock()
        if self._is_saved or now < self._next_seconds:
            return
        self._save_draft(records.Draft(step, self._stream_buffer.text, self._stream_buffer.reasoning, tuple(self._calls)))
        self._is_saved, self._next_seconds = True, now + SAVE_INTERVAL_SECONDS


class SessionControl:
    """Where wishes are left and states are told. Its lock is held for moments only."""

    def __init__(self, session_id: str, on_event: Callable[[Entry | Signal], None], entries: Sequence[Entry] = ()) -> None:
        """Nothing has started yet.

        Args:
            session_id: names the session in errors.
            on_event: hears everything in order, in the session's thread.
            entries: of a session that is gone on with: it rests until somebody wishes otherwise.
        """
        self.session_id = session_id
        self.condition = threading.Condition()
        self.outbox: deque[Entry | Signal] = deque()
        self.log = QueuedLog(self.outbox.append, entries)
        self.state: SessionState = "new"
        self.failure = ""
        self.should_continue = self.should_resume = not entries
        """Wishes: to take what waits; to go on with what is not finished."""
        self.has_unfinished_turn = history.has_unfinished_turn(entries) if entries else True
        self.last_stop: Stop | None = history.find_last_stop(entries)
        self.end_request = Cancellation(self.flush)
        """The wish to end the session itself."""
        self.is_coming_up = False
        """Whether what it needs is not all there yet. A stop lets it rest meanwhile; it comes up none the less."""
        self.jobs: deque[Callable[[], None]] = deque()
        self.cancellation: Cancellation | None = None
        self.inner: Session | None = None
        self.decision: LoopDecision | None = None
        self.thread_number: int | None = None
        """Of the session's thread, which is the only one to tell."""
        self._on_event, self._is_flushing = on_event, False
        self._last_state_event: StateChanged | None = None
        self._draft_saver = DraftSaver(self.log.save_draft)

    @property
    def is_closing(self) -> bool:
        """Whether somebody wishes it to end."""
        return self.end_request.is_requested

    @property
    def _current_step(self) -> int:
        """The one that is at work."""
        return self.inner.conversation.view.steps + 1 if self.inner else 1

    def update_state(self, state: SessionState | None = None) -> None:
        """Be in a state, None = the same, and tell if that or the queue is another."""
        with self.condition:
            self.state = state or self.state
            state_event = StateChanged(state=self.state, queued=self.log.queued_messages)
            if state_event != self._last_state_event:
                self._last_state_event = state_event
                self.outbox.append(state_event)
            self.condition.notify_all()

    def is_turn_due(self) -> bool:
        """Whether a turn is to begin or to be gone on with."""
        return self.should_continue and (
            (self.should_resume and self.has_unfinished_turn and self.log.has_begun) or bool(self.log.queued_messages)
        )

    def is_resting(self) -> bool:
        """Whether nothing happens until somebody wishes it."""
        if self.state == "idle":
            return not (self.jobs or self.is_closing or self.is_turn_due())
        return self.state in {"new", "asking", "failed", "closed"}

    def refuse_if_over(self) -> None:
        """Refuse to wish anything of a session that is over. Raises UsageError."""
        if self.is_closing or self.state in {"failed", "closed"}:
            why = f": {self.failure}" if self.failure else "; reopen it from its journal to go on"
            raise UsageError(f"session {self.session_id!r} is {'closed' if self.is_closing else self.state}{why}")

    def claim_start(self) -> None:
        """Begin to come up. Raises UsageError: it did before."""
        with self.condition:
            if self.state != "new":
                raise UsageError(f"session {self.session_id!r} was started before; it is {self.state}")
            self.is_coming_up = True
            self.update_state("starting")

    def request_work(self, *, resume_turn: bool = False) -> None:
        """Wish it to go on: with what waits, or with what is not finished too."""
        self.should_continue, self.should_resume = True, self.should_resume or resume_turn
        self.update_state("starting" if self.is_coming_up else None)

    def stop_turn(self) -> None:
        """Wish the running turn to end; what waits stays."""
        if self.cancellation is not None:
            self.cancellation.request()
        next_states: dict[SessionState, SessionState] = {"asking": "working", "starting": "idle"}
        self.update_state(next_states.get(self.state))

    def notify(self, item: Entry | Signal) -> None:
        """Have something told; an entry was handed over by the ledger already.

        Raises:
            GivenUp: it comes from work that nobody waits for, which ends here.
        """
        raise_if_abandoned()
        match item:
            case Entry(event=MessageUnqueued()):
                self.update_state()
            case Entry(event=Compaction()):
                self._switch_state("compacting", "working")
            case Entry():
                pass
            case _:
                if isinstance(item, Waiting) and item.what == "summary":
                    self._switch_state("working", "compacting")
                self.outbox.append(item)
        self.flush()

    def flush(self) -> None:
        """Tell all that is still to be told; does nothing outside of the session's thread, and while the listener is at it."""
        if threading.get_ident() != self.thread_number or self._is_flushing:
            return
        self._is_flushing = True
        try:
            while self.outbox:
                item = self.outbox.popleft()
                self._draft_saver.add_event(item)
                self._on_event(item)
            if self.state == "working":  # what a call says that was broken off belongs to no answer
                self._draft_saver.save_if_due(self._current_step)
        finally:
            self._is_flushing = False

    def _switch_state(self, old: SessionState, new: SessionState) -> None:
        """Go from one state to another; does nothing in a third one."""
        with self.condition:
            if self.state == old:
                self.update_state(new)

    def ask_user(self, call: ToolCall, times: int) -> LoopDecision:
        """What somebody answers about a repeated call; `stop` when the turn is stopped meanwhile."""
        with self.condition:
            self.decision = None
            self.outbox.append(CallRepeated(call=call, times=times))
            self.update_state("asking")
        while True:
            self.flush()
            with self.condition:
                if answer := self._read_decision():
                    return answer
                if self.cancellation is None or self.cancellation.is_requested:
                    self.update_state("working")
                    return "stop"
                self.condition.wait(POLL_SECONDS)

    def _read_decision(self) -> LoopDecision | None:
        return self.decision

    def wait_for_job(self, run_turn: Callable[[], None]) -> Callable[[], None] | None:
        """The next thing to do in the session's thread, waiting for it: a job, `run_turn`, or None = to end."""
        while True:
            self.flush()
            with self.condition:
                if self.jobs:
                    self.update_state("working")
                    return self.jobs.popleft()
                if self.is_closing:
                    return None
                if self.is_turn_due():
                    self.cancellation = Cancellation(self.flush)
                    self.update_state("working")
                    return run_turn
                if self.state == "idle" and not self.outbox:
                    self.condition.wait()
                else:
                    self.update_state("idle")

    def wait_for_first_message(self) -> str | None:
        """The first message of a session that begins with it, waiting for it; None = it is closed instead."""
        while True:
            self.flush()
            with self.condition:
                if self.is_closing:
                    return None
                if first := self.log.take_first():
                    self.update_state("starting")
                    return first
                if self.state == "idle" and not self.outbox:
                    self.condition.wait()
                else:
                    self.update_state("idle")
