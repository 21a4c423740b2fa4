"""Prints the tables of this experiment from its stored tables: `python experiments/fork_at_boundary/table.py`."""

from pathlib import Path

import pandas as pd

from harness.analysis.harm import (
    CONTRASTS,
    EVENT_COLUMNS,
    OUTCOMES,
    compute_harm,
    explain_harm,
    measure_concentration,
    measure_reliability,
    split_halves,
)
from harness.analysis.intervals import compute_student_bounds

FOLDER = Path(__file__).parent
SHARES = (0.1, 0.2, 0.5)
"""Shares of the compactions whose share of the harm is printed."""
KEPT = ("lost", "used_wrong", "looked_up")
"""Predictors: what the compaction kept."""
HISTORY = ("step", "tokens_before", "recent_call_errors", "recent_is_redundant", "recent_is_reacquisition")
"""Predictors: the session before the compaction."""
EVENT = list(EVENT_COLUMNS)


def count_losses(probes: pd.DataFrame) -> pd.DataFrame:
    """Return for each compaction the facts that it lost, those of them used wrong, and those looked up again."""
    lost = probes[probes.seen_before & ~probes.seen_after]
    counts = lost.assign(
        lost=1, used_wrong=lost.used.isin(["wrong", "stale"]).astype(int), looked_up=(lost.reacquisition_calls > 0).astype(int)
    )
    return counts.groupby(EVENT)[list(KEPT)].sum().reset_index()


def list_effects(twins: pd.DataFrame) -> pd.DataFrame:
    """Return the mean harm by contrast and outcome with a 95 % interval over tasks, and the SD of single pairs."""
    rows = []
    for is_active, part in twins.groupby("later_compactions"):
        for contrast, arms in CONTRASTS.items():
            if not set(arms) <= set(part.arm):
                continue
            harm = compute_harm(part, contrast).merge(twins[[*EVENT, "task"]].drop_duplicates(), on=EVENT)
            for outcome in OUTCOMES:
                by_task = harm.groupby("task")[outcome].mean()
                bounds = map(float, compute_student_bounds(by_task.to_numpy()))
                rows.append((bool(is_active), contrast, outcome, *bounds, harm[outcome].std()))
    columns = ["later compactions", "harm of", "outcome", "mean", "low", "high", "SD of pairs"]
    return pd.DataFrame(rows, columns=columns).set_index(columns[:3]).round(3)


def main() -> None:
    """Print all tables."""
    twins, probes, events = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("harm", "probes", "events"))
    alone = twins[~twins.later_compactions]
    print(f"{len(events)} compactions, {len(twins)} twins, {twins.passed.sum()} passed all checks\n")
    print(twins.groupby(["later_compactions", "arm"])[["score", "steps", "cost_usd"]].mean().round(3).to_string(), end="\n\n")
    print(list_effects(twins).to_string(), end="\n\n")
    events = events.merge(count_losses(probes), on=EVENT, how="left").fillna(dict.fromkeys(KEPT, 0))
    rows = []
    for contrast in ("the compaction", "lost facts"):
        harm = compute_harm(alone, contrast)
        for outcome in OUTCOMES:
            halves = split_halves(harm, outcome)
            row = {"harm of": contrast, "outcome": outcome, "reliability": measure_reliability(halves)}
            for share in SHARES:
                found = measure_concentration(halves, share)
                row |= {f"top {share:.0%}": found.share_of_harm, f"apparent {share:.0%}": found.apparent_share}
            for name, predictors in (("kept", KEPT), ("kept + checks", (*KEPT, "failed_checks")), ("history", HISTORY)):
                explained = explain_harm(harm, outcome, events, predictors)
                row |= {f"R² {name}": explained.held_out_r2, f"of reliable ({name})": explained.reliable_share}
            rows.append(row)
    print(pd.DataFrame(rows).set_index(["harm of", "outcome"]).round(2).T.to_string())


if __name__ == "__main__":
    main()
