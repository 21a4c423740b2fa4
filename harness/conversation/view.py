"""The view of a session, computed from the log event by event.

Only the function `fold` applies an event to a view, so a live session, a replay of its log and a preview agree; `fold_entries`
gives the same result for several events. A view is immutable: `fold` returns a new view, which shares messages with the previous
one. A view contains everything that compaction policies need, such as the token count of each message and the number of
compactions, so that a policy keeps no state.

Each rule that providers enforce is a class, which defines where a conversation may be cut and what makes it invalid.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, TypeAlias, assert_never

from harness.conversation.events import (
    CallStarted,
    Compaction,
    ContextUsage,
    Entry,
    ItemId,
    MessageAdded,
    MessageQueued,
    MessageUnqueued,
    ModelCallFailed,
    Patch,
    RolledBack,
    SessionEnded,
    SessionForked,
    SessionResumed,
    SessionStarted,
    StepFinished,
    StepTimed,
    SubAgentEnded,
    TurnEnded,
    WorkspaceSaved,
)
from harness.conversation.growing_sequence import GrowingSequence, extend_sequence, to_growing_sequence
from harness.conversation.messages import Message, ToolCall, ToolResult, user
from harness.conversation.tally_cache import TallyCache
from harness.conversation.tokens import Calibration, Counter, Estimated, QuarterOfCharacters, Usage
from harness.errors import UsageError


class Item(NamedTuple):
    """Message in a view, with its id and its estimated number of tokens."""

    item_id: ItemId
    """Id of the message in the session, which never changes."""
    message: Message
    """Message as the model sees it, after any replacement by a compaction."""
    tokens: Estimated
    """Estimated number of tokens in the message."""
    original_tokens: Estimated | None
    """Estimated number of tokens in the message as it was logged or inserted; None if it was not replaced since."""

    @property
    def saved_tokens(self) -> int:
        """Estimated number of tokens saved by replacing the message; 0 if it was not replaced."""
        return 0 if self.original_tokens is None else self.original_tokens - self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCompaction:
    """Compaction whose summary was requested in the background, and which has not been applied yet."""

    event: Compaction
    """Logged start of the compaction, with the changes to apply."""
    ready_seconds: float
    """Time at which the summary is finished, by the clock of the session; infinite if the log gives no times."""

    @property
    def step(self) -> int:
        """Number of the step before which the summary was started."""
        return self.event.step


NO_REPORTS = Calibration()
"""Calibration of a session without a report of the provider, in which token counts are estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Messages that the model sees next, and a record of the compactions so far."""

    items: Sequence[Item] = ()
    """Messages in view, never changed, with their ids and estimated tokens, in the order in which they are sent."""
    tokens: Estimated = Estimated(0)
    """Estimated number of tokens in all messages in view, the system message included."""
    events: int = 0
    """Number of messages in view; a message with several tool calls or results counts once for each of them."""
    rounds: int = 0
    """Number of compactions applied in the session so far."""
    edits: int = 0
    """Number of changes of the view other than appending messages; each of them makes the provider's prompt cache invalid."""
    steps: int = 0
    """Number of steps finished in the session so far."""
    steps_since_compaction: int = 0
    """Number of steps since the last applied compaction, or since the start of the session."""
    fruitless_attempts: int = 0
    """Number of compaction attempts without effect since the last successful one.

    They failed, would have saved nothing, or were applied and marked as fruitless.
    """
    fruitless_tokens: int = 0
    """Estimated number of tokens in view after the last compaction attempt without effect."""
    task: Message | None = None
    """First message of the user in the log, even if that message is no longer in view."""
    summaries: tuple[ItemId, ...] = ()
    """Ids of the messages in view that are summaries written by compactions."""
    attended: bool = False
    """Whether a person attends the session; false in a trial."""
    set_aside: tuple[Item, ...] = ()
    """Messages that are no longer in view and that a later summary will cover, in the order of the conversation."""
    saved_tokens: int = 0
    """Estimated number of tokens saved by replacing messages in view, compared with their logged originals."""
    request_tokens: int = 0
    """Estimated number of tokens in the messages that the model's newest answer replied to."""
    calibration: Calibration = NO_REPORTS
    """Relation between estimated token counts and the provider's reports so far; a compaction does not change it."""
    pending: tuple[Item, ...] = ()
    """Messages of the user that no finished request has contained yet, as they were logged, in order."""
    now_seconds: float | None = None
    """Time right before the next step in seconds, by the clock of the session; None if the log gives no times.

    The time that a summary takes is added when a compaction is logged.
    """
    answered_seconds: float | None = None
    """Time at which the last model call ended, by the same clock; None before the first one and if the log gives no times."""
    work_tokens: int = 0
    """Number of prompt tokens of all finished steps since the last applied compaction, estimated where none were reported."""
    staged: StagedCompaction | None = None
    """Compaction that was started in the background; any applied compaction discards it."""
    tally_cache: TallyCache = field(default_factory=TallyCache, compare=False, repr=False)
    """Cache of running totals, such as token counts; shared with the later views of a session until a compaction changes one.

    The cache of the changed view continues the totals at the first changed message.
    """

    @property
    def messages(self) -> tuple[Message, ...]:
        """Messages that the model sees next, without their ids and token counts."""
        return tuple([item.message for item in self.items])

    @property
    def idle_seconds(self) -> float | None:
        """Seconds since the last model call ended; None if the log gives no times."""
        if self.now_seconds is None or self.answered_seconds is None:
            return None
        return max(0.0, self.now_seconds - self.answered_seconds)


