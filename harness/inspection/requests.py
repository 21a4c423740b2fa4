"""What a model was sent at one step of a session, and what came back: folded from the log, checked against its digest."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from harness.codec import digest_message
from harness.errors import UsageError
from harness.events import Compaction, Entry, MessageAdded, StepFinished
from harness.inspection.timeline import counter_of
from harness.messages import Message
from harness.view import View, drop_rolled_back, fold_all, render_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One step."""

    step: int
    view: View
    """The view that was sent."""
    messages: tuple[Message, ...]
    """As they were sent: the view, with what a provider's rules ask for."""
    digest: str
    """SHA-256 chain over `messages`, computed anew (hex)."""
    logged_digest: str
    """As it was logged when they were sent; another one means that the log is not what was sent."""
    compactions: tuple[Compaction, ...]
    """Attempts right before it, fruitless ones included."""
    answer: Message
    results: tuple[Message, ...]
    """Of the calls of the answer, in call order."""
    finished: StepFinished

    @property
    def is_as_logged(self) -> bool:
        """Whether the messages are those that were sent."""
        return self.digest == self.logged_digest


def sent_at(entries: Sequence[Entry], step: int) -> Sent:
    """What was sent at a step.

    Args:
        entries: the log of the session; what was rolled back is not looked at.
        step: from 1.

    Raises:
        UsageError: no such step was finished, or the log does not hold its answer.
    """
    entries = drop_rolled_back(entries)
    ends = [place for place, entry in enumerate(entries) if isinstance(entry.event, StepFinished)]
    found = [place for place in ends if _finished(entries[place]).step == step]
    if not found:
        known = f"it has steps 1 to {len(ends)}" if ends else "it finished none"
        raise UsageError(f"this session has no finished step {step}; {known}")
    end = found[-1]
    asked = next((place for place in range(end, -1, -1) if _is_answer(entries[place])), None)
    if asked is None:
        raise UsageError(f"step {step} of this session has no answer of a model; its log is not whole")
    before = entries[:asked]
    view = fold_all(before, counter_of(entries))
    sent = render_messages(view.messages)
    finished = _finished(entries[end])
    newest = tuple(takewhile(lambda entry: not isinstance(entry.event, StepFinished), reversed(before)))
    return Sent(
        step=step,
        view=view,
        messages=sent,
        digest=_digest(sent),
        logged_digest=finished.request_digest,
        compactions=tuple(entry.event for entry in reversed(newest) if isinstance(entry.event, Compaction)),
        answer=_added(entries[asked]).message,
        results=tuple(_added(entry).message for entry in entries[asked + 1 : end] if _is_result(entry)),
        finished=finished,
    )


def _digest(messages: Sequence[Message]) -> str:
    digest = b""
    for message in messages:
        digest = digest_message(message, digest)
    return digest.hex()


def _finished(entry: Entry) -> StepFinished:
    assert isinstance(entry.event, StepFinished)
    return entry.event


def _added(entry: Entry) -> MessageAdded:
    assert isinstance(entry.event, MessageAdded)
    return entry.event


def _is_answer(entry: Entry) -> bool:
    return isinstance(entry.event, MessageAdded) and entry.event.message.role == "assistant"


def _is_result(entry: Entry) -> bool:
    return isinstance(entry.event, MessageAdded) and entry.event.message.role == "tool"
