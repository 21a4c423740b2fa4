"""Policies of Inspect, which summarize, evict or mask above a share of the window and always retain the user's request."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from harness.compaction.cuts import LastMessages, LastShare, Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Range, Rule, Share, SummarizingPreset, join_plans
from harness.compaction.stages import DEFAULT_COUNTER, Forget, Mask, Middle, Reducer, Summarize, apply_plan
from harness.compaction.summary_formats import ACCEPT_EMPTY, Sections
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter
from harness.conversation.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Part of a policy that shortens the conversation repeatedly until it fits the threshold or a run saves nothing.

    The changes that all runs of `reducer` propose are joined in one plan.
    """

    reducer: Reducer
    """Way to shorten the conversation, applied until the conversation fits the threshold or a run saves nothing."""
    max_passes: int
    """Maximum number of times that the reducer runs in one compaction."""
    counter: Counter = DEFAULT_COUNTER
    """Token counter with which the conversation is measured between two runs."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return one plan with the changes of all runs, up to the run that reaches the threshold or saves nothing."""
        plan = self.reducer.reduce(view, budget, reason)
        if plan.is_empty or plan.slots:
            return plan
        remaining_view, before = apply_plan(view, plan, self.counter), view.tokens + 1
        for _ in range(self.max_passes - 1):
            if remaining_view.tokens <= (budget.threshold_tokens or 0) or remaining_view.tokens >= before:
                break
            before, next_plan = remaining_view.tokens, self.reducer.reduce(remaining_view, budget, reason)
            if next_plan.is_empty:
                break
            plan = replace(join_plans(plan, next_plan), reason=plan.reason)
            if next_plan.slots:
                break
            remaining_view = apply_plan(view, plan, self.counter)
        return plan


SECTIONS = ("Task Overview", "Current State", "Important Discoveries", "Next Steps", "Context to Preserve")


OPENING = "[CONTEXT COMPACTION SUMMARY]\n\n(Written by the agent's memory, not by the user.)"


CLOSING = "(Go on with the task from here.)"


MAX_PASSES = 4
"""Maximum number of evictions in one compaction; all but the first happen only while the conversation exceeds the threshold."""


DEFAULT_WINDOW_TOKENS = 128_000
"""Context window in tokens that the policies assume for a model whose window is unknown."""


