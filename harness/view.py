"""The view: what the model sees next, folded from the log event by event.

`fold` is the only place where an event changes what is seen, so a live session, a replay of its log and a preview agree.
A view is a value: folding gives a new one and costs a copy of references, whatever the messages hold. Token counts are
kept per item and summed as items come and go. What a policy must remember (rounds, no-ops, the first request) is part of
the view, so that planning stays pure.

Provider rules are named classes: each says where a conversation may be cut and what is wrong with one that breaks it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, TypeAlias, assert_never

from harness.errors import UsageError
from harness.events import (
    Compaction,
    ContextUsage,
    Entry,
    ItemId,
    MessageAdded,
    MessageQueued,
    MessageUnqueued,
    Patch,
    RolledBack,
    SessionEnded,
    SessionForked,
    SessionResumed,
    SessionStarted,
    StepFinished,
    SubAgentEnded,
    TurnEnded,
    WorkspaceSaved,
)
from harness.messages import Message, ToolCall, ToolResult, user
from harness.tally_cache import TallyCache
from harness.tokens import Counter, Estimated, QuarterOfCharacters, Usage


class Item(NamedTuple):
    """A message in a view, with its id and its estimated tokens."""

    item_id: ItemId
    message: Message
    tokens: Estimated


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the model sees next, and what has been done to it so far."""

    items: tuple[Item, ...] = ()
    tokens: Estimated = Estimated(0)
    """Sum over `items`, the system message included (S0.4)."""
    events: int = 0
    """Sum of `count_events` over `items`."""
    rounds: int = 0
    """Applied compactions so far."""
    edits: int = 0
    """Changes of the view that were not plain appends; the same number means the same prefix."""
    steps: int = 0
    steps_since_compaction: int = 0
    fruitless_attempts: int = 0
    """Attempts in a row that saved nothing or failed, since the last applied one."""
    fruitless_tokens: int = 0
    """Size of the view at the last fruitless attempt."""
    task: Message | None = None
    """The first user message of the log, in view or not (S0.6)."""
    summaries: tuple[ItemId, ...] = ()
    """Items in view that a compaction inserted and that stand for others."""
    forgotten_since_summary: int = 0
    """Messages that went out of view since a summary was written, those that it stands for not counted."""
    original_tokens: tuple[tuple[ItemId, Estimated], ...] = ()
    """Items in view that show something else than was logged, each with the tokens of what was logged."""
    saved_tokens: int = 0
    """What the view would hold more if these items showed what was logged."""
    tally_cache: TallyCache = field(default_factory=TallyCache, compare=False, repr=False)
    """Shared by views that grew out of one another by plain appends; whoever changes `items` otherwise gives a new one."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages alone, in order."""
        return tuple([item.message for item in self.items])


def count_events(message: Message) -> int:
    """How many events other systems make of a message: one for each call or result, else one."""
    if len(message.parts) <= 1:
        return 1
    kinds = [type(part) for part in message.parts]
    return max(1, kinds.count(ToolCall), kinds.count(ToolResult))


def fold(view: View, entry: Entry, counter: Counter) -> View:
    """The view after one more event.

    Raises:
        UsageError: it is a rollback, which leads back to events that a view does not hold; fold what `drop_rolled_back` leaves
            of the log.
    """
    event = entry.event
    match event:
        case MessageAdded():
            item = Item(ItemId(entry.seq), event.message, counter.count(event.message))
            task = event.message if view.task is None and event.message.role == "user" else view.task
            tokens, events = Estimated(view.tokens + item.tokens), view.events + count_events(event.message)
            return replace(view, items=(*view.items, item), tokens=tokens, events=events, task=task)
        case StepFinished():
            return replace(view, steps=event.step, steps_since_compaction=view.steps_since_compaction + 1)
        case Compaction():
            return _fold_compaction(view, entry.seq, event, counter)
        case RolledBack():
            raise UsageError(
                f"event {entry.seq} is a rollback: fold the log as a whole with fold_all, or what `drop_rolled_back` leaves of it"
            )
        case SessionStarted() | SessionEnded() | TurnEnded() | SessionForked() | SessionResumed():
            return view
        case MessageQueued() | MessageUnqueued() | SubAgentEnded() | WorkspaceSaved():
            return view
    assert_never(event)


