"""Numbers, timeline and requests to the model of a finished session, computed from its log.

Token estimates use the counter of the session's policy. Some policies trigger on the model's own token count instead.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.advisories import Advisory
from harness.conversation.codec import copy_fields, digest_message, encode_message
from harness.conversation.events import Compaction, Entry, ItemId, MessageAdded, SessionStarted, StepFinished
from harness.conversation.messages import Message
from harness.conversation.tokens import Counter as TokenCounter
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.view import Item, View, drop_rolled_back, fold, fold_entries, render_messages
from harness.errors import UsageError
from harness.inspection.part_counts import PartCounts, count_parts
from harness.inspection.view_history import ViewHistory
from harness.metrics.alerts import AlertMonitor, AlertReading
from harness.policies import policy_from_stored
from harness.revisions import read_stored_kind
from harness.session.totals import SessionTotals, add_sizes

MessageKind: TypeAlias = Literal["system", "user", "assistant", "tool results", "summaries", "markers"]
"""Kind of a message in the statistics of a session. Messages of the session itself are classified by their role.

Messages inserted by a compaction are `summaries` or, if they summarize no other messages, `markers`.
"""

MESSAGE_KINDS: tuple[MessageKind, ...] = ("system", "user", "assistant", "tool results", "summaries", "markers")
_KIND_BY_ROLE: dict[str, MessageKind] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool results"}

MAX_CACHED_DIGESTS = 200_000
EncodedMessages: TypeAlias = dict[int, tuple[Message, bytes]]
"""Messages encoded as JSON, by Python's `id()` of the message.

The message is stored as well, so that Python does not give its id to another object.
"""

UNKNOWN_START = SessionStarted(
    session_id="", task="", model="", policy_json="", window_tokens=0, threshold_tokens=None, budget_rule="", sandbox=""
)
"""Start event without any data, used for a log whose beginning, with the real start event, is missing."""


class KindShare(NamedTuple):
    """Number and estimated tokens of a session's messages of one kind, such as tool results.

    The messages are counted once for the end of the session, after all compactions, and once for the whole session.
    """

    kind: MessageKind
    view_messages: int
    """Number of messages of one kind, such as tool results, that the model still sees at the end of the session."""
    view_tokens: int
    """Estimated tokens in the messages of one kind, such as tool results, that the model still sees at the end of the session."""
    logged_messages: int
    """Number of messages of one kind, such as tool results, in the whole session, including those removed by compactions."""
    logged_tokens: int
    """Estimated tokens in all messages of one kind, such as tool results, of the whole session, at their original length."""


class StepPoint(NamedTuple):
    """Numbers of one step of a session: tokens, tool calls, cost and duration."""

    step: int
    view_tokens: int
    """Number of tokens in the request to the model, as estimated by the policy's counter."""
    view_messages: int
    prompt_tokens: int
    """Number of tokens in the request to the model, as reported by the provider."""
    output_tokens: int
    cache_read_tokens: int
    rounds: int
    """Number of compactions that had been applied in the session before this step."""
    calls: int
    call_errors: int
    cost_usd: float | None
    """Cost of the step's model call in US dollars; None if the price is unknown."""
    seconds: float
    """Duration, in seconds, of the step's model call and tool calls; for a scripted model, the time is virtual."""


