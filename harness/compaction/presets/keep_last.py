"""Default policy of this project, which summarizes everything but the last few messages."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.overflow import OWN_PROCEDURE
from harness.compaction.pipeline import Pipeline, Positive, SummarizingPreset, ThresholdPreset
from harness.compaction.stages import Middle, Summarize
from harness.compaction.summary_formats import SixSections


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLast(ThresholdPreset, SummarizingPreset):
    """Policy that replaces all but the last 10 messages by a summary when 80 % of the window, less its reserves, is full.

    Choose it as the starting point of a study: threshold, messages kept and summarizer can each be varied alone.

    Source: this project (docs/sources.md).

    Each summary includes the content of the former one, and the summarizer always receives the user's original request. If there
    are no messages before the retained ones, nothing is done. If the summary fails or is empty, the conversation stays unchanged.
    After a refused prompt, messages go even without a summary, and retained ones too if the others are not enough.

    Attributes:
        keep_last: Number of messages retained at the end of the conversation, at least 1; more if a call would be separated from
            its results. Default: `10`.
        summarizer_input_tokens: Maximum length of the summarizer's prompt in tokens; the oldest messages of a longer prompt are
            left out, and the prompt and the log say how many. None sets no limit, but local models (`local/...`) read at most
            4,000 tokens. The value is not scaled with the agent's window. Default: `None`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `800`.

    Example:
        >>> from harness import KeepLast
        >>> from harness.conversation.tokens import Window
        >>> policy = KeepLast(threshold=0.5, keep_last=6)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        10884
    """

    keep_last: Positive = 10
    summary_max_tokens: Positive = 800
    summarizer_input_tokens: Positive | None = None
    kind: Literal["keep-last"] = "keep-last"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which replaces all but the last messages by an assistant message with the summary."""
        summarize = Summarize(
            middle=Middle(tail=LastMessages(count=self.keep_last)),
            format=SixSections(max_tokens=self.summary_max_tokens),
            max_tokens=self.summary_max_tokens,
            max_input_tokens=self.summarizer_input_tokens,
            role="assistant",
            procedure=OWN_PROCEDURE,
            measure=self.measure,
        )
        return self.build_pipeline(summarize, summarize)
