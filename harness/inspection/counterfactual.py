"""Dry run of a compaction policy on a finished session, step by step, without calling a model or a tool.

The messages of the session are added in their order, and before each step the policy plans compactions as in a live
session, under the same rules. A summary is replaced by a stand-in text of a given length. A dry run shows what a policy
removes from a conversation, but not what the agent would have done otherwise, nor what the removal costs.

Compactions in the log of the session are ignored, and tool outputs are used as logged. Policies that use the provider's token
counts get estimates instead.
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
    """Step of a recorded session, with the numbers of messages that the session contained before and after its model call."""

    end_event: StepFinished
    messages_at_turn: int | None
    """Number of messages in the session before the step, if the user began a new turn at this step; else None."""
    messages_at_request: int
    """Number of messages in the session before the model call of the step."""
    messages_at_end: int
    """Number of messages in the session at the end of the step."""


class SessionTrace:
    """Messages and steps of a recorded session, prepared once so that several compaction policies can be applied to them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Collect the messages and finished steps from the log of a session.

        Args:
            entries: Log of the session.

        Raises:
            UsageError: The session has no finished step.
        """
        messages: list[Message] = []
        steps: list[TraceStep] = []
        for entry in drop_rolled_back(entries):
            if isinstance(entry.event, MessageAdded):
                messages.append(entry.event.message)
            elif isinstance(entry.event, StepFinished):
                steps.append(_make_step(entry.event, steps, messages))
        if not steps:
            raise UsageError("the session has no finished step, so there is nothing to show")
        self.messages, self.steps = tuple(messages), tuple(steps)
        self._counts: dict[Counter, _CachedCounter] = {}

    def make_cached_counter(self, counter: Counter) -> Counter:
        """Return a token counter with the same results as the given one, which counts each message of the session only once."""
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
    """Estimated number of tokens in each message of the session, by Python's `id()` of the message object."""

    def count(self, message: Message) -> Estimated:
        known = self.known_counts.get(id(message))
        return self.counter.count(message) if known is None else known


