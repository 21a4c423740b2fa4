"""Bill of a session: what its requests cost under a price rule, by part."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from harness.prices.price import MILLION, Price, choose_price
from harness.prices.requests import Request
from harness.prices.rules import PriceRule
from harness.prices.split import PromptSplit

HOUR_SECONDS = 3600
"""Lifetime in seconds from which a write has the price of a write for an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Cost of requests in US dollars by part; the parts add up to the whole."""

    read_usd: float = 0.0
    """Cost of tokens read from the cache."""
    new_usd: float = 0.0
    """Cost of writing tokens that had not been sent before."""
    rewarmed_usd: float = 0.0
    """Cost of writing tokens again that the cache had held until their lifetime ended."""
    edited_usd: float = 0.0
    """Cost of writing tokens again behind a beginning that had changed, as after a compaction."""
    uncached_usd: float = 0.0
    """Cost of prompt tokens that were neither read nor written."""
    output_usd: float = 0.0
    summary_usd: float = 0.0
    """Cost of the summarizer's calls, prompt and answer."""

    @property
    def total_usd(self) -> float:
        """Cost of everything in USD."""
        return float(sum(getattr(self, field.name) for field in fields(self)))

    def __add__(self, other: "Bill") -> "Bill":
        """Return the sum of two bills, part by part."""
        return Bill(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCall:
    """Call of a summarizer, made right before one of the session's requests."""

    before_request: int
    """Index of the request, from 0."""
    prompt_tokens: int
    output_tokens: int
    shares_prefix: bool = False
    """Whether the prompt begins with the former request of the session, which the cache holds; otherwise nothing is cached."""


def compute_bill(
    requests: Sequence[Request],
    splits: Sequence[PromptSplit],
    rule: PriceRule,
    prices: Sequence[Price],
    *,
    lifetime: str | None = None,
    summaries: Iterable[SummaryCall] = (),
) -> Bill:
    """Return what the requests of a session cost under a price rule.

    Args:
        requests: Requests of the session in the order in which they were sent.
        splits: Tokens of each prompt by what the cache does with them, such as `split_prompts` returns under the same rule.
        rule: Rule of the cache.
        prices: Prices of the model, sorted by the prompt length from which each applies; one applies to any prompt.
        lifetime: Name of one of the rule's lifetimes. Default: the rule's first one.
        summaries: Calls of summarizers, at the same prices. What is not read of their prompts is not written either.

    Raises:
        UnknownName: The rule has no such lifetime.
        ValueError: No price applies to a prompt, or there is not one split for each request.
    """
    keeps_hour = HOUR_SECONDS <= rule.find_lifetime_seconds(lifetime) < math.inf
    bill = Bill()
    for request, split in zip(requests, splits, strict=True):
        price = choose_prompt_price(prices, split.prompt_tokens)
        bill += replace(
            price_split(split, price, rule, keeps_hour=keeps_hour),
            output_usd=price_output(price, request.output_tokens, request.reasoning_tokens),
        )
    for call in summaries:
        price = choose_prompt_price(prices, call.prompt_tokens)
        before = splits[call.before_request - 1].prompt_tokens if call.shares_prefix and call.before_request else 0
        cached_tokens = min(before, call.prompt_tokens) if rule.has_cache else 0
        read = price_split(PromptSplit(cached_tokens, 0, 0, 0, call.prompt_tokens - cached_tokens), price, rule).total_usd
        bill += Bill(summary_usd=read + price_output(price, call.output_tokens))
    return bill


def price_split(split: PromptSplit, price: Price, rule: PriceRule, *, keeps_hour: bool = False) -> Bill:
    """Return what a prompt costs, by part.

    Args:
        split: Tokens of the prompt by what the cache does with them.
        price: Price of the model's tokens.
        rule: Rule of the cache.
        keeps_hour: Whether writes are kept for an hour or longer, which some providers charge more for.
    """
    read_usd = price.input_usd if price.cache_read_usd is None else price.cache_read_usd
    read_usd = read_usd if rule.read_share is None else rule.read_share * price.input_usd
    write_usd = price.input_usd
    if rule.bills_writes and price.cache_write_usd is not None:
        write_usd = price.cache_write_usd
        if keeps_hour and price.cache_hour_write_usd is not None:
            write_usd = price.cache_hour_write_usd
    return Bill(
        read_usd=split.read_tokens * read_usd / MILLION,
        new_usd=split.new_tokens * write_usd / MILLION,
        rewarmed_usd=split.rewarmed_tokens * write_usd / MILLION,
        edited_usd=split.edited_tokens * write_usd / MILLION,
        uncached_usd=split.uncached_tokens * price.input_usd / MILLION,
    )


def choose_prompt_price(prices: Sequence[Price], prompt_tokens: int) -> Price:
    """Return which of several prices, sorted by the prompt length from which each applies, applies to a prompt.

    Raises:
        ValueError: None of them does.
    """
    price = choose_price(prices, max(prompt_tokens, 1))
    if price is None:
        raise ValueError(f"no price applies to a prompt of {prompt_tokens} tokens")
    return price


def price_output(price: Price, output_tokens: int, reasoning_tokens: int = 0) -> float:
    """Return what the answer of a model costs in USD."""
    cost_usd = output_tokens * price.output_usd
    if price.reasoning_usd is not None:
        cost_usd += min(reasoning_tokens, output_tokens) * (price.reasoning_usd - price.output_usd)
    return cost_usd / MILLION
