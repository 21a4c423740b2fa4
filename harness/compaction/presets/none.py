"""No compaction at all: the control arm, and what happens to it when the window is full (S2.9)."""

from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageError
from harness.events import Moment
from harness.plan import Plan
from harness.tokens import Budget, QuarterOfCharacters, Usage, Window
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCompaction:
    """Goes on until the provider refuses the prompt. Source: S2.9."""

    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["none"] = "none"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        if self.clip_characters < 1:
            raise UsageError(f"clip_characters={self.clip_characters!r} must be at least 1")

    @property
    def counter(self) -> QuarterOfCharacters:
        """Only for the token curve; nothing is triggered by it."""
        return QuarterOfCharacters()

    def budget(self, window: Window) -> Budget:
        """The whole window, no threshold."""
        return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=None, rule="no compaction")

    def plan(self, view: View, budget: Budget, usage: Usage | None, moment: Moment = "step") -> Plan | None:
        """Never anything."""
        return None
