"""What a session came to, read off its log: totals, what compactions took away, where the tokens are, step by step (S3.18).

Every estimate is by the counter of the session's policy, so the numbers are those that its triggers looked at.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from harness.errors import UsageError, format_count
from harness.events import Compaction, Entry, ItemId, MessageAdded, SessionEnded, SessionStarted, StepFinished, SubAgentEnded
from harness.messages import Message
from harness.policies import policy_from_plain
from harness.tokens import Counter as TokenCounter
from harness.tokens import QuarterOfCharacters
from harness.view import View, drop_rolled_back, fold

Kind: TypeAlias = Literal["system", "user", "assistant", "tool results", "summaries", "markers"]
"""Of a message: by its role, or what a compaction put in: a summary, or what stands beside one."""

KINDS: tuple[Kind, ...] = ("system", "user", "assistant", "tool results", "summaries", "markers")
_BY_ROLE: dict[str, Kind] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool results"}


class Share(NamedTuple):
    """Where tokens are: the messages of one kind."""

    kind: Kind
    view_messages: int
    """In the view at the end of the log."""
    view_tokens: int
    """Of those, estimated."""
    logged_messages: int
    """Ever in view."""
    logged_tokens: int
    """Of those as they came in, estimated."""


class StepPoint(NamedTuple):
    """One step of the timeline."""

    step: int
    view_tokens: int
    """The view that was sent, estimated by the policy's counter."""
    view_messages: int
    prompt_tokens: int
    """Measured by the provider."""
    output_tokens: int
    cache_read_tokens: int
    rounds: int
    """Compactions applied before it."""
    calls: int
    call_errors: int
    cost_usd: float | None
    """None = the price is not known."""
    seconds: float
    """Of the model (a scripted one on its virtual clock) and the tools together."""


class CompactionPoint(NamedTuple):
    """One attempt at a compaction on the timeline."""

    event: int
    """Number of its event in the log."""
    round: int
    step: int
    """The step before which it took place."""
    moment: str
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
    """Of the summarizer; None = nobody was asked, or the price is not known."""
    wall_seconds: float

    @property
    def what(self) -> str:
        """A word for it: `summary`, `pruning`, or what came of a fruitless attempt."""
        return self.status if self.status != "applied" else "summary" if self.inserted else "pruning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All numbers of one session."""

    session_id: str
    """Empty = the log does not begin at its beginning."""
    task: str
    model: str
    policy: str
    """Kind of the policy."""
    window_tokens: int
    """0 = not known."""
    threshold_tokens: int | None
    """None = the view is never compacted for its size."""
    budget_rule: str
    status: str
    """`active` while the log has no end."""
    reason: str
    detail: str
    events: dict[str, int]
    """How many events of each kind, by kind."""
    turns: int
    """Messages of the user."""
    messages: int
    """Of all roles that joined the conversation."""
    parts: int
    """Of those messages."""
    compacted_parts: int
    """Of those parts, no longer in view as they were logged."""
    clipped_outputs: int
    """Tool outputs that were cut before they were logged."""
    clipped_characters: int
    view_messages: int
    view_tokens: int
    """At the end of the log, estimated."""
    shares: tuple[Share, ...]
    """Of the kinds that there are."""
    timeline: tuple[StepPoint, ...]
    compactions: tuple[CompactionPoint, ...]
    """Every attempt, in order."""
    sub_agents: tuple[SubAgentEnded, ...] = ()
    """What each took, in order; their steps are those of sessions of their own."""

    @property
    def steps(self) -> int:
        """Model calls that were finished."""
        return len(self.timeline)

    @property
    def summaries(self) -> int:
        """Applied compactions that put something in."""
        return sum(one.what == "summary" for one in self.compactions)

    @property
    def prunings(self) -> int:
        """Applied compactions that put nothing in."""
        return sum(one.what == "pruning" for one in self.compactions)

    @property
    def fruitless(self) -> int:
        """Attempts that failed or would have saved nothing."""
        return sum(one.status != "applied" for one in self.compactions)

    @property
    def prompt_tokens(self) -> int:
        """Measured, cached ones included, over all steps and sub-agents."""
        return sum(point.prompt_tokens for point in self.timeline) + sum(one.prompt_tokens for one in self.sub_agents)

    @property
    def output_tokens(self) -> int:
        """Measured, over all steps and sub-agents."""
        return sum(point.output_tokens for point in self.timeline) + sum(one.output_tokens for one in self.sub_agents)

    @property
    def cache_read_tokens(self) -> int:
        """Of the prompts, as the provider reports, over all steps."""
        return sum(point.cache_read_tokens for point in self.timeline)

    @property
    def cost_usd(self) -> float | None:
        """Of the agent's calls; None = a price is not known."""
        return _sum(point.cost_usd for point in self.timeline)

    @property
    def total_cost_usd(self) -> float | None:
        """Of the agent's calls and its sub-agents; None = a price is not known."""
        return _sum((self.cost_usd, *(one.cost_usd for one in self.sub_agents)))

    @property
    def summarizer_cost_usd(self) -> float:
        """Of the summaries as far as their prices are known."""
        return sum(one.cost_usd or 0.0 for one in self.compactions)


