"""The messages of a session: a queue of user messages, the log, the view (what the model sees next) and the requests.

`RequestBuilder` continues the previous request instead of building each request anew, so the cost of a step depends only on the
messages from the first new or changed one on. For each message it computes a digest of the request up to that message. Two
requests with equal digests are byte-identical, so the prefix that a request shares with the previous one is found without
comparing texts.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import perf_counter

from harness.agent.cancellation import raise_if_abandoned
from harness.conversation.codec import digest_message, encode_message
from harness.conversation.events import Compaction, Entry, Event, MessageAdded, RolledBack, StepFinished, TextDelta
from harness.conversation.growing_sequence import GrowingSequence, find_difference
from harness.conversation.messages import Message, assistant
from harness.conversation.overhead import OverheadClock
from harness.conversation.tokens import Counter, Estimated, Usage
from harness.conversation.view import OPENING_MESSAGE, Item, View, drop_rolled_back, find_opening_index, fold, fold_entries
from harness.protocols import Log, ignore
from harness.task import LaterMessage


class Conversation:
    """The log of a session and its current view. Not thread-safe."""

    view: View
    """Messages that the model sees next, as they result from all logged events."""
    last_sent_view: View
    """Messages that were sent in the last request before the session was continued from its log; empty in a new session."""
    usage: Usage | None
    """Token usage that the provider reported for the last request.

    It is None before the first request, and after a compaction or an interrupted answer.
    """

    def __init__(self, log: Log, counter: Counter, overhead: OverheadClock) -> None:
        """Restore the conversation of a session from its log; the log of a new session is empty.

        Args:
            log: Log of the session.
            counter: Token counter of the compaction policy.
            overhead: Clock to which the time of writing is added.
        """
        self._log, self._counter, self._overhead = log, counter, overhead
        self._fold_all()

    def append(self, *events: Event) -> tuple[Entry, ...]:
        """Append events to the log in one transaction, then update the messages that the model sees next.

        Raises:
            StoreError: Nothing was logged, and the view is unchanged.
        """
        start_seconds = perf_counter()
        entries = self._log.append(events)
        self._overhead.add("writing", perf_counter() - start_seconds)
        if any(isinstance(event, RolledBack) for event in events):
            self._fold_all()
        else:
            self.view = fold_entries(self.view, entries, self._counter)
        return entries

    def _fold_all(self) -> None:
        self.view, self.last_sent_view, self.usage = View(), View(), None
        asked_view = self.view
        for entry in drop_rolled_back(self._log.entries()):
            match entry.event:
                case MessageAdded(message=Message(role="assistant")):
                    asked_view, self.usage = self.view, None  # an interrupted answer has no report, because its step has no end
                case StepFinished(usage=usage, impossible_usage=is_impossible):
                    self.last_sent_view, self.usage = asked_view, None if is_impossible else usage
                case Compaction(status="applied"):
                    self.usage = None
                case _:
                    pass
            self.view = fold(self.view, entry, self._counter)


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """Messages of a request to the model, with the number of first messages that the previous request had, too."""

    messages: Sequence[Message]
    digest: str
    kept_prefix_messages: int
    kept_prefix_tokens: Estimated


class RequestBuilder:
    """Builder of the requests to the model, each of which continues the previous request at the first changed message."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._items: Sequence[Item] = ()
        self._opening_index: int | None = None
        """Index at which the previous request had the message that is inserted into some requests; None without one."""
        self._messages: GrowingSequence[Message] = GrowingSequence()
        self._chain: list[bytes] = []
        """For each message of the previous request, the digest of the request up to it."""
        self._running_tokens: list[int] = []
        """For each message of the previous request, the estimated tokens of the request up to it."""
        self._encoded: dict[int, tuple[Message, bytes]] = {}
        """Each message that was digested for the previous request, with its JSON, by the `id` of the message."""
        self._edit_count = -1

    def forget_view(self) -> None:
        """Build the next request from all its messages instead of continuing the previous request.

        Called when the messages may no longer begin with those of the previous request, e.g. after a rollback.
        """
        self._items, self._edit_count = (), -1

    def prepare(self, view: View) -> PreparedRequest:
        """Return the next request to the model, which contains the messages of the given view."""
        opening_index, former_index = self._opening_index, self._opening_index
        if view.edits != self._edit_count:
            opening_index = find_opening_index(item.message for item in view.items)
        start = find_difference(self._items, view.items)
        if opening_index != former_index:
            start = min(start, *(index for index in (opening_index, former_index) if index is not None))
        place = start + (opening_index is not None and opening_index < start)
        former_chain, former_tokens = self._chain[place:], self._running_tokens[place - 1 :] if place else self._running_tokens
        messages, counts = [item.message for item in view.items[start:]], [item.tokens for item in view.items[start:]]
        if opening_index is not None and opening_index >= start:
            messages.insert(opening_index - start, OPENING_MESSAGE)
            counts.insert(opening_index - start, self._counter.count(OPENING_MESSAGE))
        self._replace_end(place, messages, counts)
        self._items, self._opening_index, self._edit_count = view.items, opening_index, view.edits
        pairs = enumerate(zip(former_chain, self._chain[place:], strict=False), place)
        shared = min(place + len(former_chain), len(self._chain))
        kept_messages = next((index for index, (old, new) in pairs if old != new), shared)
        kept_tokens = former_tokens[kept_messages - max(place, 1)] if kept_messages else 0
        digest = self._chain[-1].hex() if self._chain else ""
        return PreparedRequest(self._messages, digest, kept_messages, Estimated(kept_tokens))

    def _replace_end(self, place: int, messages: Sequence[Message], counts: Sequence[int]) -> None:
        """Replace the messages of the request from an index on by others."""
        del self._chain[place:], self._running_tokens[place:]
        digest = self._chain[-1] if self._chain else b""
        former, encoded, digests = self._encoded, dict[int, tuple[Message, bytes]](), list[bytes]()
        for message in messages:
            # a policy that evicts a few of the oldest messages at every step moves the same messages again and again
            known = encoded[id(message)] = former.get(id(message)) or (message, encode_message(message))
            digest = digest_message(message, digest, known[1])
            digests.append(digest)
        self._encoded = encoded
        self._chain += digests
        before = self._running_tokens[-1:]
        self._running_tokens += [*accumulate((*before, *counts))][len(before) :]
        self._messages = self._messages.take(place).extend(messages)