def drop_rolled_back(entries: Iterable[Entry]) -> list[Entry]:
    """The events that count: rollbacks are left out, and what they took back."""
    remaining: list[Entry] = []
    for entry in entries:
        if not isinstance(entry.event, RolledBack):
            remaining.append(entry)
            continue
        while remaining and remaining[-1].seq > entry.event.to_event:
            remaining.pop()
    return remaining


def compute_context_usage(view: View, usage: Usage | None) -> ContextUsage:
    """How full the context is by the last call's report and what came since (S2.10); the cost is that of a step."""
    if usage is None:
        return ContextUsage(tokens=view.tokens, usage_tokens=0, trailing_tokens=view.tokens)
    reported, trailing = usage.prompt_tokens + usage.output_tokens, 0
    for item in reversed(view.items):
        if item.message.role == "assistant":
            break
        trailing += item.tokens
    return ContextUsage(tokens=reported + trailing, usage_tokens=reported, trailing_tokens=trailing)


def fold_all(entries: Iterable[Entry], counter: Counter | None = None) -> View:
    """The view after a whole log."""
    view, rule = View(), counter or QuarterOfCharacters()
    for entry in drop_rolled_back(entries):
        view = fold(view, entry, rule)
    return view


def _fold_compaction(view: View, seq: int, event: Compaction, counter: Counter) -> View:
    if event.status != "applied":
        return replace(view, fruitless_attempts=view.fruitless_attempts + 1, fruitless_tokens=view.tokens)
    items = apply_patch(view.items, event.patch, seq, counter)
    inserted = {ItemId(seq, index) for index, insert in enumerate(event.patch.insert) if insert.stands_for}
    remaining_ids = {item.item_id for item in items}
    original_tokens = _collect_original_tokens(view, event.patch, remaining_ids)
    shown_tokens = sum(item.tokens for item in items if item.item_id in original_tokens)
    return replace(
        view,
        items=items,
        tally_cache=TallyCache(),
        tokens=Estimated(sum(item.tokens for item in items)),
        events=sum(count_events(item.message) for item in items),
        rounds=event.round,
        edits=view.edits + 1,
        steps_since_compaction=0,
        fruitless_attempts=0,
        fruitless_tokens=0,
        summaries=tuple(sorted(remaining_ids & (inserted | set(view.summaries)))),
        forgotten_since_summary=0 if inserted else view.forgotten_since_summary + len(event.patch.forget),
        original_tokens=tuple(original_tokens.items()),
        saved_tokens=sum(original_tokens.values()) - shown_tokens,
    )


def _collect_original_tokens(view: View, patch: Patch, kept: set[ItemId]) -> dict[ItemId, Estimated]:
    """Tokens as logged of the items that a patch and those before it have edited and left in view."""
    changed = {change.item for change in patch.replace}
    new = {item.item_id: item.tokens for item in view.items if item.item_id in changed}
    return {item: tokens for item, tokens in (new | dict(view.original_tokens)).items() if item in kept}


def apply_patch(items: Sequence[Item], patch: Patch, seq: int, counter: Counter) -> tuple[Item, ...]:
    """The items after a patch that is (or would be) logged as event `seq`. Inserts behind one item keep their order."""
    touched: dict[ItemId, Message | None] = {change.item: change.message for change in patch.replace}
    touched.update(dict.fromkeys(patch.forget))
    behind: dict[ItemId, list[Item]] = {}
    for index, insert in enumerate(patch.insert):
        item = Item(ItemId(seq, index), insert.message, counter.count(insert.message))
        behind.setdefault(insert.after, []).append(item)
    result: list[Item] = []
    for item in items:
        item_id = item.item_id
        if item_id not in touched:
            result.append(item)
        elif (message := touched[item_id]) is not None:
            result.append(Item(item_id, message, counter.count(message)))
        if behind and item_id in behind:
            result.extend(behind[item_id])
    return tuple(result)