def count_events(message: Message) -> int:
    """Return how often a message counts in `View.events`.

    It counts once for each tool call or tool result in it, and at least once.
    """
    if len(message.parts) <= 1:
        return 1
    kinds = [type(part) for part in message.parts]
    return max(1, kinds.count(ToolCall), kinds.count(ToolResult))


def fold(view: View, entry: Entry, counter: Counter) -> View:
    """Return the view after one more event of the log.

    Raises:
        UsageError: The event is a rollback, which cannot be applied to a view; apply what `drop_rolled_back` returns instead.
    """
    event = entry.event
    match event:
        case MessageAdded():
            item = Item(ItemId(entry.seq), event.message, counter.count(event.message), None)
            task = event.message if view.task is None and event.message.role == "user" else view.task
            tokens, events = Estimated(view.tokens + item.tokens), view.events + count_events(event.message)
            items = extend_sequence(view.items, (item,))
            asked = view.tokens if event.message.role == "assistant" else view.request_tokens
            pending = (*view.pending, item) if event.message.role == "user" else view.pending
            since, calibration = view.steps_since_compaction, view.calibration
            clock, work = (view.now_seconds, view.answered_seconds), view.work_tokens
            return _copy_view(view, items, tokens, events, task, view.steps, since, asked, calibration, pending, clock, work)
        case StepFinished():
            since, asked = view.steps_since_compaction + 1, view.request_tokens
            calibration = _add_report(view.calibration, asked, event)
            clock, work = (
                _end_call(view.now_seconds, view.answered_seconds, event),
                view.work_tokens + _count_prompt(asked, event),
            )
            counts = view.tokens, view.events, view.task, event.step, since, asked
            return _copy_view(view, view.items, *counts, calibration, (), clock, work)
        case Compaction():
            return _fold_compaction(view, entry.seq, event, counter)
        case StepTimed():
            return replace(view, now_seconds=event.seconds)
        case RolledBack():
            raise UsageError(
                f"event {entry.seq} is a rollback: fold the log as a whole with fold_all, or what `drop_rolled_back` leaves of it"
            )
        case SessionStarted() | SessionResumed():
            return replace(view, attended=event.attended)
        case SessionEnded() | TurnEnded() | SessionForked() | ModelCallFailed():
            return view
        case MessageQueued() | MessageUnqueued() | CallStarted() | SubAgentEnded() | WorkspaceSaved():
            return view
    assert_never(event)


