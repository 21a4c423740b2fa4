"""Time that the harness itself adds to a step, in parts that can be added up.

The parts are columns of the table of steps: truncation, planning, compaction, snapshots and writing. They are wall times of this
machine, also where the time of the models is virtual.
"""

from collections.abc import Sequence
from typing import get_args

import numpy as np
import pandas as pd

from harness.analysis.tables import Tables, iterate_parts
from harness.conversation.overhead import OverheadPart

OVERHEAD_PARTS: tuple[OverheadPart, ...] = get_args(OverheadPart)


def measure_overhead(results: Tables) -> pd.DataFrame:
    """Return the mean time that each part of the work of the harness takes in a step, one row per arm.

    Steps without measured times, as in recordings and old journals, are left out, and so are sub-agents.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm | str | |
    | steps | int | number of steps with measured times |
    | truncation_ms, planning_ms, compaction_ms, snapshot_ms, writing_ms | float | milliseconds, mean of the steps |
    | total_ms | float | milliseconds, sum of the five means |
    | pruning_ms | float | milliseconds, mean of the compactions that inserted nothing; NaN if there are none |
    """
    columns = [f"{part}_seconds" for part in OVERHEAD_PARTS]
    arms = results.trials[["trial_id", "arm"]]  # joined experiments may share a trial, which then belongs to several arms
    parts = iterate_parts(results, "steps", ("trial_id", *columns))
    sums = pd.concat([_sum_by_trial(rows, columns) for rows in parts] or [pd.DataFrame(columns=["trial_id", "steps", *columns])])
    totals = arms.merge(sums, on="trial_id").groupby("arm")[["steps", *columns]].sum()
    means = totals[columns].mul(1_000).div(totals["steps"], axis=0)
    table = means.set_axis([f"{part}_ms" for part in OVERHEAD_PARTS], axis=1)
    is_pruning = (results.compactions["status"] == "applied") & (results.compactions["inserted"] == 0)
    pruned = arms.merge(results.compactions.loc[is_pruning, ["trial_id", "wall_seconds"]], on="trial_id")
    table.insert(0, "steps", totals["steps"])
    table["total_ms"] = table[[f"{part}_ms" for part in OVERHEAD_PARTS]].sum(axis=1)
    table["pruning_ms"] = 1_000 * pruned.groupby("arm")["wall_seconds"].mean().reindex(table.index)
    return table.rename_axis("arm").reset_index()


def _sum_by_trial(steps: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the sums of columns, and the number of steps, over the steps of each trial in which all columns have values.

    Single columns are used, since a copy of millions of steps takes much memory.
    """
    trials, trial_ids = pd.factorize(steps["trial_id"])
    is_measured = trials >= 0
    for name in columns:
        is_measured &= steps[name].notna().to_numpy()
    rows = trials[is_measured]
    counts = np.bincount(rows, minlength=len(trial_ids))
    sums = {name: np.bincount(rows, steps[name].to_numpy(dtype=float)[is_measured], minlength=len(trial_ids)) for name in columns}
    return pd.DataFrame({"trial_id": trial_ids, "steps": counts, **sums})[counts > 0]
