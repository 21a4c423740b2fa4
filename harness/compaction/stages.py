"""Parts from which policies are built, mainly reducers, which evict, mask or summarize messages.

A reducer proposes a plan to shorten the view. It neither calls a model nor changes the view. Each reducer keeps the system
message, and keeps tool calls together with their results. The compactor checks both rules again for the plans of every policy.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import translate
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from harness.compaction.cuts import SNAP_BACK, LastMessages, Snap, Tail, count_messages_for_events
from harness.compaction.triggers import Amount, DueAmounts, Measure, select_calibration
from harness.conversation import transcript
from harness.conversation.events import ItemId, Patch, Replace
from harness.conversation.messages import CompactionMarker, Image, Message, Part, ToolCall, ToolResult
from harness.conversation.plan import PLAIN_PROCEDURE, CompactionPlan, Excerpt, Slot, SummaryFormat, SummaryProcedure
from harness.conversation.tokens import Budget, Counter, Estimated, QuarterOfCharacters, Usage
from harness.conversation.view import Item, View, count_events, patch_items
from harness.errors import UsageError

DEFAULT_COUNTER = QuarterOfCharacters()
EARLIER_SUMMARIES = "which messages are its earlier summaries"
"""Fact about earlier compactions that decides what a part of a policy does if it retains earlier summaries."""
Answer = TypeVar("Answer")


_WRITE_CALL_ID, _WRITE_NAME, _WRITE_OUTPUT, _WRITE_STATUS, _WRITE_CLIPPED_CHARACTERS, _WRITE_CLIPPED_BYTES, _WRITE_KIND = (
    getattr(ToolResult, field.name).__set__ for field in fields(ToolResult)
)


class Reducer(Protocol):
    """Part of a policy that proposes how to shorten the view, without side effects."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that shortens the conversation; an empty plan says why there is nothing to do."""
        ...


