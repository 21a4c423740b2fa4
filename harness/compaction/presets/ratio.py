"""Policies of this project, which compact at a share of the window and keep a share of the messages."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import LastShare, Snap
from harness.compaction.overflow import OWN_PROCEDURE
from harness.compaction.pipeline import (
    CalibratedPreset,
    NonNegative,
    OwnPreset,
    Pipeline,
    Positive,
    Rule,
    Share,
    SummarizingPreset,
)
from harness.compaction.stages import DEFAULT_COUNTER, Mask, Middle, Summarize
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import Full, ShareOfAvailable
from harness.conversation.tokens import Counter, WeightedCharacters

HANDOVER_INSTRUCTION = (
    "Summarize the conversation of a coding agent below, so that it can go on with its work from your summary alone."
)
"""Instruction to the summarizer."""


HEADING = "Previous context summary:"
"""Heading above the summary in the view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShareKept(OwnPreset, SummarizingPreset):
    """Common fields of three policies that compact at a share of the window and retain a share of the conversation.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1. Default: `0.8`.
        keep_share: Share of the messages in the conversation that is retained, above 0 and at most 1. Default: `0.3`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `1_000`.
    """

    threshold: Share = 0.8
    keep_share: Share = 0.3
    summary_max_tokens: Positive = 1_000

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        A cut tool output keeps the exit code of the command and the last lines of its standard error.

        A message of the user that no request has contained yet now stays in view.
        """
        return 2

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
class Ratio(CalibratedPreset, _ShareKept):
    """Policy that, at 80 % of the window, replaces all but the last 30 % of the messages by a system message with a summary.

    Choose it to study one rule, compaction at a share of the window, and to vary the retained share of the messages.

    Source: this project (docs/sources.md).

    More messages are retained if a call would be separated from its result. If the summary fails or is empty, the conversation
    stays unchanged, except after a refused prompt.

    Example:
        Vary the threshold and the retained share of the messages together:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import Ratio
        >>> base = Trial(task="flashcards", policy=Ratio(), window_tokens=32_768)
        >>> axes = {"policy.threshold": [0.5, 0.8], "policy.keep_share": [0.1, 0.3, 0.5]}
        >>> len(Experiment(name="shares", base=base, axes=axes).grid)
        6
    """

    kind: Literal["ratio"] = "ratio"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes everything before the last share of the messages."""
        summarize = replace(self._build_summarize(), procedure=OWN_PROCEDURE, measure=self.measure)
        return self._build_pipeline(Rule(Full(measure=self.measure), summarize), self.build_overflow_rule(summarize, summarize))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplifiedOpenCode(_ShareKept):
    """Policy that clears tool outputs older than the last 40K tokens, then summarizes: a simplified form of OpenCode's rule.

    Choose it to vary a rule like OpenCode's, or to compare the simplified form with `opencode`, which reproduces the program.

    Source: this project (docs/sources.md), after OpenCode.

    Its name in plans is `opencode-simplified`; stored results have the kind `seed-opencode`.

    The trigger is the provider's count of the last prompt, or the estimate before the first report. The retained messages are the
    same as with the policy `ratio`. If the summary fails or is empty, only the
    clearing takes effect.

    Attributes:
        protect_tokens: Number of tokens of the newest tool output that are never cleared. Default: `40_000`.
        keep_share: Share of the messages in the conversation that is retained if clearing is not enough, above 0 and at most 1.
            Default: `0.3`.

    Example:
        Protect fewer tokens of tool output, for a window of 32,768 tokens:

        >>> from harness.policies import SimplifiedOpenCode
        >>> from harness.conversation.tokens import Window
        >>> policy = SimplifiedOpenCode(protect_tokens=8_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        26214
    """

    protect_tokens: NonNegative = 40_000
    kind: Literal["seed-opencode"] = "seed-opencode"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's two rules, which act at the same threshold; the first clears old tool results, the second summarizes."""
        full, mask = Full(measure="prompt"), Mask(keep_tokens=self.protect_tokens, stop_at_summary=True)
        return self._build_pipeline(Rule(full, mask), Rule(full, self._build_summarize()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplifiedGeminiCli(_ShareKept):
    """Policy that, at 50 % of the window, summarizes all but the last 30 % of the characters: Gemini CLI's rule, simplified.

    Choose it to vary a rule like Gemini CLI's, or to compare the simplified form with `gemini-cli`, which reproduces the program.

    Source: this project (docs/sources.md), after Gemini CLI.

    Its name in plans is `gemini-cli-simplified`; stored results have the kind `seed-gemini`.

    If the summary fails or is empty, the conversation stays unchanged.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1. Default: `0.5`.
        keep_share: Share of the conversation's characters that is retained at the end, above 0 and at most 1. Default: `0.3`.

    Example:
        Compare the simplified form with the reproduction of the program:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import SimplifiedGeminiCli
        >>> base = Trial(task="flashcards", policy=SimplifiedGeminiCli(), window_tokens=32_768)
        >>> experiment = Experiment(name="simplified", base=base, axes={"policy": ["gemini-cli-simplified", "gemini-cli"]})
        >>> len(experiment.grid)
        2
    """

    threshold: Share = 0.5
    kind: Literal["seed-gemini"] = "seed-gemini"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes everything before the last share of the characters."""
        middle = Middle(tail=LastShare(share=self.keep_share, unit="characters"), snap=Snap(direction="forward"))
        summarize = replace(self._build_summarize(), middle=middle, role="user")
        return self._build_pipeline(Rule(Full(), summarize), counter=WeightedCharacters())
