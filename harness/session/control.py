"""State of a live session that the session's own thread shares with the threads that call the methods of `LiveSession`.

The state includes the queue of user messages, the requests of callers, and the events that still have to be delivered.

The classes for shared state are thread-safe.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from harness.agent.cancellation import POLL_SECONDS, Cancellation, raise_if_abandoned
from harness.agent.conversation import StreamBuffer
from harness.agent.loop import Session, Stop
from harness.agent.tool_execution import LoopDecision
from harness.conversation.events import (
    CallRepeated,
    CallStarted,
    Compaction,
    Entry,
    Event,
    EventListener,
    MessageAdded,
    MessageQueued,
    MessageUnqueued,
    SessionStarted,
    SessionState,
    StateChanged,
    TextDelta,
    TransientEvent,
    Waiting,
)
from harness.conversation.messages import Message, ToolCall, sanitize_message, user
from harness.errors import UsageError
from harness.protocols import Log, ignore
from harness.session import history
from harness.store.records import UnfinishedStep

UnfinishedWork: TypeAlias = Literal["partial-answer", "running-tools"]
"""Unfinished work that a session keeps when its turn is stopped: a part of an answer, or tool calls that are running."""

SAVE_INTERVAL_SECONDS = 1.0
"""Minimum time in seconds between two saves of an answer that the model has not finished."""
IDLE_CHECK_SECONDS = 60.0
"""Time in seconds after which an idle session checks whether the removal of old tool outputs is due."""


class DraftSaver:
    """Saver of the answer that the model is still writing, in case the process is killed.

    The pieces of the answer are collected and saved about once a second. Not thread-safe: only the session's thread uses the
    object.
    """

    def __init__(self, save_draft: Callable[[UnfinishedStep], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Create a saver without any text; the answer's first piece is still to come.

        Args:
            save_draft: Function that stores an answer that the model has not finished.
            clock: Source of the time in seconds; must never go back.
        """
        self._save_draft, self._clock = save_draft, clock
        self._stream_buffer = StreamBuffer()
        self._is_saved = True
        self._next_seconds = clock()

    def add_event(self, item: Entry | TransientEvent) -> None:
        """Add the next piece of text to the unfinished answer; forget the answer if the event shows its end."""
        match item:
            case TextDelta():
                self._stream_buffer.add(item)
                self._is_saved = False
            case Entry(_, event) if not isinstance(event, MessageQueued | MessageUnqueued):
                self._stream_buffer.clear()
                self._is_saved = True

    def save_if_due(self, step: int) -> None:
        """Save the unfinished answer if it has changed and the last save is at least `SAVE_INTERVAL_SECONDS` ago.

        Raises:
            StoreError: The answer cannot be saved.
        """
        now = self._clock()
        if self._is_saved or now < self._next_seconds:
            return
        self._save_draft(UnfinishedStep(step, self._stream_buffer.text, self._stream_buffer.reasoning))
        self._is_saved, self._next_seconds = True, now + SAVE_INTERVAL_SECONDS


