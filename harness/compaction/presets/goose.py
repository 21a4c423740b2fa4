"""Policy of goose, which replaces the whole conversation by a summary and a note of the assistant."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import Pipeline, Rule, Share, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Summarize
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.compaction.wrappers import WithClosingMessage
from harness.conversation.messages import Message, ToolResult, assistant
from harness.conversation.plan import SummaryProcedure


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutResults:
    """Way to shorten a summarizer's prompt that is too long: each attempt empties more tool results, middle ones first."""

    shares: tuple[float, ...]
    """Shares of the tool results to empty, one share for each attempt to shorten the prompt."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return the messages with some tool results emptied, more in each attempt; empty after the last attempt."""
        results = [index for index, message in enumerate(messages) if message.role == "tool"]
        if attempt > len(self.shares) or not results:
            return ()
        count, middle = max(1, int(len(results) * self.shares[attempt - 1])), (len(results) - 1) / 2
        removed_results = {results[place] for place in sorted(range(len(results)), key=lambda place: abs(place - middle))[:count]}
        return tuple(_empty_results(message) if index in removed_results else message for index, message in enumerate(messages))


def _empty_results(message: Message) -> Message:
    left_out = "(left out; together it was too long to be read)"
    parts = tuple(replace(part, output=left_out) if isinstance(part, ToolResult) else part for part in message.parts)
    return replace(message, parts=parts)


INSTRUCTION = """\
Create a summary of the session above from which it can be continued without it. Use these sections:

## Goal
## Constraints
## Progress
## Decisions
## Critical Context
## Next Step"""


NOTE = "The conversation was compacted; I know it by the summary above. I go on with the work and do not mention the summary."


@dataclass(frozen=True, slots=True, kw_only=True)
class Goose(SummarizingPreset):
    """Policy that replaces the whole conversation by a summary and a note when a turn begins above 80 % of the window.

    Choose it when you compare goose, or want one summary of everything in sessions with many short turns.

    Source: goose 006bd233, `crates/goose/src/context_mgmt/mod.rs`.

    Within a turn the policy acts only after an overflow, so it acts late in a session with a single request. `adapted` lets it
    act before every step. With `adapted`, and after an overflow, the user's last message follows the note.

    The messages to summarize are part of the summarizer's system prompt. If this prompt is too long, tool results are left out
    from the middle outwards. If the summary fails or is empty, the conversation stays unchanged.

    Differences from the original:

    - Single tool calls with their results are not summarized in the background.
    - The lists of files follow the summary; the original passes them to the summarizer.
    - Before a turn, the summarizer does not read the user's new message.
    - The note has the same text in every case; the original has three texts.
    - A threshold of 1 stands for the whole window instead of turning compaction off.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        adapted: Whether the policy checks its trigger before every model call, instead of only before each new turn.
            Default: `False`.
        threshold: Share of the window that triggers compaction when it is exceeded, above 0 and at most 1. Default: `0.8`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Check the threshold before every step, for a session with a single request:

        >>> from harness.policies import Goose
        >>> from harness.conversation.tokens import Window
        >>> policy = Goose(adapted=True, threshold=0.7)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        22937
    """

    adapted: bool = False
    threshold: Share = 0.8
    kind: Literal["goose"] = "goose"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: each summary also lists the files that the summary before it lists.

        A message of the user that no request has contained yet now stays in view.
        """
        return 2

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize before a turn (or step, if `adapted`) above the threshold and after an overflow."""
        summary = Summarize(
            middle=EVERYTHING,
            format=Brief(instruction=INSTRUCTION, layout="system", files=True),
            max_tokens=self.summary_max_tokens,
            former="among",
            behind=(assistant(NOTE),),
            procedure=SummaryProcedure(shorter=WithoutResults(shares=(0.1, 0.2, 0.5, 1.0))),
        )
        summary_and_request = WithClosingMessage(reducer=summary, text="{said}")
        full = Full(measure="reported", above=True)
        rule = Rule(full, summary_and_request) if self.adapted else Rule(full, summary, hook="turn")
        return Pipeline(ShareOfAvailable(share=self.threshold), (rule, Rule(Always(), summary_and_request, hook="overflow")))
