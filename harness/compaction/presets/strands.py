"""Policies of Strands Agents: a summary of the oldest share of the messages, and a sliding window of messages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from harness.compaction.cuts import Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Range, Rule, Share, SummarizingPreset
from harness.compaction.presets.pydantic_ai import MoreBundles
from harness.compaction.stages import Summarize, group_results, is_from_user, replace_results, with_output
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Amount, Full, NoThreshold, ShareOfAvailable
from harness.conversation.events import Hook
from harness.conversation.messages import ToolResult
from harness.conversation.plan import CompactionPlan
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
        bundles = group_results(view.items[1:])
        chosen = min(max(1, int(len(bundles) * self.share)), len(bundles) - self.keep_messages)
        if chosen <= 0:
            return ()
        end = Snap(direction="forward").find_legal_index(view.items, 1 + sum(map(len, bundles[:chosen])))
        # A cut that only fits behind the last result is given up, as in the original.
        return view.items[1:end] if end < len(view.items) or chosen == len(bundles) else ()

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
    """Policy that summarizes the oldest 30 % of the messages at 70 % of the window; the newest 10 messages always stay.

    Choose it when you compare Strands Agents, or want small steps in which most of the conversation stays verbatim.

    Source: Strands Agents, strands-agents 1.62.0, `agent/conversation_manager/summarizing_conversation_manager.py`, with
    `proactive_compression`. Tests run the original beside this policy.

    An earlier summary is the oldest message, so each summary covers the one before. The conversation is measured by
    the provider's last report and an estimate of later messages. All results of one answer count as one message.
    After an overflow, the policy acts in the same way, whatever the size.

    If the summary fails or is empty, the conversation stays unchanged.

    One difference from the original: it acts before a step only with `proactive_compression`, which is off by default.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1. Default: `0.7`.
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
        """The policy's rules, which summarize the oldest messages at the threshold and after an overflow."""
        summarize = Summarize(
            middle=OldestShare(share=self.summary_share, keep_messages=self.keep_messages),
            format=Brief(instruction=INSTRUCTION, layout="session"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        rules = (Rule(Full(measure="reported-and-since"), summarize), Rule(Always(), summarize, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)


MIDDLE_MARK = "... [middle cut:"
"""Beginning of the mark in a tool result whose middle was removed; such a result is not cut again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideWindow:
    """Part of a policy that cuts the oldest tool results or, if they are short or cut already, evicts the oldest messages."""

    window_messages: int
    """Number of messages to retain, without the system message; all tool results of one answer are one message."""
    keep_characters: int
    """Number of characters that stay at the beginning and at the end of a cut tool result; 0 cuts none."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that cuts the oldest tool results, or evicts messages up to one that may begin a conversation."""
        bundles = group_results(view.items[1:])
        oldest = next((bundle for bundle in bundles if bundle[0].message.role == "tool"), None)
        if oldest is not None and self.keep_characters:
            pairs = [(item, replace_results(item, self._cut)) for item in oldest]
            changes = tuple(change for item, change in pairs if change.message != item.message)
            if changes:
                return CompactionPlan(reason=f"{reason}; the oldest tool results are cut", replace=changes)
        first = 2 if len(bundles) <= self.window_messages else len(bundles) - self.window_messages
        places = range(first, len(bundles))
        start = next((at for at in places if is_from_user(view, bundles[at][0])), None)
        if start is None:
            start = next((at for at in places[:-1] if bundles[at + 1][0].message.role == "tool"), None)
        if start is None:
            return CompactionPlan(reason=f"{reason}, but no later message can begin the conversation")
        return CompactionPlan(reason=reason, forget=tuple(item.item_id for bundle in bundles[:start] for item in bundle))

    def _cut(self, result: ToolResult) -> ToolResult:
        length, kept = len(result.output), self.keep_characters
        if MIDDLE_MARK in result.output or length <= 2 * kept:
            return result
        mark = f"{MIDDLE_MARK} {length - 2 * kept} characters] ..."
        return with_output(result, f"{result.output[:kept]}\n{mark}\n{result.output[-kept:]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrandsWindow(Preset):
    """Policy that keeps a sliding window of 40 messages; after an overflow, it cuts the oldest tool results first.

    Choose it when you compare Strands Agents with its default manager, which counts messages and not tokens.

    Source: Strands Agents, strands-agents 1.62.0, `agent/conversation_manager/sliding_window_conversation_manager.py`. Tests run
    the original beside this policy.

    Above 40 messages, the oldest messages are evicted, so that the rest begins with a message of the user or, if none is left,
    with an answer that called tools. All results of one answer count as one message. After an overflow, the oldest results lose
    their middle first; if they are short or were cut before, messages are evicted. The original acts between the turns of a
    session; `every_step` makes it act before each step.

    Differences from the original:

    - Images in tool results are not replaced, and messages cannot be pinned.
    - The mark of a cut has other words.
    - The size in tokens never makes the policy act: `proactive_compression`, which is off by default, is left out.

    Attributes:
        window_messages: Number of messages to retain, without the system message. Default: `40`.
        keep_characters: Number of characters that stay at both ends of a cut tool result; 0 cuts none. Default: `200`.
        every_step: Whether the policy also acts before each step, and not only between turns. Default: `False`.

    Example:
        >>> from harness.policies import StrandsWindow
        >>> from harness.conversation.tokens import Window
        >>> StrandsWindow().budget(Window(tokens=32_768, source="configuration")).rule
        'more than 40 messages'
    """

    window_messages: Positive = 40
    keep_characters: NonNegative = 200
    every_step: bool = False
    kind: Literal["strands-window"] = "strands-window"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which act above the number of messages and after an overflow."""
        slide = SlideWindow(window_messages=self.window_messages, keep_characters=0)
        hook: Hook = "step" if self.every_step else "turn"
        rules = (
            Rule(MoreBundles(count=self.window_messages), slide, hook=hook),
            Rule(Always(), replace(slide, keep_characters=self.keep_characters), hook="overflow"),
        )
        return Pipeline(NoThreshold(rule=f"more than {self.window_messages} messages"), rules)
