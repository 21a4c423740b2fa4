"""What a call costs: prices as values, and where they come from.

Real models have the prices of litellm's registry, which is part of an exact version of that package and thereby dated.
Scripted models have a nominal price, so that simulated costs can be compared with each other, never with a bill. Local
models cost nothing, which is known and no gap in a table; their time stands beside it.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.models.local.catalogue import is_local
from harness.models.registry import TABLE_VARIABLE, look_up_entry
from harness.models.scripted.profiles import is_scripted
from harness.tokens import Measured, Usage

MILLION = 1_000_000
_PROMPT_STEP = re.compile(r"input_cost_per_token(_above_(\d+)k_tokens)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """USD for a million tokens."""

    input_usd: float
    output_usd: float
    cache_read_usd: float | None = None
    """None = no price of its own: billed as input."""
    cache_write_usd: float | None = None
    above_prompt_tokens: int = 0
    """It holds for calls whose whole prompt is longer than this."""

    def compute_cost_usd(self, usage: Usage) -> float:
        """What a call of this usage costs."""
        read = self.input_usd if self.cache_read_usd is None else self.cache_read_usd
        write = self.input_usd if self.cache_write_usd is None else self.cache_write_usd
        parts = (
            usage.input_tokens * self.input_usd,
            usage.output_tokens * self.output_usd,
            usage.cache_read_tokens * read,
            usage.cache_write_tokens * write,
        )
        return sum(parts) / MILLION


NOMINAL_PRICE = Price(input_usd=3.0, output_usd=15.0, cache_read_usd=0.3, cache_write_usd=3.75, above_prompt_tokens=-1)
"""Of every scripted model: the list price of a mid-sized model, cache reads at a tenth and writes at 1.25 of the input."""

FREE_PRICE = Price(input_usd=0.0, output_usd=0.0, above_prompt_tokens=-1)
"""Of every model that runs on this machine: nobody sends a bill."""


def identify_price_table() -> str:
    """Names the prices in use, a table of one's own by its digest; part of a trial's record."""
    own = os.environ.get(TABLE_VARIABLE)
    declared = f", declared-{hashlib.sha256(Path(own).read_bytes()).hexdigest()[:12]}" if own else ""
    return f"nominal-1, litellm-{version('litellm')}{declared}"


def look_up_prices(name: str) -> tuple[Price, ...]:
    """The prices of a model by rising prompt length; empty = not known.

    The registry writes 0 for prices that it does not know, and for models at one's own endpoint; both are unknown.
    """
    if is_scripted(name):
        return (NOMINAL_PRICE,)
    if is_local(name):
        return (FREE_PRICE,)
    known = look_up_entry(name)
    matches = (_PROMPT_STEP.fullmatch(key) for key in known)
    steps = {0: ""} | {1000 * int(match[2]): match[1] for match in matches if match}
    prices = (_build_price(known, suffix, above) for above, suffix in sorted(steps.items()))
    return tuple(price for price in prices if price is not None) if _build_price(known, "", 0) else ()


def compute_cost_usd(name: str, usage: Usage) -> float | None:
    """What a call of this usage costs; None = the price is not known."""
    prices = [price for price in look_up_prices(name) if usage.prompt_tokens > price.above_prompt_tokens]
    return prices[-1].compute_cost_usd(usage) if prices else None


def compute_cache_saving_usd(name: str, usage: Usage) -> float | None:
    """What a call of this usage costs less than the same prompt without a cache; None = the price is not known.

    Negative where writing to the cache cost more than reading from it saved.
    """
    bare = replace(usage, input_tokens=usage.prompt_tokens, cache_read_tokens=Measured(0), cache_write_tokens=Measured(0))
    paid, unaided = compute_cost_usd(name, usage), compute_cost_usd(name, bare)
    return None if paid is None or unaided is None else unaided - paid


def _build_price(known: Mapping[str, Any], suffix: str, above: int) -> Price | None:
    def read_rate(key: str) -> float | None:
        value = known.get(key + suffix, known.get(key))
        return value * MILLION if isinstance(value, int | float) and value > 0 else None

    paid, output = read_rate("input_cost_per_token"), read_rate("output_cost_per_token")
    if paid is None or output is None:
        return None
    return Price(
        input_usd=paid,
        output_usd=output,
        cache_read_usd=read_rate("cache_read_input_token_cost"),
        cache_write_usd=read_rate("cache_creation_input_token_cost"),
        above_prompt_tokens=above,
    )
