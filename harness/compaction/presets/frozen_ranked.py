"""Policy with immutable summaries, of which the two of the lowest rank are merged when all become too long."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Rule, Share, SummarizingPreset
from harness.compaction.stages import group_blocks
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.conversation.plan import CompactionPlan, Slot
from harness.conversation.tokens import Budget
from harness.conversation.view import Item, View

SYSTEM = "You write summaries of parts of a session between a user and an agent. Keep facts, leave out talk."
INSTRUCTION = """\
Create a summary of these messages. Keep every fact that may matter later: decisions, numbers, names, paths, commands and values,
each verbatim, and who stated it."""
MERGE_INSTRUCTION = """\
Create a summary that joins these summaries, at about half of their length. Keep each fact of both, verbatim, and cut repetition
and narrative only."""
_RANK = re.compile(r"\A\[SUMMARY OF RANK (\d+)\]")


def read_rank(item: Item) -> int:
    """Return the rank of a summary, which is the number of merges that led to it plus 1."""
    match = _RANK.match(item.message.text)
    return int(match[1]) if match else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeAndMerge:
    """Part of a policy that summarizes the oldest messages behind all summaries, and merges two summaries if these are long.

    Other summaries stay as they are.
    """

    target_share: float
    """Share of the window that messages may have after a compaction, if each summary took no space."""
    summary_share: float
    """Share of the target that all summaries together may have."""
    keep_messages: int
    """Number of messages at the end of the conversation that are never summarized."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write in a summary."""
    fresh: Brief = field(default_factory=lambda: Brief(instruction=INSTRUCTION, system=SYSTEM))
    """Format of a summary of messages."""
    merged: Brief = field(default_factory=lambda: Brief(instruction=MERGE_INSTRUCTION, system=SYSTEM))
    """Format of a summary that joins two."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan with a new summary of the oldest messages, and one that merges two earlier summaries if needed."""
        target_tokens = int(budget.window_tokens * self.target_share)
        if not 0 < target_tokens < view.tokens:  # the window is unknown, or the user asked before it was full
            target_tokens = int(view.tokens * self.target_share)
        former = [item for item in view.items if item.item_id in view.summaries]
        start = view.items.index(former[-1]) + 1 if former else 1
        fresh = self._select_oldest(view, start, view.tokens - target_tokens)
        slots: list[Slot] = []
        if fresh:
            slots.append(self._make_slot(view, view.items[start - 1], fresh, rank=1))
        room = int(target_tokens * self.summary_share)
        is_full = sum(item.tokens for item in former) + (self.max_tokens if fresh else 0) > room
        if is_full or not fresh:
            slots[:0] = self._merge(view, former, slots)
        if not slots:
            return CompactionPlan(reason=f"{reason}, but nothing lies between the summaries and the kept messages")
        return CompactionPlan(reason=reason, forget=tuple(item for slot in slots for item in slot.stands_for), slots=tuple(slots))

    def _select_oldest(self, view: View, start: int, tokens: int) -> list[Item]:
        """Return the oldest whole blocks behind the summaries that have enough tokens, as far as they may be summarized."""
        selected: list[Item] = []
        end = len(view.items) - self.keep_messages
        for block in group_blocks(view.items[start:]):
            is_enough = sum(item.tokens for item in selected) >= tokens
            if is_enough or start + len(selected) + len(block.items) > end:
                break
            selected += block.items
        return selected

    def _merge(self, view: View, former: list[Item], new: list[Slot]) -> list[Slot]:
        """Return the summary that joins the first two summaries of the lowest rank that occurs twice; empty if none does."""
        counts = Counter(map(read_rank, former))
        rank = min((rank for rank, count in counts.items() if count > 1), default=None)
        if rank is None:
            return []
        first, second = [item for item in former if read_rank(item) == rank][:2]
        before = view.items[view.items.index(first) - 1]
        if (new and new[0].after == second.item_id) or (
            new and new[0].after == first.item_id
        ):  # the new summary stood behind a message that goes
            new[0] = replace(new[0], after=before.item_id)
        return [self._make_slot(view, before, [first, second], rank=rank + 1)]

    def _make_slot(self, view: View, before: Item, items: list[Item], rank: int) -> Slot:
        return Slot(
            after=before.item_id,
            role="user",
            stands_for=tuple(item.item_id for item in items),
            format=replace(self.fresh if rank == 1 else self.merged, heading=f"[SUMMARY OF RANK {rank}]"),
            max_tokens=self.max_tokens,
            former="among",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenRanked(SummarizingPreset):
    """Policy that writes immutable summaries of old messages, and merges two of equal rank when all of them become too long.

    Choose it for very long sessions: a fact is rewritten about log2(N) times in N compactions, and not N times.

    Source: `profff/lost-in-compaction` 08bfd88e, `compaction.py`, class `FrozenRankedCompactor`.

    At 90 % of the window, the oldest messages become a summary, so many that 60 % would be left without it. The newest 6 messages
    stay. Earlier summaries stay verbatim, until all of them exceed half of the target. Then the first two of the lowest rank that
    occurs twice are joined to one of the next rank.

    If a summary fails or is empty, the conversation stays unchanged.

    Differences from the original:

    - A merge is decided with the new summary at its maximum length, because both are requested in one compaction.
    - The answer of the agent that confirms a summary is left out.
    - A cut may fall between a tool result and the next answer, and not only before a message of the user.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report. Default: `0.9`.
        target_share: Share of the window to which the conversation is shortened, without the new summary. Default: `0.6`.
        summary_share: Share of the target that all summaries may have before two are merged. Default: `0.5`.
        keep_messages: Number of messages at the end of the conversation that are not summarized. Default: `6`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        >>> from harness.policies import FrozenRanked
        >>> from harness.conversation.tokens import Window
        >>> FrozenRanked().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        29491
    """

    threshold: Share = 0.9
    target_share: Share = 0.6
    summary_share: Share = 0.5
    keep_messages: NonNegative = 6
    kind: Literal["frozen-ranked"] = "frozen-ranked"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which freeze and merge summaries at the threshold and after an overflow."""
        reducer = FreezeAndMerge(
            target_share=self.target_share,
            summary_share=self.summary_share,
            keep_messages=self.keep_messages,
            max_tokens=self.summary_max_tokens,
        )
        rules = (Rule(Full(measure="reported-and-since"), reducer), Rule(Always(), reducer, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)
