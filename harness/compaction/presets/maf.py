"""Policy of maf-compaction, which shortens tool results between a fixed beginning and a fixed end of the conversation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Preset, Rule, SavedShare, Share
from harness.compaction.stages import group_blocks, replace_results, with_output
from harness.compaction.triggers import DUE_IN_ANY_VIEW, Always, DueAmounts, ShareOfAvailable
from harness.conversation.events import ItemId, Replace
from harness.conversation.messages import ToolResult
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter, QuarterOfCharacters, Usage
from harness.conversation.view import Item, View

CUT_MARK = "... cut out by compaction ..."
"""Mark in a tool result that was shortened; such a result is not shortened again."""
CHARACTERS_OF_TOKEN = 4
"""Number of characters to which a limit in tokens is converted when the text of a tool is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseBand:
    """Part of a policy that shortens the tool results of all groups between two anchors, and drops calls that still do not fit.

    A group is a message, or an answer with the results of its calls.
    """

    head_groups: int
    """Number of groups behind the system message that stay whole."""
    tail_groups: int
    """Number of groups at the end that stay whole."""
    band_share: float
    """Share of the threshold that the tool results between the anchors may have together."""
    least_saved_share: float
    """Share of the conversation that shortening must save; otherwise nothing is shortened."""
    counter: Counter = field(default_factory=QuarterOfCharacters)
    """Token counter with which the saved tokens are measured."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that shortens results, and drops the oldest calls if the conversation is still above the threshold."""
        limit = budget.threshold_tokens or view.tokens
        band = self._find_band(view.items[1:])
        changes = self._shorten(band, limit)
        saved = {change.item: tokens for change, tokens in changes}
        is_too_long = view.tokens > limit
        if sum(saved.values()) < self.least_saved_share * view.tokens and not is_too_long:
            return CompactionPlan(reason=f"{reason}, but shortening would save {sum(saved.values()):,} of {view.tokens:,} tokens")
        dropped = self._drop(band, view.tokens - limit, saved)
        kept = tuple(change for change, _ in changes if change.item not in dropped)
        return CompactionPlan(reason=reason, replace=kept, forget=tuple(dropped))

    def can_save_enough(self, view: View, budget: Budget) -> bool:
        """Return False if shortening is sure to save too little of a conversation below the threshold.

        The running time depends only on the number of messages added since the last call. Once results were shortened, the policy
        acts at nearly every step, and they are as long as they may be; then the result is True.
        """
        limit = budget.threshold_tokens or view.tokens
        if view.tokens > limit or view.saved_tokens:
            return True
        most_tokens = view.tally_cache.read(
            view.items, _LengthTally, _LengthTally, lambda tally: tally.count_long(limit * self.band_share)
        )
        return bool(most_tokens and most_tokens >= self.least_saved_share * view.tokens)

    def _find_band(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the messages of the groups between the anchors."""
        starts = [index for index, item in enumerate(items) if item.message.role != "tool" or index == 0]
        first = min(self.head_groups, len(starts))
        end = max(first, len(starts) - self.tail_groups)
        starts.append(len(items))
        return items[starts[first] : starts[end]]

    def _shorten(self, band: Sequence[Item], limit: int) -> list[tuple[Replace, int]]:
        """Return the shorter form of each long result in the band, with the tokens that it saves."""
        results = [item for item in band if item.message.role == "tool"]
        if not results:
            return []
        room = _compute_room(limit * self.band_share, len(results))
        changes = []
        for item in results:
            if not any(_is_long(part, room) for part in item.message.parts if isinstance(part, ToolResult)):
                continue  # nearly all results are short already where the policy acts at every step
            change = replace_results(item, lambda result: _cut(result, room))
            saved_tokens = item.tokens - self.counter.count(change.message)
            if saved_tokens > 0:
                changes.append((change, saved_tokens))
        return changes

    def _drop(self, band: Sequence[Item], tokens: int, saved: dict[ItemId, int]) -> dict[ItemId, None]:
        """Return the ids of the oldest groups with calls that must go so that the conversation fits; empty if it does."""
        missing = tokens - sum(saved.values())
        dropped: dict[ItemId, None] = {}
        if missing <= 0:
            return dropped
        for block in group_blocks(band):
            if missing <= 0:
                break
            if not block.items[0].message.calls:
                continue
            missing -= sum(_measure(item, saved) for item in block.items)
            dropped |= dict.fromkeys(item.item_id for item in block.items)
        return dropped


@dataclass(frozen=True, slots=True)
class Collapsible:
    """Trigger that makes the policy act at every check, unless shortening results is sure to save too little."""

    collapse: CollapseBand = field(repr=False)
    """Part of the policy that shortens results."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return the reason of a trigger that is always met; None if shortening is sure to save too little."""
        return Always().check_due(view, budget, usage) if self.collapse.can_save_enough(view, budget) else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size, since what shortening saves depends on the lengths of the results."""
        return DUE_IN_ANY_VIEW


class _LengthTally:
    """Number of the messages with tool results in a view, and their tokens by the length of the longest result."""

    __slots__ = ("count", "tokens_by_bits")

    def __init__(self) -> None:
        self.count = 0
        self.tokens_by_bits: dict[int, int] = {}
        """Tokens of the messages by the number of bits in the length of their longest result in characters."""

    def add(self, item: Item) -> None:
        if item.message.role == "tool":
            self.count += 1
            bits = max([len(part.output) for part in item.message.parts if isinstance(part, ToolResult)], default=0).bit_length()
            self.tokens_by_bits[bits] = self.tokens_by_bits.get(bits, 0) + item.tokens

    def count_long(self, share_tokens: float) -> int:
        """Return at least the tokens of the messages that have a result longer than its part of `share_tokens`."""
        if not self.count:
            return 0
        least_bits = _compute_room(share_tokens, self.count).bit_length()
        return sum([tokens for bits, tokens in self.tokens_by_bits.items() if bits >= least_bits])


def _compute_room(share_tokens: float, results: int) -> int:
    """Return how many characters each of several results may keep, if together they may have so many tokens."""
    return int(share_tokens / results) * CHARACTERS_OF_TOKEN


def _measure(item: Item, saved: dict[ItemId, int]) -> int:
    return item.tokens - saved.get(item.item_id, 0)


def _is_long(result: ToolResult, room: int) -> bool:
    return len(result.output) > room and CUT_MARK not in result.output


def _cut(result: ToolResult, room: int) -> ToolResult:
    """Return a result with the middle of its text removed, so that about `room` characters stay."""
    if not _is_long(result, room):
        return result
    half = max(0, room - len(CUT_MARK)) // 2
    end = result.output[len(result.output) - half :] if half else ""
    return with_output(result, f"{result.output[:half]}\n{CUT_MARK}\n{end}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MafAnchored(Preset):
    """Policy that shortens tool results between the first 3 and the last 4 groups of messages, if that saves enough.

    Choose it when you compare maf-compaction, or want compactions that leave the cached beginning of the prompt alone.

    Source: maf-compaction, `_anchored.py`, class `MinimumGainAnchoredCompactionStrategy`, read in part in a copy without a
    version; parameters as noted at 0.9.0.

    Before each step, the tool results between the two anchors are shortened to both of their ends, so that together they have a
    quarter of the threshold. Nothing is changed unless that saves 23 % of the conversation. If the conversation is still above
    the threshold, the oldest calls between the anchors go with their results. Messages of the user are never changed. No
    summary is written.

    Differences from the original:

    - The place of a dropped call gets no note.
    - Answers without calls are not dropped as a last resort.
    - Each result gets an equal part of the room, also if another one needs less.

    Attributes:
        threshold: Share of the window that the conversation may have, above 0 and at most 1. Default: `0.8`.
        head_groups: Number of groups behind the system message that stay whole. Default: `3`.
        tail_groups: Number of groups at the end that stay whole. Default: `4`.
        band_share: Share of the threshold for the tool results between the anchors. Default: `0.25`.
        min_gain_share: Share of the conversation that a compaction must save below the threshold. Default: `0.23`.

    Example:
        >>> from harness.policies import MafAnchored
        >>> from harness.conversation.tokens import Window
        >>> MafAnchored().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        26214
    """

    threshold: Share = 0.8
    head_groups: NonNegative = 3
    tail_groups: NonNegative = 4
    band_share: Share = 0.25
    min_gain_share: SavedShare = 0.23
    kind: Literal["maf-anchored"] = "maf-anchored"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which shorten results before each step and after an overflow."""
        collapse = CollapseBand(
            head_groups=self.head_groups,
            tail_groups=self.tail_groups,
            band_share=self.band_share,
            least_saved_share=self.min_gain_share,
        )
        rules = (Rule(Collapsible(collapse), collapse, quiet=True), Rule(Always(), collapse, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)
