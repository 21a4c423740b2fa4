"""Policy of the agent pi, which summarizes all but the newest 20K tokens; a turn cut in two has a summary of its own."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import LastTokens, Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, SummarizingPreset
from harness.compaction.stages import find_first_new, find_user_messages, is_from_user, make_split_slots
from harness.compaction.summary_formats import Brief, CapTexts
from harness.compaction.triggers import Always, Amount, Full, NoThreshold, WindowMinusReserve
from harness.conversation.plan import CompactionPlan, Excerpt, Slot, SummaryFormat
from harness.conversation.tokens import Budget
from harness.conversation.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeSplitTurn:
    """Part of a policy that replaces everything before the newest tokens by one user message, which contains the summary.

    The first retained message is never a tool result. If the cut splits a turn, the messages before the turn and the beginning of
    the turn are summarized separately, and both summaries are joined. If only a former summary precedes the turn, the beginning
    of the turn is merged into that summary.
    """

    keep_tokens: int
    """Minimum number of tokens retained at the end of the conversation."""
    history: SummaryFormat
    """Format of the summary of the earlier turns, before the turn that is only partly retained."""
    beginning: SummaryFormat
    """Format of the summary for the evicted part of a split turn (its end stays), used if other messages precede the turn."""
    beginning_alone: SummaryFormat
    """Format of the summary for the evicted part of a split turn (its end stays), used if nothing precedes the turn."""
    max_tokens: int
    """Maximum number of tokens in the summary of the earlier turns, before the turn that is only partly retained."""
    beginning_max_tokens: int
    """Maximum number of tokens in the summary for the evicted part of a split turn (its end stays)."""
    excerpt: Excerpt
    """Rule that prepares the messages for the summarizer, for example by shortening long tool results."""
    forgets_kept: bool = False
    """Whether messages that the former compaction retained are evicted without a summary, as in old versions of pi."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces all before the newest tokens by one or two summaries; may be empty."""
        floor = find_first_new(view) if self.forgets_kept else 1
        start = floor + LastTokens(tokens=self.keep_tokens).find_start(view.items[floor:], budget)
        cut = Snap(direction="forward").find_legal_index(view.items, start)
        if start <= floor or cut == len(view.items):
            return CompactionPlan(reason=f"{reason}, but nothing lies before the kept {self.keep_tokens:,} tokens")
        turn = self._find_split_turn(view, floor, cut)
        former = tuple(item for item in view.items[1:cut] if item.item_id in view.summaries)
        before = tuple(item for item in view.items[floor:turn] if item not in former)
        slot = Slot(
            after=view.items[0].item_id,
            role="user",
            stands_for=(),
            format=self.history,
            max_tokens=self.max_tokens,
            excerpt=self.excerpt,
        )
        beginning = replace(slot, format=self.beginning, max_tokens=self.beginning_max_tokens)
        alone = replace(beginning, format=self.beginning_alone)  # for a turn without history before it
        slots = make_split_slots(view, (*former, *before), view.items[turn:cut], slot, beginning, alone)
        removed_ids = tuple(item.item_id for item in view.items[1:cut])
        return CompactionPlan(reason=f"{reason}{'; a turn is split' if turn < cut else ''}", forget=removed_ids, slots=slots)

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the minimum number of newest tokens that the reducer retains."""
        return Amount(self.keep_tokens, "tokens")

    def _find_split_turn(self, view: View, floor: int, cut: int) -> int:
        """Return the index at which the partly retained turn begins; `cut` if every turn is whole."""
        if cut >= len(view.items) or is_from_user(view, view.items[cut]):
            return cut
        return max(find_user_messages(view, floor, cut), default=cut)


HISTORY_INSTRUCTION = """\
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
MERGE_INSTRUCTION = "Update the previous summary with the new messages: keep what it has, move what is done, add what is new."
BEGINNING_INSTRUCTION = """\
Create a summary of these messages, the beginning of a turn whose end stays as it is. Use these sections:

## Original Request
## Early Progress
## Context for Suffix"""
SUMMARY_HEADING = "What came before this was compacted into the following summary:"
TURN_HEADING = "---\n\n**The turn so far:**\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pi(SummarizingPreset):
    """Policy that summarizes all but the newest 20K tokens when less than 16,384 tokens of the window are left.

    Choose it when you compare pi, or want a reserve and an amount of recent messages that do not depend on the window.

    Source: pi-mono 83378aad, `packages/coding-agent/src/core/compaction`.

    The retained messages begin with the first of the newest messages that is not a tool result. If that message lies within a
    turn, the beginning of this turn is summarized separately from the history before the turn. Each compaction updates the
    summary, which also lists the files that were read and modified.

    If the newest tool result alone is longer than the tokens to retain, nothing can be summarized. If the summary fails or is
    empty, the conversation stays unchanged.

    In the original at that commit, a second compaction loses the messages that the first one retained; `fixed=False` reproduces
    this defect.

    Differences from the original:

    - If only a former summary precedes a turn that is cut in two, this summary is updated; the original drops it.
    - The beginning of a turn is passed to the summarizer as a transcript, and results in it are cut too.
    - Both parts of a summary have lists of files; the original has one list at the end.
    - Thinking is not summarized, because a view does not contain it.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    One difference from the original: after an overflow, the original compacts only once.

    Attributes:
        enabled: Whether compaction is enabled; without it, the session goes on until the provider refuses the prompt.
            Default: `True`.
        fixed: Whether messages that one compaction retains are summarized by the next one; if not, they are lost, as in old
            versions of pi. Default: `True`.
        reserve_tokens: Number of tokens kept free at the end of the window; compaction is triggered when fewer are left.
            Default: `16_384`.
        keep_recent_tokens: Number of estimated tokens to retain at the end of the conversation; fewer if the cut moves forward
            past a tool result. Default: `20_000`.
        turn_summary_max_tokens: Maximum number of tokens in the summary for the evicted part of a split turn (its end stays); the
            default is half of the default reserve. Default: `8_192`.
        result_characters: Maximum length in characters of a tool result that the summarizer reads. Default: `2_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the default is four fifths of the default reserve.
            Default: `13_107`.

    Example:
        Compact when 8,192 tokens of a window of 32,768 are left, and retain the newest 6,000 tokens:

        >>> from harness.policies import Pi
        >>> from harness.conversation.tokens import Window
        >>> policy = Pi(reserve_tokens=8_192, keep_recent_tokens=6_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        24576
    """

    enabled: bool = True
    fixed: bool = True
    reserve_tokens: NonNegative = 16_384
    keep_recent_tokens: Positive = 20_000
    summary_max_tokens: Positive = 13_107
    turn_summary_max_tokens: Positive = 8_192
    result_characters: Positive = 2_000
    kind: Literal["pi"] = "pi"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: a message of the user that no request has contained yet now stays in view.
        """
        return 1

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize all but the newest tokens when the threshold is exceeded, and after an overflow."""
        if not self.enabled:
            return Pipeline(NoThreshold(rule="compaction is disabled"))
        reducer = SummarizeSplitTurn(
            keep_tokens=self.keep_recent_tokens,
            history=Brief(instruction=HISTORY_INSTRUCTION, merge=MERGE_INSTRUCTION, heading=SUMMARY_HEADING, files=True),
            beginning=Brief(instruction=BEGINNING_INSTRUCTION, heading=TURN_HEADING, files=True),
            beginning_alone=Brief(
                instruction=BEGINNING_INSTRUCTION,
                heading=f"{SUMMARY_HEADING}\nThere is no history before this turn.\n\n{TURN_HEADING}",
                files=True,
            ),
            max_tokens=self.summary_max_tokens,
            beginning_max_tokens=self.turn_summary_max_tokens,
            excerpt=CapTexts(result_characters=self.result_characters),
            forgets_kept=not self.fixed,
        )
        rules = (Rule(Full(measure="reported-and-since", above=True), reducer), Rule(Always(), reducer, hook="overflow"))
        return Pipeline(WindowMinusReserve(reserve_tokens=self.reserve_tokens), rules)
