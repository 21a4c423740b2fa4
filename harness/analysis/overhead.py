"""Time that the harness itself adds to a step, in parts that can be added up, and the report's section on it.

The parts are columns of the table of steps: truncation, planning, compaction, snapshots and writing. They are wall times of this
machine, also where the time of the models is virtual.
"""

from collections.abc import Iterator
from typing import get_args

import pandas as pd

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.formatting import Section, make_arm_section
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
    arms = results.trials.set_index("trial_id")["arm"]
    steps = results.steps[["trial_id", *columns]].dropna()
    means = 1_000 * steps.groupby(steps["trial_id"].map(arms))[columns].mean()
    table = means.set_axis([f"{part}_ms" for part in OVERHEAD_PARTS], axis=1)
    pruned = results.compactions.query("status == 'applied' and inserted == 0")
    table.insert(0, "steps", steps["trial_id"].map(arms).value_counts())
    table["total_ms"] = table[[f"{part}_ms" for part in OVERHEAD_PARTS]].sum(axis=1)
    table["pruning_ms"] = 1_000 * pruned.groupby(pruned["trial_id"].map(arms))["wall_seconds"].mean().reindex(table.index)
    return table.rename_axis("arm").reset_index()


_NOTE = (
    "Mean wall time of the parts of a step on the machine that ran it; total: their sum. Planning: asking the policy, whether or "
    "not anything was due. Compaction: carrying out plans, without waiting for the summarizer. Snapshots are only taken in "
    "sessions that can be reopened. Pruning: mean of one compaction that inserts nothing, planning included."
)


def build_overhead_section(results: Tables) -> Iterator[Section]:
    """Yield the report's section on the time that the harness adds to a step; nothing if no times were measured."""
    trials = select_valid(results.trials)
    table = measure_overhead(results).set_index("arm")
    names = [*OVERHEAD_PARTS, "total", "pruning"]
    rows = {
        arm: (str(int(row["steps"])), *(_format_ms(float(row[f"{name}_ms"])) for name in names))
        for arm in order_arms(trials)
        if arm in table.index
        for row in [table.loc[arm]]
    }
    if rows:
        yield make_arm_section("Overhead of the harness, milliseconds per step", ("steps", *names), rows, (_NOTE,))


def _format_ms(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.2f}"
