"""Requests of a logged session as chains of blocks, rendered again from its log, to be priced under any rule."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.conversation.codec import digest_message
from harness.conversation.events import Compaction, Entry, MessageAdded, SessionStarted, StepFinished
from harness.conversation.messages import Message
from harness.conversation.tokens import QuarterOfCharacters
from harness.inspection.calibration import RecordedCalibration, fit_calibration, is_recording, list_prompts, measure_texts
from harness.inspection.timeline import LogReader, RequestHistory
from harness.models.scripted.profiles import is_scripted
from harness.prices.bill import SummaryCall
from harness.prices.requests import Block, Request


class SessionRequests(NamedTuple):
    """Requests of a session, with what their prices depend on.

    Args:
        model: Name of the agent's model.
        requests: Requests in the order in which they were sent.
        summaries: Calls of summarizers.
        has_times: Whether it is known when the requests were sent. Otherwise no lifetime of a cache ends.
    """

    model: str
    requests: tuple[Request, ...]
    summaries: tuple[SummaryCall, ...]
    has_times: bool


def build_session_requests(entries: Iterable[Entry], times_ms: Sequence[int] = ()) -> SessionRequests:
    """Return the requests of a session as chains of blocks, one block for each message.

    The sizes of blocks are estimates, a quarter of the characters of a message; each request says how many tokens the provider
    counted, to which they are scaled. The definitions of tools are in no message, so they are spread over the blocks. A request
    was sent at the time that the log gives for its step, as with simulated gaps. Otherwise, a session of a scripted model runs on
    a virtual clock on which only the model's answers take time.

    Args:
        entries: Log of the session.
        times_ms: Time in milliseconds at which each event was logged, in the same order. Default: unknown.

    Raises:
        UsageError: The log does not contain the answer of a step.
    """
    log = tuple(entries)
    sent_at = _find_times(log, times_ms)
    history = RequestHistory(log)
    measure = _BlockMaker(fit_calibration(list_prompts(log)) if is_recording(log) else None)
    requests, summaries, virtual_seconds = list[Request](), list[SummaryCall](), 0.0
    previous: Sequence[Message] = ()
    model = next((event.model for _, event in log if isinstance(event, SessionStarted)), "")
    for sent in history.reconstruct_all(LogReader.from_log(log)):
        end = sent.end_event
        kept = _count_equal(previous, sent.messages)
        at_seconds = virtual_seconds if is_scripted(model) else sent_at.get(end.step)
        requests.append(
            Request(
                kept_blocks=kept,
                blocks=tuple(map(measure.make_block, sent.messages[kept:])),
                fixed_blocks=1 if sent.messages and sent.messages[0].role == "system" else 0,
                at_seconds=at_seconds if sent.view.now_seconds is None else sent.view.now_seconds,
                prompt_tokens=end.usage.prompt_tokens if end.usage.is_reported and not end.impossible_usage else None,
                reported=end.usage if end.usage.cache_read_tokens or end.usage.cache_write_tokens else None,
                output_tokens=end.usage.output_tokens,
                reasoning_tokens=end.usage.reasoning_tokens,
            )
        )
        summaries += [_make_summary_call(event, len(requests) - 1) for event in sent.compactions if event.summarizer_usage]
        virtual_seconds += end.model_seconds
        previous = sent.messages
    return SessionRequests(model, tuple(requests), tuple(summaries), is_scripted(model) or bool(sent_at))


def _find_times(log: Sequence[Entry], times_ms: Sequence[int]) -> dict[int, float]:
    """Return the time in seconds at which the request of each step was sent: that of the last event before the answer."""
    sent_at, before = dict[int, float](), None
    answered_at = None
    for (_, event), at_ms in zip(log, times_ms, strict=False):
        if isinstance(event, MessageAdded) and event.message.role == "assistant":
            answered_at = at_ms if before is None else before
        elif isinstance(event, StepFinished) and answered_at is not None:
            sent_at[event.step] = answered_at / 1_000
        before = at_ms
    return sent_at


def _count_equal(first: Sequence[Message], second: Sequence[Message]) -> int:
    """Return how many messages two requests have in common at their beginning."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and one != other:
            return position
    return min(len(first), len(second))


class _BlockMaker:
    """Blocks of messages, each made once."""

    def __init__(self, calibration: RecordedCalibration | None) -> None:
        self._calibration = calibration
        self._known: dict[int, tuple[Message, Block]] = {}  # keeps the messages, so no other message gets the `id` of one

    def make_block(self, message: Message) -> Block:
        """Return the block of a message; in a calibrated recording, the system message includes all that is not recorded."""
        if id(message) not in self._known:
            block = Block(digest_message(message), self._count(message), message.role)
            self._known[id(message)] = message, block
        return self._known[id(message)][1]

    def _count(self, message: Message) -> int:
        if self._calibration is None:
            return QuarterOfCharacters().count(message)
        hidden_tokens = self._calibration.overhead_tokens if message.role == "system" else 0
        return max(0, round(hidden_tokens + self._calibration.count_texts(measure_texts(message))))


def _make_summary_call(event: Compaction, before_request: int) -> SummaryCall:
    assert event.summarizer_usage is not None
    usage = event.summarizer_usage
    return SummaryCall(before_request=before_request, prompt_tokens=usage.prompt_tokens, output_tokens=usage.output_tokens)
