"""Compactions that a file does not mark, inferred from the reported sizes of the prompts.

The rule is that of TraceLab, a study of 4,265 recorded sessions of Claude Code and Codex: a compaction took place before a model
call whose prompt is much smaller than the one before, which had nearly the size of the largest prompt, and no prompt soon after
returns to that size.
"""

from collections.abc import Sequence
from itertools import pairwise

from harness.recordings.recording import NativeCompaction, RecordedMessage

MIN_DROP_TOKENS = 64_000
"""Smallest difference between two consecutive prompts, in tokens, that implies a compaction."""
MIN_SHARE_OF_PEAK = 0.75
"""Smallest size of the prompt before a compaction, as a share of the largest prompt of the session."""
CALLS_WITHOUT_REBOUND = 3
"""Number of model calls after a compaction whose prompts must all stay `MIN_DROP_TOKENS` below the prompt before it."""


def infer_compactions(messages: Sequence[RecordedMessage]) -> tuple[NativeCompaction, ...]:
    """Return the compactions that the reported sizes of the prompts of a session imply, in order."""
    calls = [
        (index, item.usage.prompt_tokens)
        for index, item in enumerate(messages)
        if item.usage is not None and item.usage.is_reported and item.step is not None
    ]
    sizes = [tokens for _, tokens in calls]
    peak = max(sizes, default=0)
    return tuple(
        [
            NativeCompaction(position=index, tokens_before=before, tokens_after=after, inferred=True, at_ms=messages[index].at_ms)
            for number, ((_, before), (index, after)) in enumerate(pairwise(calls), start=1)
            if before >= MIN_SHARE_OF_PEAK * peak
            and max(sizes[number : number + 1 + CALLS_WITHOUT_REBOUND]) <= before - MIN_DROP_TOKENS
        ]
    )