def took(sub_agents: Sequence[SubAgentEnded]) -> str:
    """What some sub-agents took together, in words."""
    steps, cost = sum(one.steps for one in sub_agents), _sum(one.cost_usd for one in sub_agents)
    sent, written = sum(one.prompt_tokens for one in sub_agents), sum(one.output_tokens for one in sub_agents)
    price = "at an unknown price" if cost is None else f"${cost:.4f}"
    return f"{format_count(steps, 'step')}, {sent:,} tokens in, {written:,} out, {price}"


def inspect_session(entries: Iterable[Entry]) -> Inspection:
    """The numbers of a session.

    Args:
        entries: its log, whole or from its beginning to anywhere. What was rolled back stands in `events` alone.
    """
    log = tuple(entries)
    reader = _Reader(counter_of(log), Counter(entry.event.kind for entry in log))
    for entry in drop_rolled_back(log):
        reader.read(entry)
    return reader.inspection()


def counter_of(entries: Sequence[Entry]) -> TokenCounter:
    """How a session's policy estimates tokens; of a policy that is not known here, a quarter of the characters."""
    started = next((entry.event for entry in entries if isinstance(entry.event, SessionStarted)), None)
    if started is None:
        return QuarterOfCharacters()
    try:
        return policy_from_plain(_plain(started.policy_json)).counter
    except UsageError:
        return QuarterOfCharacters()


