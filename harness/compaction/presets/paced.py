"""Policy that compacts at most once per number of steps, alone or combined with a share of the window."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.overflow import OWN_PROCEDURE
from harness.compaction.pipeline import CalibratedPreset, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import (
    Block,
    Forget,
    Middle,
    Reducer,
    Summarize,
    compile_patterns,
    group_blocks,
    refuse_invalid_patterns,
)
from harness.compaction.summary_formats import SixSections
from harness.compaction.triggers import DUE_IN_ANY_VIEW, AllOf, DueAmounts, Full, NoThreshold, ShareOfAvailable, Trigger
from harness.conversation.messages import extract_part_text
from harness.conversation.plan import CompactionPlan, exclude_items
from harness.conversation.tokens import Budget, Usage
from harness.conversation.view import View
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Trigger that makes the policy act when enough steps followed the last compaction.

    Combine this trigger with another one by `AllOf` to limit how often the conversation is edited.
    """

    count: int
    """Number of steps since the last compaction after which the policy acts."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does."""
        return "the number of steps since its last compaction"

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason with the number of steps if enough steps have ended since the last compaction, or None."""
        steps = view.steps_since_compaction
        return f"{steps} steps since the last compaction ≥ {self.count}" if steps >= self.count else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since this trigger counts steps."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPinned:
    """Part of a policy that shortens the conversation as another part plans it, but leaves pinned messages as they are.

    A message is pinned if one of its lines matches a shell pattern. A call is pinned together with all its results. The
    summarizer does not read pinned messages. Summaries are never pinned, because a summary that quotes a pinned line would stay
    in view for ever.

    Regular expressions are not supported, because the time of a match is unbounded.
    """

    patterns: tuple[str, ...]
    """Shell patterns, such as `*must*`; a message with a line that matches one of them is pinned."""
    reducer: Reducer
    """Way to shorten the conversation; changes to pinned messages are removed from its plan."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of `reducer` without its changes to pinned messages."""
        plan = self.reducer.reduce(view, budget, reason)
        changed_ids = {*plan.forget, *(change.item for change in plan.replace)} - set(view.summaries)
        changed_blocks = [block for block in group_blocks(view.items) if any(item.item_id in changed_ids for item in block.items)]
        pinned_ids = [item.item_id for block in changed_blocks if self._has_match(block) for item in block.items]
        if not pinned_ids:
            return plan
        left = exclude_items(plan, frozenset(pinned_ids) & changed_ids)
        return replace(left, reason=f"{plan.reason}, but all of them are pinned") if left.is_empty else left

    def _has_match(self, block: Block) -> bool:
        return any(
            has_matching_line(self.patterns, extract_part_text(part)) for item in block.items for part in item.message.parts
        )


def has_matching_line(patterns: tuple[str, ...], text: str) -> bool:
    """Return whether at least one line of a text matches at least one of the shell patterns."""
    return any(matches(line) for line in text.splitlines() for _, matches in compile_patterns(patterns))


def check_patterns(policy: object, name: str) -> None:
    """Raise UsageError if a shell pattern of the policy is invalid, or would match no line or every line.

    Raises:
        UsageError: A pattern is invalid, or matches no line or every line; the message gives a valid example.
    """
    for pattern in getattr(policy, name):
        if not pattern.strip() or "\n" in pattern:
            raise UsageError(f"{name}: {pattern!r} matches no line with text; write a shell pattern such as '*must*'")
        if not pattern.strip("*?"):
            raise UsageError(f"{name}: {pattern!r} matches every line, so nothing would be evicted; write one such as '*must*'")
    refuse_invalid_patterns(name, getattr(policy, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced(CalibratedPreset, SummarizingPreset):
    """Policy that summarizes all but the last 10 messages after every 20 steps, or less often with `threshold`.

    Choose it to vary one parameter alone: how often the conversation is edited, or which lines are pinned.

    Source: this project, to vary the frequency of compaction alone.

    Each edit of the conversation breaks the cached prefix of the provider, so the policy compacts only after a minimum number of
    steps. A step is a call of the model with the results of its tools. With `threshold`, the conversation must also have reached
    that share of the window. Summaries and retained messages are the same as with `keep-last`.

    If the summary fails or is empty, the conversation stays unchanged, and the summary is requested again before the next step.
    After a refused prompt, messages go even without a summary, and pinned ones too if the others are not enough.

    Attributes:
        every_steps: Number of steps from the last compaction, or from the start of the session, to the next one. Default: `20`.
        threshold: Share of the window that the conversation must also have reached, above 0 and at most 1; None compacts by the
            number of steps alone. Default: `None`.
        summarize: Whether a summary replaces the evicted messages; otherwise they are evicted without one. Default: `True`.
        keep_request: Whether the user's request, the first message behind the system message, is retained verbatim.
            Default: `False`.
        pins: Shell patterns, such as `*must*` or `RULE *`; a message with a line that matches one of them is retained whole, with
            its call or results. Default: `()`.
        keep_last: Number of messages retained at the end of the conversation; more if a call would be separated from its results.
            Default: `10`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `800`.

    Example:
        Compact at most every 10 steps, and never evict the request or a line that states a rule:

        >>> from harness.policies import Paced
        >>> from harness.conversation.tokens import Window
        >>> policy = Paced(every_steps=10, keep_request=True, pins=("RULE *",))
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        'every 10 steps'
    """

    every_steps: Positive = 20
    threshold: Share | None = None
    summarize: bool = True
    keep_request: bool = False
    pins: tuple[str, ...] = ()
    keep_last: Positive = 10
    summary_max_tokens: Positive = 800
    kind: Literal["paced"] = "paced"

    def check_combination(self) -> None:
        """Raise UsageError if a pattern in `pins` (patterns of lines to retain) would match no line or every line."""
        check_patterns(self, "pins")

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes or evicts everything before the last messages after a number of steps."""
        middle = Middle(tail=LastMessages(count=self.keep_last), head_messages=2 if self.keep_request else 1)
        summarize = Summarize(
            middle=middle,
            format=SixSections(max_tokens=self.summary_max_tokens),
            max_tokens=self.summary_max_tokens,
            role="assistant",
            procedure=OWN_PROCEDURE,
            measure=self.measure,
        )
        reducer: Reducer = summarize if self.summarize else Forget(middle=middle)
        if self.pins:
            reducer = KeepPinned(patterns=self.pins, reducer=reducer)
        steps = Steps(count=self.every_steps)
        overflow = self.build_overflow_rule(reducer, summarize if self.summarize else None)
        if self.threshold is None:
            return Pipeline(NoThreshold(rule=f"every {self.every_steps} steps"), (Rule(steps, reducer), overflow))
        trigger: Trigger = AllOf((Full(measure=self.measure), steps))
        budget_rule = ShareOfAvailable(share=self.threshold)
        return Pipeline(budget_rule, (Rule(trigger, reducer), overflow))