def fold_entries(view: View, entries: Iterable[Entry], counter: Counter, change_counter: Counter | None = None) -> View:
    """Return the view after several more events of the log.

    The result equals that of `fold` for one event after the other, and takes less time: messages and steps between two events of
    other kinds are added together.

    Args:
        view: View before the events.
        entries: Entries of the log with the events.
        counter: Token counter that estimates the length of messages.
        change_counter: Token counter for the messages of compactions, with the same results. The counter with which the
            compactions were made saves the time to count them again. None uses `counter`.

    Raises:
        UsageError: One of the events is a rollback; see `fold`.
    """
    items, is_behind = list[Item](), False  # whether messages or steps were added that `view` does not have yet
    tokens, events, task, steps, since = view.tokens, view.events, view.task, view.steps, view.steps_since_compaction
    asked, calibration, pending = view.request_tokens, view.calibration, view.pending
    clock, work = (view.now_seconds, view.answered_seconds), view.work_tokens
    for entry in entries:
        event = entry.event
        match event:
            case MessageAdded():
                message, is_behind = event.message, True
                item = Item(ItemId(entry.seq), message, counter.count(message), None)
                items.append(item)
                if message.role == "assistant":
                    asked = tokens
                tokens, events = Estimated(tokens + item.tokens), events + count_events(message)
                if message.role == "user":
                    task, pending = task or message, (*pending, item)
            case StepFinished():
                steps, since, pending, is_behind = event.step, since + 1, (), True
                calibration = _add_report(calibration, asked, event)
                clock, work = _end_call(*clock, event), work + _count_prompt(asked, event)
            case StepTimed():
                clock, is_behind = (event.seconds, clock[1]), True
            case WorkspaceSaved() | CallStarted():  # nothing that the model sees, but frequent
                pass
            case _:
                if is_behind:
                    grown_items = extend_sequence(view.items, items)
                    counts = tokens, events, task, steps, since, asked
                    view = _copy_view(view, grown_items, *counts, calibration, pending, clock, work)
                view, items, is_behind = fold(view, entry, change_counter or counter), [], False
                tokens, events, task, steps, since = view.tokens, view.events, view.task, view.steps, view.steps_since_compaction
                pending, clock, work = view.pending, (view.now_seconds, view.answered_seconds), view.work_tokens
    if not is_behind:
        return view
    counts = tokens, events, task, steps, since, asked
    return _copy_view(view, extend_sequence(view.items, items), *counts, calibration, pending, clock, work)


def _end_call(now: float | None, answered: float | None, step: StepFinished) -> tuple[float | None, float | None]:
    """Return the time before the next step, and the time at which the step's model call ended, as far as times are known."""
    return (now, answered) if now is None else (now, now + step.model_seconds)


def _count_prompt(request_tokens: int, step: StepFinished) -> int:
    """Return the number of tokens in the prompt of a step by the provider's count; estimated without a possible report."""
    if step.impossible_usage or not step.usage.is_reported:
        return request_tokens
    return step.usage.prompt_tokens


def _add_report(calibration: Calibration, request_tokens: int, step: StepFinished) -> Calibration:
    """Return the calibration with the provider's count of the step's prompt, unless it is missing or impossible."""
    if step.impossible_usage or not step.usage.is_reported:
        return calibration
    return calibration.add_report(request_tokens, step.usage.prompt_tokens)


