"""Clipping of long old results in what a compaction leaves."""

from dataclasses import dataclass, replace

from harness.compaction.stages import Reducer, replaced
from harness.messages import ToolResult
from harness.plan import Plan
from harness.tokens import Budget, Counter
from harness.view import View


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
