"""Prints the table of this experiment from its results: `python experiments/local-summarizers/table.py [OUTPUT ...]`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import harness

AXES = ["summarizer", "reader"]


def count_kept(probes: pd.DataFrame) -> pd.DataFrame:
    """Return how many facts were in view before the compactions of each trial, and how many of them after it.

    The column `stands` counts the facts whose value appears after it anywhere in the view.
    """
    seen = probes[probes["seen_before"]]
    return seen.groupby("trial_id").agg(seen=("seen_after", "size"), kept=("seen_after", "sum"), stands=("stands_after", "sum"))


def make_table(trials: pd.DataFrame, compactions: pd.DataFrame, probes: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each summarizer and reader: seeds, score, facts kept, and the lengths of its summaries in tokens.

    A trial that the other reader's trial resembles has the same summaries, which are counted once.
    """
    axes = pd.DataFrame([json.loads(text) for text in trials["axes_json"]], index=trials.index)
    trials = trials.assign(summarizer=axes["policy.summarizer"], reader=axes["reader"]).join(count_kept(probes), on="trial_id")
    summaries = compactions[compactions["trial_id"].isin(trials["trial_id"])].drop_duplicates(["summarizer", "summary"])
    lengths = summaries.groupby("summarizer")["summarizer_output_tokens"].agg(least_tokens="min", most_tokens="max")
    table = trials.groupby(AXES).agg(
        seeds=("seed", "nunique"), score=("score", "mean"), kept=("kept", "sum"), seen=("seen", "sum"), stands=("stands", "sum")
    )
    return table.join(lengths, on="summarizer").round(2)


def main(outputs: Sequence[str]) -> None:
    """Print the table of one or several output folders."""
    results = [harness.load(output) for output in outputs]
    tables = [pd.concat([getattr(one, name) for one in results]) for name in ("trials", "compactions", "probes")]
    print(make_table(*tables).to_string())


if __name__ == "__main__":
    main(sys.argv[1:] or [str(Path(__file__).parent / "output")])