def _copy_view(
    view: View,
    items: Sequence[Item],
    tokens: Estimated,
    events: int,
    task: Message | None,
    steps: int,
    since_compaction: int,
    request_tokens: int,
    calibration: Calibration,
    pending: tuple[Item, ...],
    clock: tuple[float | None, float | None],
    work_tokens: int,
) -> View:
    # This runs at every step, and is faster than `dataclasses.replace`.
    return View(
        items=items,
        tokens=tokens,
        events=events,
        rounds=view.rounds,
        edits=view.edits,
        steps=steps,
        steps_since_compaction=since_compaction,
        fruitless_attempts=view.fruitless_attempts,
        fruitless_tokens=view.fruitless_tokens,
        task=task,
        summaries=view.summaries,
        attended=view.attended,
        set_aside=view.set_aside,
        saved_tokens=view.saved_tokens,
        request_tokens=request_tokens,
        calibration=calibration,
        pending=pending,
        now_seconds=clock[0],
        answered_seconds=clock[1],
        work_tokens=work_tokens,
        staged=view.staged,
        tally_cache=view.tally_cache,
    )


def drop_rolled_back(entries: Iterable[Entry]) -> list[Entry]:
    """Return the log entries that still count, without rollbacks and the entries that the rollbacks undo."""
    remaining: list[Entry] = []
    for entry in entries:
        if not isinstance(entry.event, RolledBack):
            remaining.append(entry)
            continue
        while remaining and remaining[-1].seq > entry.event.to_event:
            remaining.pop()
    return remaining


def compute_context_usage(view: View, usage: Usage | None) -> ContextUsage:
    """Return the size of the context in tokens.

    It is the number reported for the last model call, plus an estimate of the messages after that call. If no number was
    reported, all messages are estimated. The computing time does not depend on the length of the view.
    """
    if usage is None or not usage.is_reported:
        return ContextUsage(tokens=view.tokens, usage_tokens=0, trailing_tokens=view.tokens)
    reported, trailing = usage.prompt_tokens + usage.output_tokens, 0
    for item in reversed(view.items):
        if item.message.role == "assistant":
            break
        trailing += item.tokens
    return ContextUsage(tokens=reported + trailing, usage_tokens=reported, trailing_tokens=trailing)


def fold_all(entries: Iterable[Entry], counter: Counter | None = None) -> View:
    """Return the view, given all entries of a session's log.

    Entries that a rollback undid are left out.
    """
    return fold_entries(View(), drop_rolled_back(entries), counter or QuarterOfCharacters())


def _fold_compaction(view: View, seq: int, event: Compaction, counter: Counter) -> View:
    if event.status == "started":
        ready_seconds = math.inf if view.now_seconds is None else view.now_seconds + event.summarizer_seconds
        return replace(view, staged=StagedCompaction(event=event, ready_seconds=ready_seconds))
    waited_seconds = event.summarizer_seconds if event.blocking_seconds is None else event.blocking_seconds
    now_seconds = None if view.now_seconds is None else view.now_seconds + waited_seconds
    if event.status != "applied":
        return replace(
            view,
            fruitless_attempts=view.fruitless_attempts + 1,
            fruitless_tokens=view.tokens,
            now_seconds=now_seconds,
            staged=view.staged if event.started_step is None else None,
        )
    patched = patch_view(view, event.patch, seq, counter)
    tokens = Estimated(view.tokens + patched.added_tokens)
    summaries, pending = view.summaries, view.pending
    if event.patch.insert or summaries or pending:
        added_ids = {item.item_id for item in patched.added}
        gone_ids = {item.item_id for item in patched.removed} - added_ids
        inserted = {ItemId(seq, index) for index, insert in enumerate(event.patch.insert) if insert.stands_for}
        summaries = tuple(sorted((inserted & added_ids) | (set(summaries) - gone_ids)))
        pending = tuple(item for item in pending if item.item_id not in gone_ids)
    return View(  # faster than `dataclasses.replace`, like `_copy_view`
        items=patched.items,
        tokens=tokens,
        events=view.events + patched.added_events,
        rounds=event.round,
        edits=view.edits + 1,
        steps=view.steps,
        steps_since_compaction=0,
        fruitless_attempts=view.fruitless_attempts + 1 if event.fruitless else 0,
        fruitless_tokens=tokens if event.fruitless else 0,
        task=view.task,
        summaries=summaries,
        attended=view.attended,
        set_aside=_collect_set_aside(view, event.patch, patched.removed),
        saved_tokens=view.saved_tokens + patched.added_savings,
        request_tokens=view.request_tokens,
        calibration=view.calibration,
        pending=pending,
        now_seconds=now_seconds,
        answered_seconds=view.answered_seconds,
        work_tokens=0,
        staged=None,
        tally_cache=view.tally_cache.compute_once((patched,), lambda: view.tally_cache.branch(patched.start)),
    )


