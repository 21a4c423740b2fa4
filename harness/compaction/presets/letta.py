"""Policy of Letta, which summarizes a share of the oldest messages, or as many more as make the rest small enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import find_fitting_start
from harness.compaction.pipeline import Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Middle, Summarize
from harness.compaction.summary_formats import Brief, CapTexts
from harness.compaction.triggers import Always, Amount, Full, ShareOfAvailable
from harness.compaction.wrappers import OnFailure
from harness.conversation import transcript
from harness.conversation.messages import Message, user
from harness.conversation.plan import SummaryProcedure
from harness.conversation.tokens import Budget
from harness.conversation.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class UpToShare:
    """Rule that selects as few of the oldest messages as needed, so that the rest fits a share of the window.

    The first attempt selects `first_share` + `step_share` of the messages. Each further attempt adds `step_share`, until the rest
    fits. A selection always ends before an answer of the model. The last attempt usually selects everything before the newest
    answer. If not even the rest of this attempt fits, everything but the system message is selected.
    """

    first_share: float
    """Share of the messages in the conversation with which the selection starts, before the first extension by `step_share`."""
    step_share: float
    """Share of the messages in the conversation by which each step extends the selection of oldest messages."""
    goal_share: float
    """Maximum share of the window that the system message and the retained messages may fill."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return as few of the oldest messages as needed for the rest to fit, or else all but the system message."""
        items, goal = view.items, self.goal_share * budget.window_tokens
        answers = [index for index, item in enumerate(items) if item.message.role == "assistant" and index > 1]
        share = self.first_share
        # The sum grows as in the original: its rounding errors keep a share of nominally 1 below 1, so that step is tried too.
        while (share := share + self.step_share) < 1:
            end = max((index for index in answers if index <= round(share * len(items))), default=None)
            if end is not None and items[0].tokens + sum(item.tokens for item in items[end:]) < goal:
                return items[1:end]
        return items[1:]

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since no minimum is retained; everything but the system message may be evicted."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Way to shorten a summarizer's prompt that is too long: cut tool results, then leave out the middle."""

    result_characters: int
    """Maximum length in characters of a tool result in the shortened prompt for the summarizer."""
    share: float
    """Share of the messages' characters to keep at the beginning, and again at the end, of the shortened prompt."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return a prompt with cut tool results in attempt 1, without the middle in attempt 2, and empty later."""
        clamped_messages = CapTexts(result_characters=self.result_characters).select(messages)
        if attempt == 1:
            return clamped_messages
        sizes = [len(transcript.render((message,))) for message in clamped_messages]
        room = int(self.share * sum(sizes))
        # the beginning is measured like the end, in the reverse order
        head, tail = (len(sizes) - find_fitting_start(ordered_sizes, room) for ordered_sizes in (sizes[::-1], sizes))
        if attempt > 2 or head + tail >= len(clamped_messages):
            return ()
        left_out = user(f"({len(clamped_messages) - head - tail} messages in the middle are left out here.)")
        return (*clamped_messages[:head], left_out, *clamped_messages[len(clamped_messages) - tail :])


INSTRUCTION = """\
Create a summary of the messages above, which are about to leave your view, in at most 300 words: goals, what happened, details
that matter (names, paths, numbers), errors and how they were mended, and hints where more can be looked up."""


HEADING = "[System alert: earlier messages are hidden from view. Summary of what they held:]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letta(SummarizingPreset):
    """Policy that, above 90 % of the window, summarizes the oldest 40 % of the messages, or more if the rest is still large.

    Choose it when you compare Letta, or want a sliding window whose evicted part is summarized.

    Source: Letta 56ba9c25, `letta/services/summarizer`, mode `sliding_window`.

    The policy tries the oldest 40 % of the messages (`sliding_share` plus `step_share`), then 50 % and so on, until the rest fits
    70 % of the window. The rest begins with an answer of the model. In the original, too, one step is added before the first
    attempt. The setting that the original calls the share to keep is in fact the share to evict.

    If the summary fails or is empty, everything is summarized instead; if that fails too, the conversation stays unchanged. If
    the summarizer's prompt is too long, its tool results are cut in a second attempt, and its middle is left out in a third one.

    Differences from the original:

    - The size after a cut is estimated.
    - A view that is still too large is compacted again only in the next step.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        threshold: Share of the window that the tokens of the last model call must exceed to trigger compaction, above 0 and at
            most 1. Default: `0.9`.
        sliding_share: Share of the messages that, with `step_share` added, is the first part to summarize; the retained messages
            must fit 1 minus this share of the window. Default: `0.3`.
        step_share: Share of the messages by which the part to summarize grows in each step until the rest is small enough.
            Default: `0.1`.
        summary_clip_characters: Maximum length of a summary in characters; a longer answer of the summarizer is cut.
            Default: `50_000`.
        result_characters: Maximum length in characters of a tool result when the summarizer's prompt must be shortened; the
            original gives no number. Default: `2_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Summarize at least 60 % of the messages, so that compaction is needed less often:

        >>> from harness.policies import Letta
        >>> from harness.conversation.tokens import Window
        >>> policy = Letta(sliding_share=0.5)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        29491
    """

    threshold: Share = 0.9
    sliding_share: Share = 0.3
    step_share: Share = 0.1
    summary_clip_characters: Positive = 50_000
    result_characters: Positive = 2_000
    kind: Literal["letta"] = "letta"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: if nothing else fits, the newest answer with its results is tried before everything is summarized, as in
        the original.

        A message of the user that no request has contained yet now stays in view.
        """
        return 2

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize the oldest messages when the threshold is exceeded, and after an overflow."""
        sliding = UpToShare(first_share=self.sliding_share, step_share=self.step_share, goal_share=1 - self.sliding_share)
        reducer = OnFailure(first=self._build_summarize(sliding), then=self._build_summarize(EVERYTHING))
        rules = (Rule(Full(measure="reported", above=True), reducer), Rule(Always(), reducer, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)

    def _build_summarize(self, stretch: UpToShare | Middle) -> Summarize:
        return Summarize(
            middle=stretch,
            format=Brief(instruction=INSTRUCTION, heading=HEADING, most_characters=self.summary_clip_characters),
            max_tokens=self.summary_max_tokens,
            former="among",
            procedure=SummaryProcedure(shorter=Ends(result_characters=self.result_characters, share=0.3)),
        )
