"""Counterfactual run of a compaction policy on a finished session, step by step, without calling a model or a tool.

The messages of the session are added in their order. Before each step the policy plans compactions as in a live session, under
the same rules. A summary is replaced by a stand-in text of a given length. The run shows what a policy removes from a
conversation, but not what the agent would have done otherwise, nor what the removal costs.

Compactions in the log of the session are ignored, and tool outputs are used as logged. Policies that use the provider's token
counts get estimates instead. For a recording of another agent that has usage, these estimates are calibrated: they include the
overhead that the recording does not hold, and the tokens per character that the provider counts (`calibration`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast, overload

import numpy as np

from harness.agent.loop import MAX_EMERGENCY_COMPACTIONS
from harness.compaction.policy_checks import find_policy_advisories
from harness.conversation.advisories import format_advisories
from harness.conversation.events import Compaction, Entry, Hook, ItemId, MessageAdded, StepFinished, StepTimed, TextDelta
from harness.conversation.growing_sequence import extend_sequence
from harness.conversation.messages import Message, assistant
from harness.conversation.tokens import UNLIMITED_WINDOW, Budget, Counter, Estimated, Measured, QuarterOfCharacters, Usage, Window
from harness.conversation.view import Item, View, drop_rolled_back
from harness.errors import UsageError
from harness.inspection.calibration import (
    RecordedCalibration,
    TextSizes,
    fit_calibration,
    is_recording,
    list_prompts,
    measure_texts,
)
from harness.inspection.disposition import Disposition
from harness.inspection.message_totals import MessageTotals
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.view_history import ViewHistory
from harness.protocols import Model, Policy, Reply, Request, ignore
from harness.session.assembly import SessionResources, assemble_session
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs

STAND_IN_TOKENS = 800
STAND_IN_LINE = "This line stands in for a line of the summary, which nobody was asked to write.\n"
CHARACTERS_PER_TOKEN = 4
NO_TEXTS = TextSizes()
_START_EVENT = 1
"""Number of the start event, so that ids, and random draws from ids, are those of a live session."""
_NOT_KEPT = -1
"""Number of log events before a step that a run has skipped."""


class TraceStep(NamedTuple):
    """Step of a recorded session, with the numbers of messages before and after its model call."""

    end_event: StepFinished
    messages_at_turn: int | None
    """Number of messages in the session before the step, if the step begins a turn with a message of the user; else None."""
    messages_at_request: int
    """Number of messages in the session before the model call of the step."""
    messages_at_end: int
    """Number of messages in the session at the end of the step."""
    asked_seconds: float | None = None
    """Time right before the model call of the step, in seconds; None if the session has no times."""
    answered_seconds: float | None = None
    """Time at the end of the model's answer, in seconds; None if the session has no times."""

    def make_end_event(self, usage: Usage) -> StepFinished:
        """Return the end of the step with another usage; every run makes one for each step, so it is done without `replace`."""
        event = self.end_event
        return StepFinished(
            step=event.step,
            view_tokens=event.view_tokens,
            view_messages=event.view_messages,
            usage=usage,
            cost_usd=event.cost_usd,
            request_digest=event.request_digest,
            kept_prefix_messages=event.kept_prefix_messages,
            kept_prefix_tokens=event.kept_prefix_tokens,
            calls=event.calls,
            call_errors=event.call_errors,
            model_seconds=event.model_seconds,
            tool_seconds=event.tool_seconds,
            finish_reason=event.finish_reason,
            impossible_usage=event.impossible_usage,
            truncation_seconds=event.truncation_seconds,
            planning_seconds=event.planning_seconds,
            compaction_seconds=event.compaction_seconds,
            snapshot_seconds=event.snapshot_seconds,
            writing_seconds=event.writing_seconds,
        )


