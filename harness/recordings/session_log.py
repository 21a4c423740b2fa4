"""Conversion of a recorded session to a log, so that code that reads logs also works on recordings of other agents.

The log shows the session as if no compaction had taken place. Compactions that the agent made are in the recording only.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from harness.conversation.codec import digest_message
from harness.conversation.events import Entry, Event, MessageAdded, SessionEnded, SessionStarted, StepFinished
from harness.conversation.messages import Message, system
from harness.conversation.tokens import Counter, Estimated, Measured, QuarterOfCharacters, Usage
from harness.conversation.view import OPENING_MESSAGE, render_messages
from harness.recordings.document import encode_json
from harness.recordings.recording import RecordedMessage, Recording

SYNTHETIC_SYSTEM = system("(The system prompt of this session was not recorded.)")
"""System message in the log of a recording without a system prompt; it is much shorter than a real prompt."""

_UNKNOWN = Usage(input_tokens=Measured(0), output_tokens=Measured(0))


def build_entries(recording: Recording, counter: Counter | None = None) -> tuple[Entry, ...]:
    """Return a log of a recorded session, with an event for each message and for the end of each step.

    A step is a model call with its tool calls. A step without recorded usage has a usage of 0 tokens, and all durations are 0.
    The context window is 0 and the compaction threshold None, because both are unknown.

    Args:
        recording: Recorded session to convert.
        counter: Token counter that estimates the size of messages; None for a quarter of the characters.
    """
    opening = [] if recording.system_recorded else [RecordedMessage(message=SYNTHETIC_SYSTEM, step=0, synthetic=True)]
    recorded = [*opening, *recording.messages]
    requests = _RequestPrefixes(tuple(item.message for item in recorded), counter or QuarterOfCharacters())
    events = [_make_start_event(recording), *_generate_events(recorded, requests), _make_end_event(recorded[-1].message)]
    return tuple(Entry(seq, event) for seq, event in enumerate(events, start=1))


def _make_start_event(recording: Recording) -> SessionStarted:
    task = next((item.message.text for item in recording.messages if item.message.role == "user" and item.step is not None), "")
    return SessionStarted(
        session_id=recording.session_id,
        task=task,
        model=recording.models[0] if recording.models else "",
        policy_json=encode_json({"kind": "recorded", "source": recording.source}),
        window_tokens=0,
        threshold_tokens=None,
        budget_rule="recorded session, window unknown",
        sandbox="recorded",
    )


def _make_end_event(last: Message) -> SessionEnded:
    if last.role == "assistant":
        return SessionEnded(status="completed", reason="replied")
    return SessionEnded(status="failed", reason="cancelled", detail="the recording ends in mid-session")


class _RequestPrefixes:
    """Hashes and estimated token counts of the first 1, 2, 3, ... messages of a recording."""

    def __init__(self, messages: tuple[Message, ...], counter: Counter) -> None:
        sent_messages = render_messages(messages)
        self.opening = sent_messages.index(OPENING_MESSAGE) if len(sent_messages) > len(messages) else len(messages)
        self.digests, self.tokens = [b""], [0]
        for message in sent_messages:
            self.digests.append(digest_message(message, self.digests[-1]))
            self.tokens.append(self.tokens[-1] + counter.count(message))
        self.view_tokens = [0, *accumulate(counter.count(message) for message in messages)]

    def count_sent_messages(self, messages: int) -> int:
        """Return the number of messages in the request that sends the first `messages` messages of the recording.

        The request has one more message if a user message, which some providers require, was inserted among them.
        """
        return messages + (messages > self.opening)


def _generate_events(recorded: Sequence[RecordedMessage], requests: _RequestPrefixes) -> Iterator[Event]:
    """Yield an event for each message, and an event for the end of each step after its last tool result."""
    kept_prefix_messages = step_number = 0
    answer_index: int | None = None
    for index, item in enumerate(recorded):
        if item.message.role != "tool":
            answer_index = None
        if item.message.role == "assistant" and item.step is not None:
            answer_index, step_number = index, item.step
        yield MessageAdded(message=item.message, step=step_number if item.step is None else item.step)
        is_last = index + 1 == len(recorded) or recorded[index + 1].message.role != "tool"
        if answer_index is not None and is_last:
            yield _make_step_event(step_number, answer_index, recorded[answer_index : index + 1], requests, kept_prefix_messages)
            kept_prefix_messages = requests.count_sent_messages(answer_index)


def _make_step_event(
    step: int, view_messages: int, messages: Sequence[RecordedMessage], requests: _RequestPrefixes, kept_prefix_messages: int
) -> StepFinished:
    """Return the event for the end of a step; `messages` is the answer of the model with its tool results."""
    answer = messages[0]
    return StepFinished(
        step=step,
        view_tokens=Estimated(requests.view_tokens[view_messages]),
        view_messages=view_messages,
        usage=answer.usage or _UNKNOWN,
        cost_usd=answer.cost_usd,
        request_digest=requests.digests[requests.count_sent_messages(view_messages)].hex(),
        kept_prefix_messages=kept_prefix_messages,
        kept_prefix_tokens=Estimated(requests.tokens[kept_prefix_messages]),
        calls=len(answer.message.calls),
        call_errors=sum(result.status != "completed" for item in messages for result in item.message.results),
        model_seconds=0.0,
        tool_seconds=0.0,
    )
