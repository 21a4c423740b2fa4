"""Policies of Roo Code, a fork of Cline, which summarize the whole conversation or evict half of the messages."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.presets.cline import ForgetHalf
from harness.compaction.stages import (
    EVERYTHING,
    Summarize,
)
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import (
    DUE_IN_ANY_VIEW,
    UNKNOWN_BUDGET,
    Always,
    BudgetRule,
    DueAmounts,
    Full,
    Measure,
    ShareOfAvailable,
    SmallestThreshold,
    make_budget,
)
from harness.compaction.wrappers import IfMessages, OnFailure
from harness.conversation.tokens import Budget, Usage, Window
from harness.conversation.view import View
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMinusReserve:
    """Rule that triggers compaction above a number of tokens, which is a share of the window minus a reserve."""

    share: float
    """Share of the window from which the reserve is subtracted."""
    reserve_tokens: int
    """Number of tokens subtracted from the share of the window."""

    def compute_budget(self, window: Window) -> Budget:
        """Return a budget with the threshold `share` × window − `reserve_tokens` + 1, rounded down."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        usable = int(self.share * window.tokens - self.reserve_tokens)
        if usable <= 0:
            raise UsageError(
                f"the reserve of {self.reserve_tokens:,} tokens leaves nothing of {self.share:g} × the window of "
                f"{window.tokens:,} ({window.source}); raise window_tokens or lower the reserve"
            )
        threshold = usable + 1
        rule = f"more than {self.share:g} × {window.tokens:,} − {self.reserve_tokens:,}, that is {threshold:,} tokens"
        return make_budget(window, threshold, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullBy:
    """Trigger that makes the policy act at a threshold of its own, instead of the policy's threshold."""

    budget_rule: BudgetRule
    """Rule that computes the threshold of this trigger from the size of the context window."""
    measure: Measure
    """Way in which the tokens in the conversation are measured, such as by estimate or by the provider's report."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason with the number of tokens if this trigger's threshold is reached; None otherwise."""
        return Full(measure=self.measure).check_due(view, _compute_budget(self.budget_rule, budget.window_tokens), usage)

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since the budget does not contain this trigger's threshold."""
        return DUE_IN_ANY_VIEW


@lru_cache(maxsize=1_000)
def _compute_budget(budget_rule: BudgetRule, window_tokens: int) -> Budget:
    return budget_rule.compute_budget(Window(tokens=window_tokens, source="configuration"))


INSTRUCTION = """\
Create a summary of the session above for whoever goes on with it. First go through it in <analysis> tags, then write:
1. What the user asked for and why
2. Technical concepts
3. Files and code that were looked at or changed
4. Problems that were solved
5. Errors and how they were mended
6. Everything that the user said
7. Tasks that are still open
8. What was being done last
9. The next step, with the words of the user that ask for it"""


SYSTEM = "You sum up conversations with a coding agent. Write text only and call no tools."


HEADING = "## Summary of the conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RooCode(Preset):
    """Common fields of Roo Code's two policies, which set the hard limit of the conversation and the share of messages to evict.

    Attributes:
        max_output_tokens: Number of tokens reserved for the model's answer; a tenth of the window is kept free in addition.
            Default: `8_192`.
        hard_share: Hard limit for the tokens in the conversation, which is this share of the window less `max_output_tokens`.
            Default: `0.9`.
        drop_share: Share of the messages after the first one that is evicted, rounded down to an even number of messages.
            Default: `0.5`.
    """

    max_output_tokens: NonNegative = 8_192
    hard_share: Share = 0.9
    drop_share: Share = 0.5

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        As in the original, each eviction now adds a notice instead of replacing the former one, and a summary alone with one
        further message is not summarized again.
        """
        return 1

    def _build_hard_rule(self) -> ShareMinusReserve:
        return ShareMinusReserve(share=self.hard_share, reserve_tokens=self.max_output_tokens)

    def _build_forget_half(self) -> ForgetHalf:
        notice = "[{count} older messages are hidden to make room in the context window.]"
        return ForgetHalf(share=self.drop_share, keep_first=1, excluded_messages=1, notice=notice, place="behind")


@dataclass(frozen=True, slots=True, kw_only=True)
class RooCode(_RooCode, SummarizingPreset):
    """Policy that, when the window is full, replaces everything but the system message by one summary.

    Choose it when you compare Roo Code with its summaries enabled, or want the smallest view after a compaction.

    Source: Roo Code cb836567, `src/core/condense` and `src/core/context-management`.

    A former summary is passed to the summarizer as a message. If the summary fails above the hard limit, or after an overflow,
    half of the messages are evicted without a summary; below that limit, the conversation stays unchanged. An empty summary
    counts as failed.

    Differences from the original:

    - File outlines made by a parser, editor commands and environment details are left out.
    - Messages that were evicted without a summary stay evicted; the original summarizes them later.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        condense_share: Share of the window that triggers the summary, if it is below the limit set by `hard_share`; the original
            allows 0.05 to 1. Default: `1.0`.
        least_messages: Minimum number of messages since the last summary; with fewer, no further summary is requested.
            Default: `2`.
        drop_share: Share of the messages behind the first one that is evicted if the summary fails, rounded down to an even
            number of messages. Default: `0.5`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Summarize at 60 % of the window, before the hard limit is reached:

        >>> from harness.policies import RooCode
        >>> from harness.conversation.tokens import Window
        >>> policy = RooCode(condense_share=0.6)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        19660
    """

    condense_share: Share = 1.0
    least_messages: Positive = 2
    kind: Literal["roo-code"] = "roo-code"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        As in the original, a summary alone with one further message is not summarized again.

        A message of the user that no request has contained yet now stays in view.
        """
        return 2

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize when the threshold is reached, and after an overflow.

        Above the hard limit, and after an overflow, half of the messages are evicted if the summary fails.
        """
        summarize = Summarize(
            middle=EVERYTHING,
            format=Brief(instruction=INSTRUCTION, system=SYSTEM, heading=HEADING, drops="analysis"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        alone = IfMessages(count=self.least_messages, reducer=summarize)
        reducer = OnFailure(first=alone, then=self._build_forget_half())
        soft, hard = ShareOfAvailable(share=self.condense_share), self._build_hard_rule()
        full: Measure = "reported-and-since"
        rules = (
            Rule(FullBy(budget_rule=hard, measure=full), reducer, on_request=False),
            Rule(Full(measure=full), alone),
            Rule(Always(), reducer, hook="overflow"),
        )
        return Pipeline(SmallestThreshold(budget_rules=(soft, hard)), rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class RooSliding(_RooCode):
    """Policy that, when the window is full, evicts half of the messages after the first one and adds a notice with their number.

    Choose it when you compare Roo Code with its summaries disabled, or want a sliding window without a summarizer.

    Source: Roo Code cb836567, `src/core/context-management`, with condensing turned off.

    Example:
        Reserve fewer tokens for the answer, and evict a quarter of the messages at a time:

        >>> from harness.policies import RooSliding
        >>> from harness.conversation.tokens import Window
        >>> policy = RooSliding(max_output_tokens=4_096, drop_share=0.25)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        25396
    """

    kind: Literal["roo-sliding"] = "roo-sliding"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which evict half of the messages above the hard limit and after an overflow."""
        half = self._build_forget_half()
        rules = (Rule(Full(measure="reported-and-since"), half), Rule(Always(), half, hook="overflow"))
        return Pipeline(self._build_hard_rule(), rules)
