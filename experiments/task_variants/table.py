"""Print the tables of the README from the results in a folder.

Use: `python experiments/task_variants/table.py experiments/task_variants/output`
"""

import sys

import pandas as pd

import harness

ADDED = {
    "changing-requirements-skill": ("seal", "register", "imprint"),
    "changing-requirements-delegation": ("assessment_number", "speed_limit", "axle_load"),
}
"""Checks that a variant adds, by task; of the variant with images, these are the checks of bays."""


def is_added(task: str, check: str) -> bool:
    """Return whether a check depends on what a variant adds to its task."""
    return check in ADDED.get(task, ()) or (task not in ADDED and check.startswith("bay_"))


def make_tables(folder: str) -> dict[str, pd.DataFrame]:
    """Return the tables by title, with one row for each arm and one column for each task."""
    results = harness.load(folder)
    trials = results.trials.assign(full=results.trials["reason"] == "overflow")
    checks = results.checks.merge(trials[["trial_id", "arm", "task"]], on="trial_id")
    rows = [is_added(task, check) for task, check in zip(checks["task"], checks["check"], strict=True)]

    def pivot(rows: pd.DataFrame, values: str, how: str) -> pd.DataFrame:
        return rows.pivot_table(index="arm", columns="task", values=values, aggfunc=how, sort=False)

    return {
        "mean score": pivot(trials, "score", "mean"),
        "share of the added checks passed": pivot(checks[rows], "passed", "mean"),
        "sessions that ended in a full window": pivot(trials, "full", "sum"),
        "looked up again, calls": pivot(trials.astype({"reacquisitions": float}), "reacquisitions", "mean"),
        "simulated cost, USD": pivot(trials, "cost_usd", "mean"),
    }


if __name__ == "__main__":
    for title, table in make_tables(sys.argv[1]).items():
        print(f"\n{title}\n{table.round(2).rename(columns=lambda name: name.removeprefix('changing-requirements-')).to_string()}")
