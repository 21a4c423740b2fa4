"""The policies of the second design document (S1): compress at a share of the window, keep a share of the messages."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import LastShare, Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import DEFAULT_COUNTER, Mask, Middle, Summarize
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import Full, ShareOfAvailable
from harness.tokens import Counter, WeightedCharacters

HANDOVER_INSTRUCTION = (
    "Summarize the conversation of a coding agent below, so that it can go on with its work from your summary alone."
)
"""Our words for the first seed's second document, which gives no prompt."""


HEADING = "Previous context summary:"
"""S1.6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShareKept(SummarizingPreset):
    """What the three share: a share of the window at which they act, and a share of the view that stays."""

    threshold: Share = 0.8
    """Share of the window, above 0 and at most 1."""
    keep_share: Share = 0.3
    """Share of the messages that stay, above 0 and at most 1."""
    summary_max_tokens: Positive = 1_000

    def _build_pipeline(self, *rules: Rule, counter: Counter = DEFAULT_COUNTER) -> Pipeline:
        return Pipeline(ShareOfAvailable(share=self.threshold), rules, counter=counter)

    def _build_summarize(self) -> Summarize:
        return Summarize(
            middle=Middle(tail=LastShare(share=self.keep_share)),
            format=Notes(instruction=HANDOVER_INSTRUCTION, heading=HEADING),
            max_tokens=self.summary_max_tokens,
            role="system",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio(_ShareKept):
    """At 80 % of the window by the provider's count, all but the last 30 % of the messages become a system summary.

    Source: S1.6. The count is that of the last prompt, as the seed takes it; before the first report, the estimate. The seed's
    fallback to an unsafe split is mended: the cut moves back to where no call waits for its result. When the summary fails, the
    session goes on as it is. An empty summary has failed too.

    Attributes:
        threshold: Share of the window, above 0 and at most 1. Default: `0.8`.
        keep_share: Share of the messages that stay, above 0 and at most 1. Default: `0.3`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The seed gives none; ours. Default: `1_000`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    kind: Literal["ratio"] = "ratio"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize what lies before the last share of the messages."""
        return self._build_pipeline(Rule(Full(measure="prompt"), self._build_summarize()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedOpenCode(_ShareKept):
    """OpenCode as the second design document tells it: clear tool outputs outside the last 40K tokens, then summarize.

    Source: S1.7. What the document leaves open (trigger, cut) is as in `ratio`. The measured OpenCode is a preset of its own.
    When the summary fails, the session goes on as it is, but for what was cleared. An empty summary has failed too.

    Attributes:
        threshold: Share of the window, above 0 and at most 1. Default: `0.8`.
        protect_tokens: Newest tool output that stays. Default: `40_000`.
        keep_share: Share of the messages that stay when clearing was not enough, above 0 and at most 1. Default: `0.3`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The seed gives none; ours. Default: `1_000`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    protect_tokens: NonNegative = 40_000
    kind: Literal["seed-opencode"] = "seed-opencode"

    @property
    def pipeline(self) -> Pipeline:
        """Two tiers: mask old outputs, and summarize if that was not enough."""
        full, mask = Full(measure="prompt"), Mask(keep_tokens=self.protect_tokens, stop_at_summary=True)
        return self._build_pipeline(Rule(full, mask), Rule(full, self._build_summarize()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGemini(_ShareKept):
    """Gemini CLI as the second design document tells it: at 50 % of the window, the last 30 % stay.

    Source: S1.7, with its weights of characters. The measured Gemini CLI is a preset of its own. When the summary fails, the
    session goes on as it is. An empty summary has failed too.

    Attributes:
        threshold: Share of the window, above 0 and at most 1. Default: `0.5`.
        keep_share: Share of the characters that stay, above 0 and at most 1. Default: `0.3`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The seed gives none; ours. Default: `1_000`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    threshold: Share = 0.5
    kind: Literal["seed-gemini"] = "seed-gemini"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize what lies before the last share of the characters."""
        middle = Middle(tail=LastShare(share=self.keep_share, unit="characters"), snap=Snap(direction="forward"))
        summarize = replace(self._build_summarize(), middle=middle, role="user")
        return self._build_pipeline(Rule(Full(), summarize), counter=WeightedCharacters())
