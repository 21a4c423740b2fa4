"""crush: everything that has been answered becomes a summary."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import Summarize, find_answered_end
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import UNKNOWN_BUDGET, Amount, Full, make_budget, subtract_reserves
from harness.compaction.wrappers import WithClosingMessage
from harness.tokens import Budget, Window
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredSpan:
    """All but what the user has said since the last answer."""

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Span`."""
        return view.items[1 : find_answered_end(view)]

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.stages.Span`."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingTokens:
    """Act when no more is left than a share of the window, or than a fixed number of tokens in a large one."""

    share: float
    large_tokens: int
    large_window_tokens: int
    """A window above this is a large one."""

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        reserved = self.large_tokens if window.tokens > self.large_window_tokens else int(self.share * window.tokens)
        threshold = subtract_reserves(window, reserved)
        return make_budget(window, threshold, f"{window.tokens} − {reserved} = {threshold} tokens")


SYSTEM = "You write the summary by which another session goes on with this one. Leave nothing out that it needs."


INSTRUCTION = """\
Create a summary, as detailed as it has to be, in these sections:

## Current State
## Files & Changes
## Technical Context
## Strategy
## Exact Next Steps"""


CONTINUATION = "The session was interrupted because it grew too long. The user's initial request was: `{said}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crush(SummarizingPreset):
    """When 20K tokens are left of a window above 200K, or a fifth of a smaller one, everything answered becomes a summary.

    Source: crush 37f36e93, `internal/agent/agent.go`; PEERS 2.19. The summarizer gets the session itself and one more message.
    Where a turn was interrupted by it, the user's last words are put behind the summary in a sentence, which nests when that
    happens again, as in the original. When the summary fails, the session goes on as it is; there the turn fails. An empty
    summary has failed too. Lists of things to do are left out: no tool here keeps one.

    Attributes:
        left_share: Of the window, that may be left at least; for windows that are not large. Default: `0.2`.
        left_tokens: The same for large ones. Default: `20_000`.
        large_window_tokens: A window above this is large. Default: `200_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none, and wants no limit; ours. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    left_share: Share = 0.2
    left_tokens: Positive = 20_000
    large_window_tokens: Positive = 200_000
    kind: Literal["crush"] = "crush"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize all that is answered."""
        summary = Summarize(
            middle=AnsweredSpan(),
            format=Brief(instruction=INSTRUCTION, system=SYSTEM, layout="session"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        return Pipeline(
            RemainingTokens(share=self.left_share, large_tokens=self.left_tokens, large_window_tokens=self.large_window_tokens),
            (Rule(Full(measure="reported"), WithClosingMessage(reducer=summary, text=CONTINUATION, when="interrupted")),),
        )
