"""Policy of Strands Agents, which summarizes the oldest share of the messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from harness.compaction.cuts import Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Range, Rule, Share, SummarizingPreset
from harness.compaction.stages import Summarize
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Amount, Full, ShareOfAvailable
from harness.conversation.tokens import Budget
from harness.conversation.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestShare:
    """Selection of the oldest messages behind the system message, as a share of all messages."""

    share: float
    """Share of the messages, without the system message, that is selected; at least one message is."""
    keep_messages: int
    """Number of messages at the end of the conversation that are not selected unless a call would lose its results."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the oldest messages; none if all belong to the retained end of the conversation."""
        count = len(view.items) - 1
        chosen = min(max(1, int(count * self.share)), count - self.keep_messages)
        return view.items[1 : Snap(direction="forward").find_legal_index(view.items, 1 + chosen)] if chosen > 0 else ()

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the number of retained messages grows with the conversation."""
        return None


INSTRUCTION = """\
Create a summary of the conversation above as a list of points, in the third person. Include:
- topics and questions, with the key information on each
- tools that were used, with their results
- code and technical information
- insights"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrandsSummary(SummarizingPreset):
    """Policy that summarizes the oldest 30 % of the messages above 70 % of the window; the newest 10 messages always stay.

    Choose it when you compare Strands Agents, or want small steps in which most of the conversation stays verbatim.

    Source: Strands Agents, sdk-python 0cd91bb2, `agent/conversation_manager/summarizing_conversation_manager.py`.

    An earlier summary is the oldest message, so each summary covers the one before. The conversation is measured by an estimate.
    After an overflow, the policy acts in the same way, whatever the size.

    If the summary fails or is empty, the conversation stays unchanged.

    Differences from the original:

    - The original acts before a step only if a limit in tokens is set, at 80 % of that limit in the version that was read, and at
      70 % in newer ones. Here the window is the limit, and the share is 70 %.
    - If a call at the cut would lose its results, the results are summarized too.

    Attributes:
        threshold: Share of the window that triggers compaction when it is exceeded, above 0 and at most 1. Default: `0.7`.
        summary_share: Share of the messages that is summarized, from 0.1 to 0.8. Default: `0.3`.
        keep_messages: Number of messages retained at the end of the conversation. Default: `10`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Summarize half of the messages at a time:

        >>> from harness.policies import StrandsSummary
        >>> from harness.conversation.tokens import Window
        >>> policy = StrandsSummary(summary_share=0.5)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        22937
    """

    threshold: Share = 0.7
    summary_share: Annotated[float, Range(lambda value: 0.1 <= value <= 0.8, "must be from 0.1 to 0.8")] = 0.3
    keep_messages: NonNegative = 10
    kind: Literal["strands-summary"] = "strands-summary"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize the oldest messages above the threshold and after an overflow."""
        summarize = Summarize(
            middle=OldestShare(share=self.summary_share, keep_messages=self.keep_messages),
            format=Brief(instruction=INSTRUCTION, layout="session"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        rules = (Rule(Full(above=True), summarize), Rule(Always(), summarize, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)