class Span(Protocol):
    """Part of a policy that selects which messages of a conversation to evict or summarize, without side effects."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the messages to evict or summarize, in the order of the conversation.

        The messages lie next to each other behind the system message, and no tool call is selected without its results.
        """
        ...

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the minimum number of tokens or messages that are never selected; None if unknown."""
        ...


@runtime_checkable
class Retaining(Protocol):
    """Part of a policy that can report a minimum number of tokens or messages that it always retains."""

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the minimum number of tokens or messages that are always retained; None if unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle:
    """Selection of all messages between a retained beginning and a retained end of the conversation."""

    tail: Tail
    """Rule that selects the messages retained at the end of the conversation."""
    head_messages: int = 1
    """Number of messages retained at the beginning of the conversation, including the system message."""
    head_events: int = 0
    """Number of events (messages, tool calls and results) retained at the beginning of the conversation.

    Messages are retained whole. If `head_messages` retains more, that number applies.
    """
    snap: Snap = SNAP_BACK
    """Rule that moves the end of the selected messages to a place where no tool call loses its result."""
    shrinks_head: bool = False
    """Whether to evict a tool call in the last message of the retained beginning if its results come later.

    If false, the results are retained too.
    """

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the messages between the retained beginning and the retained end of the conversation."""
        start = Snap(direction="back" if self.shrinks_head else "forward").find_legal_index(
            view.items, max(1, self.head_messages, count_messages_for_events(view.items, self.head_events))
        )
        return view.items[start : self.snap.find_legal_index(view.items, self.tail.find_start(view.items, budget))]

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return how many tokens or messages are always retained.

        A number of tokens covers only the retained end of the conversation; a number of messages covers the beginning too.
        """
        kept = self.tail.compute_kept_amount(budget)
        return kept._replace(size=kept.size + max(1, self.head_messages)) if kept and kept.unit == "messages" else kept


EVERYTHING = Middle(tail=LastMessages(count=0))
"""Selection of all messages that the model sees, except the system message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Part of a policy that evicts neighbouring messages without a summary."""

    middle: Span
    """Selection of the messages to evict, such as all between the beginning and the end of the conversation."""
    keep_summaries: bool = False
    """Whether earlier summaries among the selected messages are retained instead of being evicted."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does, which are none with other settings."""
        return EARLIER_SUMMARIES if self.keep_summaries else ""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that evicts the selected messages; empty if no message is selected."""
        stays = set(view.summaries) if self.keep_summaries else frozenset[ItemId]()
        removed_ids = tuple(item.item_id for item in self.middle.select_items(view, budget) if item.item_id not in stays)
        return CompactionPlan(
            reason=reason if removed_ids else f"{reason}, but nothing lies before the kept messages", forget=removed_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    """Part of a policy that replaces neighbouring messages by a summary that a model writes."""

    middle: Span
    """Selection of the messages that the summary replaces."""
    format: SummaryFormat
    """Format of the prompt for the summarizer and of the summary that the agent sees."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write."""
    max_input_tokens: int | None = None
    """Maximum length in tokens of the prompt for the summarizer; None applies only the summarizer's own limit."""
    role: Literal["system", "user", "assistant"] = "user"
    """Role of the message that contains the summary."""
    former: Literal["apart", "among", "stays"] = "apart"
    """Treatment of summaries from former compactions.

    * `apart`: the summarizer reads them separately.
    * `among`: the summarizer reads them among the messages.
    * `stays`: the summarizer does not read them, and they stay in view.
    """
    when_failed: Literal["skip", "forget"] = "skip"
    """Behaviour if the summary fails.

    `skip` leaves the conversation unchanged. `forget` evicts the messages that were to be summarized, except former summaries.
    """
    least_share: float = 0.0
    """Minimum share of all messages that a summary must replace; if it would replace fewer, no summary is requested."""
    in_events: bool = False
    """Whether `least_share` is a share of the events (messages, tool calls and results) instead of the messages."""
    before: tuple[Message, ...] = ()
    """Messages inserted directly before the summary, such as a question that the summary answers.

    If one of them is a compaction marker, it receives the number of the compaction.
    """
    behind: tuple[Message, ...] = ()
    """Messages inserted directly behind the summary, such as a request to continue."""
    excerpt: Excerpt | None = None
    """Rule that selects or shortens the messages that the summarizer reads; None lets it read all messages to summarize."""
    text_if_empty: str = ""
    """Text inserted in place of a summary if `excerpt` selects no message for the summarizer to read."""
    procedure: SummaryProcedure = PLAIN_PROCEDURE
    """Retries, review and replacement text for a summary that fails or is empty."""
    measure: Measure = field(default="estimate", repr=False)
    """Way in which tokens of the prompt for the summarizer are measured."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does, which are none with other settings."""
        return EARLIER_SUMMARIES if self.former == "stays" else ""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces the selected messages by a summary; empty if too few are selected."""
        middle = self.middle.select_items(view, budget)
        former = set(view.summaries)
        stays = former if self.former == "stays" else frozenset[ItemId]()
        removed_items = [item for item in middle if item.item_id not in stays] if stays else middle
        forgotten_ids = tuple(item.item_id for item in removed_items)
        if not forgotten_ids:
            return CompactionPlan(reason=f"{reason}, but nothing lies before the kept messages")
        if self._is_too_few(removed_items, view):
            count = f"{len(forgotten_ids)} of {len(view.items)} messages"
            return CompactionPlan(reason=f"{reason}, but {count} are too few to be worth a summary")
        news = tuple(item for item in forgotten_ids if item not in former) if former else forgotten_ids
        slot = Slot(
            after=_find_anchor(view.items, forgotten_ids[0], stays),
            role=self.role,
            stands_for=forgotten_ids,
            format=self.format,
            max_tokens=self.max_tokens,
            max_input_tokens=self.max_input_tokens,
            token_ratio=select_calibration(self.measure, view).ratio,
            former="among" if self.former == "among" else "apart",
            before=tuple(_number_markers(message, view.rounds + 1) for message in self.before),
            behind=self.behind,
            excerpt=self.excerpt,
            text_if_empty=self.text_if_empty,
            procedure=self.procedure,
        )
        has_fallback = self.when_failed == "forget" and news
        fallback = CompactionPlan(reason=f"{reason}; without a summary", forget=news) if has_fallback else None
        return CompactionPlan(reason=reason, forget=forgotten_ids, slots=(slot,), fallback=fallback)

    def _is_too_few(self, removed_items: Sequence[Item], view: View) -> bool:
        if self.least_share == 0 or not self.in_events:
            return len(removed_items) < self.least_share * len(view.items)
        return sum(count_events(item.message) for item in removed_items) < self.least_share * view.events


def _number_markers(message: Message, round_number: int) -> Message:
    parts = (replace(part, round=round_number) if isinstance(part, CompactionMarker) else part for part in message.parts)
    return replace(message, parts=tuple(parts))


def _find_anchor(items: Sequence[Item], first: ItemId, stays: frozenset[ItemId] | set[ItemId]) -> ItemId:
    """Return the id of the message behind which a new summary is inserted.

    This is the message before the first summarized one, or the last retained summary if that comes later.
    """
    ids = [item.item_id for item in items]
    kept = [item for item in ids if item in stays]
    return max((ids[ids.index(first) - 1], *kept), key=ids.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Part of a policy that replaces old tool results by a short text (the stub) and retains the tool calls.

    The newest results can be protected by their number, tokens, turns or steps; 0 disables a kind of protection. All older
    results are masked (replaced by the stub) if that saves enough tokens.
    """

    stub: str = "[Old tool result content cleared]"
    """Short text that the model sees in place of an old tool result."""
    keep_results: int = 0
    """Number of newest tool results that are never masked (replaced by a short text); 0 protects none by number."""
    keep_tokens: int = 0
    """Estimated number of tokens in the newest tool results, which are never masked (replaced by a short text).

    The result that makes the sum exceed this number, and all older results, may be masked.
    """
    keep_turns: int = 0
    """Number of newest turns whose tool results are never masked; a turn begins with a user message."""
    keep_steps: int = 0
    """Number of newest steps whose tool results are never masked; a step begins with an answer of the model."""
    least_saved_tokens: int = 0
    """Number of tokens; unless the old tool results have more in total, none is masked. 0 sets no minimum."""
    enough_tokens: int = 0
    """Number of saved tokens, including earlier savings, after which no further result is masked; 0 masks all old results."""
    exempt_tools: tuple[str, ...] = ()
    """Shell patterns of the tool calls whose results are never masked.

    A pattern with a space, such as `execute_command git *`, is matched against the tool name and the key argument. Any other
    pattern is matched against the tool name alone.
    """
    exempt_failures: bool = False
    """Whether tool results that report an error, or an exit code other than 0, are never replaced by a short text."""
    exempt_requested: bool = False
    """Whether results that the user asked for are never masked.

    The user asked for a result if the user message before the call mentions the call's key argument, such as a command or a path,
    or the last part of a path.
    """
    least_characters: int = 0
    """Minimum length in characters of a tool result that may be replaced by a short text; shorter results stay as they are."""
    completed_only: bool = False
    """Whether only tool results with the status `completed` are replaced by a short text."""
    exempt_count: bool = False
    """Whether tool results that are exempt from masking also count among the newest results that are protected."""
    clear_arguments: bool = False
    """Whether the arguments of a tool call are also removed when its result is replaced by a short text."""
    stop_at_summary: bool = False
    """Whether tool results before the newest summary in view are left unchanged."""
    counter: Counter = DEFAULT_COUNTER
    """Token counter with which the tokens saved by replacing tool results are computed."""
    measure: Measure = field(default="estimate", repr=False)
    """Way in which the numbers of tokens above are measured."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces unprotected old tool results by short texts; empty if that saves too little."""
        if self.measure != "estimate":
            return self._convert(view).reduce(view, budget, reason)
        chosen, saved = self._read_old_results(view, lambda old: self._select_enough(view, old))
        if not chosen or (self.least_saved_tokens and saved <= self.least_saved_tokens):
            return CompactionPlan(
                reason=f"{reason}, but {saved:,} tokens of old results are not more than {self.least_saved_tokens:,}"
            )
        masked = [replace_results(item, self._make_stub) for item in chosen]
        calls = {result.call_id for item in chosen for result in item.message.results} if self.clear_arguments else set()
        calling_items = view.items if calls else ()
        cleared = [
            empty_arguments(item, calls) for item in calling_items if any(call.call_id in calls for call in item.message.calls)
        ]
        return CompactionPlan(reason=f"{reason}; {len(chosen)} old results", replace=(*cleared, *masked))

    def is_worthwhile(self, view: View) -> bool:
        """Return whether masking all unprotected old tool results would save the required number of tokens.

        The running time depends only on the number of messages added since the last call.
        """
        if self.measure != "estimate":
            return self._convert(view).is_worthwhile(view)
        return self._read_old_results(view, lambda old: bool(old.chosen) and self._is_enough(old.tokens))

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the number of tokens of the newest tool results that are never replaced by a short text."""
        return Amount(self.keep_tokens, "tokens")

    def count_old_tokens(self, view: View) -> int | None:
        """Return the number of tokens in all old tool results that may be masked (replaced by a short text).

        None means unknown: masking also removes the arguments of the calls, whose tokens are not counted.
        """
        return None if self.clear_arguments else self._read_old_results(view, lambda old: old.tokens)

    def _convert(self, view: View) -> "Mask":
        """Return the same settings with all numbers of tokens as estimates."""
        return _convert_to_estimates(self, select_calibration(self.measure, view).ratio)

    def _is_enough(self, tokens: int) -> bool:
        return not self.least_saved_tokens or tokens > self.least_saved_tokens

    def _make_stub(self, result: ToolResult) -> ToolResult:
        return with_output(result, self.stub)

    def _read_old_results(self, view: View, read: "Callable[[_OldResults], Answer]") -> "Answer":
        return view.tally_cache.read(view.items, self, lambda: _OldResults(self, frozenset(view.summaries)), read)

    def is_exempt(self, item: Item, calls: Mapping[str, str]) -> bool:
        """Return whether the tool results in a message must never be replaced by a short text.

        Args:
            item: Message that holds tool results.
            calls: Tool name and key argument of each call, by call id.
        """
        for part in item.message.parts:  # a loop is faster than a generator, and a view may have thousands of results
            if isinstance(part, ToolResult) and self.can_mask(part) and not self._must_stay(part, calls):
                return False
        return True

    def can_mask(self, result: ToolResult) -> bool:
        """Return whether a tool result is long enough to be replaced by a short text and is not yet replaced."""
        return len(result.output) >= self.least_characters and result.output != self.stub

    def _must_stay(self, result: ToolResult, calls: Mapping[str, str]) -> bool:
        if self.completed_only and result.status != "completed":
            return True
        if self.exempt_failures and transcript.read_outcome(result) not in {"ok", "exit code 0"}:
            return True
        if self.exempt_tools:  # the common case without patterns saves the look-up of the compiled ones
            for pattern, matches in compile_patterns(self.exempt_tools):
                if matches(calls.get(result.call_id, result.name) if " " in pattern else result.name):
                    return True
        return False

    def _select_enough(self, view: View, old: "_OldResults") -> tuple[Sequence[Item], int]:
        """Return the oldest messages whose tool results save enough tokens, and the tokens in them.

        No message is returned if even all old tool results together save too little.
        """
        if not self._is_enough(old.tokens):
            return (), old.tokens
        if self.enough_tokens == 0:
            return tuple(old.chosen), old.tokens
        saved, count = view.saved_tokens, 0
        while count < len(old.chosen) and saved < self.enough_tokens:
            item = old.chosen[count]
            saved += item.tokens - self.counter.count(replace_results(item, self._make_stub).message)
            count += 1
        return old.chosen[:count], sum(item.tokens for item in old.chosen[:count])


@lru_cache(maxsize=1_000)
def _convert_to_estimates(mask: Mask, ratio: float) -> Mask:
    return replace(
        mask,
        measure="estimate",
        keep_tokens=round(mask.keep_tokens / ratio),
        least_saved_tokens=round(mask.least_saved_tokens / ratio),
        enough_tokens=round(mask.enough_tokens / ratio),
    )


def is_named(call: ToolCall, text: str) -> bool:
    """Return whether a text mentions the key argument of a tool call, such as a path, or the last part of a path."""
    key = transcript.find_key_argument(call)
    names = {key, key.rstrip("/").rpartition("/")[2]} - {"", "."}
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w/-])", text) for name in names)


def refuse_invalid_patterns(name: str, patterns: Sequence[str], more: str = "") -> None:
    """Raise an error if a shell pattern is empty, or has a set of characters that no `]` ends or that contains nothing.

    Python would take the first `[` of such a pattern for an ordinary character, so the pattern would match nothing.

    Args:
        name: Name of the field, for the error message.
        patterns: Values of the field.
        more: What else the field allows, as the end of a sentence.

    Raises:
        UsageError: A pattern is invalid; the message gives its place and what is allowed.
    """
    for place, pattern in enumerate(patterns):
        if not pattern.strip():
            advice = ""
        elif _has_open_set(pattern):
            advice = "; each `[` begins a set of characters that a `]` ends, and `[[]` stands for the character `[`"
        elif _EMPTY_SET in translate(pattern):
            advice = "; a set of characters such as `[a-z]` goes from a smaller to a larger character"
        else:
            continue
        raise UsageError(f"{name}[{place}]: must be a shell pattern such as 'skill*'{more} (got {pattern!r}){advice}")


_EMPTY_SET = "(?!)"
"""Regular expression of a set that contains nothing, such as `[z-a]`."""
_SET = re.compile(r"\[!?+\]?+[^]]*\]")
"""Regular expression of a set of characters, whose first character may be `]`."""


def _has_open_set(pattern: str) -> bool:
    return "[" in _SET.sub("", pattern)


@lru_cache(maxsize=1_000)
def compile_patterns(patterns: tuple[str, ...]) -> tuple[tuple[str, Callable[[str], object]], ...]:
    """Return each shell pattern, such as `git *`, with a function that matches texts against it."""
    return tuple((pattern, re.compile(translate(pattern)).match) for pattern in patterns)


class _OldResults:
    """Running list of the old tool results that may be replaced, oldest first, and their number of tokens."""

    __slots__ = (
        "_asked",
        "_calls",
        "_count",
        "_held_tokens",
        "_mask",
        "_protected",
        "_requested_ids",
        "_steps",
        "_stops",
        "_summaries",
        "_tells",
        "_turns",
        "_young",
        "chosen",
        "tokens",
    )

    def __init__(self, mask: Mask, summaries: frozenset[ItemId]) -> None:
        self._mask = mask
        self._summaries = summaries
        self._stops = summaries if mask.stop_at_summary else frozenset()
        self._tells = any(" " in pattern for pattern in mask.exempt_tools)
        self._calls: dict[str, str] = {}
        """Tool name and key argument (such as the path) of every tool call, by call id; empty if no exempt pattern needs it."""
        self._asked = ""
        """Text of the newest user message."""
        self._requested_ids: set[str] = set()
        """Ids of the calls that the user asked for; empty if their results are not exempt."""
        self._reset()

    def _reset(self) -> None:
        self.chosen: list[Item] = []
        self.tokens = 0
        """Estimated number of tokens in all tool results that may be replaced by a short text."""
        self._protected: deque[tuple[Item, bool]] = deque()
        """Newest tool results, which are protected from masking for now; True marks a result that is never masked."""
        self._held_tokens = 0
        """Estimated number of tokens in the newest tool results, which are protected from masking for now."""
        self._count = 0
        """Number of tool results that were read so far."""
        self._young: deque[tuple[Item, bool]] = deque()
        """Tool results that are protected because their turn or their step is among the newest."""
        self._turns = deque([0], maxlen=self._mask.keep_turns)
        """Number of tool results before each of the newest turns, if a number of turns is protected."""
        self._steps = deque([0], maxlen=self._mask.keep_steps)
        """Number of tool results before each of the newest steps, if a number of steps is protected."""

    def add(self, item: Item) -> None:
        """Add the next message, and collect the tool results that are now old enough to be masked."""
        message, mask = item.message, self._mask
        if item.item_id in self._stops:
            self._reset()
        if self._tells:
            self._calls.update((call.call_id, f"{call.name} {transcript.find_key_argument(call)}") for call in message.calls)
        if mask.exempt_requested and message.role != "tool":
            self._note_requests(item)
        if message.role == "tool":
            result = item, mask.is_exempt(item, self._calls) or self._is_requested(message)
            if mask.keep_turns or mask.keep_steps:
                self._count += 1
                self._young.append(result)
            else:
                self._add_results((result,))
        elif message.role == "user" and mask.keep_turns:
            self._turns.append(self._count)
            self._release_old()
        elif message.role == "assistant" and mask.keep_steps:
            self._steps.append(self._count)
            self._release_old()

    def _note_requests(self, item: Item) -> None:
        """Remember what the user wrote, and the calls of an answer whose target the user has named."""
        if item.message.role == "user" and item.item_id not in self._summaries:
            self._asked = item.message.text
        self._requested_ids.update(call.call_id for call in item.message.calls if is_named(call, self._asked))

    def _is_requested(self, message: Message) -> bool:
        return bool(self._requested_ids) and any(result.call_id in self._requested_ids for result in message.results)

    def _release_old(self) -> None:
        """End the protection of results whose turn and step are no longer among the newest."""
        starts = [*([self._turns[0]] if self._turns else []), *([self._steps[0]] if self._steps else [])]
        first_protected = min(starts)
        released = [self._young.popleft() for _ in range(len(self._young) - (self._count - first_protected))]
        self._add_results(released)

    def _add_results(self, results: Iterable[tuple[Item, bool]]) -> None:
        """Add new tool results, and release those that are no longer among the newest."""
        mask, protected = self._mask, self._protected
        for item, exempt in results:
            if exempt and not mask.exempt_count:
                continue
            protected.append((item, exempt))
            self._held_tokens += item.tokens
            while len(protected) > mask.keep_results and (self._held_tokens > mask.keep_tokens or not mask.keep_tokens):
                old, stays = protected.popleft()
                self._held_tokens -= old.tokens
                if not stays:
                    self.chosen.append(old)
                    self.tokens += old.tokens


def with_output(result: ToolResult, output: str) -> ToolResult:
    """Return a copy of a tool result with another text.

    The copy is written attribute by attribute, because the constructor takes three times as long and a view may have thousands of
    results.
    """
    changed_result = object.__new__(ToolResult)
    _WRITE_CALL_ID(changed_result, result.call_id)
    _WRITE_NAME(changed_result, result.name)
    _WRITE_OUTPUT(changed_result, output)
    _WRITE_STATUS(changed_result, result.status)
    _WRITE_CLIPPED_CHARACTERS(changed_result, result.clipped_characters)
    _WRITE_CLIPPED_BYTES(changed_result, result.clipped_bytes)
    _WRITE_KIND(changed_result, result.kind)
    return changed_result


def replace_results(item: Item, change: Callable[[ToolResult], ToolResult]) -> Replace:
    """Return a replacement for a tool message, in which `change` was applied to every tool result.

    Images go with the text of the result that they belong to.
    """
    parts: list[Part] = []
    is_changed = False
    for part in item.message.parts:
        if isinstance(part, ToolResult):
            changed = change(part)
            is_changed = changed is not part
            parts.append(changed)
        elif not (is_changed and isinstance(part, Image)):
            parts.append(part)
    return Replace(item=item.item_id, message=Message(role=item.message.role, parts=tuple(parts)))


def empty_arguments(item: Item, call_ids: set[str]) -> Replace:
    """Return a replacement for a message, in which the tool calls with the given ids have no arguments."""
    parts = tuple(
        replace(part, arguments_json="{}") if isinstance(part, ToolCall) and part.call_id in call_ids else part
        for part in item.message.parts
    )
    return Replace(item=item.item_id, message=Message(role=item.message.role, parts=parts))


def apply_plan(view: View, plan: CompactionPlan, counter: Counter) -> View:
    """Return the messages in view after a plan's evictions and replacements, without its unwritten summaries."""
    patched = patch_items(view.items, Patch(forget=plan.forget, replace=plan.replace), 0, counter)
    return replace(
        view,
        items=patched.items,
        tokens=Estimated(view.tokens + patched.added_tokens),
        events=view.events + patched.added_events,
        tally_cache=view.tally_cache.branch(patched.start),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """Trigger that makes the policy act when replacing old tool results by short texts would save enough tokens."""

    mask: Mask = field(repr=False)
    """Reducer that replaces old tool results by short texts. The policy acts if this reducer would save enough tokens."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason if masking old tool results would save enough tokens; None otherwise."""
        if not self.mask.is_worthwhile(view):
            return None
        least, protected = self.mask.least_saved_tokens, self.mask.keep_tokens
        return f"more than {least:,} tokens of tool results beyond the newest {protected:,}"

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return the minimum number of tokens in the conversation with which masking tool results saves enough.

        This is the number of tokens in protected results, plus the required savings, plus 1.
        """
        return DueAmounts(smallest_view=Amount(self.mask.keep_tokens + self.mask.least_saved_tokens + 1, "tokens"))


def is_from_user(view: View, item: Item) -> bool:
    """Return whether the user wrote a message of the view.

    A summary with the role of the user does not count.
    """
    return item.message.role == "user" and item.item_id not in view.summaries


def find_user_messages(view: View, start: int = 1, end: int | None = None) -> list[int]:
    """Return the indexes of the user's messages from one index of the view to another; summaries are left out."""
    items = enumerate(view.items[start:end], start)
    # The condition is that of `is_from_user`; a call for each message of a long view would take most of the time of a plan.
    return [index for index, item in items if item.message.role == "user" and item.item_id not in view.summaries]


def find_first_new(view: View) -> int:
    """Return the index of the first message that was logged after the newest summary; 1 if there is no summary in view."""
    if not view.summaries:
        return 1
    newest = max(view.summaries)
    return next((index for index, item in enumerate(view.items) if index and item.item_id > newest), len(view.items))


def find_last_user_text(view: View) -> str:
    """Return the text of the newest user message in view, or of the first request if there is none."""
    texts = (item.message.text for item in reversed(view.items[1:]) if is_from_user(view, item))
    return next(texts, view.task.text if view.task else "")


def find_answered_end(view: View) -> int:
    """Return the index of the first user message without an answer; the number of messages if all are answered."""
    end = len(view.items)
    while end > 1 and is_from_user(view, view.items[end - 1]):
        end -= 1
    return end


def make_split_slots(
    view: View, before: Sequence[Item], within: Sequence[Item], history: Slot, beginning: Slot, alone: Slot
) -> tuple[Slot, ...]:
    """Return the summaries to request (slots) for the messages before a cut, which may split a turn.

    If the cut splits a turn, one summary covers the messages before the turn, and another covers the beginning of the turn.

    Args:
        view: View that the messages belong to.
        before: Messages before the turn, including former summaries.
        within: Messages at the beginning of the turn, before the cut; empty if the cut does not split a turn.
        history: Summary of the messages before the turn; also used if only former summaries precede the turn.
        beginning: Summary of the beginning of the turn if other messages precede the turn.
        alone: Summary of the beginning of the turn if nothing precedes the turn.
    """
    if not within:
        chosen = [(history, before)]
    elif any(item.item_id not in view.summaries for item in before):
        chosen = [(history, before), (replace(beginning, continues=True), within)]
    else:
        chosen = [(history if before else alone, (*before, *within))]
    return tuple(replace(slot, stands_for=tuple(item.item_id for item in items)) for slot, items in chosen)


def group_results(items: Sequence[Item]) -> list[list[Item]]:
    """Group neighbouring messages with tool results; every other message is a group of its own.

    Some agents whose policies are reproduced here keep neighbouring tool results in one message.
    """
    groups: list[list[Item]] = []
    for item in items:
        if item.message.role == "tool" and groups and groups[-1][-1].message.role == "tool":
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


class Block(NamedTuple):
    """A message with the results of its tool calls; all of them must be retained or evicted together."""

    items: tuple[Item, ...]
    """Message, followed by the messages with the results of its tool calls."""

    @property
    def tokens(self) -> int:
        """Estimated number of tokens in the message and in the results of its tool calls."""
        return sum([item.tokens for item in self.items])


def group_blocks(items: Sequence[Item]) -> list[Block]:
    """Group messages into blocks that must stay together, such as a call with its results."""
    starts = [index for index, item in enumerate(items) if item.message.role != "tool" or index == 0]
    return [Block(tuple(items[start:end])) for start, end in pairwise((*starts, len(items)))]
