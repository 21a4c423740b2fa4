"""Counting by requests and answers: neighbouring results are one message, as where all results of an answer are sent together."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.compaction.cuts import BACK, Tail
from harness.compaction.moves.around import said_by_user
from harness.plan import Excerpt, Plan, Slot, SummaryFormat
from harness.tokens import Budget, Usage
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBundles:
    """So many bundles, at least one; the system message is none."""

    count: int

    def start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `harness.compaction.cuts.Tail`."""
        return _start(items, max(1, self.count))


class _Bundles:
    """The tally of bundles behind the newest one with a stub. See `harness.growth`."""

    __slots__ = ("_last", "_stub", "count")

    def __init__(self, stub: str | None) -> None:
        self._stub = stub
        self._last: str | None = None
        self.count = -1
        """The system message is none."""

    def add(self, item: Item) -> None:
        """See `harness.growth.Tally`."""
        role, stub = item.message.role, self._stub
        self.count += not role == self._last == "tool"
        self._last = role
        if stub is not None and role == "tool" and any(result.output == stub for result in item.message.results):
            self.count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreBundles:
    """More than so many bundles have come since the newest result with a certain text, or at all."""

    count: int
    stub: str | None = None
    """The text; None = all that is in view counts."""

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        if (
            view.growth.read(view.items, (_Bundles, self.stub), lambda: _Bundles(self.stub), lambda tally: tally.count)
            <= self.count
        ):
            return None
        return f"more than {self.count} requests and answers{'' if self.stub is None else ' since results were cleared'}"


def _start(items: Sequence[Item], count: int) -> int:
    """Index of the first item of the last so many bundles; 0 if there are fewer."""
    for index in range(len(items) - 1, 0, -1):
        if items[index].message.role == "tool" and items[index - 1].message.role == "tool":
            continue
        count -= 1
        if count == 0:
            return index
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetButRequest:
    """What lies before the tail goes, but for the first message of the user."""

    tail: Tail
    keep_request: bool
    """Whether that message stays."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        before = view.items[1 : BACK.snapped(view.items, self.tail.start(view.items, budget))]
        kept = request_in(view, len(before) + 1) if self.keep_request else None
        gone = tuple(item.item_id for item in before if item is not kept)
        return Plan(reason=reason if gone else f"{reason}, but nothing lies before the kept messages", forget=gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeButRequest:
    """What lies before the tail becomes a summary behind the first message of the user, which is told and stays."""

    tail: Tail
    keep_request: bool
    """Whether that message stays."""
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""
    updates: bool
    """Whether a former summary, wherever it stands, is told apart and replaced, instead of being a message like the others."""
    only_news: bool
    """Whether nobody is asked where nothing but that message and a former summary lies before the tail."""
    excerpt: Excerpt

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        cut = BACK.snapped(view.items, self.tail.start(view.items, budget))
        kept = request_in(view, cut) if self.keep_request else None
        former = [item for item in view.items if item.item_id in view.summaries]
        news = [item for item in view.items[1:cut] if item not in former and item is not kept]
        if cut <= 1 or (self.only_news and not news):
            return Plan(reason=f"{reason}, but nothing lies before the kept messages")
        told = [*view.items[1:cut], *(item for item in former if self.updates and item not in view.items[1:cut])]
        slot = Slot(
            after=(kept or view.items[0]).item_id,
            role="user",
            stands_for=tuple(item.item_id for item in told),
            format=self.format,
            max_tokens=self.max_tokens,
            former="apart" if self.updates else "among",
            excerpt=self.excerpt,
        )
        return Plan(reason=reason, forget=tuple(item.item_id for item in told if item is not kept), slots=(slot,))


def request_in(view: View, end: int) -> Item | None:
    """The first message of the user before a place, if there is one."""
    return next((view.items[index] for index in range(1, end) if said_by_user(view, index)), None)
