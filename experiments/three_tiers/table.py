"""Prints the tables of this experiment from its results: `python experiments/three_tiers/table.py [OUTPUT]`."""

import sys
from pathlib import Path

import pandas as pd

import harness
from harness.analysis.overhead import measure_overhead

TURN_STEPS = 5
"""Steps per turn, as in turns.py."""
TURNS = (1, 10, 25, 30, 50, 60, 74, 75, 76, 77, 100)
INPUT_USD, READ_USD, WRITE_USD, OUTPUT_USD = 3.0, 0.3, 3.75, 15.0
"""Prices per million tokens in US dollars."""
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


def costs(steps: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return US dollars per session without a prompt cache and with a simulated cache, as mean of the seeds.

    Both include the cost of summaries, which `summaries_usd` states by itself. A summarizer's requests are not cached.
    """
    output = steps.output_tokens * OUTPUT_USD
    shared = steps.prompt_tokens * (steps.kept_prefix_tokens / steps.view_tokens).clip(upper=1)
    steps = steps.assign(
        uncached_usd=(steps.prompt_tokens * INPUT_USD + output) / 1e6,
        cached_usd=(shared * READ_USD + (steps.prompt_tokens - shared) * WRITE_USD + output) / 1e6,
    )
    session = steps.groupby(["arm", "seed"])[["uncached_usd", "cached_usd"]].sum()
    summaries = trials.set_index(["arm", "seed"])[["summarizer_prompt_tokens", "summarizer_output_tokens"]].fillna(0)
    session["summaries_usd"] = (
        summaries.summarizer_prompt_tokens * INPUT_USD + summaries.summarizer_output_tokens * OUTPUT_USD
    ) / 1e6
    for column in ("uncached_usd", "cached_usd"):
        session[column] += session["summaries_usd"]
    return session.groupby("arm").mean().reindex(ARMS).round(2)


def main(output: Path) -> None:
    """Print all tables."""
    results = harness.load(output)
    trials = results.trials.assign(arm=results.trials.arm.where(results.trials.arm.isin(ARMS[:3]), ARMS[3]))
    steps = results.steps.merge(trials[["trial_id", "arm", "seed"]], on="trial_id")
    for table in (tokens(steps), ends(trials, steps), costs(steps, trials), measure_overhead(results).round(2)):
        print(table.to_string(), end="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
