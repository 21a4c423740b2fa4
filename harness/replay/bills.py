"""Bills of requests whose sizes alone are known, for several settings at once.

The cache is that of `harness.prices.cache` for sessions that grow and are compacted: each request finds what it shares with the
request before it, unless the pause was longer than the lifetime. Under a rule with marks, a request behind an edit finds only an
earlier request that it begins with, whole, or the instructions. Sizes are arrays, so a bill takes microseconds, and a setting is
priced under any number of rules.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.models.prices import look_up_prices
from harness.models.rule_prices import find_prices
from harness.prices.bill import HOUR_SECONDS, Bill
from harness.prices.price import MILLION, Price
from harness.prices.rules import PriceRule, find_rule
from harness.prices.terms import Terms, parse_rule_name
from harness.replay.chains import Numbers
from harness.replay.fold import Beginnings, CallSizes

OWN = "own"
"""Name of the rule of the session's own provider with the prices of its own model."""
_RULE_OF_MODEL = (
    ("claude", "anthropic-2025-09"),
    ("gpt-5.6", "openai-2026-10"),
    ("gpt-6", "openai-2026-10"),
    ("gpt", "openai-2025-08"),
    ("codex", "openai-2025-08"),
    ("gemini", "gemini-2026-10"),
    ("deepseek", "deepseek-2026-10"),
    ("scripted", "anthropic-2025-09"),
)
"""Rule whose cache is that of the provider of a model, by the first of these words that the name of the model contains."""
REREAD_TOKENS = (0, 2_500, 5_000, 10_000, 20_000, 40_000)
"""Numbers of tokens read again after each compaction for which settings are priced."""
_ROUNDING = 1e-6
"""Tokens by which a computed size may miss the whole number that it stands for."""
MIN_ROOM_SHARE = 0.1
"""Smallest share of the room after a compaction that is left when something is read again.

A setting that reads again more than the room has compacts ten times as often, although in truth it might never get on."""


