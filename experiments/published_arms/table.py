"""Prints the tables of this experiment from its results: `python experiments/published_arms/table.py [OUTPUT]`."""

import json
import sys
from pathlib import Path

import pandas as pd
from scipy.stats import rankdata

import harness
from harness.analysis.measures import METRICS, add_measures, estimate_cell

ARMS = ("raw", "summary N = 21", "masking 72", "masking 10")
PUBLISHED = pd.DataFrame(
    {"success": (0.346, 0.372, 0.364, 0.234), "steps": (78.3, 105.8, 85.9, 177.6), "cost": (2.31, 1.14, 1.71, 1.21)}, index=ARMS
)
"""Success rate, mean number of turns and mean cost in US dollars of OpenHands with Gemini 2.5 Flash on 500 tasks.

Source: The Complexity Trap (arXiv 2508.21433), released table `experiment_instance_costs_openhands.csv`.
"""
SUMMARIZERS = ("scripted/survival:constraints-rounds", "scripted/extractive")
METRIC_NAMES = ("success", "score", "steps", "cost")


def label_trial(trial: dict[str, dict[str, object]]) -> tuple[str, str, str]:
    """Return agent, policy and summarizer of a trial, given its configuration; no summarizer is empty."""
    policy = trial["policy"]
    agent = str(trial["model"]).partition(":")[2]
    if policy["kind"] == "complexity-trap-mask":
        return agent, f"masking {policy.get('keep_results', 10)}", ""
    return (agent, "raw", "") if policy["kind"] == "none" else (agent, ARMS[1], str(policy["summarizer"]))


def label_trials(results: harness.Results) -> pd.DataFrame:
    """Return the trials with the columns `agent`, `policy_name` and `summarizer`."""
    trials = add_measures(results)
    labels = [label_trial(json.loads(text)) for text in trials["config_json"]]
    return trials.assign(
        **{name: [label[place] for label in labels] for place, name in enumerate(("agent", "policy_name", "summarizer"))}
    )


def estimate(trials: pd.DataFrame) -> pd.DataFrame:
    """Return means over the tasks with 95 % intervals, by agent, policy and summarizer."""
    rows = {}
    for key, group in trials.groupby(["agent", "policy_name", "summarizer"]):
        cells = {name: estimate_cell(group, METRICS[name]) for name in METRIC_NAMES}
        rows[key] = {name: f"{cell.value:.2f} [{cell.low:.2f}, {cell.high:.2f}]" for name, cell in cells.items()}
        rows[key]["step limit"] = f"{int((group['reason'] == 'max_steps').sum())} of {len(group)}"
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["agent", "policy", "summarizer"])
    return table.reindex(sorted(table.index, key=lambda key: (key[0], ARMS.index(key[1]), key[2])))


def correlate(trials: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's rank correlation with the published table over the four arms, by agent, summarizer and metric.

    Success and score are compared with the published success rate. Ties get their mean rank; without any difference between the
    arms there is no correlation.
    """
    rows = {}
    for agent, group in trials.groupby("agent"):
        for summarizer in SUMMARIZERS:
            arms = group[group["summarizer"].isin(["", summarizer])]
            row = {}
            for name in METRIC_NAMES:
                means = arms.groupby(["policy_name", "task"])[METRICS[name].column].mean().groupby(level=0).mean().reindex(ARMS)
                row[name] = _correlate_ranks(means, PUBLISHED["success" if name == "score" else name])
            rows[agent, summarizer] = row
    return pd.DataFrame.from_dict(rows, orient="index").round(2)


def _correlate_ranks(a: pd.Series, b: pd.Series) -> float:
    # ranks of values that agree up to rounding errors are equal
    return float(pd.Series(rankdata(a.astype(float).round(9))).corr(pd.Series(rankdata(b))))


def main(output: Path) -> None:
    """Print all tables."""
    trials = label_trials(harness.load(output))
    for table in (PUBLISHED, estimate(trials), correlate(trials)):
        print(table.to_string(), end="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
