"""Price rules: how a provider's prompt cache treats requests, and which prices apply, from a date on and with a source.

The rules are rows of data in `rules.toml`. A file of the same form adds rules of one's own or replaces shipped ones.
"""

import datetime as dt
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.errors import UnknownName, UsageError
from harness.files.bounded_input import read_input
from harness.prices.price import Price

MAX_FILE_BYTES = 2**20
"""Maximum size in bytes of a file with rules."""
_PRICE_FIELDS = ("input_usd", "output_usd", "reasoning_usd", "cache_read_usd", "cache_write_usd", "cache_hour_write_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRule:
    """Rule by which a provider caches the beginnings of prompts and bills for it."""

    name: str
    provider: str
    since: dt.date
    """Day from which the rule holds; dated prices are those of this day."""
    source: str
    """Source of the numbers, with a note on those that are assumed."""
    lifetimes_seconds: Mapping[str, float]
    """How long the cache holds a beginning, in seconds from the end of the answer that used it last, by the name of the choice.

    The first one is the default."""
    refreshes: bool
    """Whether a read starts the lifetime anew."""
    least_prefix_tokens: int
    """Length in tokens of the shortest beginning that is cached."""
    granularity_tokens: int
    """Reads are whole multiples of this number of tokens."""
    bills_writes: bool
    """Whether writes to the cache have a price of their own; otherwise they cost as much as other input."""
    marks: int | None = None
    """Number of ends of blocks that a request may mark for the cache; None means that the end of every block counts."""
    look_back_blocks: int | None = None
    """Number of blocks up to a mark in which the cache looks for a beginning that it holds; None means all of them."""
    caches_answers: bool = False
    """Whether the cache also holds the answer behind a prompt, as the next request repeats it."""
    drops_reasoning: bool = False
    """Whether a user message removes the reasoning since the user message before it, so that only what precedes that is held."""
    has_cache: bool = True
    model: str = ""
    """Model whose prices apply, by its name in the package genai-prices; empty means that of the session."""
    read_share: float | None = None
    """Price of a read as a share of the price of input; None means the model's price of a read."""
    price: Price | None = None
    """Price of the rule's own; None means the prices of `model`."""

    def find_lifetime_seconds(self, lifetime: str | None = None) -> float:
        """Return how long the cache holds a beginning in seconds.

        Args:
            lifetime: Name of one of the rule's lifetimes. Default: the first one.

        Raises:
            UnknownName: The rule has no such lifetime.
        """
        name = next(iter(self.lifetimes_seconds)) if lifetime is None else lifetime
        if name not in self.lifetimes_seconds:
            raise UnknownName(f"lifetime of the price rule {self.name}", name, self.lifetimes_seconds)
        return self.lifetimes_seconds[name]


def load_rules(file: Path | None = None) -> Mapping[str, PriceRule]:
    """Return the shipped price rules, and those of a file, which replace shipped ones of the same name.

    Args:
        file: TOML file with one table for each rule, with the fields of `PriceRule` except `name`. A rule with prices of its own
            has `input_usd`, `output_usd` and, if they differ from these, `reasoning_usd`, `cache_read_usd`, `cache_write_usd` and
            `cache_hour_write_usd`, in USD per million tokens. Default: no file.

    Raises:
        UsageError: The file cannot be read, is no TOML, or a rule in it has an unknown, missing or wrong field.
    """
    if file is None:
        return _load_shipped_rules()
    try:
        text = read_input(file, MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the price rules in {str(file)!r}: {error}") from error
    return {**_load_shipped_rules(), **_parse_rules(text, str(file))}


def find_rule(name: str, rules: Mapping[str, PriceRule] | None = None) -> PriceRule:
    """Return a price rule by its name.

    Args:
        name: Name of the rule, such as `anthropic-2026-10`.
        rules: Rules to choose from. Default: the shipped ones.

    Raises:
        UnknownName: There is no such rule.
    """
    known = load_rules() if rules is None else rules
    if name not in known:
        raise UnknownName("price rule", name, known)
    return known[name]


@cache
def _load_shipped_rules() -> Mapping[str, PriceRule]:
    return _parse_rules(files(__package__).joinpath("rules.toml").read_text(encoding="utf-8"), "rules.toml")


def _parse_rules(text: str, place: str) -> dict[str, PriceRule]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the price rules in {place!r} are no valid TOML: {error}") from error
    return {name: _parse_rule(name, table, f"{place}: {name}") for name, table in tables.items()}


def _parse_rule(name: str, table: object, place: str) -> PriceRule:
    if not isinstance(table, dict):
        raise UsageError(f"{place}: expected a table with the fields of a price rule, such as [my-rule], not {table!r:.80}")
    known = {field.name: field for field in fields(PriceRule) if field.name not in ("name", "price")}
    for field in table:
        if field not in known and field not in _PRICE_FIELDS:
            raise UnknownName(f"{place}: field of a price rule", field, [*known, *_PRICE_FIELDS])
    missing = [field for field, declared in known.items() if declared.default is MISSING and field not in table]
    if missing:
        raise UsageError(f"{place}: the price rule has no {', '.join(missing)}")
    own = {field: _read_number(table[field], f"{place}.{field}") for field in _PRICE_FIELDS if field in table}
    if own and not {"input_usd", "output_usd"} <= own.keys():
        raise UsageError(f"{place}: a rule with prices of its own needs input_usd and output_usd")
    values: dict[str, Any] = {field: value for field, value in table.items() if field in known}
    _check_fields(values, place)
    return PriceRule(name=name, price=Price(above_prompt_tokens=-1, **own) if own else None, **values)


def _check_fields(values: Mapping[str, Any], place: str) -> None:
    """Refuse fields of a rule that have the wrong type or an impossible value."""
    lifetimes = values["lifetimes_seconds"]
    if not isinstance(lifetimes, dict) or not lifetimes:
        raise UsageError(f'{place}.lifetimes_seconds: expected at least one lifetime, such as {{ "5m" = 300 }}')
    for lifetime, seconds in lifetimes.items():
        _read_number(seconds, f"{place}.lifetimes_seconds.{lifetime}", allows_infinity=True)
    if not isinstance(values["since"], dt.date):
        raise UsageError(f"{place}.since: expected a date, such as 2026-10-01, not {values['since']!r:.80}")
    for field, least in (("least_prefix_tokens", 0), ("granularity_tokens", 1), ("marks", 1), ("look_back_blocks", 1)):
        value = values.get(field, least)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"{place}.{field}: expected a whole number of at least {least}, not {value!r:.80}")
    for field in ("refreshes", "bills_writes", "caches_answers", "drops_reasoning", "has_cache"):
        if not isinstance(values.get(field, True), bool):
            raise UsageError(f"{place}.{field}: expected true or false, not {values[field]!r:.80}")
    for field in ("provider", "source", "model"):
        if not isinstance(values.get(field, ""), str):
            raise UsageError(f"{place}.{field}: expected a text, not {values[field]!r:.80}")
    if "read_share" in values:
        _read_number(values["read_share"], f"{place}.read_share")


def _read_number(value: object, place: str, *, allows_infinity: bool = False) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not float(value) >= 0 or (math.isinf(float(value)) and not allows_infinity):  # type: ignore[arg-type]
        raise UsageError(f"{place}: expected a number of at least 0, not {value!r:.80}")
    return float(value)  # type: ignore[arg-type]
