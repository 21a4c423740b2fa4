"""When there may be enough old tool output to be cleared, without a look at the whole view."""

from dataclasses import dataclass

from harness.tokens import Budget, Usage
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """Beyond the newest tokens of tool output more than so many have come since the last clearing.

    Looks back only as far as both together reach; a view that holds less in all is not looked at.
    """

    stub: str
    """Of a cleared result: where one stands, all before it is cleared."""
    protect_tokens: int
    least_saved_tokens: int

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        if view.tokens <= max(self.protect_tokens, self.least_saved_tokens):
            return None
        held = saved = 0
        for item in reversed(view.items):
            if item.message.role != "tool":
                continue
            if all(result.output == self.stub for result in item.message.results):
                return None
            held += item.tokens
            saved += item.tokens if held > self.protect_tokens else 0
            if saved > self.least_saved_tokens:
                return f"more than {self.least_saved_tokens} tokens of tool results beyond the newest {self.protect_tokens}"
        return None
