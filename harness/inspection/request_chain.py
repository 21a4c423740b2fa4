"""Requests of a logged session as chains of blocks, rendered again from its log, to be priced under any rule."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from harness.conversation.events import Compaction, Entry, MessageAdded, SessionStarted, StepFinished
from harness.conversation.messages import Message
from harness.conversation.tokens import QuarterOfCharacters
from harness.inspection.calibration import (
    EditedRead,
    find_instructions_tokens,
    fit_calibration,
    is_recording,
    list_prompts,
    measure_texts,
)
from harness.inspection.timeline import LogReader, RequestHistory
from harness.models.scripted.profiles import is_scripted
from harness.prices.bill import SummaryCall
from harness.prices.message_blocks import RequestMaker
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

    The sizes of blocks are estimates: a quarter of the characters of a message, or what the calibration of a recording gives.
    Each request says how many tokens the provider counted, from which a cache finds the sizes of what is new. The definitions of
    tools are in no message, so the blocks of the first request share their tokens. A request was sent at the time that the log
    gives for its step, as with simulated gaps. Otherwise, a session of a scripted model runs on a virtual clock on which only
    the model's answers take time.

    Args:
        entries: Log of the session.
        times_ms: Time in milliseconds at which each event was logged, in the same order. Default: unknown.

    Raises:
        UsageError: The log does not contain the answer of a step.
    """
    log = tuple(entries)
    sent_at = _find_times(log, times_ms)
    history = RequestHistory(log)
    maker = RequestMaker(_make_counter(log))
    requests, summaries, virtual_seconds = list[Request](), list[SummaryCall](), 0.0
    model = next((event.model for _, event in log if isinstance(event, SessionStarted)), "")
    for sent in history.reconstruct_all(LogReader.from_log(log)):
        end = sent.end_event
        at_seconds, answer_seconds = sent_at.get(end.step, (None, 0.0))
        if is_scripted(model):
            at_seconds, answer_seconds = virtual_seconds, end.model_seconds
        requests.append(
            replace(
                maker.make(sent.messages),
                at_seconds=at_seconds if sent.view.now_seconds is None else sent.view.now_seconds,
                answer_seconds=answer_seconds,
                prompt_tokens=end.usage.prompt_tokens if end.usage.is_reported and not end.impossible_usage else None,
                reported=end.usage if end.usage.cache_read_tokens or end.usage.cache_write_tokens else None,
                output_tokens=end.usage.output_tokens,
                reasoning_tokens=end.usage.reasoning_tokens,
            )
        )
        summaries += [_make_summary_call(event, len(requests) - 1) for event in sent.compactions if event.summarizer_usage]
        virtual_seconds += end.model_seconds
    if is_recording(log):
        requests = _size_instructions(requests)
    return SessionRequests(model, tuple(requests), tuple(summaries), is_scripted(model) or bool(sent_at))


def _size_instructions(requests: list[Request]) -> list[Request]:
    """Return requests whose first block has the size of the instructions, as the provider's reads behind edits show it.

    The other hidden texts, such as reminders, become a block of their own behind the instructions, which agents send anew after a
    compaction.
    """
    tokens = find_instructions_tokens(_list_edited_reads(requests))
    if tokens is None or requests[0].fixed_blocks != 1:
        return requests
    first = requests[0]
    instructions, *others = first.blocks
    whole_tokens = first.prompt_tokens or sum(block.tokens for block in first.blocks)
    hidden_tokens = max(0, whole_tokens - tokens - sum(block.tokens for block in others))
    sized, blocks = [], 0
    for place, request in enumerate(requests):
        repeats_hidden = place > 0 and request.kept_blocks >= min(2, blocks)
        blocks = request.kept_blocks + len(request.blocks)
        if repeats_hidden:
            sized.append(replace(request, kept_blocks=request.kept_blocks + 1))
            continue
        new = [block._replace(tokens=tokens) if block.digest == instructions.digest else block for block in request.blocks]
        new.insert(1 - request.kept_blocks, Block(("hidden", place), hidden_tokens, "hidden"))
        sized.append(replace(request, blocks=tuple(new)))
    return sized


def _list_edited_reads(requests: Sequence[Request]) -> Iterator[EditedRead]:
    for before, request in pairwise(requests):
        is_edit = request.kept_blocks < before.kept_blocks + len(before.blocks)
        if is_edit and request.reported is not None and request.prompt_tokens is not None:  # otherwise, the usage is impossible
            pause_seconds = (request.at_seconds or 0.0) - (before.at_seconds or 0.0) - before.answer_seconds
            yield EditedRead(
                read_tokens=request.reported.cache_read_tokens,
                written_tokens=request.reported.cache_write_tokens,
                kept_messages=request.kept_blocks,
                new_messages=len(request.blocks),
                pause_seconds=pause_seconds,
            )


def _find_times(log: Sequence[Entry], times_ms: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return when the request of each step was sent, at the last event before its answer, and how long that took, in seconds."""
    times, before_ms, answer_ms = dict[int, tuple[float, float]](), None, None
    for (_, event), at_ms in zip(log, times_ms, strict=False):
        if isinstance(event, MessageAdded) and event.message.role == "assistant":
            answer_ms = at_ms if before_ms is None else before_ms, at_ms
        elif isinstance(event, StepFinished) and answer_ms is not None:
            times[event.step] = answer_ms[0] / 1_000, max(0, answer_ms[1] - answer_ms[0]) / 1_000
        before_ms = at_ms
    return times


def _make_counter(log: Sequence[Entry]) -> Callable[[Message], int]:
    """Return the counter of the tokens of messages; in a recording, the system message includes all that is not recorded."""
    calibration = fit_calibration(list_prompts(log)) if is_recording(log) else None
    if calibration is None:
        return QuarterOfCharacters().count

    def count(message: Message) -> int:
        hidden_tokens = calibration.overhead_tokens if message.role == "system" else 0
        return max(0, round(hidden_tokens + calibration.count_texts(measure_texts(message))))

    return count


def _make_summary_call(event: Compaction, before_request: int) -> SummaryCall:
    assert event.summarizer_usage is not None
    usage = event.summarizer_usage
    return SummaryCall(
        before_request=before_request,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        shares_prefix=usage.cache_read_tokens > 0,
    )
