"""Prints the tables of this experiment from its results: `python experiments/three_tiers/table.py [OUTPUT]`."""

import sys
from pathlib import Path

import pandas as pd

import harness
from harness.analysis.overhead import measure_overhead
from harness.inspection.repricing import price_sessions
from harness.prices.bill import price_split
from harness.prices.cache import split_prompts
from harness.prices.price import choose_price
from harness.prices.requests import Block, build_requests
from harness.prices.rules import load_rules
from harness.prices.split import PromptSplit

TURN_STEPS = 5
"""Steps per turn, as in turns.py."""
TURNS = (1, 10, 25, 30, 50, 60, 74, 75, 76, 77, 100)
RULE, RULES_FILE = "calculated", Path(__file__).parent / "rules.toml"
STAYING_TOKENS, CHANGING_TOKENS = 10_000, 2_000
"""Tokens of the two parts of the system prompt in the calculation."""
ARMS = ("none", "truncation", "truncation + pruning", "three-tiers")


def tokens(steps: pd.DataFrame) -> pd.DataFrame:
    """Return thousands of tokens in the last request of a turn as median of the seeds, with turns in rows and arms in columns."""
    last = steps.assign(turn=(steps.step - 1) // TURN_STEPS + 1).groupby(["arm", "seed", "turn"]).prompt_tokens.last()
    table = last.reset_index().pivot_table(index="turn", columns="arm", values="prompt_tokens", aggfunc="median") / 1_000
    return table.reindex(TURNS).reindex(columns=ARMS).round(0).astype("Int64")


def ends(trials: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return end, score and compactions by arm and seed; `low` and `high` are deciles after turn 50 in thousands of tokens."""
    steady = steps[steps.step > 50 * TURN_STEPS].groupby("trial_id").prompt_tokens
    deciles = pd.DataFrame({"low": steady.quantile(0.1) / 1_000, "high": steady.quantile(0.9) / 1_000})
    table = trials.join(deciles, on="trial_id").assign(turns=(trials.steps - 1) // TURN_STEPS + 1)
    columns = ["turns", "reason", "score", "prunings", "summaries", "peak_context_tokens", "low", "high"]
    return table.set_index(["arm", "seed"])[columns].sort_index().round(2)


def costs(output: Path, trials: pd.DataFrame) -> pd.DataFrame:
    """Return US dollars per session without a prompt cache and with a simulated cache, as mean of the seeds.

    Both include the cost of summaries, which `summaries_usd` states by itself. A summarizer's requests are not cached.
    """
    priced = price_sessions(output, ["none", RULE], file=RULES_FILE).merge(trials[["trial_id", "arm"]], on="trial_id")
    total = priced.pivot_table(index="arm", columns="rule", values="total_usd", aggfunc="mean")
    summaries = priced[priced["rule"] == RULE].groupby("arm").summary_usd.mean()
    table = pd.DataFrame({"uncached_usd": total["none"], "cached_usd": total[RULE], "summaries_usd": summaries})
    return table.reindex(ARMS).round(2)


def prompt_costs() -> pd.DataFrame:
    """Return US dollars of two prompts of 10,000 tokens that stay and 2,000 that change, as calculated and as a cache bills them.

    The calculation caches what stays alone. An agent also marks the end of its prompt, so what changes is written, too.
    """
    rule = load_rules(RULES_FILE)[RULE]
    price = choose_price([rule.price] if rule.price else [], STAYING_TOKENS + CHANGING_TOKENS)
    assert price is not None
    calculated = [PromptSplit(0, STAYING_TOKENS, 0, 0, CHANGING_TOKENS), PromptSplit(STAYING_TOKENS, 0, 0, 0, CHANGING_TOKENS)]
    prompts = [(Block("stays", STAYING_TOKENS, "system"), Block(turn, CHANGING_TOKENS, "system")) for turn in range(2)]
    columns = {"calculated": calculated, "simulated": split_prompts(build_requests(prompts), rule)}
    usd = {name: [price_split(split, price, rule).total_usd for split in splits] for name, splits in columns.items()}
    return pd.DataFrame(usd, index=["first prompt", "second prompt"]).round(4)


def main(output: Path) -> None:
    """Print all tables."""
    results = harness.load(output)
    trials = results.trials.assign(arm=results.trials.arm.where(results.trials.arm.isin(ARMS[:3]), ARMS[3]))
    steps = results.steps.merge(trials[["trial_id", "arm", "seed"]], on="trial_id")
    for table in (tokens(steps), ends(trials, steps), costs(output, trials), prompt_costs(), measure_overhead(results).round(2)):
        print(table.to_string(), end="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