class SessionTrace:
    """Messages and steps of a recorded session, prepared once for counterfactual runs of several compaction policies."""

    def __init__(self, entries: Sequence[Entry], times_ms: Sequence[int] = ()) -> None:
        """Collect the messages and finished steps from the log of a session.

        Args:
            entries: Log of the session.
            times_ms: Time of each log entry in milliseconds since the epoch, for policies that read the time; empty if unknown.
                A step begins at the time of the message before its answer, unless the log has the times of the steps.

        Raises:
            UsageError: The session has no finished step.
        """
        entries = tuple(entries)
        messages: list[Message] = []
        steps: list[TraceStep] = []
        times = dict(zip([entry.seq for entry in entries], times_ms, strict=False))
        message_seconds: list[float | None] = []
        step_seconds: float | None = None
        for entry in drop_rolled_back(entries):
            if isinstance(entry.event, MessageAdded):
                messages.append(entry.event.message)
                message_seconds.append(times[entry.seq] / 1000 if entry.seq in times else None)
            elif isinstance(entry.event, StepTimed):
                step_seconds = entry.event.seconds
            elif isinstance(entry.event, StepFinished):
                step = _make_step(entry.event, steps, messages)
                asked_seconds = message_seconds[step.messages_at_request - 1] if step.messages_at_request else None
                has_answer = step.messages_at_request < len(messages)
                answered_seconds = message_seconds[step.messages_at_request] if has_answer else None
                if step_seconds is not None:
                    asked_seconds, answered_seconds = step_seconds, step_seconds + entry.event.model_seconds
                steps.append(step._replace(asked_seconds=asked_seconds, answered_seconds=answered_seconds))
                step_seconds = None
        if not steps:
            raise UsageError("the session has no finished step, so there is nothing to show; open another session")
        self.messages, self.steps = tuple(messages), tuple(steps)
        self.calibration = fit_calibration(list_prompts(entries)) if is_recording(entries) else None
        """Calibration of a recording of another agent; None if it has too little usage, or for a session of this package."""
        self._counts: dict[Counter, _CachedCounter] = {}
        self._totals: dict[int, MessageTotals] = {}
        self._uncut_items: dict[int, list[Item]] = {}
        self._events: list[MessageAdded | None] = [None] * len(messages)
        self._sizes: dict[int, tuple[Message, TextSizes]] = {}  # keeps the messages, so no other message gets the `id` of one

    def drop_times(self) -> "SessionTrace":
        """Return the same messages and steps without times; what is measured in one of the traces counts for both."""
        timeless = copy(self)
        timeless.steps = tuple([step._replace(asked_seconds=None, answered_seconds=None) for step in self.steps])
        return timeless

    def measure_texts(self, message: Message) -> TextSizes:
        """Return the sizes of the texts of a message, which is measured only once."""
        known = self._sizes.get(id(message))
        if known is None:
            known = self._sizes[id(message)] = message, measure_texts(message)
        return known[1]

    def sum_texts(self, messages: Iterable[Message], start: TextSizes = NO_TEXTS) -> TextSizes:
        """Return the sizes of the texts of several messages together, added to those of others."""
        typed, answers, results = start
        for message in messages:
            known = self._sizes.get(id(message))
            sizes = self.measure_texts(message) if known is None else known[1]
            typed, answers, results = typed + sizes[0], answers + sizes[1], results + sizes[2]
        return TextSizes(typed, answers, results)

    def sum_messages(self, counter: Counter) -> MessageTotals:
        """Return the totals over the messages for a counter that `make_cached_counter` returned."""
        if id(counter) not in self._totals:
            self._totals[id(counter)] = MessageTotals(self.messages, counter, self.measure_texts)
        return self._totals[id(counter)]

    def list_uncut_items(self, counter: Counter) -> list[Item]:
        """Return the messages with the ids that they have in a run before its first compaction, and their tokens."""
        if id(counter) not in self._uncut_items:
            counts = self.sum_messages(counter).counts
            self._uncut_items[id(counter)] = _number_items(self.messages, self.steps, counts, 0, _START_EVENT)
        return self._uncut_items[id(counter)]

    def log_messages(self, start: int, end: int, step: int) -> list[MessageAdded]:
        """Return the events that add the messages with an index from `start` to below `end` in a step; all runs share them."""
        events = self._events[start:end]
        if any(event is None or event.step != step for event in events):
            events = [MessageAdded(message=message, step=step) for message in self.messages[start:end]]
            self._events[start:end] = events
        return cast("list[MessageAdded]", events)

    def make_cached_counter(self, counter: Counter) -> Counter:
        """Return a token counter that gives the same results as `counter`, but counts each message only once."""
        if counter not in self._counts:
            self._counts[counter] = _CachedCounter(counter, {id(message): counter.count(message) for message in self.messages})
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