class SessionControl:
    """State of a live session, with the requests of callers and the events that still have to be delivered.

    The lock that protects the state is only held briefly.
    """

    def __init__(self, session_id: str, on_event: EventListener, entries: Sequence[Entry] = ()) -> None:
        """Create the shared state of a session that has not started.

        Args:
            session_id: Id of the session, for error messages.
            on_event: Listener for log entries and transient events, called in order in the session's thread.
            entries: Log of a reopened session, which stays idle until a message is sent or the turn is resumed.
        """
        self.session_id = session_id
        self.condition = threading.Condition()
        self.outbox: deque[Entry | TransientEvent] = deque()
        self.log = QueuedLog(self.outbox.append, entries)
        self.state: SessionState = "new"
        self.failure = ""
        self.should_continue = self.should_resume = not entries
        """Whether the session may begin a turn with the next queued message (`should_continue`).

        The flag `should_resume` starts with the same value. It says whether the session may continue an unfinished turn.
        """
        self.has_unfinished_turn = history.has_unfinished_turn(entries) if entries else True
        self.last_stop: Stop | None = history.find_last_stop(entries)
        self.end_request = Cancellation(self.flush)
        """Object with which a caller requests that the session is closed."""
        self.is_coming_up = False
        """Whether the sandbox and the models of the session are still starting.

        If the session is stopped during the start, its state becomes idle, but the start continues.
        """
        self.jobs: deque[Callable[[], None]] = deque()
        self.cancellation: Cancellation | None = None
        self.inner: Session | None = None
        self.decision: LoopDecision | None = None
        self.thread_number: int | None = None
        """Identifier of the session's thread, the only thread that calls the listener."""
        self._on_event, self._is_flushing = on_event, False
        self._unfinished_work: UnfinishedWork | None = None
        self._last_state_event: StateChanged | None = None
        self._draft_saver = DraftSaver(self.log.save_draft)
        self.remove_old_outputs: Callable[[], None] = ignore
        """Function that removes old tool outputs from the journal, at most once an hour. The session's thread calls it often."""

    @property
    def turn_failure(self) -> str:
        """Why the last turn failed; empty if it did not, if the user stopped it, or if another turn is running."""
        stop = self.last_stop
        is_failure = stop is not None and stop.status == "failed" and stop.reason != "cancelled"
        return stop.detail or stop.reason if stop and is_failure and self.cancellation is None else ""

    @property
    def is_closing(self) -> bool:
        """Whether a caller has requested that the session is closed."""
        return self.end_request.is_requested

    @property
    def _current_step(self) -> int:
        """Number of the step that the session is running, from 1."""
        return self.inner.conversation.view.steps + 1 if self.inner else 1

    def update_state(self, state: SessionState | None = None) -> None:
        """Set the state of the session, such as `working`; None keeps the current state.

        Emit a `StateChanged` event if the state or the queue has changed.
        """
        with self.condition:
            self.state = state or self.state
            state_event = StateChanged(state=self.state, queued=self.log.queued_messages)
            if state_event != self._last_state_event:
                self._last_state_event = state_event
                self.outbox.append(state_event)
            self.condition.notify_all()

    def is_turn_due(self) -> bool:
        """Return whether the session has to begin a turn or continue an unfinished turn."""
        resumes = self.should_resume and self.has_unfinished_turn and self.log.has_begun
        return self.should_continue and (resumes or bool(self.log.queued_messages))

    def is_resting(self) -> bool:
        """Return whether the session does nothing until a caller requests work."""
        if self.state == "idle":
            return not (self.jobs or self.is_closing or self.is_turn_due())
        return self.state in {"new", "asking", "failed", "closed"}

    def refuse_if_over(self) -> None:
        """Raise `UsageError` if the session is closed, closing or failed, so that it accepts no more requests."""
        if self.is_closing or self.state in {"failed", "closed"}:
            why = f": {self.failure}" if self.failure else "; reopen it from its journal to continue"
            raise UsageError(f"session {self.session_id!r} is {'closed' if self.is_closing else self.state}{why}")

    def claim_start(self) -> None:
        """Mark the session as starting. Raises `UsageError` if the session was started before."""
        with self.condition:
            if self.state != "new":
                raise UsageError(f"session {self.session_id!r} was already started; its state is {self.state!r}")
            self.is_coming_up = True
            self.update_state("starting")

    def request_work(self, *, resume_turn: bool = False) -> None:
        """Request that the session begins its next queued message.

        With `resume_turn`, the session first continues an unfinished turn.
        """
        self.should_continue, self.should_resume = True, self.should_resume or resume_turn
        self.update_state("starting" if self.is_coming_up else None)

    def stop_turn(self) -> UnfinishedWork | None:
        """Ask the running turn to stop, and return the unfinished work that is kept; queued messages are kept too."""
        kept_work = None
        if self.cancellation is not None:
            kept_work = self._unfinished_work
            self.cancellation.request()
        next_states: dict[SessionState, SessionState] = {"asking": "working", "starting": "idle"}
        self.update_state(next_states.get(self.state))
        return kept_work

    def notify(self, item: Entry | TransientEvent) -> None:
        """Deliver an event of the session (a log entry or a transient event) to the listener that the user passed.

        A transient event is first added to the queue of undelivered events. `QueuedLog` has already added a log entry to this
        queue.

        Raises:
            WorkAbandoned: The event comes from interrupted work, e.g. a model call, for whose result nobody waits any more.
        """
        raise_if_abandoned()
        self._track_unfinished_work(item)
        if not isinstance(item, Entry):
            if isinstance(item, Waiting) and item.what == "summary":
                self._switch_state("working", "compacting")
            self.outbox.append(item)
        elif isinstance(item.event, MessageUnqueued):
            self.update_state()
        elif isinstance(item.event, Compaction):
            self._switch_state("compacting", "working")
        self.flush()

    def flush(self) -> None:
        """Deliver all pending events to the session's listener.

        Then save the unfinished answer and remove old tool outputs, if this is due. The method does nothing in threads other than
        the session's own, or while the listener is running.
        """
        if threading.get_ident() != self.thread_number or self._is_flushing:
            return
        self._is_flushing = True
        try:
            while self.outbox:
                item = self.outbox.popleft()
                self._draft_saver.add_event(item)
                self._on_event(item)
            if self.state == "working":  # in other states, the pieces come from an interrupted call and belong to no answer
                self._draft_saver.save_if_due(self._current_step)
            self.remove_old_outputs()
        finally:
            self._is_flushing = False

    def _track_unfinished_work(self, item: Entry | TransientEvent) -> None:
        match item:
            case TextDelta(text=text):
                if text:
                    self._unfinished_work = "partial-answer"
            case Entry(_, MessageAdded(message=Message(role="assistant") as message)):
                self._unfinished_work = "running-tools" if message.calls else None
            case Entry(_, event) if not isinstance(event, CallStarted):
                self._unfinished_work = None

    def _switch_state(self, old: SessionState, new: SessionState) -> None:
        with self.condition:
            if self.state == old:
                self.update_state(new)

    def ask_user(self, call: ToolCall, times: int) -> LoopDecision:
        """Return the user's decision about a repeated tool call; `stop` if the turn is stopped before the decision."""
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
        # Another thread sets the decision while `ask_user` waits; read directly, mypy would take it for the None assigned there.
        return self.decision

    def wait_for_job(self, run_turn: Callable[[], None]) -> Callable[[], None] | None:
        """Wait until the session has work, and return a function that does the work.

        Returns:
            Job that a caller has requested, or `run_turn` if a turn has to be begun or continued. None if a caller has requested
            to close the session.
        """
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
                self._rest()

    def wait_for_first_message(self) -> str | None:
        """Wait for the first user message of a session that was created without a request, and return the message.

        The result is None if a caller requests that the session is closed.
        """
        while True:
            self.flush()
            with self.condition:
                if self.is_closing:
                    return None
                if first := self.log.take_first():
                    self.update_state("starting")
                    return first
                self._rest()

    def _rest(self) -> None:
        """Wait for a caller's next request, at most `IDLE_CHECK_SECONDS`.

        If the session is not idle yet or events are pending, only set the state to `idle`, so that the events are delivered
        first.
        """
        if self.state == "idle" and not self.outbox:
            self.condition.wait(IDLE_CHECK_SECONDS)
        else:
            self.update_state("idle")


