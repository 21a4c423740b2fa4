"""Figures of recorded sessions: model calls with their usage, how far each figure can be believed, and costs.

Each model call has a mark:

- `measured`: The provider reported its tokens.
- `placeholder`: The agent stored a usage report from the beginning of the answer: at most `MAX_PLACEHOLDER_TOKENS` output tokens
  for more than `MIN_PLACEHOLDER_CHARACTERS` characters. Its prompt tokens count, its output tokens are too few.
- `implausible`: The reported prompt is longer than the model can read.
- `estimated`: The file has no usage; the tokens are a quarter of the characters of the messages so far that the file holds.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness.conversation.events import CostSource
from harness.conversation.tokens import Measured, Usage, count_characters, estimate_quarter
from harness.inspection.calibration import Prompt, RecordedCalibration, fit_calibration, list_recorded_prompts
from harness.recordings.recording import Recording

UsageMark: TypeAlias = Literal["measured", "placeholder", "implausible", "estimated"]
MAX_PLACEHOLDER_TOKENS = 8
MIN_PLACEHOLDER_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFigures:
    """Usage and cost of one model call of a recorded session, without its text."""

    model: str
    usage: Usage
    """Reported usage, or the estimate if `is_reported` is false."""
    is_reported: bool
    answer_characters: int
    hour_write_tokens: int = 0
    cost_usd: float | None = None
    """Cost that the file gives for the call; None if it gives none."""
    at_ms: int | None = None
    request_key: str = ""
    copied: bool = False
    """Whether the call belongs to another recording, from which it was copied."""
    left_out: str = ""
    """Reason why the answer is no message of the session, such as `rewound`; empty if it is one."""

    def mark(self, window_tokens: int | None) -> UsageMark:
        """Return how far the usage can be believed, given the longest prompt that the model can read; None if unknown."""
        if not self.is_reported:
            return "estimated"
        if window_tokens is not None and self.usage.prompt_tokens > window_tokens:
            return "implausible"
        if self.usage.output_tokens <= MAX_PLACEHOLDER_TOKENS and self.answer_characters > MIN_PLACEHOLDER_CHARACTERS:
            return "placeholder"
        return "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """Figures of one recorded session, without its texts."""

    source: str
    """Name of the file's format."""
    session_id: str
    parent_id: str
    started_at_ms: int | None
    ended_at_ms: int | None
    messages: int
    logged_messages: int
    """Number of messages in the log of the session, which has a system message also where the file has none."""
    characters: int
    """Number of characters of all messages, without reasoning."""
    tool_calls: int
    results: int
    """Number of tool results in the file, without made-up ones."""
    compactions: int
    clearings: int
    inferred_compactions: int
    sub_agents: int
    recorded_cost_usd: float | None
    """Total cost that the file gives, or the sum over its calls; None if it gives none."""
    calls: tuple[CallFigures, ...]
    caveats: tuple[str, ...]
    cost_in_parent: bool = False
    """Whether the cost is part of the total that the file gives for the session that started this one."""
    has_texts: bool = True
    """Whether the file has the texts of the messages; without them, the session cannot be logged."""
    calibration: RecordedCalibration | None = None
    """Tokens of prompts as a function of their texts; None if the file has too little usage."""
    last_prompt: Prompt | None = None
    """Last reported prompt before the first compaction; None if there is none."""


def count_message_characters(recording: Recording) -> list[int]:
    """Return the number of characters of each message of a recorded session, without reasoning."""
    return [count_characters(item.message) for item in recording.messages]


def list_calls(recording: Recording, message_characters: Sequence[int]) -> tuple[CallFigures, ...]:
    """Return the model calls of a recorded session in order, then those whose answers are no messages.

    Args:
        recording: Recorded session.
        message_characters: Number of characters of each message, as `count_message_characters` returns it.
    """
    so_far_tokens = 0
    first_model = recording.models[0] if recording.models else ""
    calls: list[CallFigures] = []
    for item, characters in zip(recording.messages, message_characters, strict=True):
        tokens = estimate_quarter(characters)
        if item.message.role == "assistant" and item.step is not None:
            estimate = Usage(input_tokens=Measured(so_far_tokens), output_tokens=Measured(tokens))
            calls.append(
                CallFigures(
                    model=item.model or first_model,
                    usage=item.usage or estimate,
                    is_reported=item.usage is not None and item.usage.is_reported,
                    answer_characters=characters,
                    hour_write_tokens=item.hour_write_tokens,
                    cost_usd=item.cost_usd,
                    at_ms=item.at_ms,
                    request_key=item.request_key,
                    copied=item.copied,
                )
            )
        so_far_tokens += tokens
    calls += [
        CallFigures(
            model=left_out.model or first_model,
            usage=left_out.usage,
            is_reported=True,
            answer_characters=0,
            hour_write_tokens=left_out.hour_write_tokens,
            cost_usd=left_out.cost_usd,
            at_ms=left_out.at_ms,
            request_key=left_out.request_key,
            left_out=left_out.reason,
        )
        for left_out in recording.left_out_calls
        if left_out.usage is not None
    ]
    return tuple(calls)


