"""Price of a model's tokens in US dollars."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.conversation.tokens import Usage

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a model's tokens in USD per million tokens."""

    input_usd: float
    """Price of a million input tokens in USD."""
    output_usd: float
    """Price of a million output tokens in USD."""
    reasoning_usd: float | None = None
    """Price of a million output tokens used for reasoning in USD; None means the price of output tokens."""
    cache_read_usd: float | None = None
    """Price of a million tokens read from the prompt cache in USD; None means the price of input tokens."""
    cache_write_usd: float | None = None
    """Price of a million tokens written to the prompt cache in USD; None means the price of input tokens."""
    cache_hour_write_usd: float | None = None
    """Price of a million tokens written to the prompt cache for an hour in USD; None means the price of other cache writes."""
    above_prompt_tokens: int = 0
    """Prompt length in tokens above which the price applies, for providers that charge more for long prompts."""

    def compute_cost_usd(self, usage: Usage, hour_write_tokens: int = 0) -> float:
        """Return the cost in USD of a call with this token usage at this price.

        Args:
            usage: Numbers of tokens of the call.
            hour_write_tokens: Part of the tokens written to the cache that the provider keeps for an hour.
        """
        cache_read_usd = self.input_usd if self.cache_read_usd is None else self.cache_read_usd
        write = self.input_usd if self.cache_write_usd is None else self.cache_write_usd
        uncached_usd = usage.input_tokens * self.input_usd + usage.output_tokens * self.output_usd
        if self.reasoning_usd is not None:
            reasoning_tokens = min(usage.reasoning_tokens, usage.output_tokens)
            uncached_usd += reasoning_tokens * (self.reasoning_usd - self.output_usd)
        hour_write = write if self.cache_hour_write_usd is None else self.cache_hour_write_usd
        uncached_usd += hour_write_tokens * (hour_write - write)
        return (uncached_usd + usage.cache_read_tokens * cache_read_usd + usage.cache_write_tokens * write) / MILLION


def choose_price(prices: Sequence[Price], prompt_tokens: int) -> Price | None:
    """Return which of several prices, sorted by `above_prompt_tokens`, applies to a prompt of this length; None if none does."""
    return next((price for price in reversed(prices) if prompt_tokens > price.above_prompt_tokens), None)