INPUT_MESSAGES = 2
"""Number of messages at the beginning that are always retained, namely the system message and the user's request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inspect(Preset):
    """Base of the three policies of Inspect, with the fields for the threshold and for the context window.

    Attributes:
        threshold: Share of the window that triggers compaction when it is exceeded, above 0 and at most 1. Default: `0.9`.
        context_window: Context window in tokens that the policy assumes; None uses the window of the model, or 128,000 tokens if
            it is unknown. Default: `None`.
    """

    threshold: Share = 0.9
    context_window: Positive | None = None

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy with these settings changed since version 0.1.

        The only change: if the window of the model is unknown, 128,000 tokens are assumed, as in the original; before, the policy
        did not act.
        """
        return int(self.context_window is None)

    @property
    def _assumed_window_tokens(self) -> int:
        return DEFAULT_WINDOW_TOKENS

    def _build_pipeline(self, reducer: Reducer) -> Pipeline:
        rules = (Rule(Full(measure="reported-and-since", above=True), reducer), Rule(Always(), reducer, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectSummary(_Inspect, SummarizingPreset):
    """Policy that, above 90 % of the window, summarizes everything but the system message and the user's request.

    Choose it when you compare agents of Inspect, or want a summary that keeps the user's request verbatim.

    Source: Inspect AI 0.3.285, `model/_compaction/summary.py`.

    The former summary is summarized again as one of the messages. An empty summary is accepted. If the summary fails, the
    conversation stays unchanged.

    Differences from the original:

    - The original ends the run after a failed summary.
    - A view that still exceeds the threshold is not summarized again at once.
    - The tokens of the last answer are taken from the provider's report instead of an estimate.
    - A prompt that is too long for the summarizer is not shortened.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Compare useful summaries with empty ones, to measure what summaries contribute:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import InspectSummary
        >>> base = Trial(task="flashcards", policy=InspectSummary(), window_tokens=32_768)
        >>> axes = {"policy.summarizer": ["scripted/extractive", "scripted/empty"]}
        >>> len(Experiment(name="summaries", base=base, axes=axes).grid)
        2
    """

    kind: Literal["inspect-summary"] = "inspect-summary"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy with these settings changed since version 0.1.

        If the window of the model is unknown, 128,000 tokens are assumed, as in the original; before, the policy did not act.

        A message of the user that no request has contained yet now stays in view.
        """
        return 1 + (self.context_window is None)

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize everything after the user's request, above the threshold and after an overflow."""
        summarize = Summarize(
            middle=Middle(tail=LastMessages(count=0), head_messages=INPUT_MESSAGES),
            format=Sections(titles=SECTIONS, opening=OPENING, closing=CLOSING, with_task=True),
            max_tokens=self.summary_max_tokens,
            former="among",
            procedure=ACCEPT_EMPTY,
        )
        return self._build_pipeline(summarize)


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectTrim(_Inspect):
    """Policy that evicts the oldest fifth of the messages after the request, up to four times until the rest fits the threshold.

    Choose it when you evaluate with Inspect, or want a sliding window that keeps the user's request and calls no model.

    Source: Inspect AI 0.3.285, `model/_compaction/trim.py`.

    Differences from the original:

    - The session goes on if four evictions are not enough.
    - The tokens of the last answer are taken from the provider's report.

    Attributes:
        preserve: Share of the messages behind the user's request that each eviction retains, at least 0 and at most 1.
            Default: `0.8`.

    Example:
        Evict half of the messages at a time, above 70 % of the window:

        >>> from harness.policies import InspectTrim
        >>> from harness.conversation.tokens import Window
        >>> policy = InspectTrim(threshold=0.7, preserve=0.5)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        22937
    """

    preserve: Annotated[float, Range(lambda value: 0 <= value <= 1, "must be at least 0 and at most 1")] = 0.8
    kind: Literal["inspect-trim"] = "inspect-trim"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which evict the oldest messages after the request, above the threshold and after an overflow.

        Tool results whose call is evicted are evicted too.
        """
        tail = LastShare(share=self.preserve, excluded_messages=INPUT_MESSAGES)
        middle = Middle(tail=tail, head_messages=INPUT_MESSAGES, snap=Snap(direction="forward"))
        return self._build_pipeline(Repeat(reducer=Forget(middle=middle), max_passes=MAX_PASSES))


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectEdit(_Inspect):
    """Policy that, above 90 % of the window, masks all tool results but the newest 3 (replaces them by a short text).

    Choose it when you evaluate with Inspect, or want masking that starts only near the end of the window.

    Source: Inspect AI 0.3.285, `model/_compaction/edit.py`.

    Differences from the original:

    - No thinking is cleared, because none is sent back to the model.
    - Calls stay when their results are masked.
    - The session goes on if masking is not enough.
    - The tokens of the last answer are taken from the provider's report.

    Attributes:
        keep_results: Number of newest tool results that are never masked; results of exempt tools do not count among them.
            Default: `3`.
        exempt_tools: Names of tools whose results are never masked. Default: `()`.
        stub: Text that replaces a masked tool result. Default: `'(Tool result removed)'`.

    Example:
        Mask results as if the window had 32,768 tokens, although the model has a larger one:

        >>> from harness.policies import InspectEdit
        >>> from harness.conversation.tokens import Window
        >>> policy = InspectEdit(keep_results=5, context_window=32_768)
        >>> policy.budget(Window(tokens=200_000, source="configuration")).threshold_tokens
        29491
    """

    keep_results: NonNegative = 3
    exempt_tools: tuple[str, ...] = ()
    stub: str = "(Tool result removed)"
    kind: Literal["inspect-edit"] = "inspect-edit"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which mask all tool results but the newest, above the threshold and after an overflow."""
        return self._build_pipeline(Mask(stub=self.stub, keep_results=self.keep_results, exempt_tools=self.exempt_tools))