def choose_terms(name: str, model: str, rules: dict[str, PriceRule], default_lifetime: str = "") -> Terms:
    """Return the terms that a rule gives a session.

    Args:
        name: Name of a rule, `own` for that of the session's provider, or either with a lifetime, such as `own:1h`.
        model: Model of the session.
        rules: All known rules.
        default_lifetime: Lifetime for a name without one, if the rule has it. Default: the first one of the rule.

    Raises:
        UnknownName: There is no such rule, or the rule has no such lifetime.
        UsageError: The price of the model is unknown.
    """
    base, lifetime = parse_rule_name(name)
    if base != OWN:
        rule = find_rule(base, rules)
        prices = find_prices(rule, model)
    else:
        prices = look_up_prices(model)
        if not prices:
            raise UsageError(f"the price of the model {model!r} is unknown")
        known = next((rule for word, rule in _RULE_OF_MODEL if word in model.lower()), "")
        caches = any(price.cache_read_usd is not None for price in prices)
        rule = rules[known] if known else rules["ideal" if caches else "none"]
        lifetime = lifetime if lifetime in rule.lifetimes_seconds else ""  # own providers differ in what they offer
    first = next(iter(rule.lifetimes_seconds))
    chosen = lifetime or (default_lifetime if default_lifetime in rule.lifetimes_seconds else first)
    rule.find_lifetime_seconds(chosen)
    return Terms(rule=rule, prices=prices, lifetime=chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """Prices of each request in USD per token."""

    input_usd: Numbers
    read_usd: Numbers
    write_usd: Numbers
    output_usd: Numbers


def _choose_rates(terms: Terms, prompt_tokens: Numbers) -> _Rates:
    starts = np.array([price.above_prompt_tokens for price in terms.prices], np.float64)
    places = np.maximum(0, np.searchsorted(starts, prompt_tokens, side="left") - 1)
    keeps_hour = HOUR_SECONDS <= terms.lifetime_seconds < math.inf
    rows = [_list_rates(price, terms.rule, keeps_hour=keeps_hour) for price in terms.prices]
    columns = np.array(rows, np.float64)[places] / MILLION
    return _Rates(input_usd=columns[:, 0], read_usd=columns[:, 1], write_usd=columns[:, 2], output_usd=columns[:, 3])


def _list_rates(price: Price, rule: PriceRule, *, keeps_hour: bool) -> tuple[float, float, float, float]:
    """Return the prices of input, read, write and output, in USD per million tokens, as `price_split` does."""
    read = price.input_usd if price.cache_read_usd is None else price.cache_read_usd
    read = read if rule.read_share is None else rule.read_share * price.input_usd
    write = price.input_usd
    if rule.bills_writes and price.cache_write_usd is not None:
        write = price.cache_write_usd
        if keeps_hour and price.cache_hour_write_usd is not None:
            write = price.cache_hour_write_usd
    return price.input_usd, read, write, price.output_usd


class _Split(NamedTuple):
    """Tokens of each prompt by what the cache does with them."""

    read: Numbers
    rewarmed: Numbers
    edited: Numbers
    new: Numbers
    uncached: Numbers


def find_held_tokens(prompts: Beginnings, rule: PriceRule) -> Numbers:
    """Return how many tokens at the beginning of each prompt the cache holds while it is warm."""
    held = prompts.shared_tokens
    if rule.caches_answers:
        held = np.where(held >= rule.least_prefix_tokens, held + prompts.answer_tokens, held)
    if rule.drops_reasoning:
        held = np.minimum(held, prompts.plain_tokens)
    if rule.marks is not None:
        is_found = prompts.whole_distance < (math.inf if rule.look_back_blocks is None else rule.look_back_blocks)
        held = np.minimum(held, np.where(is_found, prompts.whole_tokens, prompts.fixed_tokens))
    return held


def _split_sizes(
    prompt_tokens: Numbers,
    shared_tokens: Numbers,
    held_tokens: Numbers,
    edited_tokens: Numbers,
    is_warm: NDArray[np.bool_],
    rule: PriceRule,
) -> _Split:
    is_cached = (prompt_tokens >= rule.least_prefix_tokens) & rule.has_cache
    shared = np.where((shared_tokens >= rule.least_prefix_tokens) & rule.has_cache, shared_tokens, 0.0)
    held = np.where((held_tokens >= rule.least_prefix_tokens) & rule.has_cache & is_warm, held_tokens, 0.0)
    units = np.floor((held + _ROUNDING) / rule.granularity_tokens)
    read = np.where(is_cached, units * rule.granularity_tokens, 0.0)
    rewarmed = np.where(is_cached & ~is_warm, shared, 0.0)
    edited = np.where(is_cached, edited_tokens + (shared_tokens - np.where(is_warm, np.minimum(shared, held), shared)), 0.0)
    return _Split(
        read=read,
        rewarmed=rewarmed,
        edited=edited,
        new=np.where(is_cached, prompt_tokens - read - rewarmed - edited, 0.0),
        uncached=np.where(is_cached, 0.0, prompt_tokens),
    )


def price_calls(
    prompt_tokens: Numbers, beginnings: Beginnings, output_tokens: Numbers, gap_seconds: Numbers, terms: Terms
) -> Numbers:
    """Return what each call costs in USD.

    Args:
        prompt_tokens: Tokens of each prompt.
        beginnings: What each prompt shares with those before it.
        output_tokens: Tokens of the answer.
        gap_seconds: Seconds between each request and the answer before it.
        terms: Rule and prices.
    """
    rates = _choose_rates(terms, prompt_tokens)
    is_warm = gap_seconds <= terms.lifetime_seconds
    held = find_held_tokens(beginnings, terms.rule)
    split = _split_sizes(prompt_tokens, beginnings.shared_tokens, held, np.zeros(len(prompt_tokens)), is_warm, terms.rule)
    written = split.rewarmed + split.edited + split.new
    prompt_usd = split.read * rates.read_usd + written * rates.write_usd + split.uncached * rates.input_usd
    return prompt_usd + output_tokens * rates.output_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedBill:
    """Bill of the requests of a stretch under a setting."""

    bill: Bill
    """Bill if nothing is read again after a compaction."""
    reread_usd: tuple[float, ...]
    """Whole cost in USD for each number of `REREAD_TOKENS`."""


def price_sizes(sizes: CallSizes, output_tokens: Numbers, gap_seconds: Numbers, terms: Terms, result_tokens: float) -> SizedBill:
    """Return what requests cost.

    Args:
        sizes: Sizes of the requests.
        output_tokens: Tokens of the answer to each request.
        gap_seconds: Seconds between each request and the answer before it; 0 if unknown.
        terms: Rule and prices.
        result_tokens: Tokens of a result of a tool, of which each takes a call if something is read again.
    """
    rates = _choose_rates(terms, sizes.prompt_tokens)
    prompt = sizes.prompt_tokens
    is_warm = gap_seconds <= terms.lifetime_seconds
    held = find_held_tokens(sizes, terms.rule)
    split = _split_sizes(prompt, sizes.shared_tokens, held, sizes.edited_tokens, is_warm, terms.rule)
    summarized_read = (
        np.where(is_warm | sizes.asks_early, rates.read_usd, rates.write_usd)
        if sizes.shares_prefix and terms.rule.has_cache
        else None
    )
    summary = sizes.summarized_tokens * (rates.input_usd if summarized_read is None else summarized_read)
    summary = summary + sizes.summary_tokens * rates.output_usd
    bill = Bill(
        read_usd=float((split.read * rates.read_usd).sum()),
        new_usd=float((split.new * rates.write_usd).sum()),
        rewarmed_usd=float((split.rewarmed * rates.write_usd).sum()),
        edited_usd=float((split.edited * rates.write_usd).sum()),
        uncached_usd=float((split.uncached * rates.input_usd).sum()),
        output_usd=float((output_tokens * rates.output_usd).sum()),
        summary_usd=float(summary.sum()),
    )
    write_usd = rates.write_usd if terms.rule.has_cache else rates.input_usd
    entry_usd = np.where(is_warm, rates.read_usd, rates.write_usd) if terms.rule.has_cache else rates.input_usd
    cut_usd = summary + np.where(sizes.is_cut, (prompt - held) * (write_usd - entry_usd), 0.0)
    reread_usd = _price_rereading(sizes, entry_usd, write_usd, cut_usd, result_tokens)
    return SizedBill(bill=bill, reread_usd=tuple(bill.total_usd + extra for extra in reread_usd))


def _price_rereading(
    sizes: CallSizes, entry_usd: Numbers, write_usd: Numbers, cut_usd: Numbers, result_tokens: float
) -> list[float]:
    """Return the cost in USD of reading each number of `REREAD_TOKENS` again after each compaction, at most what it removed.

    What is read again is written once, read by each call up to the next compaction, and takes calls of its own, each of which
    sends the whole prompt. It also fills the room that a compaction makes, so that compactions come sooner: their number grows by
    the factor room / (room − tokens), which is limited (`MIN_ROOM_SHARE`).
    """
    cuts = np.nonzero(sizes.is_cut)[0]
    if not len(cuts):
        return [0.0] * len(REREAD_TOKENS)
    tokens = np.array(REREAD_TOKENS)[:, np.newaxis]
    room, again = sizes.room_tokens[cuts], np.minimum(tokens, sizes.evicted_tokens[cuts])  # one row for each number of tokens
    left = np.maximum(MIN_ROOM_SHARE, 1 - again / np.maximum(1.0, room))
    sooner = np.where(np.isinf(room), 1.0, 1 / left)
    sums = np.concatenate([[0.0], np.cumsum(entry_usd)])
    ends = np.append(cuts[1:], len(sizes))
    carried = sums[ends] - sums[np.minimum(cuts + 1, ends)]
    calls = again / max(1.0, result_tokens)
    each = again * write_usd[cuts] + calls * sizes.prompt_tokens[cuts] * entry_usd[cuts]
    extra = sooner * each + again * carried + (sooner - 1) * cut_usd[cuts]
    return [float(row.sum()) if tokens else 0.0 for tokens, row in zip(REREAD_TOKENS, extra, strict=True)]


def sum_bills(bills: Sequence[SizedBill]) -> SizedBill:
    """Return the sum of bills; at least one."""
    total = Bill()
    for one in bills:
        total += one.bill
    columns = zip(*(one.reread_usd for one in bills), strict=True)
    return SizedBill(bill=total, reread_usd=tuple(float(sum(column)) for column in columns))