def _collect_set_aside(view: View, patch: Patch, removed: Sequence[Item]) -> tuple[Item, ...]:
    waiting_ids = set(patch.set_aside)
    return tuple(item for item in (*view.set_aside, *removed) if item.item_id in waiting_ids) if waiting_ids else ()


class PatchedItems(NamedTuple):
    """Messages of a view after the changes of a compaction, and which messages changed."""

    items: GrowingSequence[Item]
    """All messages; those before the first changed one share the memory of the view."""
    start: int
    """Index of the first message that may have changed."""
    removed: list[Item]
    """Messages of the view that were evicted or replaced, as they were before."""
    added: list[Item]
    """Messages that were inserted, and those that were replaced, as they are now."""

    @property
    def added_tokens(self) -> int:
        """Estimated number of tokens by which the changes make the view longer; negative if they make it shorter."""
        return sum([item.tokens for item in self.added]) - sum([item.tokens for item in self.removed])

    @property
    def added_events(self) -> int:
        """Number of events (messages, tool calls and results) by which the changes make the view longer, or negative."""
        return sum([count_events(item.message) for item in self.added]) - sum(
            [count_events(item.message) for item in self.removed]
        )

    @property
    def added_savings(self) -> int:
        """Estimated number of tokens by which the changes increase `View.saved_tokens`, or negative."""
        return sum([item.saved_tokens for item in self.added]) - sum([item.saved_tokens for item in self.removed])


def apply_patch(items: Sequence[Item], patch: Patch, seq: int, counter: Counter) -> tuple[Item, ...]:
    """Return the messages of a view after the changes of a compaction, as `patch_items` does."""
    return tuple(patch_items(items, patch, seq, counter).items)


def patch_items(items: Sequence[Item], patch: Patch, seq: int, counter: Counter) -> PatchedItems:
    """Return the messages of a view after the changes of a compaction, and which messages changed.

    Only the messages from the first changed one on are read. Messages inserted at the same place keep their order.

    Args:
        items: Messages in view before the changes.
        patch: Messages to evict, to replace and to insert.
        seq: Number of the event with the changes, which becomes part of the ids of inserted messages.
        counter: Token counter for new messages.
    """
    changes: dict[ItemId, Message | None] = {change.item: change.message for change in patch.replace}
    changes.update(dict.fromkeys(patch.forget))
    behind: dict[ItemId, list[Item]] = {}
    for index, insert in enumerate(patch.insert):
        item = Item(ItemId(seq, index), insert.message, counter.count(insert.message), None)
        behind.setdefault(insert.after, []).append(item)
    start = find_first_index(items, changes.keys() | behind.keys())
    end, removed, added = list[Item](), list[Item](), list[Item]()
    for item in items[start:]:
        item_id = item.item_id
        if item_id not in changes:
            end.append(item)
        else:
            removed.append(item)
            if (message := changes[item_id]) is not None:
                original = item.tokens if item.original_tokens is None else item.original_tokens
                added.append(Item(item_id, message, counter.count(message), original))
                end.append(added[-1])
        if behind and item_id in behind:
            added += behind[item_id]
            end += behind[item_id]
    return PatchedItems(to_growing_sequence(items).take(start).extend(end), start, removed, added)