def measure_recording(recording: Recording) -> SessionFigures:
    """Return the figures of a recorded session."""
    message_characters = count_message_characters(recording)
    prompts = list_recorded_prompts(recording)
    times_ms = [item.at_ms for item in recording.messages if item.at_ms is not None]
    compactions = [event for event in recording.compactions if event.kind == "compaction"]
    return SessionFigures(
        source=recording.source,
        session_id=recording.session_id,
        parent_id=recording.parent_id,
        started_at_ms=min(times_ms, default=None),
        ended_at_ms=max(times_ms, default=None),
        messages=len(recording.messages),
        logged_messages=len(recording.messages) + (not recording.system_recorded),
        characters=sum(count for item, count in zip(recording.messages, message_characters, strict=True) if not item.synthetic),
        tool_calls=sum(len(item.message.calls) for item in recording.messages),
        results=sum(len(item.message.results) for item in recording.messages if not item.synthetic),
        compactions=sum(not event.inferred for event in compactions),
        clearings=len(recording.compactions) - len(compactions),
        inferred_compactions=sum(event.inferred for event in compactions),
        sub_agents=len(recording.sub_agents),
        recorded_cost_usd=recording.cost_usd,
        calls=list_calls(recording, message_characters),
        cost_in_parent=recording.cost_in_parent,
        caveats=tuple([caveat.text for caveat in recording.caveats]),
        has_texts=recording.has_texts,
        calibration=fit_calibration(prompts) if recording.has_texts else None,
        last_prompt=prompts[-1] if prompts else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """Totals over the own model calls of a recorded session, apart by mark."""

    calls: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of measured calls and of calls with a placeholder."""
    output_tokens: int = 0
    """Output tokens of measured calls."""
    placeholder_calls: int = 0
    placeholder_output_tokens: int = 0
    implausible_calls: int = 0
    implausible_prompt_tokens: int = 0
    estimated_calls: int = 0
    estimated_prompt_tokens: int = 0
    estimated_output_tokens: int = 0
    copied_calls: int = 0
    """Calls that belong to another recording; they are in no other field."""
    cost_usd: float | None = None
    """Cost in USD, without implausible and estimated calls; None if the price of a model is unknown."""
    cost_source: CostSource = "unknown"
    """Source of the cost, which is 0 if it is part of that of the session that started this one."""
    unpriced_models: tuple[str, ...] = ()
    """Models whose price is unknown, so that there is no cost."""


def total_usage(
    calls: Iterable[CallFigures],
    recorded_cost_usd: float | None,
    *,
    is_in_parent: bool,
    find_window_tokens: Callable[[str], int | None],
    price_call: Callable[[str, Usage, int], float | None],
) -> UsageTotals:
    """Return the totals over the own calls of a recorded session.

    Args:
        calls: Calls of the session; those that it copied from another recording are counted only as such.
        recorded_cost_usd: Cost that the file gives for the session, in USD; None if it gives none.
        is_in_parent: Whether the cost is part of the total that the file gives for the session that started this one.
        find_window_tokens: Function that returns the longest prompt that a model can read, in tokens; None if unknown.
        price_call: Function that returns the cost in USD of a call of a model, given its usage and the number of tokens written
            to the cache for an hour; None if the price is unknown.
    """
    counts, costs, unpriced, has_own_cost = Counter[str](), list[float](), dict[str, None](), False
    for call in calls:
        if call.copied:
            counts["copied_calls"] += 1
            continue
        prompt, output = call.usage.prompt_tokens, call.usage.output_tokens
        counts["calls"] += 1
        match call.mark(find_window_tokens(call.model)):
            case "estimated":
                counts["estimated_calls"] += 1
                counts["estimated_prompt_tokens"] += prompt
                counts["estimated_output_tokens"] += output
            case "implausible":
                counts["implausible_calls"] += 1
                counts["implausible_prompt_tokens"] += prompt
            case mark:
                counts["prompt_tokens"] += prompt
                if mark == "placeholder":
                    counts["placeholder_calls"] += 1
                    counts["placeholder_output_tokens"] += output
                else:
                    counts["output_tokens"] += output
                cost = price_call(call.model, call.usage, call.hour_write_tokens) if call.cost_usd is None else call.cost_usd
                has_own_cost |= call.cost_usd is not None
                if cost is None:
                    unpriced[call.model] = None
                else:
                    costs.append(cost)
    totals = UsageTotals(**counts)  # type: ignore[arg-type]  # only fields that are numbers
    if is_in_parent:
        return replace(totals, cost_usd=0.0, cost_source="parent")
    if recorded_cost_usd is not None and not totals.copied_calls and not has_own_cost:
        return replace(totals, cost_usd=recorded_cost_usd, cost_source="recorded")
    if unpriced:
        return replace(totals, unpriced_models=tuple(unpriced))
    if not costs:
        return totals
    return replace(totals, cost_usd=sum(costs), cost_source="recorded" if has_own_cost else "priced")
