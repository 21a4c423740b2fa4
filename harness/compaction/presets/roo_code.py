"""Roo Code, a fork of Cline: one summary of the whole conversation, or dropping half of it."""

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
    Division,
    DueAmounts,
    Full,
    Measure,
    ShareOfAvailable,
    SmallestThreshold,
    make_budget,
)
from harness.compaction.wrappers import IfMessages, OnFailure
from harness.errors import UsageError
from harness.tokens import Budget, Usage, Window
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMinusReserve:
    """Act beyond a share of the window less a reserve."""

    share: float
    reserve_tokens: int

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        usable = int(self.share * window.tokens - self.reserve_tokens)
        if usable <= 0:
            raise UsageError(
                f"the reserve of {self.reserve_tokens} tokens leaves nothing of {self.share:g} × the window of {window.tokens} "
                f"({window.source}); raise window_tokens or lower the reserve"
            )
        threshold = usable + 1
        rule = f"more than {self.share:g} × {window.tokens} − {self.reserve_tokens}, that is {threshold} tokens"
        return make_budget(window, threshold, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullBy:
    """The view has reached a threshold other than that of the budget. See `harness.compaction.triggers.Trigger`."""

    division: Division
    measure: Measure

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        return Full(measure=self.measure).check_due(view, _divide_window(self.division, budget.window_tokens), usage)

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DUE_IN_ANY_VIEW


@lru_cache(maxsize=1_000)
def _divide_window(division: Division, window_tokens: int) -> Budget:
    """Remembered, since it is asked for before every step and writes its arithmetic down each time."""
    return division.compute_budget(Window(tokens=window_tokens, source="configuration"))


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
    """What both of Roo's ways share: when the window counts as full, and half that goes."""

    max_output_tokens: NonNegative = 8_192
    """Kept free for the answer, beside a tenth of the window."""
    hard_share: Share = 0.9
    """Share of the window which, less the above, must not be exceeded."""
    drop_share: Share = 0.5
    """Of the messages behind the first one that go when half is dropped, in even numbers."""

    def _build_hard_division(self) -> ShareMinusReserve:
        return ShareMinusReserve(share=self.hard_share, reserve_tokens=self.max_output_tokens)

    def _build_forget_half(self) -> ForgetHalf:
        notice = "[{count} older messages are hidden to make room in the context window.]"
        return ForgetHalf(share=self.drop_share, keep_first=1, excluded_messages=1, notice=notice, place="behind")


@dataclass(frozen=True, slots=True, kw_only=True)
class RooCode(_RooCode, SummarizingPreset):
    """When the window is full, the whole conversation becomes one summary and nothing else stays.

    Source: Roo-Code cb836567, `src/core/condense` and `src/core/context-management`; PEERS 2.9. A former summary is told again as
    a message. When the summary fails where the hard limit is exceeded, and after an overflow, half of the messages go without
    one; below that limit the session goes on as it is. An empty summary has failed too. Left out: the outlines of files that a
    parser makes, the commands of the editor that the first message held, and the details of its surroundings, which there are
    none of here. After an overflow the original tries
    up to three times, at 75 % of the window; the loop here tries once.

    Attributes:
        condense_share: Share of the window at which it is condensed, if that comes before the hard limit (0.05 to 1 in the
            original). Default: `1.0`.
        least_messages: Fewer since the last summary, itself among them, are not condensed. Default: `2`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none; ours. Default: `4_096`.
    """

    condense_share: Share = 1.0
    least_messages: Positive = 2
    kind: Literal["roo-code"] = "roo-code"

    @property
    def pipeline(self) -> Pipeline:
        """Condense, before a step with or without a fallback, and after an overflow."""
        summarize = Summarize(
            middle=EVERYTHING,
            format=Brief(instruction=INSTRUCTION, system=SYSTEM, heading=HEADING, drops="analysis"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        alone = IfMessages(count=self.least_messages, reducer=summarize, with_summary=True)
        reducer = OnFailure(first=alone, then=self._build_forget_half())
        soft, hard = ShareOfAvailable(share=self.condense_share), self._build_hard_division()
        full: Measure = "reported-and-since"
        rules = (
            Rule(FullBy(division=hard, measure=full), reducer),
            Rule(Full(measure=full), alone),
            Rule(Always(), reducer, moment="overflow"),
        )
        return Pipeline(SmallestThreshold(divisions=(soft, hard)), rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class RooSliding(_RooCode):
    """When the window is full, half of the messages behind the first one go, and a notice says how many.

    Source: Roo-Code cb836567, `src/core/context-management`, as it is without condensing; PEERS 2.9.
    """

    kind: Literal["roo-sliding"] = "roo-sliding"

    @property
    def pipeline(self) -> Pipeline:
        """The same rule before a step and after an overflow."""
        half = self._build_forget_half()
        rules = (Rule(Full(measure="reported-and-since"), half), Rule(Always(), half, moment="overflow"))
        return Pipeline(self._build_hard_division(), rules)