def patch_view(view: View, patch: Patch, seq: int, counter: Counter) -> PatchedItems:
    """Return the messages of a view after the changes of a compaction, as `patch_items` does.

    They are computed once for a patch that inserts nothing, since `seq` is then part of no id.
    """
    if patch.insert:
        return patch_items(view.items, patch, seq, counter)
    return view.tally_cache.compute_once((view.items, patch, counter), lambda: patch_items(view.items, patch, seq, counter))


def find_first_index(items: Sequence[Item], item_ids: Collection[ItemId]) -> int:
    """Return the index of the first of some messages in a view.

    The search begins at the newest message. It returns the number of messages if no id is given, and 0 if an id is unknown.
    """
    ids = set(item_ids)
    missing_count, index = len(ids), len(items)
    if missing_count:
        for item in reversed(items):
            index -= 1
            if item.item_id in ids:
                missing_count -= 1
                if not missing_count:
                    break
    return index


class ProviderRule(Protocol):
    """Rule for conversations that providers enforce, such as that a system message comes first.

    The methods are pure.
    """

    def can_cut(self, messages: Sequence[Message], index: int) -> bool:
        """Return whether this rule allows evicting all messages before `messages[index]`.

        The system message is never evicted.
        """
        ...

    def find_violation(self, messages: Sequence[Message]) -> str | None:
        """Return a description of the first violation of the rule in a conversation; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class SystemMessageFirst:
    """Rule that a conversation begins with its system message, which is never evicted."""

    def can_cut(self, messages: Sequence[Message], index: int) -> bool:
        """Return whether a cut before `messages[index]` leaves the system message in place."""
        return index >= 1

    def find_violation(self, messages: Sequence[Message]) -> str | None:
        """Return a description of the first message if it is no system message; None if the rule is obeyed."""
        if messages and messages[0].role != "system":
            return f"it begins with a {messages[0].role} message instead of the system message"
        return None


@dataclass(frozen=True, slots=True)
class CompletePairs:
    """Rule that every tool result follows its call, and that every call has a result.

    Calls in the newest message need no result.
    """

    def can_cut(self, messages: Sequence[Message], index: int) -> bool:
        """Return whether a cut before `messages[index]` separates no tool result from its call."""
        return index >= len(messages) or messages[index].role != "tool"

    def find_violation(self, messages: Sequence[Message]) -> str | None:
        """Return a description of the first tool call or result without its counterpart beside it, else None.

        Messages are counted from 1.
        """
        waiting: dict[str, ToolCall] = {}
        for number, message in enumerate(messages, 1):
            match _find_unpaired(waiting, message):
                case ToolResult() as result:
                    place = f"message {number} of {len(messages)}"
                    return f"{place} answers call {result.call_id!r} ({result.name}), which is not right before it"
                case ToolCall() as call:
                    return f"call {call.call_id!r} ({call.name}) has no result before message {number} of {len(messages)}"
        return None


def _find_unpaired(waiting: dict[str, ToolCall], message: Message) -> ToolCall | ToolResult | None:
    """Return a tool call or result that the next message of a conversation shows to have no counterpart beside it.

    Args:
        waiting: Tool calls without a result so far, by call id; updated in place.
        message: Next message.
    """
    if message.role == "tool":
        for part in message.parts:
            if isinstance(part, ToolResult) and waiting.pop(part.call_id, None) is None:
                return part
        return None
    if waiting:
        return next(iter(waiting.values()))
    for part in message.parts:
        if isinstance(part, ToolCall):
            waiting[part.call_id] = part
    return None


PROVIDER_RULES: tuple[ProviderRule, ...] = (SystemMessageFirst(), CompletePairs())
"""Rules that the conversations sent to any provider must obey; a conversation may be cut only where all rules allow it."""


def can_cut(messages: Sequence[Message], index: int) -> bool:
    """Return whether all provider rules allow evicting all messages before `messages[index]`.

    The system message is never evicted.
    """
    return all(rule.can_cut(messages, index) for rule in PROVIDER_RULES)


def find_violation(messages: Sequence[Message]) -> str | None:
    """Return why a provider would refuse a conversation; None if the provider would accept it."""
    return next((found for rule in PROVIDER_RULES if (found := rule.find_violation(messages))), None)


class _LegalBeginning:
    """Check whether the first messages of a view obey the provider rules, which reads each message only once."""

    __slots__ = ("_is_empty", "_waiting", "is_broken")

    def __init__(self) -> None:
        self._waiting: dict[str, ToolCall] = {}
        self._is_empty = True
        self.is_broken = False

    def add(self, item: Item) -> None:
        if self.is_broken:
            return
        breaks_order = self._is_empty and SystemMessageFirst().find_violation((item.message,)) is not None
        self.is_broken = breaks_order or _find_unpaired(self._waiting, item.message) is not None
        self._is_empty = False


def find_violation_after(view: View, patched: PatchedItems) -> str | None:
    """Return why a provider would refuse the messages of a view after a compaction; None if it would accept them.

    Only the messages from the first changed one on are read, with the answer before them.
    """
    unchanged = patched.items.take(patched.start)
    if unchanged and not view.tally_cache.read(unchanged, _LegalBeginning, _LegalBeginning, lambda tally: tally.is_broken):
        start = patched.start - 1
        while start and patched.items[start].message.role == "tool":
            start -= 1
        waiting: dict[str, ToolCall] = {}
        if not any(_find_unpaired(waiting, item.message) for item in patched.items[start:]):
            return None
    return find_violation([item.message for item in patched.items])


OPENING_MESSAGE = user("(The beginning of this conversation was compacted. Go on from the summary below.)")
"""User message inserted behind the system message if the conversation would otherwise begin with an assistant message."""


def find_opening_index(messages: Iterable[Message]) -> int | None:
    """Return the index at which `OPENING_MESSAGE` is inserted into a request; None if the request needs no such message.

    Several providers refuse a conversation that begins with an assistant message, such as a summary.
    """
    first = next(((index, message) for index, message in enumerate(messages) if message.role != "system"), None)
    return None if first is None or first[1].role == "user" else first[0]


def render_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages in the form in which they are sent to the model.

    `OPENING_MESSAGE` is inserted where it is needed. The log is not changed.
    """
    index = find_opening_index(messages)
    return messages if index is None else (*messages[:index], OPENING_MESSAGE, *messages[index:])


