"""The policy of the third design document (S2): keep a reserve free, keep recent tokens verbatim, merge summaries."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.formats.checkpoint import Checkpoint
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import at_least
from harness.compaction.triggers import Full, Undivided, WindowLess
from harness.compaction.turns import SummarizeTurns


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveRecent(Preset):
    """When less than the reserve is left of the window, all but the newest 20K tokens become one Markdown document.

    Source: S2.1 to S2.5, S2.8, S2.9; every default is the seed's. The document is merged from round to round and lists the files
    that were read and modified. When the summary fails, the session goes on as it is. An empty summary has failed too.
    """

    enabled: bool = True
    """False: the session runs on until the provider refuses the prompt (S2.9)."""
    context_window: int | None = None
    """Overrides the model's window for this policy (S2.8); None = the window of the model."""
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    """Estimated tokens at the end that stay verbatim, at least."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 13_107
    """Four fifths of the reserve; the seed gives none."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["reserve-recent"] = "reserve-recent"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 0, "reserve_tokens")
        at_least(self, 1, "context_window", "keep_recent_tokens", "summary_max_tokens", "clip_characters")

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize the turns before the newest tokens."""
        if not self.enabled:
            return Pipeline(division=Undivided(rule="compaction is disabled"))
        summarize = SummarizeTurns(
            keep_tokens=self.keep_recent_tokens,
            history=Checkpoint(),
            beginning=Checkpoint(part_of_turn=True),
            max_tokens=self.summary_max_tokens,
        )
        return Pipeline(
            division=WindowLess(reserve_tokens=self.reserve_tokens),
            rules=(Rule(trigger=Full(measure="reported-and-since", above=True), reducer=summarize),),
        )
