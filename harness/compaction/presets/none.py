"""Policy that never compacts, as the control of every comparison."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import OwnPreset, Pipeline
from harness.compaction.triggers import NoThreshold


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCompaction(OwnPreset):
    """No compaction: the session goes on until the provider refuses the prompt.

    Choose it as the control of every study: it shows what the window alone does to the task.

    Source: this project, as the control of every comparison.

    Example:
        >>> from harness import NoCompaction
        >>> from harness.conversation.tokens import Window
        >>> NoCompaction().budget(Window(tokens=32_768, source="configuration")).rule
        'no compaction'
    """

    kind: Literal["none"] = "none"

    @property
    def pipeline(self) -> Pipeline:
        """Pipeline (behaviour of the policy) without rules and without a threshold, so nothing is ever compacted."""
        return Pipeline(NoThreshold(rule="no compaction"))
