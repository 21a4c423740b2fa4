"""pi: a reserve at the end of the window, the newest 20K tokens, and a turn that is summed up in two parts."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.formats.brief import Brief, Capped
from harness.compaction.moves.splits import SplitTurn
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import at_least
from harness.compaction.triggers import Always, Full, Undivided, WindowLess

HISTORY = """\
Create a summary of the session above in exactly these sections:

## Goal
## Constraints & Preferences
## Progress
### Done
### In Progress
### Blocked
## Key Decisions
## Next Steps
## Critical Context"""
MERGE = "Update the previous summary with the new messages: keep what it has, move what is done, add what is new."
BEGINNING = """\
Create a summary of these messages, the beginning of a turn whose end stays as it is. Use these sections:

## Original Request
## Early Progress
## Context for Suffix"""
INTRODUCTION = "What came before this was compacted into the following summary:"
TURN = "---\n\n**The turn so far:**\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pi(Preset):
    """When less than 16,384 tokens are left of the window, all but the newest 20K tokens become one summary.

    Source: pi-mono 83378aad, `packages/coding-agent/src/core/compaction`; PEERS 2.17. The cut is the next message that is no
    result; the turn that it splits is summed up apart from the history before it. The summary is updated from round to round and
    lists the files that were read and modified. At that commit the second compaction began behind the first, so that what the
    first had kept was lost untold: that is `fixed = false`. Where the newest result alone holds the kept tokens, nothing can be
    cut. Thinking is not told, since it is not part of a view. When the summary fails, the session goes on as it is. An empty
    summary has failed too.
    """

    enabled: bool = True
    """False: the session runs on until the provider refuses the prompt."""
    fixed: bool = True
    """Whether what a former compaction kept is told to the next one."""
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    """Estimated tokens at the end that stay, at least, but for the rest of the message in which they begin."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 13_107
    """Four fifths of the reserve."""
    turn_summary_max_tokens: int = 8_192
    """Half of the reserve."""
    result_characters: int = 2_000
    """Of each tool result that the summarizer is shown."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["pi"] = "pi"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 0, "reserve_tokens")
        at_least(self, 1, "keep_recent_tokens", "summary_max_tokens", "turn_summary_max_tokens")
        at_least(self, 1, "result_characters", "clip_characters")

    @property
    def pipeline(self) -> Pipeline:
        """The same rule before a step and after an overflow."""
        if not self.enabled:
            return Pipeline(division=Undivided(rule="compaction is disabled"))
        reducer = SplitTurn(
            keep_tokens=self.keep_recent_tokens,
            history=Brief(instruction=HISTORY, merge=MERGE, heading=INTRODUCTION, files=True),
            beginning=Brief(instruction=BEGINNING, heading=TURN, files=True),
            beginning_alone=Brief(
                instruction=BEGINNING, heading=f"{INTRODUCTION}\nThere is no history before this turn.\n\n{TURN}", files=True
            ),
            max_tokens=self.summary_max_tokens,
            beginning_max_tokens=self.turn_summary_max_tokens,
            excerpt=Capped(result_characters=self.result_characters),
            forgets_kept=not self.fixed,
        )
        return Pipeline(
            division=WindowLess(reserve_tokens=self.reserve_tokens),
            rules=(
                Rule(trigger=Full(measure="reported-and-since", above=True), reducer=reducer),
                Rule(trigger=Always(), reducer=reducer, moment="overflow"),
            ),
        )
