"""Prints the tables of this experiment from its results: `python experiments/reacquisition_tax/table.py [OUTPUT]`."""

import json
import sys
from math import isnan
from pathlib import Path

import pandas as pd

import harness
from harness.analysis.measures import METRICS, Cell, Metric, add_measures, estimate_cell, estimate_change

SESSION_TOKENS, WINDOW_TOKENS = 30_000, 60_000
"""Length of a session without compaction, from which the degree of compression is counted, and the window."""
VISIBLE = "always visible"
KEYS = ["agent", "world", "policy", "compression"]
POLICIES = ("full history", "sliding", "fact-preserving", "oracle-restore")


def make_amount(name: str, column: str, unit: str) -> Metric:
    """Return a metric of the table of trials that is an amount of at least 0."""
    return Metric(
        name=name, column=column, label=name, unit=unit, kind="amount", is_higher_better=False, description=f"Column {column}."
    )


LOOK_UPS = make_amount("look-ups", "retrieval_calls", "calls")
COUNTS = (
    METRICS["score"],
    LOOK_UPS,
    make_amount("reacquired", "reacquisitions", "calls"),
    make_amount("reacquired tokens", "reacquired_tokens", "tokens"),
    make_amount("compactions", "compactions", ""),
)
RATES = (
    make_amount("reacquired per compaction", "reacquisitions_per_compaction", "calls"),
    make_amount("tokens per compaction", "reacquired_tokens_per_compaction", "tokens"),
    make_amount("reacquired per 1,000 evicted tokens", "per_evicted_thousand", "calls"),
    make_amount("tokens per evicted token", "thrash_ratio", ""),
)


def label_trials(results: harness.Results) -> pd.DataFrame:
    """Return the trials with agent, world, policy and degree of compression in words."""
    trials = add_measures(results)
    labels = [label_trial(json.loads(text)) for text in trials["config_json"]]
    return trials.assign(
        per_evicted_thousand=1_000 * trials["reacquisitions_per_evicted_token"],
        **{name: [label[place] for label in labels] for place, name in enumerate(KEYS)},
    )


def label_trial(trial: dict[str, dict[str, float]]) -> tuple[str, str, str, float]:
    """Return the labels of a trial, given its configuration, in the order of `KEYS`."""
    world, policy = trial["world"], trial["policy"]
    is_visible = world["redundancy"] > 1
    compression = round(SESSION_TOKENS / (policy["threshold"] * WINDOW_TOKENS)) if "threshold" in policy else 1
    if policy["kind"] == "paced":
        name = "fact-preserving" if policy.get("summarize", True) else "sliding"
    else:
        name = "oracle-restore" if policy["kind"] == "oracle" else "full history"
    agent = str(trial["model"]).partition(":")[2]
    return agent, VISIBLE if is_visible else f"{world['recoverable_share']:g} on pages", name, compression


def estimate(trials: pd.DataFrame, metrics: tuple[Metric, ...]) -> pd.DataFrame:
    """Return means over the instances with 95 % intervals, by agent, world, policy and compression."""
    rows = {}
    for key, group in trials.groupby(KEYS):
        rows[key] = {metric.name: format_cell(estimate_cell(group, metric)) for metric in metrics}
        if METRICS["score"] in metrics:
            rows[key] = {"completed": f"{int(group['success'].sum())} of {len(group)}", **rows[key]}
    return sort(pd.DataFrame.from_dict(rows, orient="index"))


def compare(trials: pd.DataFrame) -> pd.DataFrame:
    """Return score minus that of full history, and look-ups divided by those of full history, with 95 % intervals."""
    rows = {}
    for (agent, world), group in trials.groupby(["agent", "world"]):
        baseline = group[group["policy"] == POLICIES[0]]
        for (policy, compression), arm in group[group["policy"] != POLICIES[0]].groupby(["policy", "compression"]):
            changes = {metric.name: (metric, estimate_change(arm, baseline, metric)) for metric in (METRICS["score"], LOOK_UPS)}
            rows[agent, world, policy, compression] = {
                name: f"{metric.format_effect(effect)} {metric.format_change_interval(*effect.interval)}"
                for name, (metric, effect) in changes.items()
            }
    return sort(pd.DataFrame.from_dict(rows, orient="index"))


def format_cell(cell: Cell) -> str:
    """Return a mean with its interval; a dash if no trial has a value, and the number alone if there is no interval."""
    if not cell.n:
        return "–"
    digits = 0 if cell.value >= 100 else 1 if cell.value >= 10 else 2
    bounds = "" if isnan(cell.low) else f" [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
    return f"{cell.value:.{digits}f}{bounds}"


def sort(table: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by agent, world, policy from full history to oracle-restore, and compression."""
    table.index = pd.MultiIndex.from_tuples(table.index, names=KEYS)
    order = sorted(table.index, key=lambda key: (key[0], key[1], POLICIES.index(key[2]), key[3]))
    return table.reindex(order)


def main(output: Path) -> None:
    """Print all tables."""
    trials = label_trials(harness.load(output))
    for table in (estimate(trials, COUNTS), compare(trials), estimate(trials[trials["compactions"] > 0], RATES)):
        print(table.to_string(), end="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