@dataclass(frozen=True, slots=True)
class _StandInSummarizer:
    """Summarizer that calls no model and returns meaningless text of a given length as the summary."""

    tokens: int
    name: str = "stand-in"
    window: Window = UNLIMITED_WINDOW

    def reply(self, request: Request, on_delta: Callable[[TextDelta], None] = ignore) -> Reply:
        """Return meaningless text as a summary. It has the specified length, but never more than the request allows."""
        tokens = min(self.tokens, request.max_output_tokens or self.tokens)
        characters = max(1, tokens * CHARACTERS_PER_TOKEN)
        text = (STAND_IN_LINE * (characters // len(STAND_IN_LINE) + 1))[:characters]
        usage = Usage(input_tokens=Measured(0), output_tokens=Measured(tokens))
        return Reply(message=assistant(text), usage=usage, seconds=0.0, cost_usd=0.0)


class StepState(NamedTuple):
    """State of a dry run (a policy applied to a recorded session) right before one model call of the session."""

    step: TraceStep
    view: View
    """Messages that the model would have seen in this step if the policy had been used in the session."""
    attempt_count: int
    """Number of compactions that the policy attempted before this model call."""


class MessageState(NamedTuple):
    """State of one message at one step of a dry run: whether the policy has kept, masked, summarized or dropped it so far."""

    disposition: Disposition
    tokens_before: int
    tokens_after: int
    """Estimated tokens of the message as it is in the view; 0 if the message is no longer in the view."""
    changed_at_step: int
    """Number of the step before which a compaction last changed or removed the message; 0 if unchanged."""
    summarized_by: ItemId | None = None
    """Id of the summary in the view that replaces the message; None if no summary does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunSpec:
    """Compaction policy, context window and summary length that a dry run applies to a recorded session."""

    policy: Policy
    window_tokens: int
    nominal_window_tokens: int | None = None
    """Context window, in tokens, for which the policy's constants were chosen; None leaves the constants unscaled."""
    summary_tokens: int = STAND_IN_TOKENS
    """Length in tokens of the meaningless text that replaces each summary; shorter if the policy limits summaries further."""


class DryRun:
    """Dry run of a compaction policy on a recorded session, step by step, without calling a model or a tool."""

    def __init__(self, session: RecordedSession, trace: SessionTrace, spec: DryRunSpec) -> None:
        """Prepare the dry run; no step of the session is processed yet.

        Args:
            session: Recorded session. A policy that needs an oracle (a prediction of later needs) gets that of the session.
            trace: Messages and steps of the same session.
            spec: Compaction policy, context window, and length of the summaries.

        Raises:
            UsageError: The policy does not work in this window, or needs an oracle and there is none.
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
        """Text that explains, with numbers, how the compaction threshold follows from the context window."""
        self.counter = trace.make_cached_counter(spec.policy.counter)
        self.scenes: list[StepState] = []
        self.attempts: list[Entry] = []
        """Compaction events of the dry run in order, including attempts that were not applied."""
        self._items: list[ItemId] = []
        """Ids of the recorded messages that the dry run has processed so far, in the order of the session."""
        self._view, self._usage = View(), cast("Usage | None", None)
        self._seq = 1  # the start event has number 1, so that ids, and random draws from ids, are those of a live session

    @property
    def is_done(self) -> bool:
        """Whether the dry run has processed all steps of the recorded session."""
        return len(self.scenes) == len(self.trace.steps)

    def advance(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Apply the policy to the next step of the recorded session, then to more steps until the end.

        `should_stop` is called after each step; if it returns True, the method returns early.

        Raises:
            IllegalPlan: The policy proposed an invalid plan, for example one that evicts a tool call but not its result.
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
        """Add the recorded messages with an index below `end` to the dry run's conversation, except those already added."""
        for message in self.trace.messages[len(self._items) : end]:
            self._items.append(ItemId(self._fold_event(MessageAdded(message=message, step=0)).seq))

    def _compact(self, step: TraceStep, hook: Hook) -> None:
        """Let the policy compact the conversation of the dry run if a compaction is due, and record the attempt."""
        edits = self._view.edits
        event = self._compactor.compact(self._view, self._usage, step.end_event.step, hook, ignore)
        if event is not None:
            self.attempts.append(self._fold_event(event))
        if self._view.edits != edits:
            self._usage = None  # it described the view before the compaction

    def _fold_event(self, event: MessageAdded | StepFinished | Compaction) -> Entry:
        """Apply an event, such as a compaction, to the dry run's conversation, and return the event as a numbered log entry."""
        self._seq += 1
        entry = Entry(self._seq, event)
        self._view = fold(self._view, entry, self.counter)
        return entry

    def list_message_states(self, index: int) -> list[MessageState]:
        """Return for each message before a model call whether the policy kept, masked, summarized or dropped it.

        Args:
            index: Index, from 0, of the step to which the model call belongs.
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
        """Return the id by which compactions of the dry run refer to a message of the recorded session.

        Args:
            message: Index of the message in the session, from 0.
        """
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
    """Record of what the compactions of a dry run did to each message: the step of the last change, and the covering summary."""

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
        """Return the id of the summary in view that covers a removed message, or None if no summary does.

        If a later summary has replaced that summary in turn, the id of the later one is returned.
        """
        summary_id = self.summarized_by.get(item)
        while summary_id is not None and summary_id not in visible_tokens:
            summary_id = self.summarized_by.get(summary_id)
        return summary_id


def count_uncompacted_tokens(trace: SessionTrace, counter: Counter | None = None) -> Iterator[int]:
    """Yield, for each model call of a session, the estimated tokens in all messages before it, as if nothing was compacted."""
    count = trace.make_cached_counter(counter or QuarterOfCharacters()).count
    total, counted_messages = 0, 0
    for step in trace.steps:
        total += sum(count(message) for message in trace.messages[counted_messages : step.messages_at_request])
        counted_messages = step.messages_at_request
        yield total
