"""Terms under which the calls of one model are priced: a rule of a prompt cache, a lifetime, and the model's prices."""

import math
from dataclasses import dataclass

from harness.prices.bill import HOUR_SECONDS, choose_prompt_price, price_output, price_split
from harness.prices.price import Price
from harness.prices.rules import PriceRule
from harness.prices.split import PromptSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Rule of a cache with the prices of a model, and a lifetime."""

    rule: PriceRule
    prices: tuple[Price, ...]
    """Prices of the model, sorted by the prompt length from which each applies."""
    lifetime: str
    """Name of one of the rule's lifetimes."""

    @property
    def name(self) -> str:
        """Name of the rule with the lifetime, as plans write it, such as `anthropic-2026-10:1h`."""
        return f"{self.rule.name}:{self.lifetime}"

    @property
    def lifetime_seconds(self) -> float:
        """How long the cache holds a beginning in seconds."""
        return self.rule.find_lifetime_seconds(self.lifetime)

    def price_prompt(self, split: PromptSplit) -> float:
        """Return what a prompt costs in USD."""
        price = choose_prompt_price(self.prices, split.prompt_tokens)
        keeps_hour = HOUR_SECONDS <= self.lifetime_seconds < math.inf
        return price_split(split, price, self.rule, keeps_hour=keeps_hour).total_usd

    def price_call(self, split: PromptSplit, output_tokens: int, reasoning_tokens: int = 0) -> float:
        """Return what a call costs in USD, prompt and answer."""
        price = choose_prompt_price(self.prices, split.prompt_tokens)
        return self.price_prompt(split) + price_output(price, output_tokens, reasoning_tokens)

    def compute_saving_usd(self, split: PromptSplit) -> float:
        """Return how much less a prompt costs than without a cache, in USD; negative if writing costs more than reading saves."""
        return self.price_prompt(PromptSplit(0, 0, 0, 0, split.prompt_tokens)) - self.price_prompt(split)


def parse_rule_name(name: str) -> tuple[str, str]:
    """Return the rule and the lifetime that a name such as `anthropic-2026-10:1h` gives; no lifetime is empty."""
    rule, _, lifetime = name.partition(":")
    return rule.strip(), lifetime.strip()
