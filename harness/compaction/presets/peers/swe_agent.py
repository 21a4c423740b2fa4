"""SWE-agent and the study The Complexity Trap: all but the newest observations become one line each, and nobody is asked."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.moves.observations import Elide, Overdue
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import at_least
from harness.compaction.triggers import Undivided


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastObservations(Preset):
    """What both share: the newest results stay."""

    polling: int = 1
    """Results that are masked at a time: between two maskings up to so many more, less one, stay."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 1, "keep_results", "polling", "clip_characters")

    def _pipeline(self, keep: int) -> Pipeline:
        """One rule: mask what is overdue."""
        rule = Rule(
            trigger=Overdue(keep=keep, every=self.polling),
            reducer=Elide(keep=keep, every=self.polling),
            quiet=True,
        )
        return Pipeline(division=Undivided(rule=f"the newest {keep} results stay"), rules=(rule,))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweAgent(_LastObservations):
    """Before every step all results but the newest 5 become a line that says how long they were.

    Source: SWE-agent 3ea751c0, `sweagent/agent/history_processors.py` (LastNObservations, n = 5 as in the paper's configuration);
    PEERS 2.12. The original masks a copy of the whole history for each request; here a masked result stays masked, which is the
    same, since results only get older. Where masking would save nothing (results shorter than the line) the engine waits. The
    count of images is left out: there are none.
    """

    keep_results: int = 5
    """Newest results that stay."""
    kind: Literal["swe-agent"] = "swe-agent"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: mask what is overdue."""
        return self._pipeline(self.keep_results)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTrapMask(_LastObservations):
    """Before every step all results but the newest 10 become a line that says how long they were.

    Source: The Complexity Trap (arXiv 2508.21433), fork of SWE-agent 1b07decf, observation masking with a window of 10, which its
    hybrid keeps too; its sweep has 5, 10 and 15. PEERS 2.12. Otherwise as `swe-agent`.
    """

    keep_results: int = 10
    """Newest results that stay."""
    kind: Literal["complexity-trap-mask"] = "complexity-trap-mask"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: mask what is overdue."""
        return self._pipeline(self.keep_results)