ToolState: TypeAlias = Literal["pending", "running", "completed", "error", "compacted"]


def compute_tool_states(entries: Iterable[Entry]) -> Mapping[str, ToolState]:
    """Return the state of every tool call by call id, e.g. `running`.

    The state is `compacted` if the result of the call was evicted or replaced. Of several calls with the same id, the newest
    counts; after a compaction, an id may be used again.
    """
    states: dict[str, ToolState] = {}
    calls_of: dict[ItemId, list[str]] = {}
    newest_results: dict[str, ItemId] = {}
    for seq, event in drop_rolled_back(entries):
        if isinstance(event, MessageAdded):
            for call in event.message.calls:
                states[call.call_id] = "pending"
                newest_results.pop(call.call_id, None)
            for result in event.message.results:
                states[result.call_id] = "completed" if result.status == "completed" else "error"
                calls_of.setdefault(ItemId(seq), []).append(result.call_id)
                newest_results[result.call_id] = ItemId(seq)
        elif isinstance(event, CallStarted):
            states[event.call_id] = "running"
        elif isinstance(event, Compaction) and event.status == "applied":
            for item in event.patch.changed_ids:
                for call_id in calls_of.get(item, ()):
                    if newest_results.get(call_id) == item and states[call_id] == "completed":
                        states[call_id] = "compacted"
    return states
