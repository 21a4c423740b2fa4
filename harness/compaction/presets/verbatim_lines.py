"""Policy in which a model names ranges of lines to delete, and every line that stays is verbatim."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import NonNegative, Pipeline, Rule, Share, SummarizingPreset
from harness.compaction.stages import Middle, Summarize
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.conversation import transcript
from harness.conversation.messages import Message, user
from harness.conversation.plan import SummaryProcedure, SummaryRequest

RANGES_HEADING = "RANGES TO DELETE"
INSTRUCTION = f"""\
Create a summary by deletion only. The numbered lines above are a session. Name the ranges of lines that are no longer needed to
go on with it, such as old outputs; rewrite nothing. Answer with the line {RANGES_HEADING} and below it one range in each line,
such as 12-40. Together they should be at least {{share:.0%}} of all lines."""
HEADING = "Lines of the earlier session, verbatim except where lines are left out:"
_RANGE = re.compile(r"^\s*(\d+)\s*-\s*(\d+)\s*$", re.MULTILINE)
_LEFT_OUT = re.compile(r"^\(left out: (\d+) lines\)$")
_ROLE = re.compile(r"^\[(?:system|user|assistant|tool)\]$")


def list_lines(messages: Sequence[Message]) -> list[str]:
    """Return the lines of a session, of which an earlier text of this policy gives its own lines."""
    lines = list[str]()
    for line in transcript.iter_lines(tuple(messages)):
        lines += [] if line == HEADING else line.split("\n")
    return lines


def delete_lines(lines: Sequence[str], ranges: Sequence[tuple[int, int]]) -> str:
    """Return the lines outside of ranges, with a note in place of each gap.

    Lines that name a role stay. The numbers in the notes include lines that were left out before.

    Args:
        lines: Lines of a session.
        ranges: First and last number of each range, counted from 1; numbers outside of the session are ignored.
    """
    deleted = {number for first, last in ranges for number in range(max(1, first), min(last, len(lines)) + 1)}
    kept, gap = list[str](), 0
    for number, line in enumerate(lines, 1):
        earlier = _LEFT_OUT.match(line)
        if earlier or (number in deleted and not _ROLE.match(line)):
            gap += int(earlier[1]) if earlier else 1
            continue
        if gap:
            kept.append(f"(left out: {gap} lines)")
        kept.append(line)
        gap = 0
    return "\n".join([*kept, *([f"(left out: {gap} lines)"] if gap else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedLines:
    """Summary format in which the summarizer names the lines to delete, and the rest is the summary."""

    least_share: float
    """Share of all lines that the summarizer is asked to delete."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the prompt with the numbered lines and the instruction."""
        numbered = (f"{number}: {line}" for number, line in enumerate(list_lines(request.to_summarize), 1))
        return (user("\n".join((*numbered, "", INSTRUCTION.format(share=self.least_share)))),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the lines that the summarizer did not name."""
        ranges = [(int(first), int(last)) for first, last in _RANGE.findall(text.partition(RANGES_HEADING)[2])]
        return f"{HEADING}\n{delete_lines(list_lines(request.to_summarize), ranges)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestLines:
    """Replacement for an answer without ranges, which names the oldest lines."""

    share: float
    """Share of all lines that is named."""

    def write_summary(self, request: SummaryRequest) -> str:
        """Return an answer that names the oldest lines."""
        count = len(list_lines(request.to_summarize))
        return f"{RANGES_HEADING}\n1-{int(count * self.share)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbatimLines(SummarizingPreset):
    """Policy that deletes the lines which a model names, at 80 % of the window, and rewrites none.

    Choose it when a paraphrase would be wrong, such as for error messages and line numbers.

    Source: bastani-inc/atomic, pull request 1801 (2026-07-14), as its description says, which follows a product of Morph.

    The summarizer reads the messages before the last ones as numbered lines, and answers with ranges to delete. Every other line
    stays as it is, in one message, with the number of lines in each gap; numbers of earlier gaps are added. Lines that name a
    role stay. An answer without ranges counts as a failed summary; scripted summarizers never name ranges.

    If the summary fails or is empty, a list of the oldest lines replaces it, and the log records the failure.

    Differences from the original:

    - The newest messages stay by their number, and not from the beginning of a turn.
    - Threshold and share of deleted lines are choices of this project.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report and an estimate of later messages. Default: `0.8`.
        keep_last: Number of messages retained at the end of the conversation. Default: `10`.
        delete_share: Share of all lines that the summarizer is asked to delete, and that goes if it fails. Default: `0.6`.
        summary_max_tokens: Maximum number of tokens in the summarizer's answer, which has only ranges. Default: `4_096`.

    Example:
        >>> from harness.policies import VerbatimLines
        >>> from harness.conversation.tokens import Window
        >>> VerbatimLines().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        26214
    """

    threshold: Share = 0.8
    keep_last: NonNegative = 10
    delete_share: Share = 0.6
    kind: Literal["verbatim-lines"] = "verbatim-lines"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which delete lines at the threshold and after an overflow."""
        delete = Summarize(
            middle=Middle(tail=LastMessages(count=self.keep_last)),
            format=DeletedLines(least_share=self.delete_share),
            max_tokens=self.summary_max_tokens,
            former="among",
            procedure=SummaryProcedure(required_lines=(RANGES_HEADING,), stand_in=OldestLines(share=self.delete_share)),
        )
        rules = (Rule(Full(measure="reported-and-since"), delete), Rule(Always(), delete, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)
