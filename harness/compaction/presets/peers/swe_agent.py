"""SWE-agent, its small sister without compaction, and the study The Complexity Trap.

Old observations become one line each, or old turns a checkpoint.
"""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.formats.notes import Notes
from harness.compaction.moves.observations import Elide, Overdue, SummarizeTurns, TurnsSinceSummary
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import at_least
from harness.compaction.triggers import Undivided
from harness.truncation import Truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniSweAgent(Preset):
    """Nothing is compacted; of an output of more than 10,000 characters the first and the last 5,000 stay.

    Source: mini-swe-agent a83fcae8, `agents/default.py` and `config/benchmarks`; PEERS "mini-swe-agent" and 2.12. The history is
    linear and whole: the control that published results stand on. A refused prompt ends the run, as in the original. Different
    from it: the line between the two ends counts among the characters, so each is 30 shorter.
    """

    clip_characters: int = 10_000
    """Of a longer tool output the first and the last half of so many are logged."""
    kind: Literal["mini-swe-agent"] = "mini-swe-agent"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 1, "clip_characters")

    @property
    def truncation(self) -> Truncation:
        """Both ends of an output."""
        return Truncation(max_characters=self.clip_characters, keep="ends")

    @property
    def pipeline(self) -> Pipeline:
        """The whole window, no threshold, no rule."""
        return Pipeline(division=Undivided(rule="no compaction"))


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


CHECKPOINT = (
    "Sum up the turns of a coding agent below as a checkpoint from which it goes on. Leave out nothing that it still needs."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTrapSummary(Preset):
    """At 31 turns without one, the oldest 21 become a checkpoint of the assistant behind the request; the newest 10 stay.

    Source: The Complexity Trap (arXiv 2508.21433), fork of SWE-agent 1b07decf, SummarizeEveryNTurns with n = 21 and m = 10 of its
    main runs; PEERS 2.12. Former checkpoints stay, and the newest is told. With `mask_results = 10` it is the study's hybrid.
    Different from the original: the request is told each time, there only to the first checkpoint; what the user said between
    turns is told and goes with them, there it goes untold. When the summary fails, the session goes on as it is. An empty summary
    has failed too.
    """

    turns: int = 21
    """Turns that a checkpoint stands for."""
    keep_turns: int = 10
    """Newest turns that stay."""
    latest_only: bool = False
    """Whether only the newest checkpoint stays (`static` of the original)."""
    mask_results: int | None = None
    """Newest results that stay, the others becoming a line each; None = all stay."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 4_096
    """The source sets none; ours."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["complexity-trap-summary"] = "complexity-trap-summary"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 1, "turns", "mask_results", "summary_max_tokens", "clip_characters")
        at_least(self, 0, "keep_turns")

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize the oldest turns. In the hybrid another: mask what is overdue."""
        summarize = SummarizeTurns(
            turns=self.turns,
            latest_only=self.latest_only,
            format=Notes(instruction=CHECKPOINT, heading="Checkpoint of earlier turns:"),
            max_tokens=self.summary_max_tokens,
        )
        rules: tuple[Rule, ...] = (Rule(trigger=TurnsSinceSummary(count=self.turns + self.keep_turns), reducer=summarize),)
        if self.mask_results is not None:
            mask = Elide(keep=self.mask_results, every=1)
            rules = (*rules, Rule(trigger=Overdue(keep=self.mask_results, every=1), reducer=mask, quiet=True))
        return Pipeline(division=Undivided(rule=f"{self.turns + self.keep_turns} turns without a summary"), rules=rules)