class CompactionPoint(NamedTuple):
    """Numbers of one attempted compaction: sizes before and after, changed messages, cost and outcome."""

    event: int
    """Sequence number of the compaction event in the session log."""
    round: int
    step: int
    """Number of the step before which the compaction was attempted."""
    hook: str
    status: str
    reason: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    forgotten: int
    replaced: int
    inserted: int
    summary_characters: int
    cost_usd: float | None
    """Cost of writing the summary, in US dollars; None if no summarizer was called or the price is unknown."""
    wall_seconds: float
    shortfall: str
    """Reason why the compaction missed its target; empty if it did not."""

    @property
    def outcome(self) -> str:
        """Kind of the compaction, `summary` if it inserted messages or `pruning` if it only removed or shortened some.

        The outcome of an attempt that was not applied is its status, such as `failed`.
        """
        return self.status if self.status != "applied" else "summary" if self.inserted else "pruning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Numbers of one session, computed from its log by `inspect_session`.

    Attributes:
        session_id: Name of the session; empty if the log is incomplete at its beginning. Required.
        task: Request of the user with which the session started. Required.
        model: Name of the agent's model. Required.
        policy: Kind of the compaction policy, e.g. `keep-last`. Required.
        window_tokens: Context window in tokens; 0 if unknown. Required.
        threshold_tokens: Threshold of the policy in tokens; None if the policy has no threshold. Required.
        budget_rule: Rule by which the threshold was computed, as text. Required.
        advisories: Warnings about the configuration, found before the session started. Required.
        status: `completed` or `failed`; `active` if the log has no end. Required.
        reason: Stop reason of the session, e.g. `replied`. Required.
        detail: Explanation of the stop reason. Required.
        events: Number of events of each kind, by kind. Required.
        turns: Number of user messages. Required.
        messages: Number of messages of all roles that were logged. Required.
        parts: Number of parts, as the SQL view `parts` of a journal lists them: those of all messages, also of those that
            compactions inserted, of steps and of compactions. Required.
        compacted_parts: Number of these parts that compactions or rollbacks removed from the view. Required.
        view_messages: Number of messages in the view at the end of the log. Required.
        view_tokens: Estimated tokens of the view at the end of the log. Required.
        shares: Number and tokens of the messages of each kind, such as tool results. Required.
        timeline: Tokens, tool calls, cost and duration of each step, in order. Required.
        compactions: All attempted compactions, in order. Required.
        totals: Steps, tokens, costs and compactions; sub-agents are sessions of their own and not included in the steps.
            Required.
        alerts: Alerts that fire for the session, e.g. a low cache hit rate, with their values and advice. Required.

    Example::

        location = harness.find_session("3f2a", ["experiments/thresholds"])
        inspection = harness.inspect_session(location.read_entries())
        print(inspection.view_tokens, inspection.summaries, inspection.prunings)
    """

    session_id: str
    task: str
    model: str
    policy: str
    window_tokens: int
    threshold_tokens: int | None
    budget_rule: str
    advisories: tuple[Advisory, ...]
    status: str
    reason: str
    detail: str
    events: dict[str, int]
    turns: int
    messages: int
    parts: int
    compacted_parts: int
    view_messages: int
    view_tokens: int
    shares: tuple[KindShare, ...]
    timeline: tuple[StepPoint, ...]
    compactions: tuple[CompactionPoint, ...]
    totals: SessionTotals
    alerts: tuple[AlertReading, ...]

    @property
    def clipped_outputs(self) -> int:
        """Number of tool outputs that were truncated before they were logged."""
        return sum(cut.outputs for cut in self.totals.cuts)

    @property
    def clipped_characters(self) -> int:
        """Number of characters removed from truncated tool outputs."""
        return sum(cut.characters for cut in self.totals.cuts)

    @property
    def clipped_bytes(self) -> int | None:
        """Number of UTF-8 bytes removed from truncated tool outputs; None if version 0.2 or older truncated an output."""
        return add_sizes(cut.size_bytes for cut in self.totals.cuts)

    @property
    def summaries(self) -> int:
        """Number of applied compactions that inserted messages, usually a summary."""
        return sum(compaction.outcome == "summary" for compaction in self.compactions)

    @property
    def prunings(self) -> int:
        """Number of applied compactions that only removed or shortened messages and inserted none."""
        return sum(compaction.outcome == "pruning" for compaction in self.compactions)


def inspect_session(entries: Iterable[Entry]) -> Inspection:
    """Compute the numbers of a session, such as tokens, steps, compactions and costs, from its log.

    Args:
        entries: Log of the session, from its beginning to any point. Events that were rolled back only count in `events`, `parts`
            and `compacted_parts`.

    Example::

        location = harness.find_session("3f2a", ["experiments/thresholds"])
        print(harness.inspect_session(location.read_entries()).totals.describe())
    """
    log = tuple(entries)
    reader = LogReader.from_log(log)
    reader.read(drop_rolled_back(log))
    return reader.build_inspection()


def find_counter(entries: Sequence[Entry]) -> TokenCounter:
    """Return the counter with which the compaction policy of a session estimates the tokens of messages.

    If the session's log names no known policy, the counter estimates one token per four characters.
    """
    start_event = next((entry.event for entry in entries if isinstance(entry.event, SessionStarted)), None)
    plain = {} if start_event is None else _parse_policy(start_event.policy_json)
    if "kind" not in plain:  # the error would list all policies, whose names take long to find
        return QuarterOfCharacters()
    try:
        return policy_from_stored(plain).counter
    except UsageError:
        return QuarterOfCharacters()


def _parse_policy(policy_json: str) -> Mapping[str, object]:
    try:
        plain = json.loads(policy_json)
    except (ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}


@dataclass(slots=True)
class LogReader:
    """Collector that reads a session's log piece by piece, and builds an `Inspection` from its numbers."""

    counter: TokenCounter
    events: Counter[str]
    """Number of events of each kind in the whole log."""
    part_counts: PartCounts
    """Number of parts in the whole log."""
    view: View = field(default_factory=View)
    totals: SessionTotals = field(default_factory=SessionTotals)
    start_event: SessionStarted = UNKNOWN_START
    added_messages: dict[ItemId, Message] = field(default_factory=dict)
    inserted_kinds: dict[ItemId, MessageKind] = field(default_factory=dict)
    logged_messages: Counter[MessageKind] = field(default_factory=Counter)
    logged_tokens: Counter[MessageKind] = field(default_factory=Counter)
    timeline: list[StepPoint] = field(default_factory=list)
    """Numbers of the steps that were read so far."""
    compactions: list[CompactionPoint] = field(default_factory=list)
    alerts: AlertMonitor = field(default_factory=AlertMonitor)

    @classmethod
    def from_log(cls, log: Sequence[Entry]) -> "LogReader":
        """Return a new collector for the numbers of a session; it has read nothing of the session's log yet."""
        return cls(find_counter(log), Counter(entry.event.kind for entry in log), count_parts(log))

    def read(self, entries: Iterable[Entry]) -> None:
        """Read the next log entries, and update the messages that the model sees and all numbers about the session."""
        for is_compaction, run in groupby(entries, lambda entry: isinstance(entry.event, Compaction)):
            if is_compaction:
                for entry in run:
                    self._read_compaction(entry)
            else:
                self._read_run(list(run))

    def _read_run(self, run: Sequence[Entry]) -> None:
        """Read entries without a compaction."""
        self.view = fold_entries(self.view, run, self.counter)
        added_tokens = 0
        for entry in run:
            self.totals(entry)
            self.alerts(entry)
            match entry.event:
                case SessionStarted() as started:
                    self.start_event = started
                case MessageAdded():
                    added_tokens += 1
                case StepFinished() as finished:
                    self.timeline.append(_make_step_point(finished, self.view.rounds))
        for item in self.view.items[len(self.view.items) - added_tokens :]:
            self.added_messages[item.item_id] = item.message
            self._count_item(item)

    def _read_compaction(self, entry: Entry) -> None:
        event = entry.event
        assert isinstance(event, Compaction)
        self.view = fold(self.view, entry, self.counter)
        self.totals(entry)
        self.alerts(entry)
        self.compactions.append(_make_compaction_point(entry.seq, event))
        if event.status == "applied":
            for slot, insert in enumerate(event.patch.insert):
                item_id = ItemId(entry.seq, slot)
                self.inserted_kinds[item_id] = "summaries" if insert.stands_for else "markers"
                if item := next((item for item in reversed(self.view.items) if item.item_id == item_id), None):
                    self._count_item(item)

    def _count_item(self, item: Item) -> None:
        kind = self._classify_message(item.item_id, item.message)
        self.logged_messages[kind] += 1
        self.logged_tokens[kind] += item.tokens

    def _classify_message(self, item_id: ItemId, message: Message) -> MessageKind:
        return self.inserted_kinds.get(item_id) or _KIND_BY_ROLE[message.role]

    def _compute_shares(self) -> tuple[KindShare, ...]:
        messages: Counter[MessageKind] = Counter()
        tokens: Counter[MessageKind] = Counter()
        for item in self.view.items:
            kind = self._classify_message(item.item_id, item.message)
            messages[kind] += 1
            tokens[kind] += item.tokens
        return tuple(
            KindShare(kind, messages[kind], tokens[kind], self.logged_messages[kind], self.logged_tokens[kind])
            for kind in MESSAGE_KINDS
            if self.logged_messages[kind]
        )

    def build_inspection(self) -> Inspection:
        """Return the numbers of the session for all log entries read so far."""
        end_event = self.totals.end_event
        messages = self.added_messages.values()
        return Inspection(
            **copy_fields(self.start_event, Inspection),
            policy=read_stored_kind(str(_parse_policy(self.start_event.policy_json).get("kind", ""))),
            status=end_event.status if end_event else "active",
            reason=end_event.reason if end_event else "",
            detail=end_event.detail if end_event else "",
            events=dict(sorted(self.events.items())),
            turns=[message.role for message in messages].count("user"),
            messages=len(messages),
            **self.part_counts._asdict(),
            view_messages=len(self.view.items),
            view_tokens=self.view.tokens,
            shares=self._compute_shares(),
            timeline=tuple(self.timeline),
            compactions=tuple(self.compactions),
            totals=self.totals,
            alerts=self.alerts.list_firing(),
        )


