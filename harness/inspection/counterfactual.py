"""A policy tried on a session that is over, step by step, without an agent, a tool or a model.

The session's own messages are told again in their order, and before each step the policy is asked as a live session asks it:
the same `plan`, the same guards, the same fold. Where it wants a summary a stand-in of a given length is put. What the agent
would have done otherwise is not known: this shows what a policy takes out of a conversation, not what that costs.

The session is shown as if nobody had compacted it before: compactions of its own log are left out. Tool outputs stand as they
were logged. Where a policy goes by the provider's report it is told the estimate.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from harness.errors import UsageError
from harness.events import Compaction, Entry, Hook, ItemId, MessageAdded, StepFinished, TextDelta
from harness.inspection.disposition import Disposition
from harness.inspection.recorded_session import RecordedSession
from harness.messages import Message, assistant
from harness.protocols import Policy, Reply, Request, ignore
from harness.session.assembly import SessionResources, assemble_session
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.tokens import UNLIMITED_WINDOW, Budget, Counter, Estimated, Measured, QuarterOfCharacters, Usage, Window
from harness.view import View, drop_rolled_back, fold

STAND_IN_TOKENS = 800
STAND_IN_LINE = "This line stands in for a line of the summary, which nobody was asked to write.\n"
CHARACTERS_PER_TOKEN = 4


class TraceStep(NamedTuple):
    """A step of a session, in messages told from its beginning."""

    end_event: StepFinished
    messages_at_turn: int | None
    """Told when a turn of the user began before it; None = none did."""
    messages_at_request: int
    """Told when its model call was made."""
    messages_at_end: int
    """Told when it was over."""


class SessionTrace:
    """The messages of a session in order, and where its steps are. Counts are kept, so that it can be rehearsed often."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Read a log.

        Raises:
            UsageError: it has no step.
        """
        messages: list[Message] = []
        steps: list[TraceStep] = []
        for entry in drop_rolled_back(entries):
            if isinstance(entry.event, MessageAdded):
                messages.append(entry.event.message)
            elif isinstance(entry.event, StepFinished):
                steps.append(_make_step(entry.event, steps, messages))
        if not steps:
            raise UsageError("this session has no step, so there is nothing to show")
        self.messages, self.steps = tuple(messages), tuple(steps)
        self._counts: dict[Counter, _CachedCounter] = {}

    def make_cached_counter(self, counter: Counter) -> Counter:
        """The same estimate, which knows the tokens of these messages."""
        if counter not in self._counts:
            self._counts[counter] = _CachedCounter(counter, {id(one): counter.count(one) for one in self.messages})
        return self._counts[counter]


def _make_step(event: StepFinished, previous_steps: list[TraceStep], messages: list[Message]) -> TraceStep:
    start = previous_steps[-1].messages_at_end if previous_steps else 0
    answers = (index for index in range(len(messages) - 1, start - 1, -1) if messages[index].role == "assistant")
    messages_at_request = next(answers, len(messages))
    return TraceStep(
        end_event=event,
        messages_at_turn=start if previous_steps and messages_at_request > start else None,
        messages_at_request=messages_at_request,
        messages_at_end=len(messages),
    )


@dataclass(frozen=True, slots=True)
class _CachedCounter:
    counter: Counter
    known_counts: Mapping[int, Estimated]
    """By identity of the messages of a course, which lives as long as this."""

    def count(self, message: Message) -> Estimated:
        known = self.known_counts.get(id(message))
        return self.counter.count(message) if known is None else known


@dataclass(frozen=True, slots=True)
class _StandInSummarizer:
    """Writes summaries of a given length that say nothing."""

    tokens: int
    name: str = "stand-in"
    window: Window = UNLIMITED_WINDOW

    def reply(self, request: Request, on_delta: Callable[[TextDelta], None] = ignore) -> Reply:
        """See `harness.protocols.Model`."""
        tokens = min(self.tokens, request.max_output_tokens or self.tokens)
        characters = max(1, tokens * CHARACTERS_PER_TOKEN)
        text = (STAND_IN_LINE * (characters // len(STAND_IN_LINE) + 1))[:characters]
        usage = Usage(input_tokens=Measured(0), output_tokens=Measured(tokens))
        return Reply(message=assistant(text), usage=usage, seconds=0.0, cost_usd=0.0)


class StepState(NamedTuple):
    """What is known right before a model call."""

    step: TraceStep
    view: View
    """What would be sent."""
    attempt_count: int
    """Attempts at a compaction up to now."""


class MessageState(NamedTuple):
    """What has become of one message up to a step."""

    disposition: Disposition
    tokens_before: int
    tokens_after: int
    """In view; 0 = it is not."""
    changed_at_step: int
    """Step before which it met this fate; 0 = nothing has happened to it."""
    summarized_by: ItemId | None = None
    """The summary in view that tells of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunSpec:
    """Under which policy a session is rehearsed."""

    policy: Policy
    window_tokens: int
    nominal_window_tokens: int | None = None
    """The window that the policy's constants were made for; None = they are not scaled."""
    summary_tokens: int = STAND_IN_TOKENS
    """Length of a stand-in, unless the policy allows less."""


