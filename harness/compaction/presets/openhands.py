"""Policies of OpenHands, which reproduce the compaction (the condensers) of its SDK and of its former server (V0).

Both count events: each message, tool call and tool result is one event.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from harness.compaction.cuts import Snap, Tail, count_messages_for_events, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Range, Rule, SummarizingPreset
from harness.compaction.stages import DEFAULT_COUNTER, EVERYTHING, Forget, Middle, Reducer, Summarize
from harness.compaction.summary_formats import ACCEPT_EMPTY
from harness.compaction.triggers import AllOf, Always, Amount, Full, MoreThan, NoThreshold, ShareOfAvailable
from harness.compaction.wrappers import OnFailure, OrElse
from harness.conversation import transcript
from harness.conversation.messages import Message, Part, Reasoning, Text, ToolCall, system, user
from harness.conversation.plan import SummaryProcedure, SummaryRequest
from harness.conversation.tokens import Budget, Counter
from harness.conversation.view import Item, count_events
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvents:
    """Rule that retains the last messages, up to a number of events (messages, tool calls and results).

    A number below 0 retains all messages.
    """

    count: int
    """Number of events to retain at the end of the conversation."""
    share: float = 0.0
    """Share of all events in the conversation that are retained in addition to the fixed number `count`, rounded down."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index from which on the messages have at most the allowed number of events."""
        sizes = [count_events(item.message) for item in items]
        room = int(self.share * sum(sizes)) + self.count
        return find_fitting_start(sizes, room) if room >= 0 else 0

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since a limit on events gives no minimum of messages or tokens."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBelowThreshold:
    """Rule that retains the last messages that, with the first ones, have fewer tokens than a share of the threshold."""

    share: float
    """Limit on the first and last messages together, as a share of the number of tokens that triggers compaction."""
    head_events: int
    """Number of events at the beginning of the conversation that are retained too; their tokens count towards the limit."""
    counter: Counter = DEFAULT_COUNTER
    """Token counter for a message that is only partly (with some of its tool calls) in the retained beginning."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index from which on the messages, together with the first ones, stay below the limit."""
        head = count_messages_for_events(items, self.head_events)
        room = int((budget.threshold_tokens or 0) * self.share) - self._count_head_tokens(items[:head])
        return head + find_fitting_start([item.tokens for item in items[head:]], room - 1)

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the number of retained messages depends on the size of the first ones."""
        return None

    def _count_head_tokens(self, head: Sequence[Item]) -> int:
        """Return the number of tokens in the events that are retained at the beginning.

        The last message of the beginning may be retained with only some of its tool calls.
        """
        tokens = sum(item.tokens for item in head)
        over = sum(count_events(item.message) for item in head) - self.head_events
        if over <= 0:
            return tokens
        *_, last = head
        removed_calls = set(last.message.calls[len(last.message.calls) - over :])
        head_message = Message(
            role=last.message.role, parts=tuple(part for part in last.message.parts if part not in removed_calls)
        )
        return tokens - last.tokens + self.counter.count(head_message)


@dataclass(frozen=True, slots=True)
class ShortestTail:
    """Rule that uses the one of several rules that retains the fewest messages at the end of the conversation."""

    tails: tuple[Tail, ...]
    """Rules for the messages to retain at the end of the conversation; the rule that retains the fewest is used."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the largest index of a first retained message that any of the rules gives."""
        return max(tail.find_start(items, budget) for tail in self.tails)

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since it is not known in advance which of the rules retains the fewest messages."""
        return None


class TranscriptEvent(NamedTuple):
    """One message, tool call or tool result of a conversation, as the summarizer reads it."""

    kind: Literal["message", "call", "result"]
    """Kind of the event in the transcript, which is a message, a tool call or a tool result."""
    speaker: str
    """Role of the message's author, or name of the tool that was called."""
    text: str
    """Text of the message or of the tool result; for a tool call, the text that the model wrote before the call."""
    arguments: str = ""
    """Arguments of the tool call; empty if the summarizer is not to read them."""

    def format_line(self) -> str:
        """Return the event as text for the summarizer, such as "user says: ..."."""
        if self.kind == "message":
            return f"{self.speaker} says: {self.text}"
        if self.kind == "result":
            return f"{self.speaker} answered: {self.text}"
        return f"assistant thinks: {self.text}\nassistant calls {self.speaker} {self.arguments}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """Summary format that lists events (messages, calls, results) in the prompt and asks for named sections.

    The answer is used as it is.

    Source of the length limits: openhands-sdk 1.58.0 `event/`, and V0 `memory/condenser`.
    """

    titles: tuple[str, ...]
    """Titles of the sections that the summary must have, in order."""
    characters: int | None
    """Maximum length in characters of an event's text in the prompt; None sets no limit."""
    middle_out: bool = False
    """Whether a long text in the summarizer's prompt loses its middle instead of its end."""
    with_arguments: bool = False
    """Whether the prompt for the summarizer contains the arguments of tool calls."""
    instructs_in_system: bool = False
    """Whether the instruction with the section titles is a system message, instead of the beginning of the user message."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return messages with the section titles, the former summary and the list of events."""
        titles = "\n".join(f"{title}:" for title in self.titles)
        former = f"\n\n<PREVIOUS SUMMARY>\n{self._cut_text(request.previous_summary)}\n</PREVIOUS SUMMARY>"
        events = "\n".join(f"<EVENT>\n{event.format_line()}\n</EVENT>" for event in self.list_events(request.to_summarize))
        request_lines = (
            "You keep the memory of a coding agent. Bring it up to date with the events below, so that the agent can go on "
            f"without them. Write under these headings, and leave out those for which there is nothing:\n\n{titles}"
        )
        material = f"{former if request.previous_summary else ''}\n\n{events}"
        return (
            (system(request_lines), user(material.strip())) if self.instructs_in_system else (user(f"{request_lines}{material}"),)
        )

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summarizer's answer without surrounding white space, as it is inserted into the view."""
        return text.strip()

    def list_events(self, messages: Sequence[Message]) -> tuple[TranscriptEvent, ...]:
        """Return the messages, tool calls and tool results of a conversation as a list of events, in order."""
        return tuple(event for message in messages for event in self._split_message(message))

    def _split_message(self, message: Message) -> Iterator[TranscriptEvent]:
        if message.role == "tool":
            yield from (TranscriptEvent("result", result.name, self._cut_text(result.output)) for result in message.results)
        elif not message.calls:
            yield TranscriptEvent("message", message.role, self._cut_text(transcript.extract_text(message), mark_inside=True))
        else:
            thought = self._cut_text(transcript.extract_text(message))
            for index, call in enumerate(message.calls):
                arguments = json.dumps(dict(transcript.parse_arguments(call)), ensure_ascii=False) if self.with_arguments else ""
                yield TranscriptEvent("call", call.name, "" if index else thought, arguments)

    def _cut_text(self, text: str, *, mark_inside: bool = False) -> str:
        """Cut a text to the maximum length of an event.

        Three dots mark a cut at the end; with `mark_inside`, the limit includes them.
        """
        if self.characters is None or len(text) <= self.characters:
            return text
        if self.middle_out:
            half = self.characters // 2
            return f"{text[:half]}\n[... {len(text) - 2 * half} characters are left out here ...]\n{text[len(text) - half :]}"
        return text[: max(0, self.characters - 3 if mark_inside else self.characters)] + "..."