def _make_step_point(event: StepFinished, rounds: int) -> StepPoint:
    usage = event.usage
    return StepPoint(
        step=event.step,
        view_tokens=event.view_tokens,
        view_messages=event.view_messages,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        rounds=rounds,
        calls=event.calls,
        call_errors=event.call_errors,
        cost_usd=event.cost_usd,
        seconds=event.model_seconds + event.tool_seconds,
    )


def _make_compaction_point(seq: int, event: Compaction) -> CompactionPoint:
    patch = event.patch
    return CompactionPoint(
        **copy_fields(event, CompactionPoint),
        event=seq,
        hook=event.moment,
        forgotten=len(patch.forget),
        replaced=len(patch.replace),
        inserted=len(patch.insert),
        summary_characters=len(event.summary),
        cost_usd=event.summarizer_cost_usd,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """Request that was sent to the model in a step, reconstructed from the log, with answer and tool results."""

    step: int
    view: View
    """Messages of which the request to the model was made, after all earlier compactions."""
    messages: Sequence[Message]
    """Messages as sent to the model: the messages of `view`, with additions that the provider's rules require."""
    digest: str
    """Digest of the reconstructed request, a SHA-256 chain over its messages, in hexadecimal digits."""
    logged_digest: str
    """Digest that was logged when the request was sent. If it differs from `digest`, the log is damaged."""
    compactions: tuple[Compaction, ...]
    """Compactions that were attempted right before the request, including attempts that were not applied."""
    answer: Message
    results: tuple[Message, ...]
    """Results of the tool calls in the answer, in the order of the calls."""
    end_event: StepFinished

    @property
    def matches_log(self) -> bool:
        """Whether the request reconstructed from the log is identical to the request that was sent."""
        return self.digest == self.logged_digest


class _StepPlace(NamedTuple):
    """Indices of the log entries of one step."""

    previous_end: int
    """Index of the end of the previous step, or 0; compactions before the request are logged after this index."""
    answer: int | None
    """Index of the model's answer; None if the log contains no answer up to the end of the step."""
    end: int


def _find_places(entries: Sequence[Entry]) -> dict[int, _StepPlace]:
    """Return where in the log the entries of each finished step are, by number of the step."""
    places: dict[int, _StepPlace] = {}
    previous_end, end, answer = 0, 0, None
    for index, (_, event) in enumerate(entries):
        if isinstance(event, MessageAdded) and event.message.role == "assistant":
            previous_end, answer = end, index
        elif isinstance(event, StepFinished):
            end = index
            places[event.step] = _StepPlace(previous_end, answer, end)
    return places


class RequestHistory:
    """Requests that were sent in a session, reconstructed from its log, one at a time.

    The preparation takes time that grows with the length of the session; each request then takes a fraction of a second.
    """

    def __init__(self, entries: Iterable[Entry], encoded: EncodedMessages | None = None) -> None:
        """Prepare to reconstruct the requests of a session from its log.

        Args:
            entries: Log of the session. Events that were rolled back are ignored.
            encoded: Messages that were already encoded as JSON to compute digests; new ones are added. Pass the same mapping for
                several sessions to save time if they share message objects. None encodes every message.
        """
        log = tuple(entries)
        self.entries = drop_rolled_back(log)
        """Entries of the log that still count, without those that were rolled back."""
        self._counter = find_counter(log)
        self._places = _find_places(self.entries)
        self._digests: dict[tuple[bytes, int], bytes] = {}
        self._encoded = encoded
        self._previous: tuple[Sequence[Message], bytes] = ((), b"")  # messages and digest of the request computed last

    @cached_property
    def _views(self) -> ViewHistory:
        """Messages that the model saw after any log entry, computed only if a single request is reconstructed."""
        return ViewHistory(self._counter, self.entries)

    def reconstruct(self, step: int) -> SentRequest:
        """Reconstruct the request that was sent to the model in a step, with the answer and the tool results.

        Args:
            step: Number of the step, from 1.

        Raises:
            UsageError: The step is not finished, or the log does not contain its answer.
        """
        if step not in self._places:
            known = f"it has steps 1 to {len(self._places)}" if self._places else "no step has finished"
            raise UsageError(f"the session has no finished step {step}; {known}")
        place = self._places[step]
        if place.answer is None:
            raise UsageError(f"step {step} of the session has no answer of the model; the log is incomplete")
        return self._build_request(step, place, place.answer, self._views.view_after(place.answer))

    @property
    def step_count(self) -> int:
        """Number of finished steps."""
        return len(self._places)

    def reconstruct_all(self, reader: LogReader) -> Iterator[SentRequest]:
        """Reconstruct the requests of all finished steps in order, in one pass over the log.

        Args:
            reader: Collector of the session's numbers, which has read nothing of the log yet. When a request is yielded, the
                collector has read the log to the end of the step; after the last request, it has read the whole log.

        Raises:
            UsageError: The log does not contain the answer of a step.
        """
        position = 0
        for step, place in sorted(self._places.items()):
            if place.answer is None:
                raise UsageError(f"step {step} of the session has no answer of the model; the log is incomplete")
            if position < place.answer:
                reader.read(self.entries[position : place.answer])
            view = reader.view
            reader.read(self.entries[place.answer : place.end + 1])
            position = place.end + 1
            yield self._build_request(step, place, place.answer, view)
        reader.read(self.entries[position:])

    def _build_request(self, step: int, place: _StepPlace, answer_index: int, view: View) -> SentRequest:
        answer, *later = [event.message for _, event in self.entries[answer_index : place.end] if isinstance(event, MessageAdded)]
        end_event = self.entries[place.end].event
        assert isinstance(end_event, StepFinished)
        messages = render_messages(view.messages)
        return SentRequest(
            step=step,
            view=view,
            messages=messages,
            digest=self._compute_digest(messages),
            logged_digest=end_event.request_digest,
            compactions=tuple(
                event for _, event in self.entries[place.previous_end : answer_index] if isinstance(event, Compaction)
            ),
            answer=answer,
            results=tuple(message for message in later if message.role == "tool"),
            end_event=end_event,
        )

    def _compute_digest(self, messages: Sequence[Message]) -> str:
        previous, digest = self._previous
        if messages[: len(previous)] != previous:
            previous, digest = (), b""
        for message in messages[len(previous) :]:
            key = digest, id(message)  # the log keeps its messages, so that no other message gets this `id`
            extended = self._digests.get(key)
            if extended is None:
                if len(self._digests) >= MAX_CACHED_DIGESTS:
                    self._digests.clear()
                extended = self._digests[key] = digest_message(message, digest, self._encode(message))
            digest = extended
        self._previous = messages, digest
        return digest.hex()

    def _encode(self, message: Message) -> bytes | None:
        if self._encoded is None:
            return None
        known = self._encoded.get(id(message))
        if known is None:
            known = self._encoded[id(message)] = message, encode_message(message)
        return known[1]


def reconstruct_request(entries: Iterable[Entry], step: int) -> SentRequest:
    """Reconstruct from the log the request that was sent to the model in a step, with the answer and the tool results.

    Args:
        entries: Log of the session. Events that were rolled back are ignored.
        step: Number of the step, from 1.

    Raises:
        UsageError: The step is not finished, or the log does not contain its answer.

    Example::

        location = harness.find_session("3f2a", ["experiments/thresholds"])
        sent = harness.reconstruct_request(location.read_entries(), step=12)
        print(len(sent.messages), sent.answer.text)
    """
    return RequestHistory(entries).reconstruct(step)
