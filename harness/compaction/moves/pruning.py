"""When there is enough old tool output to be cleared, without a look at the whole view."""

from dataclasses import dataclass, field

from harness.compaction.stages import Mask
from harness.tokens import Budget, Usage
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """A mask has enough to do. Where it has not, it is as if nothing had been due."""

    mask: Mask = field(repr=False)

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        if not self.mask.worth(view):
            return None
        least, protected = self.mask.least_saved_tokens, self.mask.keep_tokens
        return f"more than {least} tokens of tool results beyond the newest {protected}"
