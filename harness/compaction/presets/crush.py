"""Policy of Crush, which summarizes the whole conversation up to the model's last answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import Summarize, find_answered_end
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import UNKNOWN_BUDGET, Amount, Full, make_budget, subtract_reserves
from harness.compaction.wrappers import WithClosingMessage
from harness.conversation.tokens import Budget, Window
from harness.conversation.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredSpan:
    """Rule that selects all messages for a summary, except the system message and unanswered user messages."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return all messages except the system message and the user's messages after the last answer."""
        return view.items[1 : find_answered_end(view)]

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the number of user messages after the last answer is not known."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingTokens:
    """Rule that triggers compaction when a share of the window is left; in a large window, a fixed number of tokens."""

    share: float
    """Share of the window that is still free when compaction is triggered, for windows that are not large."""
    large_tokens: int
    """Number of tokens that are still free in a large window when compaction is triggered."""
    large_window_tokens: int
    """Size in tokens above which a context window counts as large."""

    def compute_budget(self, window: Window) -> Budget:
        """Return a budget whose threshold leaves a share of the window free, or a fixed number of tokens."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        reserved = self.large_tokens if window.tokens > self.large_window_tokens else int(self.share * window.tokens)
        threshold = subtract_reserves(window, reserved)
        return make_budget(window, threshold, f"{window.tokens:,} − {reserved:,} = {threshold:,} tokens")


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
    """Policy that summarizes all up to the last answer when 20 % of the window is left, or 20K tokens of a window above 200K.

    Choose it when you compare Crush, or want a single summary late in a large window, which is used almost completely.

    Source: Crush 37f36e93, `internal/agent/agent.go`.

    The summarizer receives the messages of the session and one more message with the instruction. If the compaction interrupts a
    turn, a sentence with the user's last message follows the summary. After several compactions these sentences are nested, as in
    the original. To-do lists are left out, because no tool here keeps one.

    If the summary fails or is empty, the conversation stays unchanged, while the original ends the turn.

    Attributes:
        left_share: Share of the window that is still free when compaction is triggered, for windows that are not large.
            Default: `0.2`.
        left_tokens: Number of tokens that are still free when compaction is triggered, for large windows. Default: `20_000`.
        large_window_tokens: Size in tokens above which a context window counts as large. Default: `200_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Compact when 30 % of a window of 32,768 tokens is left:

        >>> from harness.policies import Crush
        >>> from harness.conversation.tokens import Window
        >>> policy = Crush(left_share=0.3)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        22938
    """

    left_share: Share = 0.2
    left_tokens: Positive = 20_000
    large_window_tokens: Positive = 200_000
    kind: Literal["crush"] = "crush"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes the whole conversation up to the model's last answer."""
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
