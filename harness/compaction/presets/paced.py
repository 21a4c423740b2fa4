"""Compaction at a pace: every so many steps of the agent, or at a share of the window but no more often than that."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import check_at_least, check_patterns, check_share
from harness.compaction.stages import Forget, Middle, Reducer, Summarize
from harness.compaction.summary_formats import SixSections
from harness.compaction.triggers import AllOf, Full, NoThreshold, Reserves, ShareOfAvailable, Steps, Trigger
from harness.compaction.wrappers import KeepPinned

NO_RESERVES = Reserves(system_tokens=0, output_tokens=0, safety_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced(Preset):
    """Every 20 steps all but the last messages becomes one summary; with `threshold`, only where the view has reached that share.

    Source: ours, to vary two axes alone: a trigger by steps, and hysteresis, i.e. the fewest steps between two edits of the view,
    each of which breaks the provider's cached prefix. Summary and cut are those of `keep-last`. A step is a call of the model
    with the results of its tools. When the summary fails, the session goes on as it is, and it is asked for again before the next
    step. An empty summary has failed too.
    """

    every_steps: int = 20
    """Steps since the last compaction, or since the beginning, before it is compacted."""
    threshold: float | None = None
    """Share of the window that the view must have reached besides, above 0 and at most 1; None = steps alone count."""
    summarize: bool = True
    """Whether a summary takes the place of what goes."""
    keep_request: bool = False
    """Whether the first message behind the system message, the user's request, is pinned: it stays word for word."""
    pins: tuple[str, ...] = ()
    """Shell patterns of lines, such as `*must*` or `RULE *`: a message that holds such a line stays whole for ever, whoever wrote
    it, with the call or the results that belong to it. No regular expressions: see `harness.compaction.wrappers.KeepPinned`."""
    keep_last: int = 10
    """Messages at the end that stay verbatim; more stay where a call would lose its results."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own. Asked only with `summarize`."""
    summary_max_tokens: int = 800
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["paced"] = "paced"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        check_at_least(self, 1, "every_steps", "keep_last", "summary_max_tokens", "clip_characters")
        if self.threshold is not None:
            check_share(self, "threshold")
        check_patterns(self, "pins")

    @property
    def pipeline(self) -> Pipeline:
        """One rule."""
        middle = Middle(tail=LastMessages(count=self.keep_last), head_messages=2 if self.keep_request else 1)
        summarize = Summarize(
            middle=middle,
            format=SixSections(max_tokens=self.summary_max_tokens),
            max_tokens=self.summary_max_tokens,
            role="assistant",
        )
        reducer: Reducer = summarize if self.summarize else Forget(middle=middle)
        if self.pins:
            reducer = KeepPinned(patterns=self.pins, reducer=reducer)
        steps = Steps(count=self.every_steps)
        if self.threshold is None:
            return Pipeline(
                division=NoThreshold(rule=f"every {self.every_steps} steps"), rules=(Rule(trigger=steps, reducer=reducer),)
            )
        trigger: Trigger = AllOf((Full(), steps))
        division = ShareOfAvailable(share=self.threshold, reserves=NO_RESERVES)
        return Pipeline(division=division, rules=(Rule(trigger=trigger, reducer=reducer),))
