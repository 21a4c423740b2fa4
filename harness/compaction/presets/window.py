"""The message window of the fifth design document (S4): a cap on the number of messages, with or without a summary."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import BACK, LastMessages
from harness.compaction.formats.notes import CONCISE, Notes
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import at_least
from harness.compaction.stages import Forget, Middle, Reducer, Seldom, Summarize
from harness.compaction.triggers import MoreThan, Undivided

HEADING = "[Conversation Summary]"
"""S4.3."""
SUMMARY_EVERY_MESSAGES = 10
"""S4.3: at most one summary for so many evicted messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWindow(Preset):
    """Above a number of messages the oldest ones between a preserved head and a preserved tail are evicted.

    Source: S4.1, S4.3, S4.5; every default is the seed's. The seed counts the messages of providers that take the system
    prompt apart, so here the system message stands outside of all counts. Cuts move back so that calls keep their results,
    so the cap may be exceeded by the messages of one turn (S4.7).
    """

    max_messages: int = 100
    """0 = nothing is ever evicted."""
    preserve_first_n: int = 1
    """Messages behind the system message that always stay: the request."""
    preserve_last_n: int = 20
    """Messages at the end that always stay."""
    summarize_on_trim: bool = False
    """Whether what is evicted is summarized, at most once for ten messages; when that fails, they just go."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own. Asked only with `summarize_on_trim`."""
    summary_max_tokens: int = 1_024
    """S4.3."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["message-window"] = "message-window"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 0, "max_messages", "preserve_first_n", "preserve_last_n")
        at_least(self, 1, "summary_max_tokens", "clip_characters")

    @property
    def overcommitted(self) -> bool:
        """Whether head and tail alone are as many messages as the cap; then only they are kept, and more than wanted (S4.1)."""
        return 0 < self.max_messages <= self.preserve_first_n + self.preserve_last_n

    @property
    def pipeline(self) -> Pipeline:
        """One rule, when the cap is exceeded: evict, or summarize."""
        if self.max_messages == 0:
            return Pipeline(division=Undivided(rule="max_messages=0: the window is off"))
        tail = max(self.preserve_last_n, self.max_messages - self.preserve_first_n)
        middle = Middle(tail=LastMessages(count=tail), head_messages=1 + self.preserve_first_n, snap=BACK)
        evict: Reducer = Forget(middle=middle)
        if self.summarize_on_trim:
            summary = Summarize(
                middle=middle,
                format=Notes(instruction=CONCISE, heading=HEADING),
                max_tokens=self.summary_max_tokens,
                role="assistant",
                former="among",
                when_failed="forget",
            )
            evict = Seldom(every_messages=SUMMARY_EVERY_MESSAGES, often=evict, seldom=summary)
        rule = (
            f"at most {self.max_messages} messages, {self.preserve_first_n} first and {self.preserve_last_n} last ones preserved"
        )
        return Pipeline(
            division=Undivided(rule=rule),
            rules=(Rule(trigger=MoreThan(count=1 + self.max_messages), reducer=evict),),
        )