def _number_items(
    messages: Sequence[Message], steps: Sequence[TraceStep], counts: Sequence[Estimated], start: int, seq: int
) -> list[Item]:
    """Return the messages of some steps as items, given the index of the first one and the number of the event before it."""
    items = list[Item]()
    for step in steps:
        pairs = zip(messages[start : step.messages_at_end], counts[start : step.messages_at_end], strict=True)
        items += [Item(ItemId(number), message, tokens, None) for number, (message, tokens) in enumerate(pairs, seq + 1)]
        seq, start = seq + step.messages_at_end - start + 1, step.messages_at_end  # the end of the step is an event, too
    return items


@dataclass(frozen=True, slots=True)
class _CachedCounter:
    counter: Counter
    known_counts: Mapping[int, Estimated]
    """Estimated number of tokens of each message of the session, by Python's `id()` of the message object."""

    def count(self, message: Message) -> Estimated:
        known = self.known_counts.get(id(message))
        return self.counter.count(message) if known is None else known


@dataclass(frozen=True, slots=True)
class _StandInSummarizer:
    """Summarizer that calls no model and returns meaningless text of a given length.

    The text begins with the first heading that the prompt asks for, since some policies refuse a summary without headings.
    """

    tokens: int
    name: str = "stand-in"
    window: Window = UNLIMITED_WINDOW

    def reply(self, request: Request, on_delta: Callable[[TextDelta], None] = ignore) -> Reply:
        # the text is as long as specified, but never longer than the request allows
        tokens = min(self.tokens, request.max_output_tokens or self.tokens)
        characters = max(1, tokens * CHARACTERS_PER_TOKEN)
        text = (_find_heading(request.messages[-1].text) + STAND_IN_LINE * (characters // len(STAND_IN_LINE) + 1))[:characters]
        usage = Usage(input_tokens=Measured(0), output_tokens=Measured(tokens))
        return Reply(message=assistant(text), usage=usage, seconds=0.0, cost_usd=0.0)


def _find_heading(text: str) -> str:
    """Return the first line that begins with `## `, with a line break; empty if there is none."""
    start = text.find("## ")
    while start > 0 and text[start - 1].splitlines() != [""]:  # the character before it ends no line
        start = text.find("## ", start + 1)
    return f"{text[start:].splitlines()[0]}\n" if start >= 0 else ""


class StepState(NamedTuple):
    """State of a counterfactual run (a policy applied to a recorded session) right before one model call of the session."""

    step: TraceStep
    view: View
    """Messages that the model would have seen in this step if the policy had been used in the session."""
    attempt_count: int
    """Number of compactions that the policy attempted before this model call."""


class MessageState(NamedTuple):
    """State of one message at a step of a counterfactual run: kept, masked, summarized or dropped so far."""

    disposition: Disposition
    tokens_before: int
    tokens_after: int
    """Estimated tokens of the message as the model would now see it; 0 if the message was removed from the conversation."""
    changed_at_step: int
    """Number of the step before which a compaction last changed or removed the message; 0 if unchanged."""
    summarized_by: ItemId | None
    """Id of the summary that now stands for the removed message in the conversation; None if no summary does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterfactualSpec:
    """Compaction policy, context window and summary length that a counterfactual run applies to a recorded session."""

    policy: Policy
    window_tokens: int
    nominal_window_tokens: int | None = None
    """Context window, in tokens, for which the policy's constants were chosen; None leaves the constants unscaled."""
    summary_tokens: int = STAND_IN_TOKENS
    """Length in tokens of the meaningless text that replaces each summary; shorter if the policy limits summaries further."""
    explains_shortfalls: bool = True
    """Whether the attempts say why a compaction missed its target, see `harness.session.compactor.SessionCompactor`."""


class CounterfactualRun:
    """Counterfactual run of a compaction policy on a recorded session, step by step, without calling a model or a tool."""

    def __init__(
        self, session: RecordedSession, trace: SessionTrace, spec: CounterfactualSpec, summarizer: Model | None = None
    ) -> None:
        """Prepare the counterfactual run; no step of the session is processed yet.

        Args:
            session: Recorded session. A policy that needs an oracle (a prediction of later needs) gets the session's oracle.
            trace: Messages and steps of the same session.
            spec: Compaction policy, context window, and length of the summaries.
            summarizer: Model that writes the summaries. None inserts meaningless text of the length that `spec` gives.

        Raises:
            UsageError: The policy does not work in this context window, or it needs an oracle and the session has none.
        """
        stand_in = _StandInSummarizer(spec.summary_tokens)
        resources = SessionResources(
            session_id=session.name,
            log=MemoryLog(),
            clock=lambda: 0.0,
            outputs=MemoryOutputs(),
            model=replace(stand_in, window=Window(tokens=spec.window_tokens, source="configuration")),
            summarizer=summarizer or stand_in,
            oracle=session.oracle,
            explains_shortfalls=spec.explains_shortfalls,
        )
        session_spec = SessionSpec(request="", policy=spec.policy, nominal_window_tokens=spec.nominal_window_tokens)
        assembled = assemble_session(session_spec, resources)
        self._compactor = assembled.agent.compactor
        self.trace = trace
        self.budget: Budget = self._compactor.budget
        self.budget_rule = self.budget.rule + assembled.fitted_policy.scale_note
        """Text that explains, with numbers, how the compaction threshold follows from the context window."""
        if trace.calibration is not None:
            self.budget_rule += f"; {trace.calibration.describe()}"
        self._spec, self._model = spec, assembled.agent.model
        self.counter = trace.make_cached_counter(spec.policy.counter)
        self.view_tokens: list[int] = []
        """For each step processed so far, the estimated tokens of the messages that its model call would have sent."""
        self.attempts: list[Entry] = []
        """Log entries of the compactions that the policy attempted in the counterfactual run, in order, applied or not."""
        self._items: list[ItemId] = []
        """Ids of the recorded messages that the counterfactual run has processed so far, in the order of the session."""
        self.sent_view = View()
        """Messages that the model would have seen in the last step processed so far."""
        self._history = ViewHistory(self.counter, change_counter=spec.policy.counter)
        self._places: list[tuple[int, int]] = []
        """For each step processed so far, the number of log events and of attempted compactions before its model call."""
        self._usage = cast("Usage | None", None)
        self._sent = (0, 0, TextSizes())
        """Number of edits, number of messages and sizes of the texts of the view when its tokens were last counted."""
        self._last_step = 0
        self._seq = _START_EVENT

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that the policy will not act as its settings suggest, with advice, as before a run of these settings."""
        first_messages = self.trace.messages[: self.trace.steps[0].messages_at_request]
        return format_advisories(
            find_policy_advisories(
                self._spec.policy,
                self._model.window,
                self._spec.nominal_window_tokens,
                self._model.name,
                "the first request of the session",
                first_messages,
            )
        )

    @property
    def entries(self) -> Sequence[Entry]:
        """Log entries of the run so far: the recorded messages and steps, and the compactions of the policy."""
        return self._history.entries

    @property
    def is_done(self) -> bool:
        """Whether the counterfactual run has processed all steps of the recorded session."""
        return self.steps == len(self.trace.steps)

    @property
    def steps(self) -> int:
        """Number of steps of the recorded session that the counterfactual run has processed so far."""
        return len(self.view_tokens)

    def list_oversized_steps(self) -> list[int]:
        """Return the indices, from 0, of the steps whose request exceeds the context window.

        A provider would refuse such a request.
        """
        window_tokens = self.budget.window_tokens
        return [index for index, tokens in enumerate(self.view_tokens) if tokens > window_tokens > 0]

    def advance(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Apply the policy to the next step of the recorded session, then to further steps until the end.

        Args:
            should_stop: Function that is called after each step; if it returns True, the method returns early.

        Raises:
            IllegalPlan: The policy proposed an invalid plan, for example one that evicts a tool call but not its result.
        """
        while not self.is_done:
            self._run_step(self.trace.steps[self.steps])
            if should_stop():
                return

    def skip(self, steps: int) -> None:
        """Process further steps without asking the policy, which must have nothing to do in them.

        Sizes and views are those of `advance`. It takes a fraction of the time, since all steps but the last are passed at once:
        `entries` and `find_state` do not know them afterwards.

        Args:
            steps: Number of steps; the trace has no times.
        """
        skipped = self.trace.steps[self.steps : self.steps + steps]
        if len(skipped) > 1:
            self._pass_steps(skipped[:-1])
        for step in skipped[-1:]:
            self._add_messages(step.messages_at_request, self._last_step)
            sent_tokens = self._count_sent_tokens()
            self.sent_view = self._history.view
            self._end_step(step, sent_tokens)

    def _pass_steps(self, steps: Sequence[TraceStep]) -> None:
        """Continue behind some steps, with the view that `fold_entries` would return for their messages and ends."""
        view, messages, first, end = self._history.view, self.trace.messages, len(self._items), steps[-1].messages_at_end
        totals, sizes = self.trace.sum_messages(self.counter), self._measure_view()
        requests = [step.messages_at_request for step in steps]
        base = view.tokens - totals.tokens[first]
        if self.trace.calibration is None:
            sent_tokens = [base + totals.tokens[request] for request in requests]
        else:
            sent_tokens = self.trace.calibration.count_rows(np.array(sizes) + totals.sizes[requests] - totals.sizes[first])
        seq, place = self._seq, first
        asked_tokens, work_tokens, reports = view.request_tokens, view.work_tokens, list[tuple[int, int]]()
        for step, tokens in zip(steps, sent_tokens, strict=True):
            seq, place = seq + step.messages_at_end - place + 1, step.messages_at_end
            if step.messages_at_request < place:
                asked_tokens = base + totals.tokens[step.messages_at_request]
            if tokens and not step.end_event.impossible_usage:
                reports.append((asked_tokens, tokens))
                work_tokens += tokens
            else:
                work_tokens += asked_tokens
        items = (
            self.trace.list_uncut_items(self.counter)[:end]
            if not first
            else _number_items(messages, steps, totals.counts, first, self._seq)
        )
        added = messages[first:end] if view.task is None else ()
        view = replace(
            view,
            items=extend_sequence(view.items, items),
            tokens=Estimated(base + totals.tokens[end]),
            events=view.events + totals.events[end] - totals.events[first],
            steps=steps[-1].end_event.step,
            steps_since_compaction=view.steps_since_compaction + len(steps),
            task=next((message for message in added if message.role == "user"), view.task),
            request_tokens=asked_tokens,
            calibration=view.calibration.add_reports(reports),
            pending=(),
            work_tokens=work_tokens,
        )
        self._items += [item.item_id for item in items]
        self.view_tokens += sent_tokens
        self._places += [(_NOT_KEPT, len(self.attempts))] * len(steps)
        skipped = len(self._history) + seq - self._seq
        self._history = ViewHistory(self.counter, change_counter=self._spec.policy.counter, start=view, skipped=skipped)
        self._sent = view.edits, len(view.items), totals.grow_sizes(sizes, first, end)
        self._seq, self._last_step = seq, steps[-1].end_event.step

    def _run_step(self, step: TraceStep) -> None:
        if step.asked_seconds is not None:
            seconds = max(step.asked_seconds, self._history.view.now_seconds or 0.0)
            self._fold_event(StepTimed(step=step.end_event.step, seconds=seconds))
        if step.messages_at_turn is not None:
            self._compact(step, "turn")
        self._add_messages(step.messages_at_request, self._last_step)
        self._compact(step, "step")
        sent_tokens = self._count_sent_tokens()
        for _ in range(MAX_EMERGENCY_COMPACTIONS):
            if not sent_tokens > self.budget.window_tokens > 0:
                break
            self._compact(step, "overflow")
            tokens_before, sent_tokens = sent_tokens, self._count_sent_tokens()
            if sent_tokens >= tokens_before:
                break
        self.sent_view = self._history.view
        self._end_step(step, sent_tokens)

    def _end_step(self, step: TraceStep, sent_tokens: int) -> None:
        """Add the answer of a step whose request had so many tokens, its results and its end."""
        self.view_tokens.append(sent_tokens)
        self._places.append((len(self._history), len(self.attempts)))
        self._add_messages(step.messages_at_end, step.end_event.step)
        self._last_step = step.end_event.step
        self._usage = self._estimate_usage(step, sent_tokens)
        self._fold_event(step.make_end_event(self._usage))  # the recorded report measured the recorded messages

    def _estimate_usage(self, step: TraceStep, sent_tokens: int) -> Usage:
        return Usage(input_tokens=Measured(sent_tokens), output_tokens=Measured(self._count_answer_tokens(step)))

    def _count_answer_tokens(self, step: TraceStep) -> int:
        answers = self.trace.messages[step.messages_at_request : min(step.messages_at_request + 1, step.messages_at_end)]
        if self.trace.calibration is None:
            return sum(map(self.counter.count, answers))
        return round(self.trace.calibration.count_texts(self.trace.sum_texts(answers)))

    def _count_sent_tokens(self) -> int:
        """Return the estimated tokens of a request with the messages in view, as the provider would count them."""
        calibration = self.trace.calibration
        return self._history.view.tokens if calibration is None else calibration.count(self._measure_view())

    def _measure_view(self) -> TextSizes:
        """Return the sizes of the texts of the messages in view, of which most were measured before."""
        view = self._history.view
        edits, counted, sizes = self._sent
        if edits != view.edits or counted > len(view.items):
            counted, sizes = 0, TextSizes()
        sizes = self.trace.sum_texts([item.message for item in view.items[counted:]], sizes)
        self._sent = (view.edits, len(view.items), sizes)
        return sizes

    def _add_messages(self, end: int, step: int) -> None:
        """Add the recorded messages with an index below `end`, except those already added, as messages of a step."""
        for event in self.trace.log_messages(len(self._items), end, step):
            self._items.append(ItemId(self._fold_event(event).seq))

    def _compact(self, step: TraceStep, hook: Hook) -> None:
        view = self._history.view
        event = self._compactor.compact(view, self._usage, step.end_event.step, hook, ignore)
        if event is not None:
            self.attempts.append(self._fold_event(event))
        if self._history.view.edits != view.edits:
            self._usage = None  # it described the view before the compaction

    def _fold_event(self, event: MessageAdded | StepFinished | StepTimed | Compaction) -> Entry:
        """Apply an event of the run to the messages that the model sees; return the event as a numbered log entry."""
        self._seq += 1
        entry = Entry(self._seq, event)
        self._history.append(entry)
        return entry

    def count_attempts(self, index: int) -> int:
        """Return how many compactions the policy attempted before a model call, given its index from 0, below `steps`."""
        return self._places[index][1]

    def find_state(self, index: int) -> StepState:
        """Return what the model would have seen at a step, and how many compactions were attempted before it.

        Args:
            index: Index of the step, from 0; below `steps`, and not skipped.
        """
        events, attempts = self._places[index]
        return StepState(self.trace.steps[index], self._history.view_after(events), attempts)

    def list_message_states(self, state: StepState) -> "MessageStates":
        """Return whether the policy kept, masked, summarized or dropped each message before a model call.

        Args:
            state: State of the counterfactual run right before the model call, as `find_state` returns it.
        """
        visible_tokens = {item.item_id: item.tokens for item in state.view.items}
        return MessageStates(
            items=self._items[: state.step.messages_at_request],
            tokens_before=[self.counter.count(message) for message in self.trace.messages[: state.step.messages_at_request]],
            visible_tokens=visible_tokens,
            edited_ids={item.item_id for item in state.view.items if item.original_tokens is not None},
            effects=_CompactionEffects.from_attempts(self.attempts[: state.attempt_count], visible_tokens.keys()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStates(Sequence[MessageState]):
    """States of the messages before a model call of a counterfactual run: kept, masked, summarized or dropped.

    Each state is computed when it is read: a long session has tens of thousands of messages, and an object for each would slow
    down Python's garbage collection.
    """

    items: Sequence[ItemId]
    """Ids by which compactions of the counterfactual run refer to the messages."""
    tokens_before: Sequence[int]
    visible_tokens: Mapping[ItemId, int]
    edited_ids: Collection[ItemId]
    effects: "_CompactionEffects"

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> MessageState: ...

    @overload
    def __getitem__(self, index: slice) -> list[MessageState]: ...

    def __getitem__(self, index: int | slice) -> MessageState | list[MessageState]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        item, tokens_before = self.items[index], self.tokens_before[index]
        changed_at_step = self.effects.changed_at_step.get(item, 0)
        if (tokens_after := self.visible_tokens.get(item)) is not None:
            disposition: Disposition = "masked" if item in self.edited_ids else "kept"
            return MessageState(disposition, tokens_before, tokens_after, changed_at_step, None)
        summary_id = self.effects.summarized_by.get(item)
        return MessageState("dropped" if summary_id is None else "summarized", tokens_before, 0, changed_at_step, summary_id)


@dataclass(slots=True)
class _CompactionEffects:
    """Effects of a run's compactions on each message: the step of the last change, and the summary in its place."""

    changed_at_step: dict[ItemId, int] = field(default_factory=dict)
    summarized_by: dict[ItemId, ItemId | None] = field(default_factory=dict)
    """For each removed message, the id of the summary that now stands for it; None if that summary was removed as well."""

    @classmethod
    def from_attempts(cls, attempts: Sequence[Entry], visible_ids: Collection[ItemId]) -> "_CompactionEffects":
        effects = cls()
        for seq, event in reversed(attempts):  # so that what became of a summary is known before the messages that it covers
            if isinstance(event, Compaction) and event.status == "applied":
                for item in event.patch.changed_ids:
                    effects.changed_at_step.setdefault(item, event.step)
                for slot, insert in reversed(list(enumerate(event.patch.insert))):
                    summary_id = ItemId(seq, slot)
                    covering_id = summary_id if summary_id in visible_ids else effects.summarized_by.get(summary_id)
                    for item in insert.stands_for:
                        effects.summarized_by.setdefault(item, covering_id)
        return effects


def count_uncompacted_tokens(trace: SessionTrace, counter: Counter | None = None) -> Iterator[int]:
    """Yield the estimated tokens of all messages before each model call, as if nothing had been compacted.

    They are calibrated if the session is, unless a counter is passed.
    """
    if counter is None and trace.calibration is not None:
        yield from _count_calibrated_tokens(trace, trace.calibration)
        return
    count = trace.make_cached_counter(counter or QuarterOfCharacters()).count
    total, counted_messages = 0, 0
    for step in trace.steps:
        total += sum(count(message) for message in trace.messages[counted_messages : step.messages_at_request])
        counted_messages = step.messages_at_request
        yield total


def _count_calibrated_tokens(trace: SessionTrace, calibration: RecordedCalibration) -> Iterator[int]:
    sizes, counted_messages = TextSizes(), 0
    for step in trace.steps:
        sizes = trace.sum_texts(trace.messages[counted_messages : step.messages_at_request], sizes)
        counted_messages = step.messages_at_request
        yield calibration.count(sizes)