class QueuedLog:
    """Log of a live session together with its queue of user messages.

    Implements `harness.protocols.Log` for the agent. Thread-safe.
    """

    def __init__(self, on_entry: Callable[[Entry], None], entries: Sequence[Entry] = ()) -> None:
        """Create the log and the queue in memory; events are stored elsewhere only after `open` was called.

        Args:
            on_entry: Listener for new entries, called in order while the log is locked; must return immediately.
            entries: Log entries of a reopened session; empty for a new session.
        """
        self._on_entry = on_entry
        self._entries = list(entries)
        self._queued_by_seq = history.find_queued_messages(entries)
        self._early: list[MessageQueued] = []
        self._was_first_taken = False
        self._log: Log | None = None
        self._save_draft: Callable[[UnfinishedStep], None] | None = None
        self._taken_seq: int | None = None
        self._lock = threading.RLock()

    def open(self, log: Log, save_draft: Callable[[UnfinishedStep], None]) -> None:
        """Connect this log to the log that stores its events.

        A reopened session now also logs the messages that were queued before.

        Args:
            log: Log that stores the events from now on, e.g. in a journal file.
            save_draft: Function that stores an answer that the model has not finished.
        """
        with self._lock:
            self._log, self._save_draft = log, save_draft
            if self.has_begun:
                self.log_early_messages()

    def save_draft(self, draft: UnfinishedStep) -> None:
        """Save an answer that the model has not finished, if the log is open.

        Raises:
            StoreError: The answer cannot be saved.
        """
        with self._lock:
            if self._save_draft is not None:
                self._save_draft(draft)

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """Append events to the session's log and return the new entries."""
        with self._lock:
            if self._log is None:
                raise UsageError("the session has not started; call start() first")
            new_entries = self._log.append(events)
            self._entries += new_entries
            for entry in new_entries:
                if isinstance(entry.event, MessageQueued):
                    self._queued_by_seq[entry.seq] = entry.event
                elif isinstance(entry.event, MessageUnqueued):
                    self._queued_by_seq.pop(entry.event.queued, None)
                self._on_entry(entry)
        return new_entries

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries of the session's log so far, in order."""
        with self._lock:
            return tuple(self._entries)

    def close(self) -> None:
        """Do nothing, because the code that opened the underlying log closes it."""

    @property
    def has_begun(self) -> bool:
        """Whether the session has begun, which means that its log has at least one entry."""
        return bool(self._entries)

    @property
    def awaits_first_message(self) -> bool:
        """Whether the next queued message begins the session, if the session was created without a request."""
        return not (self.has_begun or self._was_first_taken)

    @property
    def queued_messages(self) -> tuple[str, ...]:
        """User messages that wait in the queue, the next one first."""
        with self._lock:
            return tuple(message.text for message in (*self._queued_by_seq.values(), *self._early))

    def enqueue(self, message: MessageQueued) -> int:
        """Add a user message to the queue and return its position, where 1 is the next message.

        The message is logged at once if the session has begun.

        Raises:
            StoreError: The message cannot be logged and was not queued.
        """
        with self._lock:
            if self._log is None or not self.has_begun or self._early:
                self._early.append(message)
            else:
                self.append((message,))
            return len(self._queued_by_seq) + len(self._early)

    def log_early_messages(self) -> None:
        """Log the user messages that were queued before the session had begun."""
        with self._lock:
            self.append(tuple(self._early))
            self._early.clear()

    def take_first(self) -> str | None:
        """Remove the first user message that was queued before the session had begun, and return it.

        Returns None if the queue is empty.
        """
        with self._lock:
            if not self._early:
                return None
            self._was_first_taken = True
            return self._early.pop(0).text

    def take_next(self, step: int) -> tuple[Event, ...]:
        """Return the log events that begin a turn with the next queued user message; empty if no message is queued."""
        with self._lock:
            if not self._queued_by_seq:
                return ()
            self._taken_seq, message = next(iter(self._queued_by_seq.items()))
        unqueued_event = MessageUnqueued(queued=self._taken_seq, why="taken")
        return unqueued_event, MessageAdded(message=sanitize_message(user(message.text, *message.files)), step=step)

    def withdraw(self, position: int, *, first_is_request: bool) -> str:
        """Remove a user message from the queue and return its text.

        Args:
            position: Position of the message in the queue; 1 is the next message.
            first_is_request: Whether the next message becomes the request of the session, which cannot have files.

        Raises:
            UsageError: No message is queued at that position, its turn has just begun, or a message with files would become the
                request.
        """
        with self._lock:
            sequence_numbers, queued = list(self._queued_by_seq), self.queued_messages
            if not 1 <= position <= len(queued) or sequence_numbers[position - 1 : position] == [self._taken_seq]:
                raise UsageError(f"no message is queued at position {position}; {len(queued)} in the queue")
            if first_is_request and position == 1 and len(self._early) > 1 and self._early[1].files:
                raise UsageError(
                    "the next message would become the request of the session and cannot have files; withdraw that message first"
                )
            if position > len(sequence_numbers):
                return self._early.pop(position - len(sequence_numbers) - 1).text
            self.append((MessageUnqueued(queued=sequence_numbers[position - 1], why="withdrawn"),))
            return queued[position - 1]

    @property
    def start_event(self) -> SessionStarted | None:
        """First event of the session's log; None before the session has begun."""
        first = self._entries[0].event if self._entries else None
        return first if isinstance(first, SessionStarted) else None
