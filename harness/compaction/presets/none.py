"""No compaction at all: the control arm, and what happens to it when the window is full (S2.9)."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import Pipeline, Preset
from harness.compaction.triggers import NoThreshold
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCompaction(Preset):
    """Goes on until the provider refuses the prompt. Source: S2.9."""

    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["none"] = "none"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        if self.clip_characters < 1:
            raise UsageError(f"clip_characters={self.clip_characters!r} must be at least 1")

    @property
    def pipeline(self) -> Pipeline:
        """The whole window, no threshold, no rule."""
        return Pipeline(division=NoThreshold(rule="no compaction"))