CUT_MARK = "[...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShorterEvents:
    """Way to shorten a summarizer's prompt that is too long: each attempt cuts more from the middle of long texts.

    The arguments of tool calls are not cut.
    """

    characters: int | None
    """Maximum length in characters of a text before the first attempt reduces it; None starts from the longest text."""
    share: float
    """Factor by which each attempt to shorten the prompt reduces the maximum length of a text, above 0 and below 1."""
    attempts: int
    """Maximum number of attempts with a shortened prompt."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return the messages with the middle of long texts cut out, shorter in each attempt.

        After the maximum number of attempts, the result is empty.
        """
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
    """Cut the middle of a message's texts, so that each has at most `limit` characters with the mark of the cut."""
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
"""Titles of the sections that the summaries of both OpenHands policies must have."""


SNAP_FORWARD = Snap(direction="forward")


RESET_ATTEMPTS = 5
"""Maximum number of requests for a summary of the whole view; all but the first request pass shortened texts.

The original calls this value `hard_context_reset_max_retries`.
"""


RESET_SHARE = 0.8
"""Factor by which each retry of a summary of the whole view reduces the length limit of a text.

The original calls this value `hard_context_reset_context_scaling`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenHands(SummarizingPreset):
    """Common fields of OpenHands' two policies, which limit the number and the length of events (messages, calls and results).

    Attributes:
        max_size: Number of events (messages, tool calls and results) in view above which compaction is triggered. Default: `80`.
        keep_first: Number of events that are always retained at the beginning of the conversation, including the system message.
            Default: `4`.
        event_characters: Maximum length in characters of an event that the summarizer reads. Default: `500`.
    """

    max_size: Positive = 80
    keep_first: NonNegative = 4
    event_characters: Positive = 500

    def check_combination(self) -> None:
        if self.max_size // 2 - self.keep_first - 1 <= 0:
            limit = f"less than half of max_size={self.max_size!r}, less one for the summary"
            raise UsageError(f"keep_first={self.keep_first!r} must be {limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHands(_OpenHands):
    """Policy that, above 80 events (messages, calls, results), summarizes all but the first and the newest ones; about 40 stay.

    Choose it when you compare the OpenHands SDK, or want to bound the number of events instead of tokens.

    Source: OpenHands SDK 1.58.0, `llm_summarizing_condenser.py`, with the sizes of its default agent.

    The summarizer reads 500 characters of each event and of a former summary, and no arguments of calls; `full_events` passes
    everything. An empty summary is accepted. If the summary fails, the conversation stays unchanged.

    Too many tokens or a refused prompt trigger a summary as well. If this summary fails, or if there is nothing to evict between
    the first and the newest events, everything but the system message is summarized at once. That is tried up to four more times
    with shorter events. If every attempt fails, the conversation stays unchanged, while the original ends the run.

    Differences from the original:

    - Tokens are estimated from characters.
    - A summary must be shorter than the messages that it replaces.
    - A view that is still too large is compacted again only before the next step.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        max_tokens: Number of estimated tokens in the conversation above which compaction is triggered, at most the window; None
            uses the window. Default: `None`.
        minimum_progress: Minimum share of the events in the conversation that a summary must replace, above 0 and below 1.
            Default: `0.1`.
        full_events: Whether the summarizer reads messages and results in full, and also the arguments of tool calls.
            Default: `False`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Compact above 40 events or 20,000 tokens, and let the summarizer read the events in full:

        >>> from harness.policies import OpenHands
        >>> from harness.conversation.tokens import Window
        >>> policy = OpenHands(max_size=40, max_tokens=20_000, full_events=True)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        20000
    """

    max_tokens: Positive | None = None
    minimum_progress: Annotated[float, Range(lambda value: 0 < value < 1, "must be above 0 and below 1")] = 0.1
    full_events: bool = False
    kind: Literal["openhands"] = "openhands"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: the instruction to the summarizer is now a system message, as in the original.

        A message of the user that no request has contained yet now stays in view.
        """
        return 2

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize when there are too many tokens or events, and after a refused prompt.

        If there are too many tokens and too many events, the rule that retains fewer messages applies.
        """
        by_events = LastEvents(count=self.max_size // 2 - self.keep_first - 1)
        by_tokens = LastBelowThreshold(share=0.5, head_events=self.keep_first)
        by_half = LastEvents(share=0.5, count=-self.keep_first - 1)
        many_events, full = MoreThan(count=self.max_size, unit="events"), Full(above=True)
        rules = (
            Rule(AllOf((full, many_events)), self._build_hard_reset(ShortestTail((by_tokens, by_events)))),
            Rule(full, self._build_hard_reset(by_tokens)),
            Rule(many_events, self._build_condensation(by_events)),
            Rule(many_events, self._build_hard_reset(ShortestTail((by_half, by_events))), hook="overflow"),
            Rule(Always(), self._build_hard_reset(by_half), hook="overflow"),
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
            format=EventList(
                titles=SECTIONS, characters=self._event_characters, with_arguments=self.full_events, instructs_in_system=True
            ),
            max_tokens=self.summary_max_tokens,
            former="among",
            in_events=True,
            procedure=procedure,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHandsV0(_OpenHands):
    """Policy that, above 120 events, summarizes all but the first and the newest ones; each summary updates the former one.

    Choose it to reproduce results of OpenHands before its SDK, with longer excerpts for the summarizer.

    Source: OpenHands V0 156d0686, the condensers of the server's default pipeline.

    After a refused prompt, the older half of the messages behind the request is evicted without a summary. If the summary fails
    or is empty, the conversation stays unchanged.

    Differences from the original:

    - The original ends the run after a failed or empty summary.
    - Calls stay with their results, and no browser screenshots are masked.
    - The summary has the role of the user.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        max_size: Number of events (messages, tool calls and results) in view above which compaction is triggered. Default: `120`.
        event_characters: Maximum length in characters of an event or former summary that the summarizer reads, half from each
            end. Default: `10_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Compact above 60 events instead of 120:

        >>> from harness.policies import OpenHandsV0
        >>> from harness.conversation.tokens import Window
        >>> policy = OpenHandsV0(max_size=60)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        'at most 60 events'
    """

    max_size: Positive = 120
    event_characters: Positive = 10_000
    kind: Literal["openhands-v0"] = "openhands-v0"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: a message of the user that no request has contained yet now stays in view.
        """
        return 1

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize above `max_size` events, and evict half of the messages if a prompt is too long."""
        tail = LastEvents(count=self.max_size // 2 - self.keep_first - 1)
        summarize = Summarize(
            middle=Middle(tail=tail, head_events=self.keep_first, snap=SNAP_FORWARD),
            format=EventList(titles=SECTIONS, characters=self.event_characters, middle_out=True, with_arguments=True),
            max_tokens=self.summary_max_tokens,
        )
        forget = Forget(middle=Middle(tail=LastEvents(share=0.5, count=-1), head_messages=2, snap=SNAP_FORWARD))
        rules = (Rule(MoreThan(count=self.max_size, unit="events"), summarize), Rule(Always(), forget, hook="overflow"))
        return Pipeline(NoThreshold(rule=f"at most {self.max_size} events"), rules)
