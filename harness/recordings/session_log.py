"""Conversion of a recorded session to a log, so that code that reads logs also works on recordings of other agents.

A log has one of two readings of the session. `uncompacted` shows the session as if no compaction had taken place. `recorded` has
each compaction that the agent made as an event, so that the view before each model call is what the agent sent, as far as the
file says it.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.codec import digest_message
from harness.conversation.endings import infer_ending
from harness.conversation.events import (
    CallTiming,
    Compaction,
    Entry,
    Event,
    Insert,
    ItemId,
    MessageAdded,
    Patch,
    SessionEnded,
    SessionStarted,
    StepFinished,
    SubAgentEnded,
)
from harness.conversation.events import Replace as Replacement
from harness.conversation.messages import Message, ToolResult, system, user
from harness.conversation.tokens import Counter, Estimated, Measured, QuarterOfCharacters, Usage
from harness.conversation.view import OPENING_MESSAGE, Item, apply_patch, find_violation
from harness.errors import UsageError
from harness.recordings.document import encode_json
from harness.recordings.recording import NativeCompaction, RecordedCost, RecordedMessage, Recording
from harness.recordings.session_file import TimedEntry

Reading: TypeAlias = Literal["recorded", "uncompacted"]
"""Reading of a recorded session: with the compactions that the agent made, or as if it had made none."""

SYNTHETIC_SYSTEM = system("(The system prompt of this session was not recorded.)")
"""System message in the log of a recording without a system prompt; it is much shorter than a real prompt."""
UNKNOWN_SUMMARY = "(The agent compacted the session here. What it kept was not recorded.)"
"""Text that stands for the context after a compaction whose summary the file does not hold."""
CLEARED_RESULT = "[Old tool result content cleared]"
"""Text that stands for a tool result which the agent removed from the context."""

_UNKNOWN = Usage(input_tokens=Measured(0), output_tokens=Measured(0))


def build_entries(recording: Recording, counter: Counter | None = None, reading: Reading = "uncompacted") -> tuple[Entry, ...]:
    """Return a log of a recorded session without times (see `build_timed_log`)."""
    return tuple([timed.entry for timed in build_timed_log(recording, counter, reading)])


def build_timed_log(
    recording: Recording,
    counter: Counter | None = None,
    reading: Reading = "uncompacted",
    sub_agents: Sequence[Recording] = (),
    measure_cost: Callable[[Recording], RecordedCost] | None = None,
    *,
    digests: bool = True,
) -> tuple[TimedEntry, ...]:
    """Return a log of a recorded session, with an event for each message, for the end of each step and for compactions.

    A step is a model call with its tool calls. A step without recorded usage, or whose usage belongs to the session from which
    it was copied, has a usage of 0 tokens. Durations follow from the times of the messages, and are 0 where these are missing.
    The context window is 0 and the compaction threshold None, because both are unknown. An event without a recorded time has the
    time of the event before it; all times are 0 if the file has none.

    Args:
        recording: Recorded session to convert.
        counter: Token counter that estimates the size of messages; None for a quarter of the characters.
        reading: Whether the log has the compactions that the agent made.
        sub_agents: Sessions of sub-agents that the session started. The log has an event with the tokens and costs of each, as
            for sub-agents of this package, behind the tool call that started it or else at the end.
        measure_cost: Function that returns the cost of a recorded session, such as
            `harness.inspection.recorded_cost.measure_cost`. Default: only the costs that the file gives for single calls.
        digests: Whether steps have the digests of their requests, which take a third of the time.

    Raises:
        UsageError: The recording has no texts.
    """
    if not recording.has_texts:
        raise UsageError(
            f"the {recording.source} session {recording.session_id!r} has no texts, only sizes; `harness import FOLDER` lists it"
        )
    opening = [] if recording.system_recorded else [RecordedMessage(message=SYNTHETIC_SYSTEM, step=0, synthetic=True)]
    context = _Context(counter or QuarterOfCharacters(), has_digests=digests)
    builder = _LogBuilder(recording, context, reading, sub_agents, measure_cost)
    builder.log(_make_start_event(recording), next((m.at_ms for m in recording.messages if m.at_ms is not None), 0))
    builder.add_messages([*opening, *recording.messages], len(opening))
    builder.log(_make_end_event(recording, measure_cost and measure_cost(recording)), None)
    return tuple(builder.entries)


def _make_start_event(recording: Recording) -> SessionStarted:
    task = next((item.message.text for item in recording.messages if item.message.role == "user" and item.step is not None), "")
    return SessionStarted(
        session_id=recording.session_id,
        task=task,
        model=recording.models[0] if recording.models else "",
        policy_json=encode_json({"kind": "recorded", "source": recording.source}),
        window_tokens=0,
        threshold_tokens=None,
        budget_rule="recorded session, window unknown",
        sandbox="recorded",
    )


def _make_end_event(recording: Recording, cost: RecordedCost | None) -> SessionEnded:
    cost_usd, source = cost or (None, None)
    ending = infer_ending([item.message for item in recording.messages])
    return replace(ending, recorded_cost_usd=cost_usd, cost_source=source)


class _Request(NamedTuple):
    """Request that asked for one answer of the model."""

    view_messages: int
    view_tokens: Estimated
    digest: str
    kept_prefix_messages: int
    kept_prefix_tokens: Estimated
    asked_at_ms: int | None
    """Time of the message before the answer; None if unknown."""


class _Context:
    """Messages in view while a log is built, and the beginning that the next request shares with the previous one."""

    def __init__(self, counter: Counter, *, has_digests: bool) -> None:
        self.counter, self.has_digests = counter, has_digests
        self.items: list[Item] = []
        self.sent_tokens, self.view_tokens = [0], 0
        """Token counts of the first 0, 1, 2, ... messages of the next request."""
        self.sent: list[Message | None] = [None]
        """Messages of the next request, behind None."""
        self.digest = b""
        """Digest of these messages; empty without digests."""
        self.shared_messages = 0
        self.is_opened = False

    def append(self, item_id: ItemId, message: Message) -> None:
        item = Item(item_id, message, self.counter.count(message), None)
        self.items.append(item)
        self._send(item)

    def _send(self, item: Item) -> None:
        self.view_tokens += item.tokens
        if not self.is_opened and item.message.role not in {"system", "user"}:
            self._extend(OPENING_MESSAGE, self.counter.count(OPENING_MESSAGE))
        self.is_opened |= item.message.role != "system"
        self._extend(item.message, item.tokens)

    def _extend(self, message: Message, tokens: int) -> None:
        if self.has_digests:
            self.digest = digest_message(message, self.digest)
        self.sent.append(message)
        self.sent_tokens.append(self.sent_tokens[-1] + tokens)

    def apply(self, patch: Patch, seq: int) -> None:
        """Apply the changes of a compaction, which is event `seq` of the log."""
        before, self.items = self.sent, list(apply_patch(self.items, patch, seq, self.counter))
        self.sent, self.digest, self.sent_tokens, self.view_tokens, self.is_opened = [None], b"", [0], 0, False
        for item in self.items:
            self._send(item)
        same = next((n for n, pair in enumerate(zip(before, self.sent, strict=False)) if pair[0] != pair[1]), None)
        self.shared_messages = min(self.shared_messages, len(self.sent) - 1 if same is None else same - 1)

    def make_request(self, asked_at_ms: int | None) -> _Request:
        """Return the request for the next answer, which is then the previous request."""
        shared, self.shared_messages = self.shared_messages, len(self.sent) - 1
        return _Request(
            view_messages=len(self.items),
            view_tokens=Estimated(self.view_tokens),
            digest=self.digest.hex(),
            kept_prefix_messages=shared,
            kept_prefix_tokens=Estimated(self.sent_tokens[shared]),
            asked_at_ms=asked_at_ms,
        )


class _LogBuilder:
    """Builder of the log of a recorded session."""

    def __init__(
        self,
        recording: Recording,
        context: "_Context",
        reading: Reading,
        sub_agents: Sequence[Recording],
        measure_cost: Callable[[Recording], RecordedCost] | None,
    ) -> None:
        self.measure_cost = measure_cost
        calls = {link.session_id: link.call_id for link in recording.sub_agents}
        self.sub_agents = [(calls.get(child.session_id, ""), child) for child in sub_agents]
        """Sessions of sub-agents that are not logged yet, each with the id of the call that started it."""
        self.entries: list[TimedEntry] = []
        self.context = context
        self.waiting = sorted(recording.compactions, key=lambda event: event.position) if reading == "recorded" else []
        self.id_of_place: dict[int, ItemId] = {}
        """Ids of the messages in the log, by their index in the recording."""
        self.result_of_call: dict[str, ItemId] = {}
        self.rounds = self.step = self.at_ms = 0

    def log(self, event: Event, at_ms: int | None) -> int:
        """Add an event to the log and return its number."""
        self.at_ms = max(self.at_ms, at_ms or 0)
        self.entries.append(TimedEntry(Entry(len(self.entries) + 1, event), self.at_ms))
        return len(self.entries)

    def add_messages(self, recorded: Sequence[RecordedMessage], opening_count: int) -> None:
        """Log all messages, the end of each step after its last tool result, and each compaction before the next message.

        Args:
            recorded: Messages to log.
            opening_count: Number of messages at the beginning that are not in the recording.
        """
        answer_index: int | None = None
        request: _Request | None = None
        for index, item in enumerate(recorded):
            role, place = item.message.role, index - opening_count
            if role != "tool":
                answer_index = None
                while self.waiting and self.waiting[0].position <= place:
                    self.compact(self.waiting.pop(0))
            if role == "assistant" and item.step is not None:
                answer_index, self.step = index, item.step
                request = self.context.make_request(recorded[index - 1].at_ms if index else None)
            answer = None if answer_index is None else recorded[answer_index]
            self.add_message(item, place, answer)
            is_last = index + 1 == len(recorded) or recorded[index + 1].message.role != "tool"
            if answer_index is not None and request is not None and is_last:
                self.log(_make_step_event(self.step, request, recorded[answer_index : index + 1]), None)
                self.add_sub_agents({call.call_id for call in recorded[answer_index].message.calls})
        self.add_sub_agents({call_id for call_id, _ in self.sub_agents})
        for event in self.waiting:
            self.compact(event)

    def add_sub_agents(self, call_ids: Container[str]) -> None:
        """Log the totals of the sub-agents that some tool calls started."""
        for call_id, child in [item for item in self.sub_agents if item[0] in call_ids]:
            self.sub_agents.remove((call_id, child))
            usages = [item.usage for item in child.messages if item.usage is not None and not item.copied]
            usages += [call.usage for call in child.left_out_calls if call.usage is not None]
            cost_usd, source = self.measure_cost(child) if self.measure_cost else (child.cost_usd, None)
            event = SubAgentEnded(
                step=self.step,
                session_id=child.session_id,
                steps=child.steps,
                prompt_tokens=sum(usage.prompt_tokens for usage in usages),
                output_tokens=sum(usage.output_tokens for usage in usages),
                cost_usd=cost_usd,
                call_id=call_id,
                cost_source=source,
            )
            self.log(event, None)

    def add_message(self, item: RecordedMessage, place: int, answer: RecordedMessage | None) -> None:
        timing = _make_timing(answer, item) if item.message.role == "tool" and answer is not None else None
        event = MessageAdded(message=item.message, step=self.step if item.step is None else item.step, timing=timing)
        item_id = ItemId(self.log(event, item.at_ms))
        self.id_of_place[place] = item_id
        self.result_of_call |= {result.call_id: item_id for result in item.message.results}
        self.context.append(item_id, item.message)

    def compact(self, native: NativeCompaction) -> None:
        """Log a compaction that the agent made."""
        patch = self.make_patch(native)
        messages_before, tokens_before = len(self.context.items), self.context.view_tokens
        self.context.apply(patch, len(self.entries) + 1)
        self.rounds += 1
        event = Compaction(
            round=self.rounds,
            step=self.step + 1,
            moment="manual" if native.trigger == "manual" else "step",
            status="applied",
            reason=_describe_compaction(native),
            patch=patch,
            tokens_before=Estimated(tokens_before),
            tokens_after=Estimated(self.context.view_tokens),
            messages_before=messages_before,
            messages_after=len(self.context.items),
            summary=native.summary,
            wall_seconds=native.seconds or 0.0,
            reported_tokens_before=native.tokens_before,
            reported_tokens_after=native.tokens_after,
        )
        self.log(event, native.at_ms)

    def make_patch(self, native: NativeCompaction) -> Patch:
        """Return how a compaction of the agent changed the messages in view."""
        items = self.context.items
        if native.kind == "microcompaction":
            return self.make_clearing(native)
        if native.in_place:
            return Patch()  # the messages that the summary replaced are not in the file, and the summary is one of its messages
        in_view = [item.item_id for item in items[1:]]
        kept_id = None if native.kept_from is None else self.id_of_place.get(native.kept_from)
        start = in_view.index(kept_id) if kept_id in in_view and native.view is None else len(in_view)
        while 0 < start < len(in_view) and items[start + 1].message.role == "tool":
            start -= 1  # a result stays with its call
        forgotten = tuple(in_view[:start])
        messages = native.view if native.view is not None else (user(native.summary or UNKNOWN_SUMMARY),)
        if find_violation([SYNTHETIC_SYSTEM, *messages]) is not None:
            messages = (user(native.summary or UNKNOWN_SUMMARY),)
        after = items[0].item_id
        inserts = [Insert(message=message, after=after) for message in messages[:-1]]
        inserts += [Insert(message=message, after=after, stands_for=forgotten) for message in messages[-1:]]
        return Patch(forget=forgotten, insert=tuple(inserts))

    def make_clearing(self, native: NativeCompaction) -> Patch:
        """Return the replacement of each cleared result that is still in view by a short text."""
        cleared = {self.result_of_call[call_id] for call_id in native.cleared if call_id in self.result_of_call}
        changes = [
            Replacement(item=item.item_id, message=_clear_results(item.message, set(native.cleared)))
            for item in self.context.items
            if item.item_id in cleared
        ]
        return Patch(replace=tuple(changes))


def _clear_results(message: Message, call_ids: Container[str]) -> Message:
    parts = [
        replace(part, output=CLEARED_RESULT) if isinstance(part, ToolResult) and part.call_id in call_ids else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def _describe_compaction(native: NativeCompaction) -> str:
    """Return what a file says about a compaction: kind, trigger, and tokens by the agent's own count."""
    name = "clearing of tool results" if native.kind == "microcompaction" else "compaction"
    if native.inferred:
        return f"{name} inferred from the sizes of the prompts: {native.tokens_before:,} to {native.tokens_after:,} tokens"
    trigger = "trigger not recorded" if native.trigger == "unknown" else native.trigger
    before = "" if native.tokens_before is None else f", at {native.tokens_before:,} tokens by the agent's count"
    return f"{name} by the agent ({trigger}){before}"


