"""Section of the report with the costs of each arm under three price rules, side by side."""

from collections.abc import Iterator

import pandas as pd

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.formatting import format_usd
from harness.analysis.rule_costs import describe_winners, list_cheapest, name_rule, price_trials
from harness.analysis.tables import Tables
from harness.analysis.validity import drop_repeats
from harness.errors import format_count
from harness.reporting.section import Section, make_arm_section

EQUAL_SUCCESS_SHARE = 0.05
"""Difference of two success rates up to which the arms count as equally successful when their costs are compared."""
_NOTE = (
    "USD of a trial with summaries and sub-agents, mean of the valid trials. A simulated cache holds each prompt up to the first "
    "changed message. Summaries count as uncached. `harness price` computes the same from the logs, with the parts of the cost."
)


def build_rule_cost_section(results: Tables) -> Iterator[Section]:
    """Yield the section on costs under price rules; nothing if no trial has steps or no rule has a price."""
    trials = select_valid(results.trials)
    costs = price_trials(results).dropna(axis="columns", how="all")
    priced = trials[trials["trial_id"].isin(costs.index)]
    if priced.empty or not len(costs.columns):
        return
    joined = priced[["arm", "trial_id"]].join(costs, on="trial_id")
    means = joined.groupby("arm")[list(costs.columns)].mean()
    arms = [arm for arm in order_arms(trials) if arm in means.index]
    rows = {arm: (str(int((joined["arm"] == arm).sum())), *map(format_usd, means.loc[arm])) for arm in arms}
    sentence = describe_rule_dependence(means, select_equal_arms(drop_repeats(trials)))
    notes = (*([f"{sentence}."] if sentence else []), _NOTE)
    yield make_arm_section("Cost under price rules, USD per trial", ("n", *map(name_rule, costs.columns)), rows, notes)


def select_equal_arms(trials: pd.DataFrame) -> list[str]:
    """Return the arms whose success rate is within `EQUAL_SUCCESS_SHARE` of the highest; all arms if no outcome is known."""
    rates = trials.assign(success=trials["success"].astype("Float64")).groupby("arm")["success"].mean()
    if rates.isna().all():
        return [str(arm) for arm in rates.index]
    return [str(arm) for arm in rates.index[rates >= rates.max() - EQUAL_SUCCESS_SHARE - 1e-9]]


def describe_rule_dependence(mean_usd: pd.DataFrame, arms: list[str]) -> str:
    """Return that the cheapest of several equally successful arms depends on the price rule; empty if it does not.

    Args:
        mean_usd: Mean cost in USD, one row for each arm and one column for each rule.
        arms: Arms that are compared.
    """
    chosen = mean_usd.loc[[arm for arm in mean_usd.index if arm in arms]]
    winners = list_cheapest({str(rule): chosen[rule] for rule in chosen})
    who = f"Of {format_count(len(chosen), 'arm')} with about equal success (within 5 points of the highest), the cheapest"
    return describe_winners(winners, who)
