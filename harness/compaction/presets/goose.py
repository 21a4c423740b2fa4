"""goose: the whole conversation becomes a summary, followed by a note of the assistant."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import Pipeline, Rule, Share, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Summarize
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.compaction.wrappers import WithClosingMessage
from harness.messages import Message, ToolResult, assistant
from harness.plan import SummaryProcedure


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutResults:
    """Leaves out a growing share of the tool results, from the middle outwards. See `harness.plan.PromptShortener`."""

    shares: tuple[float, ...]
    """Of the results, by attempt."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """The messages, results that are left out without their content."""
        results = [index for index, message in enumerate(messages) if message.role == "tool"]
        if attempt > len(self.shares) or not results:
            return ()
        count, middle = max(1, int(len(results) * self.shares[attempt - 1])), (len(results) - 1) / 2
        gone = {results[at] for at in sorted(range(len(results)), key=lambda at: abs(at - middle))[:count]}
        return tuple(_empty_results(message) if index in gone else message for index, message in enumerate(messages))


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
    """Above 80 % of the window, looked at before each reply, everything becomes a summary and a note of the assistant's.

    Source: goose 006bd233, `crates/goose/src/context_mgmt/mod.rs`; PEERS 2.18. Within a turn it acts only after an overflow, so
    in a session of a single request it comes late; the *adapted* variant looks before every step. There, and after an overflow,
    the user's last words stand behind the note. The text to be summed up is part of the system prompt; where it is too long,
    results are left out from the middle outwards. When the summary fails, the session goes on as it is. An empty summary has
    failed too. Left out: summing up pairs of calls in the background, whose default differs between versions. A threshold of 1
    turns the original's check off; here it stands for the whole window, and `none` for no compaction.

    Attributes:
        adapted: Whether it looks within a turn too. Default: `False`.
        threshold: Share of the window above which it is compacted, above 0 and at most 1. Default: `0.8`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none; ours. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    adapted: bool = False
    threshold: Share = 0.8
    kind: Literal["goose"] = "goose"

    @property
    def pipeline(self) -> Pipeline:
        """One rule before a turn, adapted before a step, and one after an overflow."""
        summary = Summarize(
            middle=EVERYTHING,
            format=Brief(instruction=INSTRUCTION, layout="system", files=True),
            max_tokens=self.summary_max_tokens,
            former="among",
            behind=(assistant(NOTE),),
            procedure=SummaryProcedure(shorter=WithoutResults(shares=(0.1, 0.2, 0.5, 1.0))),
        )
        again = WithClosingMessage(reducer=summary, text="{said}")
        full = Full(measure="reported", above=True)
        due = Rule(full, again) if self.adapted else Rule(full, summary, moment="turn")
        return Pipeline(ShareOfAvailable(share=self.threshold), (due, Rule(Always(), again, moment="overflow")))
