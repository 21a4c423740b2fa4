"""Prices of model calls in US dollars.

Prices of real models come from litellm's registry, whose version is recorded with each trial. Scripted models have an invented
(nominal) price: their costs can be compared with each other, but not with a bill. Local models cost nothing.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.conversation.tokens import Measured, Usage
from harness.files.bounded_input import read_input
from harness.models.local.catalogue import is_local
from harness.models.registry import MAX_TABLE_BYTES, TABLE_VARIABLE, look_up_entry
from harness.models.scripted.profiles import is_scripted
from harness.prices.price import MILLION, Price, choose_price

_PROMPT_STEP = re.compile(r"input_cost_per_token(_above_(\d+)k_tokens)")

NOMINAL_PRICE = Price(input_usd=3.0, output_usd=15.0, cache_read_usd=0.3, cache_write_usd=3.75, above_prompt_tokens=-1)
"""Price of every scripted model: the list price of a mid-sized model, with cache reads at 0.1 and cache writes at 1.25 of the
input price."""

FREE_PRICE = Price(input_usd=0.0, output_usd=0.0, above_prompt_tokens=-1)
"""Price of zero, used for every model that runs on this machine."""


def identify_price_table() -> str:
    """Return the names and versions of the price tables in use, as stored with each trial.

    A table declared by the user is identified by its digest.
    """
    own = os.environ.get(TABLE_VARIABLE)
    declared = f", declared-{hashlib.sha256(read_input(Path(own), MAX_TABLE_BYTES)).hexdigest()[:12]}" if own else ""
    return f"nominal-1, litellm-{version('litellm')}{declared}"


def look_up_prices(name: str) -> tuple[Price, ...]:
    """Return the prices of a model; empty if no price is known.

    A model may have several prices, each for prompts above a length. They are sorted by this length. A price of 0 in the registry
    counts as unknown, because the registry also writes 0 for unknown prices and for custom endpoints.
    """
    if is_scripted(name):
        return (NOMINAL_PRICE,)
    if is_local(name):
        return (FREE_PRICE,)
    return _look_up_listed_prices(name, os.environ.get(TABLE_VARIABLE))


@lru_cache(maxsize=100)
def _look_up_listed_prices(name: str, _table: str | None) -> tuple[Price, ...]:
    """Return the prices of a model in litellm's registry; `_table` only makes the cache miss after a change."""
    known = look_up_entry(name)
    matches = (_PROMPT_STEP.fullmatch(key) for key in known)
    steps = {0: ""} | {1000 * int(match[2]): match[1] for match in matches if match}
    prices = (_build_price(known, suffix, above) for above, suffix in sorted(steps.items()))
    return tuple(price for price in prices if price is not None) if _build_price(known, "", 0) else ()


def compute_cost_usd(name: str, usage: Usage, hour_write_tokens: int = 0) -> float | None:
    """Return the cost in USD of a model call with this token usage; None when the price is unknown.

    Args:
        name: Name of the model.
        usage: Numbers of tokens of the call.
        hour_write_tokens: Part of the tokens written to the cache that the provider keeps for an hour.
    """
    price = choose_price(look_up_prices(name), usage.prompt_tokens)
    return price.compute_cost_usd(usage, hour_write_tokens) if price else None


def compute_cache_saving_usd(name: str, usage: Usage) -> float | None:
    """Return how much the prompt cache reduced the cost of a call, in USD; None if the price is unknown.

    The amount is negative if writing to the cache cost more than reading from the cache saved.
    """
    if not usage.cache_read_tokens and not usage.cache_write_tokens:
        return None if compute_cost_usd(name, usage) is None else 0.0
    bare = replace(usage, input_tokens=usage.prompt_tokens, cache_read_tokens=Measured(0), cache_write_tokens=Measured(0))
    paid_usd, uncached_usd = compute_cost_usd(name, usage), compute_cost_usd(name, bare)
    return None if paid_usd is None or uncached_usd is None else uncached_usd - paid_usd


def _build_price(known: Mapping[str, Any], suffix: str, above: int) -> Price | None:
    def read_rate(key: str) -> float | None:
        value = known.get(key + suffix, known.get(key))
        return value * MILLION if isinstance(value, int | float) and value > 0 else None

    input_usd, output_usd = read_rate("input_cost_per_token"), read_rate("output_cost_per_token")
    if input_usd is None or output_usd is None:
        return None
    return Price(
        input_usd=input_usd,
        output_usd=output_usd,
        reasoning_usd=read_rate("output_cost_per_reasoning_token"),
        cache_read_usd=read_rate("cache_read_input_token_cost"),
        cache_write_usd=read_rate("cache_creation_input_token_cost"),
        cache_hour_write_usd=read_rate("cache_creation_input_token_cost_above_1hr"),
        above_prompt_tokens=above,
    )
