"""Time that the harness itself adds to a step, in parts that can be added up.

The parts are columns of the table of steps: truncation, planning, compaction, snapshots and writing. They are wall times of this
machine, also where the time of the models is virtual.
"""

from typing import get_args

import pandas as pd

from harness.analysis.tables import Tables
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
    steps = arms.merge(results.steps[["trial_id", *columns]].dropna(), on="trial_id")
    means = 1_000 * steps.groupby("arm")[columns].mean()
    table = means.set_axis([f"{part}_ms" for part in OVERHEAD_PARTS], axis=1)
    pruned = arms.merge(results.compactions.query("status == 'applied' and inserted == 0"), on="trial_id")
    table.insert(0, "steps", steps["arm"].value_counts())
    table["total_ms"] = table[[f"{part}_ms" for part in OVERHEAD_PARTS]].sum(axis=1)
    table["pruning_ms"] = 1_000 * pruned.groupby("arm")["wall_seconds"].mean().reindex(table.index)
    return table.rename_axis("arm").reset_index()
