"""Clipping of what is long and old: results in what a compaction leaves, arguments of calls before one is needed."""

import json
from dataclasses import dataclass, replace

from harness import transcript
from harness.compaction.cuts import Tail
from harness.compaction.stages import Reducer, replaced
from harness.events import Replace
from harness.messages import Part, ToolCall, ToolResult
from harness.plan import Plan
from harness.tokens import Budget, Counter
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipOld:
    """Clips long results beyond the newest tokens of tool output, where another reducer leaves them in view.

    Where the other one finds nothing to do, nothing is clipped either.
    """

    reducer: Reducer
    protect_tokens: int
    characters: int
    """A longer result is clipped to this."""
    head_share: float
    """Of these, from its beginning; the rest is from its end."""
    counter: Counter

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        if plan.empty:
            return plan
        gone, held, changes = set(plan.forget), 0, []
        for item in reversed(view.items):
            if item.message.role != "tool" or item.item_id in gone:
                continue
            if held + item.tokens > self.protect_tokens and any(self._is_long(result) for result in item.message.results):
                changes.append(replaced(item, self._clipped))
                held += self.counter.count(changes[-1].message)
            else:
                held += item.tokens
        return replace(plan, replace=(*plan.replace, *changes[::-1]))

    def _is_long(self, result: ToolResult) -> bool:
        return len(result.output) > self.characters

    def _clipped(self, result: ToolResult) -> ToolResult:
        text, head = result.output, int(self.characters * self.head_share)
        if not self._is_long(result):
            return result
        gone = len(text) - self.characters
        output = f"{text[:head]}\n[... {gone} characters ...]\n{text[len(text) - self.characters + head :]}"
        return replace(result, output=output, clipped_characters=result.clipped_characters + gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortenArguments:
    """Of long texts among the arguments of certain calls before a tail, only the beginning stays, with a mark.

    Where no call in view is long, the cost is that of what came since the last asking; else that of the tail is added.
    """

    tail: Tail
    tools: tuple[str, ...]
    characters: int
    """A longer text is shortened."""
    kept_characters: int
    """To so many, before the mark."""
    mark: str

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        first = view.growth.read(view.items, self, lambda: _Long(self), lambda tally: tally.first)
        start = 0 if first is None else self.tail.start(view.items, budget)
        changes = [change for item in view.items[first:start] if (change := self.shortened(item))]
        told = f"{reason}; long arguments of {len(changes)} old answers" if changes else f"{reason}, but no old call is long"
        return Plan(reason=told, replace=tuple(changes))

    def shortened(self, item: Item) -> Replace | None:
        """What becomes of a message; None where it has nothing long."""
        if item.message.role != "assistant":
            return None
        parts = tuple(map(self._shortened, item.message.parts))
        return Replace(item=item.item_id, message=replace(item.message, parts=parts)) if parts != item.message.parts else None

    def _shortened(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.name not in self.tools or len(part.arguments_json) <= self.characters:
            return part
        given = dict(transcript.arguments(part))
        long = {name: text for name, text in given.items() if isinstance(text, str) and len(text) > self.characters}
        if not long:
            return part
        short = {name: f"{text[: self.kept_characters]}{self.mark}" for name, text in long.items()}
        return replace(part, arguments_json=json.dumps(given | short, ensure_ascii=False))


class _Long:
    """The tally of long calls: where the first one stands. See `harness.growth`."""

    __slots__ = ("_by", "_count", "first")

    def __init__(self, by: ShortenArguments) -> None:
        self._by = by
        self._count = 0
        self.first: int | None = None

    def add(self, item: Item) -> None:
        """See `harness.growth.Tally`."""
        if self.first is None and self._by.shortened(item):
            self.first = self._count
        self._count += 1
