"""No compaction at all: the control arm, and what happens to it when the window is full (S2.9)."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import Pipeline, Preset
from harness.compaction.triggers import NoThreshold


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCompaction(Preset):
    """Goes on until the provider refuses the prompt. Source: S2.9.

    Attributes:
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    kind: Literal["none"] = "none"

    @property
    def pipeline(self) -> Pipeline:
        """The whole window, no threshold, no rule."""
        return Pipeline(NoThreshold(rule="no compaction"))
