"""Agents that keep little or nothing beside the summary: Letta, goose, crush and dexto."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import check_at_least, check_share
from harness.compaction.stages import AnsweredSpan, BeforeTurnsOrShare, Mask, Middle, Reducer, Summarize, UpToShare
from harness.compaction.summary_formats import Brief, CapTexts, Ends, RequestsAndTools, WithoutResults
from harness.compaction.triggers import Always, Full, RemainingTokens, Reserves, ShareOfAvailable, WindowCap
from harness.compaction.wrappers import IfMessages, OnFailure, WithClosingMessage, WithProcedure
from harness.messages import assistant
from harness.plan import SummaryProcedure

NO_RESERVES = Reserves(system_tokens=0, output_tokens=0, safety_tokens=0)
EVERYTHING = Middle(tail=LastMessages(count=0))

LETTA_INSTRUCTION = """\
Create a summary of the messages above, which are about to leave your view, in at most 300 words: goals, what happened, details
that matter (names, paths, numbers), errors and how they were mended, and hints where more can be looked up."""
LETTA_HEADING = "[System alert: earlier messages are hidden from view. Summary of what they held:]"

GOOSE_INSTRUCTION = """\
Create a summary of the session above from which it can be continued without it. Use these sections:

## Goal
## Constraints
## Progress
## Decisions
## Critical Context
## Next Step"""
GOOSE_NOTE = (
    "The conversation was compacted; I know it by the summary above. I go on with the work and do not mention the summary."
)

CRUSH_SYSTEM = "You write the summary by which another session goes on with this one. Leave nothing out that it needs."
CRUSH_INSTRUCTION = """\
Create a summary, as detailed as it has to be, in these sections:

## Current State
## Files & Changes
## Technical Context
## Strategy
## Exact Next Steps"""
CRUSH_CONTINUATION = "The session was interrupted because it grew too long. The user's initial request was: `{said}`"

