"""Policy that evicts so much that the session can go on for a number of steps, as measured by its growth so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share
from harness.compaction.stages import Block, group_blocks
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.conversation.events import Insert
from harness.conversation.messages import user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget
from harness.conversation.view import Item, View

NOTE = "(Older messages were removed here to make room.)"
GROWTH_STEPS = 30
"""Number of newest steps from whose length the growth of the conversation for each step is measured."""


def measure_growth(items: Sequence[Item]) -> float:
    """Return the mean number of estimated tokens that the newest steps added; 0 if there is no step."""
    blocks = [block for block in group_blocks(items) if block.items and block.items[0].message.role == "assistant"]
    newest = blocks[-GROWTH_STEPS:]
    return sum(block.tokens for block in newest) / len(newest) if newest else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeHeadroom:
    """Part of a policy that evicts the oldest messages behind the first ones until enough steps fit below the threshold."""

    headroom_steps: int
    """Number of steps for which the evicted messages make room; 0 evicts down to `most_share`."""
    most_share: float
    """Maximum share of the threshold that stays after a compaction."""
    least_share: float
    """Minimum share of the threshold that stays, however fast the conversation grows."""
    keep_first: int
    """Number of messages behind the system message that are never evicted."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that evicts the oldest messages down to the target, and leaves a note in their place."""
        threshold = budget.threshold_tokens or view.tokens
        growth = measure_growth(view.items)
        target_tokens = self.compute_target_tokens(threshold, growth)
        protected = 1 + self.keep_first
        blocks = group_blocks(view.items[protected:])
        if view.items[protected:] and view.items[protected].message.role == "tool":  # its call is among the first messages
            blocks = blocks[1:]
        gone = self._select_oldest(blocks, view.tokens - target_tokens)
        if not gone:
            return CompactionPlan(reason=f"{reason}, but nothing lies before the kept messages")
        first = view.items.index(gone[0])
        has_note = any(item.message.text == NOTE for item in view.items[:first])
        insert = () if has_note else (Insert(message=user(NOTE), after=view.items[first - 1].item_id),)
        return CompactionPlan(
            reason=f"{reason}; target {target_tokens:,} at {growth:,.0f} tokens for each step",
            forget=tuple(item.item_id for item in gone),
            insert=insert,
        )

    def compute_target_tokens(self, threshold_tokens: int, growth_tokens: float) -> int:
        """Return how many tokens stay after an eviction.

        Args:
            threshold_tokens: Number of tokens at which the policy evicts.
            growth_tokens: Mean number of tokens that the newest steps added.
        """
        share = min(1 - self.headroom_steps * growth_tokens / threshold_tokens if threshold_tokens else 1.0, self.most_share)
        return int(threshold_tokens * max(share, self.least_share))

    def _select_oldest(self, blocks: Sequence[Block], tokens: int) -> list[Item]:
        selected: list[Item] = []
        for block in blocks[:-1]:
            if sum(item.tokens for item in selected) >= tokens:
                break
            if block.items[0].message.text != NOTE:
                selected += block.items
        return selected


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveHeadroom(Preset):
    """Policy that evicts the oldest messages so that about 30 more steps fit, as the session grew so far.

    Choose it to see how a target that follows the growth compares with a fixed one.

    Source: yologdev/yoagent, pull requests 99 to 102 (2026-08), as their descriptions say.

    After an eviction, the threshold less 30 times the mean length of the newest steps stays, at least 15 % and at most 70 % of
    the threshold. The system message and the first messages behind it stay. No summary is written.

    Differences from the original:

    - Before it drops messages, the original shortens tool outputs and old turns; that is left out.
    - Growth is measured on the messages in view, as an estimate.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by an
            estimate. Default: `0.9`.
        headroom_steps: Number of steps for which an eviction makes room; 0 uses `most_share` alone. Default: `30`.
        most_share: Maximum share of the threshold that stays. Default: `0.7`.
        least_share: Minimum share of the threshold that stays. Default: `0.15`.
        keep_first: Number of messages behind the system message that stay, at least 1. Default: `2`.

    Example:
        >>> from harness.policies import AdaptiveHeadroom
        >>> from harness.conversation.tokens import Window
        >>> AdaptiveHeadroom().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        29491
    """

    threshold: Share = 0.9
    headroom_steps: NonNegative = 30
    most_share: Share = 0.7
    least_share: Share = 0.15
    keep_first: Positive = 2
    kind: Literal["adaptive-headroom"] = "adaptive-headroom"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which make room at the threshold and after an overflow."""
        make = self.make_headroom
        return Pipeline(ShareOfAvailable(share=self.threshold), (Rule(Full(), make), Rule(Always(), make, hook="overflow")))

    @property
    def make_headroom(self) -> MakeHeadroom:
        """The part that selects what is evicted."""
        return MakeHeadroom(
            headroom_steps=self.headroom_steps,
            most_share=self.most_share,
            least_share=self.least_share,
            keep_first=self.keep_first,
        )
