"""Split of a prompt by what a prompt cache does with its tokens."""

from typing import NamedTuple


class PromptSplit(NamedTuple):
    """Tokens of one prompt by what the cache does with them; their sum is the length of the prompt.

    Args:
        read_tokens: Tokens read from the cache.
        new_tokens: Tokens written that no request of the session had sent before.
        rewarmed_tokens: Tokens written that the cache had held behind the same beginning, until their lifetime ended.
        edited_tokens: Other tokens written that an earlier request had sent, behind another beginning as after a compaction, or
            behind one that is too short to be cached or too far from a mark to be found.
        uncached_tokens: Tokens that were neither read nor written.
    """

    read_tokens: int
    new_tokens: int
    rewarmed_tokens: int
    edited_tokens: int
    uncached_tokens: int

    @property
    def write_tokens(self) -> int:
        """Tokens written to the cache."""
        return self.new_tokens + self.rewarmed_tokens + self.edited_tokens

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt."""
        return sum(self)


def split_by_shared_part(prompt_tokens: int, shared_share: float) -> PromptSplit:
    """Return how a cache that never forgets splits a prompt of which only the share is known that the prompt before it had.

    Args:
        prompt_tokens: Number of tokens of the prompt.
        shared_share: Share of the prompt at its beginning that the prompt before it had, too, from 0 to 1.
    """
    read_tokens = round(prompt_tokens * shared_share)
    return PromptSplit(read_tokens, prompt_tokens - read_tokens, 0, 0, 0)
