"""Prices that a price rule applies to a model, and the terms that a plan names."""

from functools import lru_cache

from harness.errors import UsageError
from harness.models.dated_prices import look_up_dated_prices
from harness.models.prices import look_up_prices
from harness.prices.price import Price
from harness.prices.rules import PriceRule, find_rule
from harness.prices.terms import Terms, parse_rule_name


def check_rule_name(name: str) -> None:
    """Refuse a name that gives no shipped price rule or no lifetime of it; prices are not looked up.

    Raises:
        UnknownName: There is no such rule, or the rule has no such lifetime.
    """
    rule, lifetime = parse_rule_name(name)
    find_rule(rule).find_lifetime_seconds(lifetime or None)


@lru_cache(maxsize=100)
def find_terms(name: str, model: str) -> Terms:
    """Return the terms that a shipped price rule gives a model.

    Args:
        name: Name of the rule, or with a lifetime, such as `anthropic-2026-10:1h`.
        model: Name of the model.

    Raises:
        UnknownName: There is no such rule, or the rule has no such lifetime.
        UsageError: The price of the model is unknown.
    """
    base, lifetime = parse_rule_name(name)
    rule = find_rule(base)
    rule.find_lifetime_seconds(lifetime or None)
    return Terms(rule=rule, prices=find_prices(rule, model), lifetime=lifetime or next(iter(rule.lifetimes_seconds)))


def find_prices(rule: PriceRule, model: str) -> tuple[Price, ...]:
    """Return the prices that a rule applies to a session: its own, of the model that it names, or of the session's model.

    Raises:
        UsageError: The price of the model is unknown.
    """
    if rule.price is not None:
        return (rule.price,)
    if rule.model:
        return look_up_dated_prices(rule.model, rule.provider, rule.since)
    prices = look_up_prices(model)
    if not prices:
        raise UsageError(
            f"the price of the model {model!r} is unknown, and the price rule {rule.name!r} names no model; use a rule with "
            "input_usd and output_usd"
        )
    return prices
