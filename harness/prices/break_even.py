"""Closed forms of the economics of compaction with a prompt cache, under assumptions that keep them simple.

They say what a simulation must agree with where the assumptions hold: a constant growth, a cache that is always warm, and
prices in proportion to the price of input.
"""

import math


def compute_payback_calls(*, removed_tokens: float, kept_tokens: float, write_share: float, read_share: float) -> float:
    """Return after how many calls a removal of old messages has paid for what it writes to the cache again.

    The call that sends the shortened prompt counts as the first. It writes the kept messages behind the place of the edit anew,
    which costs `(write_share - read_share) * kept_tokens`, and each call no longer reads the removed ones, which saves
    `read_share * removed_tokens`. The number is `(write_share - read_share) / read_share * kept_tokens / removed_tokens`, of
    which the editing call is one.

    Args:
        removed_tokens: Number of tokens that the prompt no longer has; above 0.
        kept_tokens: Number of tokens behind the place of the edit that stay.
        write_share: Price of a write to the cache as a share of the price of input.
        read_share: Price of a read from the cache as a share of the price of input; above 0.
    """
    return (write_share - read_share) / read_share * kept_tokens / removed_tokens


def compute_cheapest_start_tokens(*, kept_tokens: float, growth_tokens: float, fixed_cost_usd: float, read_usd: float) -> float:
    """Return the prompt length at which compactions make a long session cheapest.

    The form of a renewal process: after a compaction the prompt has a fixed length, each call adds an exponentially distributed
    number of tokens, each compaction has a fixed cost, and all of the prompt is read from the cache. Source: the project
    context-compaction-lab.

    Args:
        kept_tokens: Number of tokens in the prompt after a compaction.
        growth_tokens: Mean number of tokens by which a call lengthens the prompt.
        fixed_cost_usd: Cost of a compaction in USD.
        read_usd: Price of reading one token from the cache in USD; above 0.
    """
    return kept_tokens - growth_tokens + math.sqrt(growth_tokens * growth_tokens + 2 * growth_tokens * fixed_cost_usd / read_usd)