class ProviderRule(Protocol):
    """What a provider accepts. Pure."""

    def can_cut(self, messages: Sequence[Message], index: int) -> bool:
        """Whether everything before `messages[index]` may go (the system message aside)."""
        ...

    def find_violation(self, messages: Sequence[Message]) -> str | None:
        """What is wrong with a conversation, or None."""
        ...


@dataclass(frozen=True, slots=True)
class SystemMessageFirst:
    """A system message stands first or nowhere else than where a policy puts a summary; the first is never lost."""

    def can_cut(self, messages: Sequence[Message], index: int) -> bool:
        """Never before the message that follows the system message."""
        return index >= 1

    def find_violation(self, messages: Sequence[Message]) -> str | None:
        """The view must begin with the system message."""
        if messages and messages[0].role != "system":
            return f"it begins with a {messages[0].role} message instead of the system message"
        return None


@dataclass(frozen=True, slots=True)
class CompletePairs:
    """Every tool result follows its call, and every call that is not the newest has its result."""

    def can_cut(self, messages: Sequence[Message], index: int) -> bool:
        """Not right before a tool result."""
        return index >= len(messages) or messages[index].role != "tool"

    def find_violation(self, messages: Sequence[Message]) -> str | None:
        """A result without its call, a call without its result, or a message between them."""
        waiting: dict[str, None] = {}
        for index, message in enumerate(messages):
            if message.role == "tool":
                for result in message.results:
                    if result.call_id not in waiting:
                        return f"message {index} answers call {result.call_id!r}, which is not right before it"
                    del waiting[result.call_id]
                continue
            if waiting:
                return f"call {next(iter(waiting))!r} has no result before message {index}"
            waiting = dict.fromkeys(call.call_id for call in message.calls)
        return None


PROVIDER_RULES: tuple[ProviderRule, ...] = (SystemMessageFirst(), CompletePairs())
"""What every provider demands; legal cuts are the intersection."""


def can_cut(messages: Sequence[Message], index: int) -> bool:
    """Whether all rules allow a cut right before `messages[index]`."""
    return all(rule.can_cut(messages, index) for rule in PROVIDER_RULES)


def find_violation(messages: Sequence[Message]) -> str | None:
    """The first thing that a provider would refuse, or None."""
    return next((found for rule in PROVIDER_RULES if (found := rule.find_violation(messages))), None)


OPENING_MESSAGE = user("(The beginning of this conversation was compacted. Go on from the summary below.)")
"""The synthetic user turn of `render_messages`."""


def render_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages as they are sent: a user turn is added behind the system message where an assistant would come first.

    S0 puts an assistant summary first, which several providers refuse; the log stays as the policy wants it.
    """
    first = next((index for index, message in enumerate(messages) if message.role != "system"), None)
    if first is None or messages[first].role == "user":
        return messages
    return (*messages[:first], OPENING_MESSAGE, *messages[first:])


ToolState: TypeAlias = Literal["pending", "running", "completed", "error", "compacted"]


def compute_tool_states(entries: Iterable[Entry], running: Iterable[str] = ()) -> Mapping[str, ToolState]:
    """The state of every call of a log by call id (S3.7): pending -> running -> completed or error, completed -> compacted.

    Args:
        entries: the log.
        running: calls whose `ToolStarted` signal was seen; a signal is not logged.
    """
    states: dict[str, ToolState] = {}
    calls_of: dict[ItemId, list[str]] = {}
    for seq, event in drop_rolled_back(entries):
        if isinstance(event, MessageAdded):
            states.update(dict.fromkeys((call.call_id for call in event.message.calls), "pending"))
            for result in event.message.results:
                states[result.call_id] = "completed" if result.status == "completed" else "error"
                calls_of.setdefault(ItemId(seq), []).append(result.call_id)
        elif isinstance(event, Compaction) and event.status == "applied":
            gone = (*event.patch.forget, *(change.item for change in event.patch.replace))
            for call_id in (call_id for item in gone for call_id in calls_of.get(item, ())):
                states[call_id] = "compacted" if states[call_id] == "completed" else states[call_id]
    for call_id in running:
        states[call_id] = "running" if states.get(call_id) == "pending" else states[call_id]
    return states
