"""The three ways to compact of Inspect: summarize, trim, edit. All act above a share of the window and keep the task's input."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from harness.compaction.cuts import LastMessages, LastShare, Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Range, Rule, Share, SummarizingPreset, join_plans
from harness.compaction.stages import DEFAULT_COUNTER, Forget, Mask, Middle, Reducer, Summarize, apply_plan
from harness.compaction.summary_formats import ACCEPT_EMPTY, Sections
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.plan import Plan
from harness.tokens import Budget, Counter
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A reducer again and again, as one plan, until the view is no longer above its threshold or a pass has saved nothing."""

    reducer: Reducer
    max_passes: int
    counter: Counter = DEFAULT_COUNTER

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        if plan.is_empty or plan.slots:
            return plan
        left, before = apply_plan(view, plan, self.counter), view.tokens + 1
        for _ in range(self.max_passes - 1):
            if left.tokens <= (budget.threshold_tokens or 0) or left.tokens >= before:
                break
            before, more = left.tokens, self.reducer.reduce(left, budget, reason)
            if more.is_empty:
                break
            plan = replace(join_plans(plan, more), reason=plan.reason)
            if more.slots:
                break
            left = apply_plan(view, plan, self.counter)
        return plan


SECTIONS = ("Task Overview", "Current State", "Important Discoveries", "Next Steps", "Context to Preserve")


OPENING = "[CONTEXT COMPACTION SUMMARY]\n\n(Written by the agent's memory, not by the user.)"


CLOSING = "(Go on with the task from here.)"


MAX_PASSES = 4
"""The first one, and up to three more where the view is still above the threshold."""


INPUT_MESSAGES = 2
"""Messages that always stay: the system message and the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inspect(Preset):
    """What the three share."""

    threshold: Share = 0.9
    """Share of the window above which the view is compacted, above 0 and at most 1."""
    context_window: Positive | None = None
    """Overrides the model's window for this policy (S2.8); None = the window of the model."""

    def _build_pipeline(self, reducer: Reducer) -> Pipeline:
        rules = (Rule(Full(measure="reported-and-since", above=True), reducer), Rule(Always(), reducer, moment="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectSummary(_Inspect, SummarizingPreset):
    """Everything but the system message and the request becomes a user message with a summary.

    Source: inspect-ai 0.3.285 `model/_compaction/summary.py`; PEERS "Inspect AI" and 2.13. The former summary is one of the
    messages that are summarized. Different from the original: where the view is still above the threshold it is neither
    summarized again nor is the run ended; the last answer counts as it was reported, not as it is estimated; a prompt that is too
    long for the summarizer does not have its longest outputs halved. When the summary fails, the session goes on as it is; there
    the run ends. An empty summary is taken.

    Attributes:
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Output limit of a summary; the original sets none. Default: `4_096`.
    """

    kind: Literal["inspect-summary"] = "inspect-summary"

    @property
    def pipeline(self) -> Pipeline:
        """Nothing stays behind the request."""
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
    """The oldest fifth of what follows the request goes, up to four times until the view is below the threshold.

    Source: inspect-ai 0.3.285 `model/_compaction/trim.py`; PEERS "Inspect AI" and 2.13. Different from the original: the run goes
    on where that is not enough; the last answer counts as it was reported.

    Attributes:
        preserve: Share of the messages behind the request that stays each time, at least 0 and at most 1. Default: `0.8`.
    """

    preserve: Annotated[float, Range(lambda value: 0 <= value <= 1, "must be at least 0 and at most 1")] = 0.8
    kind: Literal["inspect-trim"] = "inspect-trim"

    @property
    def pipeline(self) -> Pipeline:
        """Forget; results that lose their call go with it."""
        tail = LastShare(share=self.preserve, excluded_messages=INPUT_MESSAGES)
        middle = Middle(tail=tail, head_messages=INPUT_MESSAGES, snap=Snap(direction="forward"))
        return self._build_pipeline(Repeat(reducer=Forget(middle=middle), max_passes=MAX_PASSES))


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectEdit(_Inspect):
    """All but the newest tool results become stubs.

    Source: inspect-ai 0.3.285 `model/_compaction/edit.py`; PEERS "Inspect AI" and 2.13. Different from the original: thinking is
    never sent back here, so none is cleared; calls always stay where their results are cleared; the run goes on where clearing is
    not enough; the last answer counts as it was reported.

    Attributes:
        keep_results: Newest tool results that stay, those of exempt tools aside. Default: `3`.
        exempt_tools: Tools whose results are never cleared. Default: `()`.
        stub: What stands in the place of a cleared result. Default: `'(Tool result removed)'`.
    """

    keep_results: NonNegative = 3
    exempt_tools: tuple[str, ...] = ()
    stub: str = "(Tool result removed)"
    kind: Literal["inspect-edit"] = "inspect-edit"

    @property
    def pipeline(self) -> Pipeline:
        """Mask."""
        return self._build_pipeline(Mask(stub=self.stub, keep_results=self.keep_results, exempt_tools=self.exempt_tools))
