"""Prices the scripted runs of this experiment: `python experiments/cache_repricing/scripted.py [OUTPUT]` prints the tables."""

import sys
from pathlib import Path

import pandas as pd

import harness

FOLDER = Path(__file__).parent
READ_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.025)
LIFETIMES = {"5m": "5 min", "1h": "1 h"}
NO_COMPACTION = "no compaction"


def price_runs(output: Path) -> pd.DataFrame:
    """Return one row for each trial, lifetime and price of a read, with its cost in USD and the number of its compactions."""
    results = harness.load(output)
    trials = results.trials.set_index("trial_id")[["seed", "success", "summaries", "peak_context_tokens"]]
    tables = []
    for lifetime, name in LIFETIMES.items():
        for share in READ_SHARES:
            table = results.price(f"read-{share:g}", lifetime=lifetime, file=FOLDER / "rules.toml")
            tables.append(table.assign(lifetime=name, share=share))
    return pd.concat(tables).join(trials, on="trial_id")


def main(output: Path) -> None:
    """Print the change of the mean cost against no compaction, ranks, and seeds that get dearer."""
    priced = price_runs(output)
    once = priced[(priced["lifetime"] == "5 min") & (priced["share"] == 1.0)]
    print(once.groupby("arm")[["success", "summaries", "peak_context_tokens"]].mean().round(2).to_string(), end="\n\n")
    costs = priced.pivot_table(index=["lifetime", "seed"], columns=["share", "arm"], values="total_usd")
    all_means = priced.pivot_table(index=["lifetime", "arm"], columns="share", values="total_usd")[list(READ_SHARES)]
    for lifetime in LIFETIMES.values():
        means = all_means.loc[lifetime]
        change = 100 * (means / means.loc[NO_COMPACTION] - 1)
        print(f"Change of the mean cost against no compaction in %, {lifetime}:\n{change.round(1).to_string()}\n")
        print(f"Rank by cost:\n{means.rank().astype(int).to_string()}\n")
        dearer = {
            share: (costs.loc[lifetime][share].gt(costs.loc[lifetime][share][NO_COMPACTION], axis=0)).sum()
            for share in READ_SHARES
        }
        print(f"Seeds that get dearer, of {len(costs.loc[lifetime])}:\n{pd.DataFrame(dearer).to_string()}\n")
    parts = ["read_usd", "new_usd", "rewarmed_usd", "edited_usd", "uncached_usd", "output_usd", "summary_usd", "total_usd"]
    for lifetime, share in (("5 min", 0.1), ("1 h", 0.025)):
        rows = priced[(priced["lifetime"] == lifetime) & (priced["share"] == share)]
        print(f"Mean cost in USD, {lifetime}, read {share}:\n{rows.groupby('arm')[parts].mean().round(3).to_string()}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "output")