class DryRun:
    """A session under a policy, from its first step on."""

    def __init__(self, session: RecordedSession, trace: SessionTrace, spec: DryRunSpec) -> None:
        """Prepare the first step.

        Args:
            session: source of the oracle that a clairvoyant policy needs.
            trace: messages and steps of that session.
            spec: policy, window and length of the summaries.

        Raises:
            UsageError: the policy does not work in this window, or must know a future that nobody knows.
        """
        summarizer = _StandInSummarizer(spec.summary_tokens)
        resources = SessionResources(
            session_id=session.name,
            log=MemoryLog(),
            clock=lambda: 0.0,
            outputs=MemoryOutputs(),
            model=replace(summarizer, window=Window(tokens=spec.window_tokens, source="configuration")),
            summarizer=summarizer,
            oracle=session.oracle,
        )
        session_spec = SessionSpec(request="", policy=spec.policy, nominal_window_tokens=spec.nominal_window_tokens)
        assembled = assemble_session(session_spec, resources)
        self._compactor = assembled.agent.compactor
        self.trace = trace
        self.budget: Budget = self._compactor.budget
        self.budget_rule = assembled.fitted_policy.describe_rule(self.budget.rule)
        """How the window is divided, in words and numbers."""
        self.counter = trace.make_cached_counter(spec.policy.counter)
        self.scenes: list[StepState] = []
        self.attempts: list[Entry] = []
        """Compactions, fruitless ones too, in order."""
        self._items: list[ItemId] = []
        """Of each message of the course."""
        self._view, self._usage = View(), cast("Usage | None", None)
        self._seq = 1  # a log begins with its start; so ids are those of a live session, and draws from them too

    @property
    def is_done(self) -> bool:
        """Whether the last step was rehearsed."""
        return len(self.scenes) == len(self.trace.steps)

    def advance(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Rehearse steps until all are done, or it is enough; at least one if there is one.

        Raises:
            IllegalPlan: the policy broke a guard.
        """
        while not self.is_done:
            self._run_step(self.trace.steps[len(self.scenes)])
            if should_stop():
                return

    def _run_step(self, step: TraceStep) -> None:
        if step.messages_at_turn is not None:
            self._compact(step, "turn")
        self._add_messages(step.messages_at_request)
        self._compact(step, "step")
        if self._view.tokens > self.budget.window_tokens > 0:
            self._compact(step, "overflow")
        self.scenes.append(StepState(step, self._view, len(self.attempts)))
        sent_tokens = self._view.tokens
        self._add_messages(step.messages_at_end)
        self._fold_event(step.end_event)
        answers = self.trace.messages[step.messages_at_request : step.messages_at_end][:1]
        output_tokens = sum(map(self.counter.count, answers))
        self._usage = Usage(input_tokens=Measured(sent_tokens), output_tokens=Measured(output_tokens))

    def _add_messages(self, end: int) -> None:
        """Tell the messages up to one."""
        for message in self.trace.messages[len(self._items) : end]:
            self._items.append(ItemId(self._fold_event(MessageAdded(message=message, step=0)).seq))

    def _compact(self, step: TraceStep, hook: Hook) -> None:
        """Let the policy fit the view."""
        edits = self._view.edits
        event = self._compactor.compact(self._view, self._usage, step.end_event.step, hook, ignore)
        if event is not None:
            self.attempts.append(self._fold_event(event))
        if self._view.edits != edits:
            self._usage = None  # it told of a view that is no more

    def _fold_event(self, event: MessageAdded | StepFinished | Compaction) -> Entry:
        """The view after one more event."""
        self._seq += 1
        entry = Entry(self._seq, event)
        self._view = fold(self._view, entry, self.counter)
        return entry

    def list_message_states(self, index: int) -> list[MessageState]:
        """What has become of each message that was told before a model call.

        Args:
            index: of the scene.
        """
        state = self.scenes[index]
        visible_tokens = {item.item_id: item.tokens for item in state.view.items}
        edited_ids = {item for item, _ in state.view.original_tokens}
        effects = _CompactionEffects.from_attempts(self.attempts[: state.attempt_count])
        items = self._items[: state.step.messages_at_request]
        counts = map(self.counter.count, self.trace.messages)
        pairs = zip(items, counts, strict=False)
        return [_build_message_state(item, tokens, visible_tokens, edited_ids, effects) for item, tokens in pairs]

    def look_up_item_id(self, message: int) -> ItemId:
        """The id of a message of the course, by its number from 0."""
        return self._items[message]


def _build_message_state(
    item: ItemId, tokens_before: int, visible_tokens: Mapping[ItemId, int], edited_ids: set[ItemId], effects: "_CompactionEffects"
) -> MessageState:
    changed_at_step = effects.changed_at_step.get(item, 0)
    if item in visible_tokens:
        return MessageState("masked" if item in edited_ids else "kept", tokens_before, visible_tokens[item], changed_at_step)
    summary_id = effects.find_summary(item, visible_tokens)
    return MessageState("dropped" if summary_id is None else "summarized", tokens_before, 0, changed_at_step, summary_id)


@dataclass(slots=True)
class _CompactionEffects:
    """What some compactions did, by message."""

    changed_at_step: dict[ItemId, int] = field(default_factory=dict)
    summarized_by: dict[ItemId, ItemId] = field(default_factory=dict)

    @classmethod
    def from_attempts(cls, attempts: Iterable[Entry]) -> "_CompactionEffects":
        effects = cls()
        for seq, event in attempts:
            if isinstance(event, Compaction) and event.status == "applied":
                removed_items = (*event.patch.forget, *(change.item for change in event.patch.replace))
                effects.changed_at_step.update(dict.fromkeys(removed_items, event.step))
                for slot, insert in enumerate(event.patch.insert):
                    effects.summarized_by.update(dict.fromkeys(insert.stands_for, ItemId(seq, slot)))
        return effects

    def find_summary(self, item: ItemId, visible_tokens: Mapping[ItemId, int]) -> ItemId | None:
        """The summary in view that tells of a message, through the summaries that took each other's place."""
        summary_id = self.summarized_by.get(item)
        while summary_id is not None and summary_id not in visible_tokens:
            summary_id = self.summarized_by.get(summary_id)
        return summary_id


def count_uncompacted_tokens(trace: SessionTrace, counter: Counter | None = None) -> Iterator[int]:
    """Tokens of the whole conversation before each model call."""
    count = trace.make_cached_counter(counter or QuarterOfCharacters()).count
    total, counted_messages = 0, 0
    for step in trace.steps:
        total += sum(count(message) for message in trace.messages[counted_messages : step.messages_at_request])
        counted_messages = step.messages_at_request
        yield total
