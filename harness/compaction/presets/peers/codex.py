"""Codex CLI: the user's own messages stay, a hand-over tells the rest."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.formats.brief import Brief, Constant, WithoutOldest
from harness.compaction.moves.around import InManner
from harness.compaction.moves.divisions import Smallest
from harness.compaction.moves.handoff import HandOver
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import at_least, share
from harness.compaction.triggers import Division, FixedTokens, Full, Reserves, ShareOfAvailable
from harness.plan import Manner
from harness.tokens import QuarterOfBytes

UNRESERVED = Reserves(system_tokens=0, output_tokens=0, safety_tokens=0)
INSTRUCTION = """\
Create a summary of this session, to be handed over to another model that takes the task on from here. Tell it:
- progress and decisions so far
- constraints and preferences of the user
- what remains to be done, as next steps
- data, examples and references that are critical for going on"""
PREFIX = "Another model began this task. It left the following hand-over; build on it and do no work twice."


@dataclass(frozen=True, slots=True, kw_only=True)
class Codex(Preset):
    """At 90 % of the window everything but the newest 20K tokens of the user's messages becomes a hand-over.

    Source: codex-rs in just-every/code 6ad6d5c9, `core/src/compact.rs`, local compaction; PEERS 2.5. The summarizer gets the
    session itself and one more message, so its prompt begins as the request before it did. A former hand-over is told again and
    is no message of the user. A prompt that is too long loses its oldest message at each try. When the summary fails, the session
    goes on as it is. An empty summary is replaced by a constant; the event says so. The instructions and the environment that the
    original puts back before the last message of the user are the system message here, which never goes.
    """

    threshold: float = 0.9
    """Share of the window at which the last call's tokens and what came since are compacted, above 0 and at most 1."""
    compact_at_tokens: int | None = None
    """An earlier point, in tokens; None = the share alone. A later one does not count."""
    keep_user_tokens: int = 20_000
    """Of the user's messages, newest first; the one that crosses it is cut in its middle."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 4_096
    """The source sets none; ours."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["codex"] = "codex"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        share(self, "threshold")
        at_least(self, 0, "keep_user_tokens")
        at_least(self, 1, "compact_at_tokens", "summary_max_tokens", "clip_characters")

    @property
    def pipeline(self) -> Pipeline:
        """One rule: hand over."""
        division: Division = ShareOfAvailable(share=self.threshold, reserves=UNRESERVED)
        if self.compact_at_tokens is not None:
            division = Smallest(divisions=(division, FixedTokens(tokens=self.compact_at_tokens)))
        counter = QuarterOfBytes()
        hand_over = HandOver(
            most_tokens=self.keep_user_tokens,
            format=Brief(instruction=INSTRUCTION, heading=PREFIX, layout="session"),
            max_tokens=self.summary_max_tokens,
            counter=counter,
        )
        manner = Manner(shorter=WithoutOldest(), stand_in=Constant(words="(no summary available)"), stand_in_for="empty")
        return Pipeline(
            division=division,
            rules=(Rule(trigger=Full(measure="reported-and-since"), reducer=InManner(reducer=hand_over, manner=manner)),),
            counter=counter,
        )
