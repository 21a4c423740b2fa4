"""Command `harness price`, which shows what stored sessions would have cost under other price rules."""

from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd

from harness.analysis.rule_costs import NO_CACHE, name_rule
from harness.analysis.validity import drop_repeats
from harness.cli import options
from harness.cli.terminal import build_named_grid, build_table, print_parts
from harness.errors import UsageError, format_count
from harness.inspection.loading import load
from harness.inspection.repricing import DEFAULT_RULES
from harness.prices.rules import PriceRule, load_rules
from harness.reporting.rule_costs import select_equal_arms

PARTS = ("read", "new", "rewarmed", "edited", "uncached", "output", "summary")


@click.command("price")
@click.argument("place", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option("--rules", "names", metavar="NAMES", help=f"Price rules, with commas.  [default: {','.join(DEFAULT_RULES)}]")
@click.option(
    "--lifetime", metavar="NAME", help="Lifetime of the cache, for rules that have it, e.g. 1h.  [default: their first]"
)
@click.option("--file", type=options.FILE, help="TOML file with price rules of your own, which are added to the shipped ones.")
@click.option("--csv", type=options.FILE, help="Write one row for each session and rule to this file.")
@click.option("--list", "lists_rules", is_flag=True, help="List the price rules with their numbers and sources.")
def command(
    place: Path | None, names: str | None, lifetime: str | None, file: Path | None, csv: Path | None, *, lists_rules: bool
) -> None:
    """Show what the sessions in FOLDER would have cost under other price rules.

    Nothing is run again: the requests are rendered from the logs, and a simulated prompt cache says which tokens the provider
    would have read from its cache, or written. FOLDER is an experiment, its output, a journal, or a folder of journals. Costs are
    shown for each arm of an experiment, and for sessions outside of experiments by model, policy and window.

    Sizes of messages are estimated and scaled to the reported length of each prompt. Sessions of scripted models run on a virtual
    clock without pauses. A cache of a real provider also forgets when it is full, so its reads are fewer.

    Example: `harness price experiments/quickstart --rules anthropic-2026-10,openai-2026-10 --lifetime 1h`
    """
    rules = load_rules(file)
    if lists_rules:
        print_parts(build_named_grid((rule.name, describe_rule(rule)) for rule in rules.values()))
        return
    if place is None:
        raise UsageError("name the FOLDER with the sessions, or list the price rules with --list")
    chosen = tuple(names.split(",")) if names else DEFAULT_RULES
    results = load(place)
    table = results.price(*chosen, lifetime=lifetime, file=file)
    if csv is not None:
        table.to_csv(csv, index=False)
    means = table.groupby(["rule", "arm"], sort=False)[[f"{part}_usd" for part in PARTS] + ["total_usd"]].mean()
    counts = table.groupby(["rule", "arm"], sort=False)["session_id"].nunique()
    trials = drop_repeats(results.trials)  # a repeat of another arm is no choice
    own = means["total_usd"][means.index.get_level_values("arm").isin(trials["arm"])]
    compared = own[own.index.get_level_values("arm").isin(select_equal_arms(trials))]
    if sentence := describe_cheapest(compared, chosen, len(arms_of(own)) - len(arms_of(compared))):
        print_parts(sentence)
    for rule in chosen:
        used = table.loc[table["rule"] == rule, "lifetime"].iloc[0]
        rows = [
            (arm, int(counts[rule, arm]), *(f"{means.loc[(rule, arm), f'{part}_usd']:.4f}" for part in ("total", *PARTS)))
            for arm in means.loc[rule].index
        ]
        heading = f"{name_rule(rule)}{'' if rule == NO_CACHE else f', lifetime {used}'}: USD per session, and its parts"
        print_parts(heading, build_table(("arm", "sessions", "USD", *PARTS), rows, "right"))
    if unknown := table.loc[~table["has_times"], "session_id"].nunique():
        sessions = format_count(unknown, "session")
        print_parts(f"It is unknown when the requests of {sessions} were sent, so no lifetime of a cache ends there.")
    if csv is not None:
        print_parts(f"wrote {csv}")


def arms_of(table: pd.DataFrame | pd.Series) -> set[str]:
    """Return the arms of a table that has a row for each rule and arm."""
    return {str(arm) for arm in table.index.get_level_values(1)}


def describe_cheapest(mean_usd: pd.Series, rules: Sequence[str], left_out: int = 0) -> str:
    """Return which arm has the lowest mean cost under each rule, in a sentence; empty if there is one arm only.

    Args:
        mean_usd: Mean cost in USD by rule and arm, of arms with about equal success.
        rules: Names of the rules in the order of the sentence.
        left_out: Number of arms that succeed less, and are not compared. Default: 0.
    """
    count = len(arms_of(mean_usd))
    if count < 2:
        return (
            f"Costs are not compared: {format_count(left_out, 'arm')} succeeded less often than the best one." if left_out else ""
        )
    who = f" among {count} arms with about equal success; {format_count(left_out, 'arm')} with less left out" if left_out else ""
    rules_of: dict[str, list[str]] = {}
    for rule in rules:
        rules_of.setdefault(str(mean_usd.loc[rule].idxmin()), []).append(rule)
    if len(rules_of) == 1:
        return f"The arm with the lowest mean cost is {next(iter(rules_of))!r} under each of these rules{who}."
    parts = [f"{arm!r} under {', '.join(map(name_rule, names))}" for arm, names in rules_of.items()]
    return f"Which arm has the lowest mean cost depends on the price rule{who}: {'; '.join(parts)}."


def describe_rule(rule: PriceRule) -> str:
    """Return what a price rule says, in words, with its source."""
    prices = "prices of its own" if rule.price else f"prices of {rule.model or 'the model of the session'}"
    lifetimes = f"lifetimes {', '.join(rule.lifetimes_seconds)}" if rule.has_cache else "no cache"
    return f"since {rule.since.isoformat()}, {prices}, {lifetimes}, from {rule.least_prefix_tokens:,} tokens. {rule.source}"
