"""Costs of stored sessions under other price rules, computed from their logs; nothing is run again, and no model is asked."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from harness.conversation.events import Entry
from harness.errors import UsageError
from harness.inspection.request_chain import SessionRequests, build_session_requests
from harness.models.rule_prices import find_prices
from harness.prices.bill import Bill, compute_bill
from harness.prices.cache import split_prompts
from harness.prices.rules import PriceRule, find_rule, load_rules
from harness.store.sessions.lookup import iter_sessions

DEFAULT_RULES = ("anthropic-2025-09", "anthropic-2026-10", "none")
"""Rules under which sessions are priced if none are named: two generations of the price of a read, and no cache."""


class PricedSession(NamedTuple):
    """Bill of a session under one price rule.

    Args:
        bill: Cost by part, in USD.
        prompt_tokens: Tokens of all prompts of the agent.
        read_tokens: Part of them that a cache under the rule would have held.
        has_times: Whether it is known when the requests were sent. Otherwise no lifetime of a cache ends.
    """

    bill: Bill
    prompt_tokens: int
    read_tokens: int
    has_times: bool


def price_session(
    entries: Iterable[Entry], rule: str | PriceRule, *, times_ms: Sequence[int] = (), lifetime: str | None = None
) -> PricedSession:
    """Return what a session would have cost under a price rule, with a simulated cache.

    Args:
        entries: Log of the session.
        rule: Price rule, or the name of a shipped one, such as `anthropic-2026-10`.
        times_ms: Time in milliseconds at which each event was logged. Default: unknown, so that no lifetime ends.
        lifetime: Name of one of the rule's lifetimes, such as `1h`. Default: the rule's first one.

    Raises:
        UnknownName: There is no such rule or lifetime.
        UsageError: The price of the model is unknown, or the log does not contain the answer of a step.

    Example::

        from harness.inspection.repricing import price_session
        from harness import find_session
        stored = find_session("01J8", "sessions").read()
        price_session(stored.entries, "anthropic-2026-10", times_ms=stored.times_ms, lifetime="1h").bill.total_usd
    """
    chosen = find_rule(rule) if isinstance(rule, str) else rule
    return _price(build_session_requests(entries, times_ms), chosen, lifetime)


def price_sessions(
    place: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    rules: Sequence[str] = DEFAULT_RULES,
    *,
    lifetime: str | None = None,
    file: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """Return what the sessions in a place would have cost under several price rules; `results.price` adds their arms.

    Args:
        place: Folder of an experiment, its output folder, a journal file, a folder of journal files, or several of these.
        rules: Names of price rules. Default: `DEFAULT_RULES`.
        lifetime: Name of a lifetime for the rules that have it; the others keep their first one. Default: the first one of each.
        file: TOML file with further rules, in the form that `harness.prices.rules.load_rules` describes. Default: none.

    Returns:
        A table with one row for each session and rule: `session_id`, `trial_id` (empty for a session outside of trials), `rule`,
        `lifetime`, the parts of the bill and `total_usd` in USD, `prompt_tokens`, `read_tokens`, and `has_times` (whether it is
        known when requests were sent; otherwise no lifetime ends).

    Raises:
        StoreError: A place does not exist, or a journal cannot be read.
        UsageError: A rule or lifetime is unknown, the price of a model is unknown, or there is no session.
    """
    known = load_rules(None if file is None else Path(file))
    chosen = [find_rule(name, known) for name in rules]
    offers = {rule.name: tuple(rule.lifetimes_seconds) for rule in chosen}
    if lifetime is not None and not any(lifetime in names for names in offers.values()):
        known_names = "; ".join(f"{name}: {', '.join(names)}" for name, names in offers.items())
        raise UsageError(f"no rule has the lifetime {lifetime!r} ({known_names})")
    lifetimes = {name: lifetime if lifetime is not None and lifetime in names else names[0] for name, names in offers.items()}
    rows = []
    paths = [Path(place)] if isinstance(place, str | os.PathLike) else [Path(one) for one in place]
    for location in iter_sessions(paths):
        stored = location.read()
        session = build_session_requests(stored.entries, stored.times_ms)
        for rule in chosen:
            priced = _price(session, rule, lifetimes[rule.name])
            rows.append(_make_row(location.session_id, location.trial_id, rule.name, lifetimes[rule.name], priced))
    if not rows:
        raise UsageError(f"there is no session in {', '.join(repr(str(path)) for path in paths)}")
    return pd.DataFrame(rows)


def _price(session: SessionRequests, rule: PriceRule, lifetime: str | None) -> PricedSession:
    prices = find_prices(rule, session.model)
    splits = split_prompts(session.requests, rule, lifetime)
    bill = compute_bill(session.requests, splits, rule, prices, lifetime=lifetime, summaries=session.summaries)
    return PricedSession(
        bill, sum(split.prompt_tokens for split in splits), sum(split.read_tokens for split in splits), session.has_times
    )


def _make_row(session_id: str, trial_id: str, rule: str, lifetime: str, priced: PricedSession) -> Mapping[str, object]:
    bill = priced.bill
    return {
        "session_id": session_id,
        "trial_id": trial_id,
        "rule": rule,
        "lifetime": lifetime,
        "read_usd": bill.read_usd,
        "new_usd": bill.new_usd,
        "rewarmed_usd": bill.rewarmed_usd,
        "edited_usd": bill.edited_usd,
        "uncached_usd": bill.uncached_usd,
        "output_usd": bill.output_usd,
        "summary_usd": bill.summary_usd,
        "total_usd": bill.total_usd,
        "prompt_tokens": priced.prompt_tokens,
        "read_tokens": priced.read_tokens,
        "has_times": priced.has_times,
    }
