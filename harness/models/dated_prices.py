"""Prices of models on a given day, from the package genai-prices, which is installed with its table and is not updated here."""

import datetime as dt
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from harness.errors import UsageError
from harness.prices.price import Price

_ADVICE = "use a rule with input_usd and output_usd"


def identify_dated_prices() -> str:
    """Return the name and the version of the table of dated prices, as stored with trials that are priced under a rule."""
    return f"genai-prices-{version('genai-prices')}"


@lru_cache(maxsize=100)
def look_up_dated_prices(model: str, provider: str, day: dt.date) -> tuple[Price, ...]:
    """Return the prices of a model on a day, sorted by the length of the prompts from which they apply.

    Args:
        model: Name of the model in the package genai-prices, such as `claude-fable-5-1`.
        provider: Name of the provider in that package, such as `anthropic`.
        day: Day of the call; the prices are those of noon.

    Raises:
        UsageError: The package does not know the model, or has no price of its input or output.
    """
    from genai_prices import data_snapshot  # noqa: PLC0415 - loading the table takes a second

    noon = dt.datetime.combine(day, dt.time(12), dt.UTC)
    table = f"the package genai-prices {version('genai-prices')}"
    try:
        listed = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)[1].get_prices(noon)
    except LookupError as error:
        raise UsageError(
            f"{table} has no prices of the model {model!r} of {provider!r}; give a rule prices of its own"
        ) from error
    if listed.input_mtok is None or listed.output_mtok is None:
        raise UsageError(f"{table} has no price of the input or the output of {model!r}; {_ADVICE}")
    columns = {
        "input_usd": listed.input_mtok,
        "output_usd": listed.output_mtok,
        "cache_read_usd": listed.cache_read_mtok,
        "cache_write_usd": listed.cache_write_mtok,
        "cache_hour_write_usd": getattr(listed, "cache_write_1h_mtok", None),
    }
    starts = {tier.start for price in columns.values() for tier in getattr(price, "tiers", ())}
    return tuple(
        Price(above_prompt_tokens=start, **{name: _read_tier(price, start) for name, price in columns.items()})
        for start in sorted({0} | starts)
    )


def _read_tier(price: Any, start: int) -> Any:
    """Return a price in USD for prompts longer than the start of a tier."""
    tiers = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= start]
    listed = tiers[-1] if tiers else getattr(price, "base", price)
    return None if listed is None else float(listed)
