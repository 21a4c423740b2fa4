"""The policy of the first design document: summarize everything but the last few messages (S0)."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import Pipeline, Positive, SummarizingPreset, ThresholdPreset
from harness.compaction.stages import Middle, Summarize
from harness.compaction.summary_formats import SixSections


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLast(SummarizingPreset, ThresholdPreset):
    """At a share of the available window, all but the last messages become one summary behind the system message.

    Source: S0.4 to S0.6; every default is the seed's. The former summary is integrated into the new one, and the summarizer is
    always given the user's request from the log. When nothing lies before the kept messages, nothing is done. When the summary
    fails, the session goes on as it is (S0.9). An empty summary has failed too.

    Attributes:
        threshold: Share of the window less its reserves at which the view is compacted, above 0 and at most 1. Default: `0.8`.
        keep_last: Messages at the end that stay verbatim, at least 1; more stay where a call would lose its results. Default:
            `10`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Default: `800`.
        summarizer_input_tokens: Longest prompt that the summarizer is given; of a longer one the oldest messages are left out,
            and prompt and event say so. None = no limit; models on this machine (`local/...`) are given 4,000 tokens at most in
            any case. It is the summarizer's own window and is not scaled with the agent's. Default: `None`.
        system_reserve_tokens: Default: `2_000`.
        output_reserve_tokens: Default: `4_000`.
        safety_reserve_tokens: Default: `5_000`.
        trigger_tokens: Tokens at which it is compacted in place of the share, or what the reserves leave if that is less; None =
            by the share. Default: `None`.
        context_window: Overrides the model's window for this policy (S2.8); None = the window of the model. Default: `None`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    keep_last: Positive = 10
    summary_max_tokens: Positive = 800
    summarizer_input_tokens: Positive | None = None
    kind: Literal["keep-last"] = "keep-last"

    @property
    def pipeline(self) -> Pipeline:
        """Everything between the system message and the last messages becomes one assistant summary."""
        summarize = Summarize(
            middle=Middle(tail=LastMessages(count=self.keep_last)),
            format=SixSections(max_tokens=self.summary_max_tokens),
            max_tokens=self.summary_max_tokens,
            max_input_tokens=self.summarizer_input_tokens,
            role="assistant",
        )
        return self.build_pipeline(summarize)