class Inbox:
    """Queue of user messages. Any thread may add messages, and the agent takes them between steps."""

    def __init__(self, later: Iterable[LaterMessage] = ()) -> None:
        """Create a queue of user messages.

        Args:
            later: User messages of a scripted task, each held back until the step at which the task wants it sent.
        """
        self._later = sorted(later, key=lambda message: message.step)
        self._queue: deque[str] = deque()
        self._lock = threading.Lock()

    def put(self, text: str) -> int:
        """Add a user message to the queue and return its position; the message at position 1 is taken next."""
        with self._lock:
            self._queue.append(text)
            return len(self._queue)

    def take(self, step: int) -> tuple[str, ...]:
        """Remove and return the user messages that the agent must read before a step (a model call)."""
        if not self._queue and not self._later:
            return ()
        with self._lock:
            texts = [message.text for message in self._later if message.step <= step]
            self._later = [message for message in self._later if message.step > step]
            texts.extend(self._queue)
            self._queue.clear()
        return tuple(texts)


class StreamBuffer:
    """Buffer for a streamed reply of the model, so that an interrupted reply can be logged. Not thread-safe."""

    def __init__(self, listen: Callable[[TextDelta], None] = ignore) -> None:
        """Create an empty buffer; added pieces of a reply with visible text are also passed to `listen`."""
        self._listen = listen
        self._texts: list[str] = []
        self._reasonings: list[str] = []
        self._is_superseded = False
        """Whether the model has begun its reply again, so that the next piece replaces all earlier pieces."""

    def __call__(self, delta: TextDelta) -> None:
        """Add the next piece of a streamed reply and pass it on to the listener.

        Raises:
            WorkAbandoned: The reply is no longer needed, because the session was cancelled.
        """
        raise_if_abandoned()
        self.add(delta)
        if delta.text or delta.anew:
            self._listen(delta)

    def add(self, delta: TextDelta) -> None:
        """Add the next piece of a streamed reply without passing it on to the listener.

        Pieces of a failed attempt are kept until another attempt yields a piece, so that they are not lost if none does.
        """
        self._is_superseded = self._is_superseded or delta.anew
        if not delta.text:
            return
        if self._is_superseded:
            self.clear()
        (self._texts if delta.part == "text" else self._reasonings).append(delta.text)

    def clear(self) -> None:
        """Discard the pieces of the reply; called when the reply has been logged or when it is generated anew."""
        self._texts, self._reasonings, self._is_superseded = [], [], False

    @property
    def text(self) -> str:
        """Text of the streamed reply received so far."""
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    @property
    def reasoning(self) -> str:
        """Reasoning of the model received so far in the streamed reply."""
        self._reasonings = ["".join(self._reasonings)]
        return self._reasonings[0]

    def build_message(self) -> Message | None:
        """Return the part of the reply received so far as a message, or None if nothing was received."""
        text, reasoning = self.text, self.reasoning
        return assistant(text, reasoning=reasoning) if text or reasoning else None
