"""Letta: a sliding share of the messages becomes a summary."""

from dataclasses import dataclass
from typing import Literal

from harness import transcript
from harness.compaction.cuts import find_fitting_start
from harness.compaction.pipeline import Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Middle, Summarize
from harness.compaction.summary_formats import Brief, CapTexts
from harness.compaction.triggers import Always, Amount, Full, ShareOfAvailable
from harness.compaction.wrappers import OnFailure
from harness.messages import Message, user
from harness.plan import SummaryProcedure
from harness.tokens import Budget
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class UpToShare:
    """A first share of the messages, in steps more of them, until what stays is less than a share of the window.

    It ends at the last answer within that share; where nothing less will do, it is everything.
    """

    first_share: float
    step_share: float
    goal_share: float
    """Of the window, for the system message and what stays."""

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Span`."""
        items, goal = view.items, self.goal_share * budget.window_tokens
        answers = [index for index, item in enumerate(items) if item.message.role == "assistant" and index > 1]
        steps = 1
        while (share := self.first_share + steps * self.step_share) < 1 - 1e-9:
            end = max((index for index in answers if index <= round(share * len(items))), default=None)
            if end is not None and items[0].tokens + sum(item.tokens for item in items[end:]) < goal:
                return items[1:end]
            steps += 1
        return items[1:]

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.stages.Span`."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """First shorter tool results, then only the two ends of the messages. See `harness.plan.PromptShortener`."""

    result_characters: int
    share: float
    """Of the characters, at either end."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Clamped in the first attempt, without the middle in the second; no third."""
        clamped = CapTexts(result_characters=self.result_characters).select(messages)
        if attempt == 1:
            return clamped
        sizes = [len(transcript.render((message,))) for message in clamped]
        room = int(self.share * sum(sizes))
        head, tail = (len(sizes) - find_fitting_start(ordered, room) for ordered in (sizes[::-1], sizes))
        if attempt > 2 or head + tail >= len(clamped):
            return ()
        left_out = user(f"({len(clamped) - head - tail} messages in the middle are left out here.)")
        return (*clamped[:head], left_out, *clamped[len(clamped) - tail :])


INSTRUCTION = """\
Create a summary of the messages above, which are about to leave your view, in at most 300 words: goals, what happened, details
that matter (names, paths, numbers), errors and how they were mended, and hints where more can be looked up."""


HEADING = "[System alert: earlier messages are hidden from view. Summary of what they held:]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letta(SummarizingPreset):
    """Above 90 % of the window, 40 % of the messages, or as many more as it takes to fall below 70 %, become a summary.

    Source: Letta 56ba9c25, `letta/services/summarizer`, mode `sliding_window`; PEERS 2.16. The cut stands before an answer. What
    the original calls the share to keep is the share that goes, and the first step is added before the first look. When the
    summary fails, everything is summed up instead, and if that fails too the session goes on as it is. An empty summary has
    failed too. Of a text that is too long first the results are clamped, then its middle is left out. The original counts by the
    provider's tokens; what a cut would leave is estimated here. Its look at the result, and a second pass over everything if that
    is still above the trigger, is the next step's.

    Attributes:
        threshold: Share of the window above which the last call's tokens are compacted, above 0 and at most 1. Default: `0.9`.
        sliding_share: Share of the messages that the first attempt adds a step to; what stays must be below the rest of the
            window. Default: `0.3`.
        step_share: By which it grows until enough goes. Default: `0.1`.
        summary_clip_characters: A longer summary is cut. Default: `50_000`.
        result_characters: Of each result in the second attempt to be told; the source names no number, ours. Default: `2_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none; ours. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    threshold: Share = 0.9
    sliding_share: Share = 0.3
    step_share: Share = 0.1
    summary_clip_characters: Positive = 50_000
    result_characters: Positive = 2_000
    kind: Literal["letta"] = "letta"

    @property
    def pipeline(self) -> Pipeline:
        """The same before a step and after an overflow."""
        sliding = UpToShare(first_share=self.sliding_share, step_share=self.step_share, goal_share=1 - self.sliding_share)
        reducer = OnFailure(first=self._build_summarize(sliding), then=self._build_summarize(EVERYTHING))
        rules = (Rule(Full(measure="reported", above=True), reducer), Rule(Always(), reducer, moment="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)

    def _build_summarize(self, stretch: UpToShare | Middle) -> Summarize:
        return Summarize(
            middle=stretch,
            format=Brief(instruction=INSTRUCTION, heading=HEADING, most_characters=self.summary_clip_characters),
            max_tokens=self.summary_max_tokens,
            former="among",
            procedure=SummaryProcedure(shorter=Ends(result_characters=self.result_characters, share=0.3)),
        )