def _sum(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


def _plain(policy_json: str) -> Mapping[str, object]:
    """The table of a policy; empty where it is none."""
    try:
        plain = json.loads(policy_json)
    except ValueError:
        return {}
    return plain if isinstance(plain, dict) else {}


@dataclass(slots=True)
class _Reader:
    """Folds a log and keeps what the view forgets."""

    counter: TokenCounter
    events: Counter[str]
    view: View = field(default_factory=View)
    started: SessionStarted | None = None
    ended: SessionEnded | None = None
    added: dict[ItemId, Message] = field(default_factory=dict)
    inserted: dict[ItemId, Kind] = field(default_factory=dict)
    gone: set[ItemId] = field(default_factory=set)
    logged: Counter[Kind] = field(default_factory=Counter)
    logged_tokens: Counter[Kind] = field(default_factory=Counter)
    timeline: list[StepPoint] = field(default_factory=list)
    compactions: list[CompactionPoint] = field(default_factory=list)
    sub_agents: list[SubAgentEnded] = field(default_factory=list)

    def read(self, entry: Entry) -> None:
        """Take in one event that counts."""
        before, event = self.view, entry.event
        self.view = fold(before, entry, self.counter)
        self.ended = event if isinstance(event, SessionEnded) else None
        match event:
            case SessionStarted():
                self.started = self.started or event
            case MessageAdded():
                self.added[ItemId(entry.seq)] = event.message
                self._log(ItemId(entry.seq))
            case StepFinished():
                self.timeline.append(_step_point(event, before.rounds))
            case SubAgentEnded():
                self.sub_agents.append(event)
            case Compaction():
                self.compactions.append(_compaction_point(entry.seq, event))
                if event.status == "applied":
                    self._compacted(entry.seq, event, before)

    def _compacted(self, seq: int, event: Compaction, before: View) -> None:
        known = {item.item_id for item in before.items}
        named = {*event.patch.forget, *(change.item for change in event.patch.replace)}
        self.gone |= named & known & self.added.keys()
        for slot, insert in enumerate(event.patch.insert):
            self.inserted[ItemId(seq, slot)] = "summaries" if insert.stands_for else "markers"
            self._log(ItemId(seq, slot))

    def _log(self, item_id: ItemId) -> None:
        item = next((item for item in reversed(self.view.items) if item.item_id == item_id), None)
        if item is not None:
            kind = self._kind(item_id, item.message)
            self.logged[kind] += 1
            self.logged_tokens[kind] += item.tokens

    def _kind(self, item_id: ItemId, message: Message) -> Kind:
        return self.inserted.get(item_id) or _BY_ROLE[message.role]

    def _shares(self) -> tuple[Share, ...]:
        messages: Counter[Kind] = Counter()
        tokens: Counter[Kind] = Counter()
        for item in self.view.items:
            kind = self._kind(item.item_id, item.message)
            messages[kind] += 1
            tokens[kind] += item.tokens
        return tuple(
            Share(kind, messages[kind], tokens[kind], self.logged[kind], self.logged_tokens[kind])
            for kind in KINDS
            if self.logged[kind]
        )

    def inspection(self) -> Inspection:
        """What was read."""
        started, ended = self.started, self.ended
        cut = [result.clipped_characters for message in self.added.values() for result in message.results]
        return Inspection(
            session_id=started.session_id if started else "",
            task=started.task if started else "",
            model=started.model if started else "",
            policy=str(_plain(started.policy_json).get("kind", "")) if started else "",
            window_tokens=started.window_tokens if started else 0,
            threshold_tokens=started.threshold_tokens if started else None,
            budget_rule=started.budget_rule if started else "",
            status=ended.status if ended else "active",
            reason=ended.reason if ended else "",
            detail=ended.detail if ended else "",
            events=dict(sorted(self.events.items())),
            turns=sum(message.role == "user" for message in self.added.values()),
            messages=len(self.added),
            parts=sum(len(message.parts) for message in self.added.values()),
            compacted_parts=sum(len(self.added[item].parts) for item in self.gone),
            clipped_outputs=sum(characters > 0 for characters in cut),
            clipped_characters=sum(cut),
            view_messages=len(self.view.items),
            view_tokens=self.view.tokens,
            shares=self._shares(),
            timeline=tuple(self.timeline),
            compactions=tuple(self.compactions),
            sub_agents=tuple(self.sub_agents),
        )


def _step_point(event: StepFinished, rounds: int) -> StepPoint:
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


def _compaction_point(seq: int, event: Compaction) -> CompactionPoint:
    patch = event.patch
    return CompactionPoint(
        event=seq,
        round=event.round,
        step=event.step,
        moment=event.moment,
        status=event.status,
        reason=event.reason,
        tokens_before=event.tokens_before,
        tokens_after=event.tokens_after,
        messages_before=event.messages_before,
        messages_after=event.messages_after,
        forgotten=len(patch.forget),
        replaced=len(patch.replace),
        inserted=len(patch.insert),
        summary_characters=len(event.summary),
        cost_usd=event.summarizer_cost_usd,
        wall_seconds=event.wall_seconds,
    )
