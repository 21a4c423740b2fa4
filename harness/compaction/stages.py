"""What is done with a view when something is due: forget, mask, summarize. Small values, from which presets are made.

A reducer proposes; it neither asks a model nor changes anything. Each keeps the system message and leaves calls with their
results; the guards of the compactor check it again for everybody.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import translate
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from harness import transcript
from harness.compaction.cuts import SNAP_BACK, LastMessages, Snap, Tail, count_messages_for_events
from harness.compaction.triggers import Amount, DueAmounts
from harness.events import ItemId, Patch, Replace
from harness.messages import CompactionMarker, Message, ToolCall, ToolResult
from harness.plan import PLAIN_PROCEDURE, Excerpt, Plan, Slot, SummaryFormat, SummaryProcedure
from harness.tally_cache import TallyCache
from harness.tokens import Budget, Counter, Estimated, QuarterOfCharacters, Usage
from harness.view import Item, View, apply_patch, count_events

DEFAULT_COUNTER = QuarterOfCharacters()
Answer = TypeVar("Answer")


_WRITE_CALL_ID, _WRITE_NAME, _WRITE_OUTPUT, _WRITE_STATUS, _WRITE_CLIPPED, _WRITE_KIND = (
    getattr(ToolResult, field.name).__set__ for field in fields(ToolResult)
)


class Reducer(Protocol):
    """What is done when something is due. Pure."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """The proposal; an empty plan, with the reason why, when there is nothing to do."""
        ...


class Span(Protocol):
    """Which items of a view go. Pure."""

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """They in view order, one stretch behind the system message, pairs whole; none = there is nothing to do."""
        ...

    def state_kept(self, budget: Budget) -> Amount | None:
        """State the minimum that stays; None = no number can be stated."""
        ...


@runtime_checkable
class Retaining(Protocol):
    """A stage that states how much of a view it retains: every tail and span, and a reducer that has neither."""

    def state_kept(self, budget: Budget) -> Amount | None:
        """State the minimum that stays; None = no number can be stated."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle:
    """What lies between the kept head and the kept tail."""

    tail: Tail
    head_messages: int = 1
    """Messages at the beginning that stay, the system message among them."""
    head_events: int = 0
    """Events at the beginning that stay too; a message of several is kept whole. See `harness.view.events_of`."""
    snap: Snap = SNAP_BACK

    def _count_head_messages(self, view: View) -> int:
        return max(1, self.head_messages, count_messages_for_events(view.items, self.head_events))

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """Those between, pairs whole at both ends: a head that would end in a call takes its results along."""
        start = Snap(direction="forward").find_legal_index(view.items, self._count_head_messages(view))
        return view.items[start : self.snap.find_legal_index(view.items, self.tail.find_start(view.items, budget))]

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `Span`."""
        kept = self.tail.state_kept(budget)
        return kept._replace(size=kept.size + max(1, self.head_messages)) if kept and kept.unit == "messages" else kept


EVERYTHING = Middle(tail=LastMessages(count=0))
"""All messages but the system message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """The middle goes."""

    middle: Span
    keep_summaries: bool = False
    """Whether summaries in the middle stay."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `Reducer`."""
        stays = set(view.summaries) if self.keep_summaries else frozenset[ItemId]()
        gone = tuple(item.item_id for item in self.middle.select_items(view, budget) if item.item_id not in stays)
        return Plan(reason=reason if gone else f"{reason}, but nothing lies before the kept messages", forget=gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    """The middle becomes a summary."""

    middle: Span
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""
    max_input_tokens: int | None = None
    """See `harness.plan.Slot`."""
    role: Literal["system", "user", "assistant"] = "user"
    former: Literal["apart", "among", "stays", "dropped"] = "apart"
    """A former summary is given to the summarizer apart, as one message among the others, not at all while it stays in
    view, or not at all and is lost."""
    when_failed: Literal["skip", "forget"] = "skip"
    """Whether the middle stays, or goes without a summary; former summaries stay then."""
    least_share: float = 0.0
    """Share of the view's messages that must go for it to be worth a call."""
    in_events: bool = False
    """Whether that share is one of events, see `harness.view.events_of`."""
    only_if_text: bool = False
    """Whether nobody is asked where what goes is tool results and bare calls alone; it goes without a summary then."""
    before: tuple[Message, ...] = ()
    """See `harness.plan.Slot`; a marker of a compaction gets the number of the round."""
    behind: tuple[Message, ...] = ()
    """See `harness.plan.Slot`."""
    excerpt: Excerpt | None = None
    """See `harness.plan.Slot`."""
    text_if_empty: str = ""
    """See `harness.plan.Slot`."""
    procedure: SummaryProcedure = PLAIN_PROCEDURE
    """See `harness.plan.Slot`."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `Reducer`."""
        middle = self.middle.select_items(view, budget)
        former = set(view.summaries)
        stays = former if self.former == "stays" else frozenset[ItemId]()
        going = [item for item in middle if item.item_id not in stays]
        forgotten_ids = tuple(item.item_id for item in going)
        if not forgotten_ids:
            return Plan(reason=f"{reason}, but nothing lies before the kept messages")
        if self._is_too_few(going, view):
            count = f"{len(forgotten_ids)} of {len(view.items)} messages"
            return Plan(reason=f"{reason}, but {count} are too few to be worth a summary")
        news = tuple(item for item in forgotten_ids if item not in former)
        summarized_ids = news if self.former == "dropped" else forgotten_ids
        if not summarized_ids or (self.only_if_text and not any(item.message.text.strip() for item in middle)):
            return Plan(reason=reason, forget=forgotten_ids)
        slot = Slot(
            after=_find_anchor(view.items, forgotten_ids[0], stays),
            role=self.role,
            stands_for=summarized_ids,
            format=self.format,
            max_tokens=self.max_tokens,
            max_input_tokens=self.max_input_tokens,
            former="among" if self.former == "among" else "apart",
            before=tuple(_number_markers(one, view.rounds + 1) for one in self.before),
            behind=self.behind,
            excerpt=self.excerpt,
            text_if_empty=self.text_if_empty,
            procedure=self.procedure,
        )
        has_fallback = self.when_failed == "forget" and news
        fallback = Plan(reason=f"{reason}; without a summary", forget=news) if has_fallback else None
        return Plan(reason=reason, forget=forgotten_ids, slots=(slot,), fallback=fallback)

    def _is_too_few(self, going: Sequence[Item], view: View) -> bool:
        if self.least_share == 0 or not self.in_events:
            return len(going) < self.least_share * len(view.items)
        return sum(count_events(item.message) for item in going) < self.least_share * view.events


def _number_markers(message: Message, round_number: int) -> Message:
    parts = (replace(part, round=round_number) if isinstance(part, CompactionMarker) else part for part in message.parts)
    return replace(message, parts=tuple(parts))


def _find_anchor(items: Sequence[Item], first: ItemId, stays: frozenset[ItemId] | set[ItemId]) -> ItemId:
    """The item behind which a summary goes: the one before the first that it stands for, or the last summary that stays."""
    ids = [item.item_id for item in items]
    kept = [item for item in ids if item in stays]
    return max((ids[ids.index(first) - 1], *kept), key=ids.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Old tool results become stubs; the calls stay.

    Newest results are protected by number, by tokens and by turns, each 0 = not at all; what is left is masked if that saves
    enough.
    """

    stub: str = "[Old tool result content cleared]"
    """S3.2."""
    keep_results: int = 0
    keep_tokens: int = 0
    """Newest tool output that is protected, in estimated tokens: masking begins with the result that exceeds it."""
    keep_turns: int = 0
    least_saved_tokens: int = 0
    """Nothing is masked unless more than this would be saved; 0 = whatever is."""
    enough_tokens: int = 0
    """Masking begins with the oldest result and ends when so much is saved, former masking included; 0 = all is masked."""
    exempt_tools: tuple[str, ...] = ()
    """Shell patterns of the calls whose results stay: over the tool's name, or, where a pattern holds a blank, over the name
    and the key argument (`execute_command git *`)."""
    exempt_failures: bool = False
    """Whether results that are errors or tell of an exit code other than 0 stay."""
    least_characters: int = 0
    """Shorter results stay, and count as exempt ones do."""
    completed_only: bool = False
    """Whether results with another status than `completed` stay."""
    exempt_count: bool = False
    """Whether results of exempt tools count among the newest that are kept."""
    clear_arguments: bool = False
    """Whether the arguments of the masked calls are emptied too."""
    stop_at_summary: bool = False
    """Whether what is older than the newest summary is left alone."""
    counter: Counter = DEFAULT_COUNTER
    """By which is measured what is saved."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `Reducer`."""
        chosen, saved = self._read_old_results(view, lambda old: self._select_enough(view, old))
        if not chosen or (self.least_saved_tokens and saved <= self.least_saved_tokens):
            return Plan(reason=f"{reason}, but {saved} tokens of old results are not more than {self.least_saved_tokens}")
        masked = [replace_results(item, self._make_stub) for item in chosen]
        calls = {result.call_id for item in chosen for result in item.message.results} if self.clear_arguments else set()
        asking = view.items if calls else ()
        cleared = [empty_arguments(item, calls) for item in asking if any(call.call_id in calls for call in item.message.calls)]
        return Plan(reason=f"{reason}; {len(chosen)} old results", replace=(*cleared, *masked))

    def is_worthwhile(self, view: View) -> bool:
        """Whether enough would be saved, all old results masked; the cost is that of what came since the last asking."""
        return self._read_old_results(view, lambda old: bool(old.chosen) and self._is_enough(old.tokens))

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `Retaining`."""
        return Amount(self.keep_tokens, "tokens")

    def count_old_tokens(self, view: View) -> int | None:
        """Tokens of all old results, for `is_worthwhile`; None where arguments of calls go too, whose size is not counted."""
        return None if self.clear_arguments else self._read_old_results(view, lambda old: old.tokens)

    def _is_enough(self, tokens: int) -> bool:
        return not self.least_saved_tokens or tokens > self.least_saved_tokens

    def _make_stub(self, result: ToolResult) -> ToolResult:
        return with_output(result, self.stub)

    def _read_old_results(self, view: View, read: "Callable[[_OldResults], Answer]") -> "Answer":
        """What the tally of old results tells; one for each mask, since masks differ in what they protect."""
        return view.tally_cache.read(view.items, self, lambda: _OldResults(self, frozenset(view.summaries)), read)

    def is_exempt(self, item: Item, calls: Mapping[str, str]) -> bool:
        """Whether results stay for what they are or hold; `calls` are name and key argument of the calls by id."""
        for part in item.message.parts:  # a loop, since a view has thousands of results
            if isinstance(part, ToolResult) and self.can_mask(part) and not self._must_stay(part, calls):
                return False
        return True

    def can_mask(self, result: ToolResult) -> bool:
        """Whether a result is long enough, and not masked yet."""
        return len(result.output) >= self.least_characters and result.output != self.stub

    def _must_stay(self, result: ToolResult, calls: Mapping[str, str]) -> bool:
        if self.completed_only and result.status != "completed":
            return True
        if self.exempt_failures and transcript.read_outcome(result) not in {"ok", "exit code 0"}:
            return True
        for pattern, matches in zip(self.exempt_tools, compile_patterns(self.exempt_tools), strict=True):
            if matches(calls.get(result.call_id, result.name) if " " in pattern else result.name):
                return True
        return False

    def _select_enough(self, view: View, old: "_OldResults") -> tuple[Sequence[Item], int]:
        """As many of the oldest as save enough, and their tokens; none where all of them are too few."""
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
def compile_patterns(patterns: tuple[str, ...]) -> tuple[Callable[[str], object], ...]:
    """Return a matcher for each shell pattern."""
    return tuple(re.compile(translate(pattern)).match for pattern in patterns)


class _OldResults:
    """The tally of a mask: the tool messages that it does not protect, oldest first. See `harness.tally_cache`."""

    __slots__ = ("_calls", "_held_tokens", "_mask", "_protected", "_summaries", "_tells", "_turns", "chosen", "tokens")

    def __init__(self, mask: Mask, summaries: frozenset[ItemId]) -> None:
        self._mask = mask
        self._summaries = summaries if mask.stop_at_summary else frozenset()
        self._tells = any(" " in pattern for pattern in mask.exempt_tools)
        self._calls: dict[str, str] = {}
        """Name and key argument of every call by its id, if a pattern looks at them."""
        self._reset()

    def _reset(self) -> None:
        self.chosen: list[Item] = []
        self.tokens = 0
        """Of these."""
        self._protected: deque[tuple[Item, bool]] = deque()
        """Results that are protected by number or by tokens, and whether they are exempt."""
        self._held_tokens = 0
        """Of these."""
        self._turns: deque[list[tuple[Item, bool]]] = deque([[]])
        """Results of the newest turns, which do not even count."""

    def add(self, item: Item) -> None:
        """See `harness.tally_cache.Tally`."""
        message, mask = item.message, self._mask
        if item.item_id in self._summaries:
            self._reset()
        if self._tells:
            self._calls.update((call.call_id, f"{call.name} {transcript.find_key_argument(call)}") for call in message.calls)
        if message.role == "tool":
            result = item, mask.is_exempt(item, self._calls)
            if mask.keep_turns:
                self._turns[-1].append(result)
            else:
                self._add_results((result,))
        elif message.role == "user" and mask.keep_turns:
            self._turns.append([])
            if len(self._turns) > mask.keep_turns:
                self._add_results(self._turns.popleft())

    def _add_results(self, results: Iterable[tuple[Item, bool]]) -> None:
        """Take in results whose turn is over; those that they make too old are chosen."""
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
    """The result with another text; written slot by slot, since its constructor takes thrice as long and a view has thousands."""
    changed_result = object.__new__(ToolResult)
    _WRITE_CALL_ID(changed_result, result.call_id)
    _WRITE_NAME(changed_result, result.name)
    _WRITE_OUTPUT(changed_result, output)
    _WRITE_STATUS(changed_result, result.status)
    _WRITE_CLIPPED(changed_result, result.clipped_characters)
    _WRITE_KIND(changed_result, result.kind)
    return changed_result


def replace_results(item: Item, change: Callable[[ToolResult], ToolResult]) -> Replace:
    """The replacement of a tool message by one whose results are changed."""
    parts = tuple([change(part) if isinstance(part, ToolResult) else part for part in item.message.parts])
    return Replace(item=item.item_id, message=Message(role=item.message.role, parts=parts))


def empty_arguments(item: Item, call_ids: set[str]) -> Replace:
    """The replacement of a message by one in which these calls have no arguments."""
    parts = tuple(
        replace(part, arguments_json="{}") if isinstance(part, ToolCall) and part.call_id in call_ids else part
        for part in item.message.parts
    )
    return Replace(item=item.item_id, message=Message(role=item.message.role, parts=parts))


def apply_plan(view: View, plan: Plan, counter: Counter) -> View:
    """The view as a plan without summaries would leave it: what the next stage looks at."""
    items = apply_patch(view.items, Patch(forget=plan.forget, replace=plan.replace), 0, counter)
    events = sum([1 if len(item.message.parts) == 1 else count_events(item.message) for item in items])
    tokens = Estimated(sum([item.tokens for item in items]))
    return replace(view, items=items, tokens=tokens, events=events, tally_cache=TallyCache())


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """A mask has enough to do. Where it has not, it is as if nothing had been due."""

    mask: Mask = field(repr=False)

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        if not self.mask.is_worthwhile(view):
            return None
        least, protected = self.mask.least_saved_tokens, self.mask.keep_tokens
        return f"more than {least} tokens of tool results beyond the newest {protected}"

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DueAmounts(smallest_view=Amount(self.mask.keep_tokens + self.mask.least_saved_tokens + 1, "tokens"))


def is_from_user(view: View, index: int) -> bool:
    """Whether a message of the view is the user's own, and no summary in that role."""
    item = view.items[index]
    return item.message.role == "user" and item.item_id not in view.summaries


def find_last_user_text(view: View) -> str:
    """What the user said last: the newest in view, else the session's request."""
    indexes = range(len(view.items) - 1, 0, -1)
    texts = (view.items[index].message.text for index in indexes if is_from_user(view, index))
    return next(texts, view.task.text if view.task else "")


def find_answered_end(view: View) -> int:
    """Index behind the last answer or result: what the user has said since is still to be answered."""
    end = len(view.items)
    while end > 1 and is_from_user(view, end - 1):
        end -= 1
    return end


def make_split_slots(
    view: View, before: Sequence[Item], within: Sequence[Item], history: Slot, beginning: Slot, alone: Slot
) -> tuple[Slot, ...]:
    """The slots for a history and for the beginning of a turn that a cut splits.

    Args:
        view: that the items are of.
        before: the history, former summaries among it.
        within: the beginning of the turn; none = no turn is split.
        history: how the history is summed up; also the beginning of a turn before which there is nothing but former summaries.
        beginning: how the beginning of a turn is summed up behind its history.
        alone: how it is summed up where nothing at all lies before it.
    """
    if not within:
        chosen = [(history, before)]
    elif any(item.item_id not in view.summaries for item in before):
        chosen = [(history, before), (replace(beginning, continues=True), within)]
    else:
        chosen = [(history if before else alone, (*before, *within))]
    return tuple(replace(slot, stands_for=tuple(item.item_id for item in items)) for slot, items in chosen)


def group_results(items: Sequence[Item]) -> list[list[Item]]:
    """Items in groups, in order: neighbouring tool messages, which other systems send as one message, are one group."""
    groups: list[list[Item]] = []
    for item in items:
        if item.message.role == "tool" and groups and groups[-1][-1].message.role == "tool":
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


class Block(NamedTuple):
    """Items that only make sense together."""

    items: tuple[Item, ...]

    @property
    def tokens(self) -> int:
        """Of all its items."""
        return sum([item.tokens for item in self.items])


def group_blocks(items: Sequence[Item]) -> list[Block]:
    """Items in blocks, in order: tool messages stay with the message before them."""
    starts = [index for index, item in enumerate(items) if item.message.role != "tool" or index == 0]
    return [Block(tuple(items[start:end])) for start, end in pairwise((*starts, len(items)))]