def _make_timing(answer: RecordedMessage, result: RecordedMessage) -> CallTiming | None:
    if answer.at_ms is None or result.at_ms is None or result.at_ms < answer.at_ms:
        return None
    return CallTiming(started_at_ms=answer.at_ms, seconds=(result.at_ms - answer.at_ms) / 1000)


def _make_step_event(step: int, request: _Request, messages: Sequence[RecordedMessage]) -> StepFinished:
    """Return the event for the end of a step; `messages` is the answer of the model with its tool results."""
    answer = messages[0]
    results_at_ms = [item.at_ms for item in messages[1:] if item.at_ms is not None]
    return StepFinished(
        step=step,
        view_tokens=request.view_tokens,
        view_messages=request.view_messages,
        usage=_UNKNOWN if answer.usage is None or answer.copied else answer.usage,
        cost_usd=None if answer.copied else answer.cost_usd,
        request_digest=request.digest,
        kept_prefix_messages=request.kept_prefix_messages,
        kept_prefix_tokens=request.kept_prefix_tokens,
        calls=len(answer.message.calls),
        call_errors=sum(result.status != "completed" for item in messages for result in item.message.results),
        model_seconds=_measure_seconds(request.asked_at_ms, answer.at_ms),
        tool_seconds=_measure_seconds(answer.at_ms, max(results_at_ms, default=None)),
    )


def _measure_seconds(start_ms: int | None, end_ms: int | None) -> float:
    return 0.0 if start_ms is None or end_ms is None else max(0, end_ms - start_ms) / 1000