DEXTO_INSTRUCTION = """\
Create a summary of the messages above. Answer in this form:

<conversation_history></conversation_history>
<current_task></current_task>
<important_context></important_context>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letta(Preset):
    """Above 90 % of the window, 40 % of the messages, or as many more as it takes to fall below 70 %, become a summary.

    Source: Letta 56ba9c25, `letta/services/summarizer`, mode `sliding_window`; PEERS 2.16. The cut stands before an answer. What
    the original calls the share to keep is the share that goes, and the first step is added before the first look. When the
    summary fails, everything is summed up instead, and if that fails too the session goes on as it is. An empty summary has
    failed too. Of a text that is too long first the results are clamped, then its middle is left out. The original counts by the
    provider's tokens; what a cut would leave is estimated here. Its look at the result, and a second pass over everything if that
    is still above the trigger, is the next step's.
    """

    threshold: float = 0.9
    """Share of the window above which the last call's tokens are compacted, above 0 and at most 1."""
    sliding_share: float = 0.3
    """Share of the messages that the first attempt adds a step to; what stays must be below the rest of the window."""
    step_share: float = 0.1
    """By which it grows until enough goes."""
    summary_clip_characters: int = 50_000
    """A longer summary is cut."""
    result_characters: int = 2_000
    """Of each result in the second attempt to be told; the source names no number, ours."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 4_096
    """The source sets none; ours."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["letta"] = "letta"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        check_share(self, "threshold", "sliding_share", "step_share")
        check_at_least(self, 1, "summary_clip_characters", "result_characters", "summary_max_tokens", "clip_characters")

    @property
    def pipeline(self) -> Pipeline:
        """The same before a step and after an overflow."""
        sliding = UpToShare(first_share=self.sliding_share, step_share=self.step_share, goal_share=1 - self.sliding_share)
        reducer = OnFailure(first=self._build_summarize(sliding), then=self._build_summarize(EVERYTHING))
        return Pipeline(
            division=ShareOfAvailable(share=self.threshold, reserves=NO_RESERVES),
            rules=(
                Rule(trigger=Full(measure="reported", above=True), reducer=reducer),
                Rule(trigger=Always(), reducer=reducer, moment="overflow"),
            ),
        )

    def _build_summarize(self, stretch: UpToShare | Middle) -> WithProcedure:
        summary = Summarize(
            middle=stretch,
            format=Brief(instruction=LETTA_INSTRUCTION, heading=LETTA_HEADING, most_characters=self.summary_clip_characters),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        return WithProcedure(
            reducer=summary, procedure=SummaryProcedure(shorter=Ends(result_characters=self.result_characters, share=0.3))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Goose(Preset):
    """Above 80 % of the window, looked at before each reply, everything becomes a summary and a note of the assistant's.

    Source: goose 006bd233, `crates/goose/src/context_mgmt/mod.rs`; PEERS 2.18. Within a turn it acts only after an overflow, so
    in a session of a single request it comes late; the *adapted* variant looks before every step. There, and after an overflow,
    the user's last words stand behind the note. The text to be summed up is part of the system prompt; where it is too long,
    results are left out from the middle outwards. When the summary fails, the session goes on as it is. An empty summary has
    failed too. Left out: summing up pairs of calls in the background, whose default differs between versions. A threshold of 1
    turns the original's check off; here it stands for the whole window, and `none` for no compaction.
    """

    adapted: bool = False
    """Whether it looks within a turn too."""
    threshold: float = 0.8
    """Share of the window above which it is compacted, above 0 and at most 1."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 4_096
    """The source sets none; ours."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["goose"] = "goose"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        check_share(self, "threshold")
        check_at_least(self, 1, "summary_max_tokens", "clip_characters")

    @property
    def pipeline(self) -> Pipeline:
        """One rule before a turn, adapted before a step, and one after an overflow."""
        summary = Summarize(
            middle=EVERYTHING,
            format=Brief(instruction=GOOSE_INSTRUCTION, layout="system", files=True),
            max_tokens=self.summary_max_tokens,
            former="among",
            behind=(assistant(GOOSE_NOTE),),
        )
        summarizing = WithProcedure(
            reducer=summary, procedure=SummaryProcedure(shorter=WithoutResults(shares=(0.1, 0.2, 0.5, 1.0)))
        )
        again = WithClosingMessage(reducer=summarizing, text="{said}")
        full = Full(measure="reported", above=True)
        due = Rule(trigger=full, reducer=again) if self.adapted else Rule(trigger=full, reducer=summarizing, moment="turn")
        return Pipeline(
            division=ShareOfAvailable(share=self.threshold, reserves=NO_RESERVES),
            rules=(due, Rule(trigger=Always(), reducer=again, moment="overflow")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Crush(Preset):
    """When 20K tokens are left of a window above 200K, or a fifth of a smaller one, everything answered becomes a summary.

    Source: crush 37f36e93, `internal/agent/agent.go`; PEERS 2.19. The summarizer gets the session itself and one more message.
    Where a turn was interrupted by it, the user's last words are put behind the summary in a sentence, which nests when that
    happens again, as in the original. When the summary fails, the session goes on as it is; there the turn fails. An empty
    summary has failed too. Lists of things to do are left out: no tool here keeps one.
    """

    left_share: float = 0.2
    """Of the window, that may be left at least; for windows that are not large."""
    left_tokens: int = 20_000
    """The same for large ones."""
    large_window_tokens: int = 200_000
    """A window above this is large."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 4_096
    """The source sets none, and wants no limit; ours."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["crush"] = "crush"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        check_share(self, "left_share")
        check_at_least(self, 1, "left_tokens", "large_window_tokens", "summary_max_tokens", "clip_characters")

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize all that is answered."""
        summary = Summarize(
            middle=AnsweredSpan(),
            format=Brief(instruction=CRUSH_INSTRUCTION, system=CRUSH_SYSTEM, layout="session"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        return Pipeline(
            division=RemainingTokens(
                share=self.left_share, large_tokens=self.left_tokens, large_window_tokens=self.large_window_tokens
            ),
            rules=(
                Rule(
                    trigger=Full(measure="reported"),
                    reducer=WithClosingMessage(reducer=summary, text=CRUSH_CONTINUATION, when="interrupted"),
                ),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dexto(Preset):
    """Above 90 % of the window old results are cleared; if that is not enough, all but the last 2 turns become a summary.

    Source: dexto ea2b1863, `packages/core/src/context/compaction`; PEERS 2.21. Where two turns are all there is, the last fifth
    of the messages since the last summary stays, 3 at least; the original may part a call from its result there, here the cut
    moves back. A former summary is neither told nor kept: what it held is lost, as in the original. When the summary fails, a
    list of requests and tools takes its place. An empty summary has failed too.
    """

    threshold: float = 0.9
    """Share of the window above which it is compacted, above 0 and at most 1."""
    window_cap_tokens: int | None = None
    """The smaller of this and the model's window counts; None = the window of the model."""
    protect_tokens: int = 40_000
    """Newest tool output that stays."""
    least_saved_tokens: int = 20_000
    """Nothing is cleared unless more than this would be saved."""
    keep_turns: int = 2
    """Last turns that stay."""
    keep_share: float = 0.2
    """Of the messages since the last summary, where no turn lies before these."""
    keep_least_messages: int = 3
    """Of that share."""
    least_messages: int = 5
    """Fewer since the last summary are not summarized."""
    text_characters: int = 2_000
    """Of each message that the summarizer is shown."""
    result_characters: int = 500
    """Of each tool result that it is shown."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 2_000
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["dexto"] = "dexto"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        check_share(self, "threshold", "keep_share")
        check_at_least(self, 0, "protect_tokens", "least_saved_tokens")
        check_at_least(self, 1, "window_cap_tokens", "keep_turns", "keep_least_messages", "least_messages", "text_characters")
        check_at_least(self, 1, "result_characters", "summary_max_tokens", "clip_characters")

    @property
    def pipeline(self) -> Pipeline:
        """Two tiers: clear, then summarize."""
        stretch = BeforeTurnsOrShare(turns=self.keep_turns, share=self.keep_share, least_messages=self.keep_least_messages)
        heading, closing = "<session_compaction>", "</session_compaction>"
        summary = Summarize(
            middle=stretch,
            format=Brief(instruction=DEXTO_INSTRUCTION, heading=heading, closing=closing),
            max_tokens=self.summary_max_tokens,
            role="assistant",
            former="dropped",
        )
        excerpt = CapTexts(result_characters=self.result_characters, text_characters=self.text_characters)
        summarizing: Reducer = WithProcedure(
            reducer=summary, procedure=SummaryProcedure(stand_in=RequestsAndTools()), excerpt=excerpt
        )
        mask = Mask(keep_tokens=self.protect_tokens, least_saved_tokens=self.least_saved_tokens)
        full = Full(measure="reported-and-since", above=True)
        division = ShareOfAvailable(share=self.threshold, reserves=NO_RESERVES)
        return Pipeline(
            division=division if self.window_cap_tokens is None else WindowCap(tokens=self.window_cap_tokens, division=division),
            rules=(
                Rule(trigger=full, reducer=mask, quiet=True),
                Rule(trigger=full, reducer=IfMessages(count=self.least_messages, reducer=summarizing)),
            ),
        )
