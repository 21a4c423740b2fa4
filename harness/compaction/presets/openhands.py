"""The condensers of OpenHands: of its SDK, and of the server before it (V0). Both count events, see `count_events`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from harness import transcript
from harness.compaction.cuts import Snap, Tail, count_messages_for_events, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Range, Rule, SummarizingPreset
from harness.compaction.stages import DEFAULT_COUNTER, EVERYTHING, Forget, Middle, Reducer, Summarize
from harness.compaction.summary_formats import ACCEPT_EMPTY
from harness.compaction.triggers import AllOf, Always, Amount, Full, MoreThan, NoThreshold, ShareOfAvailable
from harness.compaction.wrappers import OnFailure
from harness.errors import UsageError
from harness.messages import Message, Part, Reasoning, Text, ToolCall, user
from harness.plan import Plan, SummaryProcedure, SummaryRequest
from harness.tokens import Budget, Counter
from harness.view import Item, View, count_events


@dataclass(frozen=True, slots=True, kw_only=True)
class OrElse:
    """A second reducer where the first finds nothing to do."""

    first: Reducer
    second: Reducer

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `Reducer`."""
        plan = self.first.reduce(view, budget, reason)
        return self.second.reduce(view, budget, plan.reason) if plan.is_empty else plan


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvents:
    """As many messages as make no more than so many events; a number below 0 keeps all."""

    count: int
    share: float = 0.0
    """Of all events, added to the number, rounded down."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        sizes = [count_events(item.message) for item in items]
        room = int(self.share * sum(sizes)) + self.count
        return find_fitting_start(sizes, room) if room >= 0 else 0

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBelowThreshold:
    """As many messages as hold, together with the first ones, less than a share of the threshold."""

    share: float
    head_events: int
    """Events at the beginning that count as the first ones; of a message that they do not hold whole, its first calls do."""
    counter: Counter = DEFAULT_COUNTER

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        head = count_messages_for_events(items, self.head_events)
        room = int((budget.threshold_tokens or 0) * self.share) - self._count_head_tokens(items[:head])
        return head + find_fitting_start([item.tokens for item in items[head:]], room - 1)

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return None

    def _count_head_tokens(self, head: Sequence[Item]) -> int:
        """Of the first events."""
        tokens = sum(item.tokens for item in head)
        over = sum(count_events(item.message) for item in head) - self.head_events
        if over <= 0:
            return tokens
        *_, last = head
        gone = set(last.message.calls[len(last.message.calls) - over :])
        held = Message(role=last.message.role, parts=tuple(part for part in last.message.parts if part not in gone))
        return tokens - last.tokens + self.counter.count(held)


@dataclass(frozen=True, slots=True)
class ShortestTail:
    """Whichever of several tails keeps least."""

    tails: tuple[Tail, ...]

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        return max(tail.find_start(items, budget) for tail in self.tails)

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return None


class TranscriptEvent(NamedTuple):
    """One event as a summarizer is told of it."""

    kind: Literal["message", "call", "result"]
    speaker: str
    """A role, or the name of the tool."""
    text: str
    """What was said, thought, or came back."""
    arguments: str = ""
    """Of a call; empty where they are not told."""

    def format_line(self) -> str:
        """The event in words."""
        if self.kind == "message":
            return f"{self.speaker} says: {self.text}"
        if self.kind == "result":
            return f"{self.speaker} answered: {self.text}"
        return f"assistant thinks: {self.text}\nassistant calls {self.speaker} {self.arguments}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """Named sections over a list of events; the answer goes into view as it is.

    Source of the cuts: openhands-sdk 1.58.0 `event/`, V0 `memory/condenser`.
    """

    titles: tuple[str, ...]
    """Of the sections, in order."""
    characters: int | None
    """Longest text of an event that is told whole; of a longer one its beginning is; None = all is told."""
    middle_out: bool = False
    """Whether of a longer text beginning and end are told, half each."""
    with_arguments: bool = False
    """Whether the arguments of calls are told."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message with the sections, a former summary that is told apart, and the events."""
        titles = "\n".join(f"{title}:" for title in self.titles)
        former = f"\n\n<PREVIOUS SUMMARY>\n{self._cut_text(request.previous_summary)}\n</PREVIOUS SUMMARY>"
        events = "\n".join(f"<EVENT>\n{event.format_line()}\n</EVENT>" for event in self.list_events(request.to_summarize))
        asked = (
            "You keep the memory of a coding agent. Bring it up to date with the events below, so that the agent can go on "
            f"without them. Write under these headings, and leave out those for which there is nothing:\n\n{titles}"
        )
        return (user(f"{asked}{former if request.previous_summary else ''}\n\n{events}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The answer."""
        return text.strip()

    def list_events(self, messages: Sequence[Message]) -> tuple[TranscriptEvent, ...]:
        """What is told of some messages, in order."""
        return tuple(event for message in messages for event in self._split_message(message))

    def _split_message(self, message: Message) -> Iterator[TranscriptEvent]:
        if message.role == "tool":
            yield from (TranscriptEvent("result", result.name, self._cut_text(result.output)) for result in message.results)
        elif not message.calls:
            yield TranscriptEvent("message", message.role, self._cut_text(transcript.extract_text(message), mark_inside=True))
        else:
            thought = self._cut_text(transcript.extract_text(message))
            for index, call in enumerate(message.calls):
                yield TranscriptEvent("call", call.name, "" if index else thought, self._format_arguments(call))

    def _format_arguments(self, call: ToolCall) -> str:
        return json.dumps(dict(transcript.parse_arguments(call)), ensure_ascii=False) if self.with_arguments else ""

    def _cut_text(self, text: str, *, mark_inside: bool = False) -> str:
        """Of a text that is too long, the beginning and three dots; of what a person says the dots are counted in."""
        if self.characters is None or len(text) <= self.characters:
            return text
        if self.middle_out:
            half = self.characters // 2
            return f"{text[:half]}\n[... {len(text) - 2 * half} characters are left out here ...]\n{text[len(text) - half :]}"
        return text[: max(0, self.characters - 3 if mark_inside else self.characters)] + "..."


CUT_MARK = "[...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShorterEvents:
    """Of events longer than a share of the longest one only both ends, that share again smaller in each attempt.

    See `harness.plan.PromptShortener`. Arguments of calls stay as they are.
    """

    characters: int | None
    """Longest text of an event that is told whole anyway; None = any."""
    share: float
    """Of the length that the attempt before allowed, above 0 and below 1."""
    attempts: int
    """Then there is nothing more to leave out."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """The messages with their texts cut."""
        if attempt > self.attempts:
            return ()
        longest = max(len(text) for message in messages for text in _list_texts(message))
        limit = longest if self.characters is None else min(longest, self.characters)
        for _ in range(attempt):
            limit = int(limit * self.share)
        return tuple(_keep_ends(message, limit) for message in messages)


def _list_texts(message: Message) -> tuple[str, ...]:
    if message.role == "tool":
        return tuple(result.output for result in message.results)
    return (transcript.extract_text(message),)


def _keep_ends(message: Message, limit: int) -> Message:
    """The message with both ends of its text, the mark between them counted in."""
    if all(len(text) <= limit for text in _list_texts(message)):
        return message
    if message.role == "tool":
        parts = tuple(replace(result, output=_cut_middle(result.output, limit)) for result in message.results)
        return replace(message, parts=parts)
    calls: tuple[Part, ...] = tuple(part for part in message.parts if isinstance(part, ToolCall | Reasoning))
    return replace(message, parts=(Text(text=_cut_middle(transcript.extract_text(message), limit)), *calls))


def _cut_middle(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    room = max(0, limit - len(CUT_MARK))
    return f"{text[: room - room // 2]}{CUT_MARK}{text[len(text) - room // 2 :]}"[:limit]


SECTIONS = (
    "USER_CONTEXT", "TASK_TRACKING", "COMPLETED", "PENDING", "CURRENT_STATE", "CODE_STATE", "TESTS", "CHANGES", "DEPS",
    "VERSION_CONTROL_STATUS",
)  # fmt: skip
"""Headings that both ask for."""


SNAP_FORWARD = Snap(direction="forward")


RESET_ATTEMPTS = 5
"""`hard_context_reset_max_retries`: the first one tells events as they are."""


RESET_SHARE = 0.8
"""`hard_context_reset_context_scaling`: the longest event of an attempt, as a share of the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenHands(SummarizingPreset):
    """What both share: the number of events in view, and how much of each a summarizer reads."""

    max_size: Positive = 80
    keep_first: NonNegative = 4
    event_characters: Positive = 500

    def check_combination(self) -> None:
        """See `Preset`."""
        if self.max_size // 2 - self.keep_first - 1 <= 0:
            limit = f"less than half of max_size={self.max_size!r}, less one for the summary"
            raise UsageError(f"keep_first={self.keep_first!r} must be {limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHands(_OpenHands):
    """Above so many events, all but the first and the newest become a summary; half of the size is left.

    Source: openhands-sdk 1.58.0 `llm_summarizing_condenser.py`, the sizes of its default agent; PEERS "OpenHands SDK" and 2.2.
    The summarizer reads 500 characters of each event and of a former summary, and no arguments of calls; `full_events` shows it
    all. Too many tokens and a refused prompt call for it too, and where nothing lies between head and tail then, everything but
    the system message is summarized. When the summary fails, the session goes on as it is; but too many tokens and a refused
    prompt first have everything but the system message summarized at once, up to four times more with shorter events, and where
    all that fails the original ends the run. An empty summary is taken. Different from the original: tokens are estimated by
    characters; it takes a summary longer than what it stands for; a view that is still too large is looked at before the next
    step, not at once.

    Attributes:
        max_size: Events in view at most. Default: `80`.
        max_tokens: Estimated tokens in view at most; None = the window. Default: `None`.
        keep_first: Events at the beginning that stay, the system message among them. Default: `4`.
        minimum_progress: Share of the events that must go for it to be worth a summary, above 0 and below 1. Default: `0.1`.
        event_characters: What of each event the summarizer reads. Default: `500`.
        full_events: Whether it reads whole events, arguments of calls included, instead. Default: `False`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Output limit of a summary; the original sets none. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    max_tokens: Positive | None = None
    minimum_progress: Annotated[float, Range(lambda value: 0 < value < 1, "must be above 0 and below 1")] = 0.1
    full_events: bool = False
    kind: Literal["openhands"] = "openhands"

    @property
    def pipeline(self) -> Pipeline:
        """Tokens and events, tokens, events; and a refused prompt. Of several reasons the strictest cut is taken."""
        by_events = LastEvents(count=self.max_size // 2 - self.keep_first - 1)
        by_tokens = LastBelowThreshold(share=0.5, head_events=self.keep_first)
        by_half = LastEvents(share=0.5, count=-self.keep_first - 1)
        many, full = MoreThan(count=self.max_size, unit="events"), Full(above=True)
        rules = (
            Rule(AllOf((full, many)), self._build_hard_reset(ShortestTail((by_tokens, by_events)))),
            Rule(full, self._build_hard_reset(by_tokens)),
            Rule(many, self._build_condensation(by_events)),
            Rule(many, self._build_hard_reset(ShortestTail((by_half, by_events))), moment="overflow"),
            Rule(Always(), self._build_hard_reset(by_half), moment="overflow"),
        )
        return Pipeline(ShareOfAvailable(share=1.0, at_most_tokens=self.max_tokens), rules)

    def _build_condensation(self, tail: Tail) -> Reducer:
        middle = Middle(tail=tail, head_events=self.keep_first, snap=SNAP_FORWARD)
        return replace(self._build_summarize(ACCEPT_EMPTY), middle=middle, least_share=self.minimum_progress)

    def _build_hard_reset(self, tail: Tail) -> Reducer:
        shorter = ShorterEvents(characters=self._event_characters, share=RESET_SHARE, attempts=RESET_ATTEMPTS - 1)
        reset = self._build_summarize(replace(ACCEPT_EMPTY, shorter=shorter, shorter_for="failed"))
        return OrElse(first=OnFailure(first=self._build_condensation(tail), then=reset), second=reset)

    @property
    def _event_characters(self) -> int | None:
        return None if self.full_events else self.event_characters

    def _build_summarize(self, procedure: SummaryProcedure) -> Summarize:
        return Summarize(
            middle=EVERYTHING,
            format=EventList(titles=SECTIONS, characters=self._event_characters, with_arguments=self.full_events),
            max_tokens=self.summary_max_tokens,
            former="among",
            in_events=True,
            procedure=procedure,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHandsV0(_OpenHands):
    """Above so many events, all but the first and the newest become a summary that brings the former one up to date.

    Source: All-Hands-AI/OpenHands@156d0686, the condensers of the server's default pipeline; PEERS "OpenHands V0" and 2.1. A
    refused prompt loses the older half of what follows the request, without a summary. Different from the original: calls stay
    with their results, where it cuts between events and repairs the head of what is left; there is no browser whose pictures
    could be masked; the summary goes in as the user's. When the summary fails, the session goes on as it is; there the error ends
    the run. An empty summary has failed too.

    Attributes:
        max_size: Events in view at most. Default: `120`.
        keep_first: Events at the beginning that stay, the system message among them. Default: `4`.
        event_characters: What of each event and of the former summary the summarizer reads, half from the beginning and half from
            the end. Default: `10_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Output limit of a summary; the original sets none. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    max_size: Positive = 120
    event_characters: Positive = 10_000
    kind: Literal["openhands-v0"] = "openhands-v0"

    @property
    def pipeline(self) -> Pipeline:
        """Too many events: summarize. A refused prompt: forget."""
        tail = LastEvents(count=self.max_size // 2 - self.keep_first - 1)
        summarize = Summarize(
            middle=Middle(tail=tail, head_events=self.keep_first, snap=SNAP_FORWARD),
            format=EventList(titles=SECTIONS, characters=self.event_characters, middle_out=True, with_arguments=True),
            max_tokens=self.summary_max_tokens,
        )
        forget = Forget(middle=Middle(tail=LastEvents(share=0.5, count=-1), head_messages=2, snap=SNAP_FORWARD))
        rules = (Rule(MoreThan(count=self.max_size, unit="events"), summarize), Rule(Always(), forget, moment="overflow"))
        return Pipeline(NoThreshold(rule=f"at most {self.max_size} events"), rules)
