"""What a model was sent at one step of a session, and what came back: folded from the log, checked against its digest."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from harness.codec import digest_message
from harness.errors import UsageError
from harness.events import Compaction, Entry, MessageAdded, StepFinished
from harness.inspection.timeline import find_counter
from harness.messages import Message
from harness.view import View, drop_rolled_back, fold_all, render_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
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
    end_event: StepFinished

    @property
    def matches_log(self) -> bool:
        """Whether the messages are those that were sent."""
        return self.digest == self.logged_digest


def reconstruct_request(entries: Sequence[Entry], step: int) -> SentRequest:
    """What was sent at a step.

    Args:
        entries: the log of the session; what was rolled back is not looked at.
        step: from 1.

    Raises:
        UsageError: no such step was finished, or the log does not hold its answer.
    """
    entries = drop_rolled_back(entries)
    end_places = [place for place, entry in enumerate(entries) if isinstance(entry.event, StepFinished)]
    step_places = [place for place in end_places if _require_step_finished(entries[place]).step == step]
    if not step_places:
        known = f"it has steps 1 to {len(end_places)}" if end_places else "it finished none"
        raise UsageError(f"this session has no finished step {step}; {known}")
    end = step_places[-1]
    answer_place = next((place for place in range(end, -1, -1) if _is_answer(entries[place])), None)
    if answer_place is None:
        raise UsageError(f"step {step} of this session has no answer of a model; its log is not whole")
    before = entries[:answer_place]
    view = fold_all(before, find_counter(entries))
    messages = render_messages(view.messages)
    end_event = _require_step_finished(entries[end])
    entries_since_last_step = tuple(takewhile(lambda entry: not isinstance(entry.event, StepFinished), reversed(before)))
    return SentRequest(
        step=step,
        view=view,
        messages=messages,
        digest=_compute_digest(messages),
        logged_digest=end_event.request_digest,
        compactions=tuple(entry.event for entry in reversed(entries_since_last_step) if isinstance(entry.event, Compaction)),
        answer=_require_message_added(entries[answer_place]).message,
        results=tuple(_require_message_added(entry).message for entry in entries[answer_place + 1 : end] if _is_result(entry)),
        end_event=end_event,
    )


def _compute_digest(messages: Sequence[Message]) -> str:
    digest = b""
    for message in messages:
        digest = digest_message(message, digest)
    return digest.hex()


def _require_step_finished(entry: Entry) -> StepFinished:
    assert isinstance(entry.event, StepFinished)
    return entry.event


def _require_message_added(entry: Entry) -> MessageAdded:
    assert isinstance(entry.event, MessageAdded)
    return entry.event


def _is_answer(entry: Entry) -> bool:
    return isinstance(entry.event, MessageAdded) and entry.event.message.role == "assistant"


def _is_result(entry: Entry) -> bool:
    return isinstance(entry.event, MessageAdded) and entry.event.message.role == "tool"
