"""Runs the twins of this experiment and writes its tables: `python experiments/fork_at_boundary/twins.py [WORKERS]`.

Of each trial, up to `EVENTS_PER_TRIAL` compactions are drawn at random. `harm.csv` has one row per twin, `probes.csv` one row per
drawn compaction and fact, and `events.csv` one row per drawn compaction with what the session looked like before it.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pandas as pd

import harness
from harness.inspection.session_task import build_stored_autopsy

FOLDER = Path(__file__).parent
EVENTS_PER_TRIAL = 2
REPETITIONS = 2
"""Twins in each arm with later compactions off; with the policy active, there is one."""
ALONE = ("as it was", "not compacted", "facts put back", "control text", "as it was again")
"""Arms with later compactions off and the window lifted."""
ACTIVE = ALONE[:4]
"""Arms with the policy active after the compaction."""
RECENT_STEPS = 10
"""Number of steps before a compaction whose calls describe the recent history."""
RECENT = ("call_errors", "is_redundant", "is_reacquisition")
"""Columns of the table of steps, summed over these steps."""


def draw_events(results: harness.Results) -> list[tuple[str, int]]:
    """Return trial id and number of each drawn compaction."""
    applied = results.compactions[results.compactions.status == "applied"]
    events = []
    for trial_id, rounds in applied.groupby("trial_id")["round"]:
        numbers = sorted(set(rounds))
        events += [(trial_id, number) for number in sorted(Random(trial_id).sample(numbers, min(EVENTS_PER_TRIAL, len(numbers))))]
    return events


def run_event(output: Path, cache: Path, event: tuple[str, int]) -> pd.DataFrame:
    """Return the twins of one compaction, one row per twin."""
    results, (trial_id, number) = harness.load(output), event
    tables = []
    for is_active, arms, repetitions in ((False, ALONE, REPETITIONS), (True, ACTIVE, 1)):
        twins = results.twins(trial_id, number, arms, repetitions=repetitions, later_compactions=is_active, cache_folder=cache)
        failed = [len(run.failed_checks) for run in twins.runs]
        tables.append(twins.table.assign(failed_checks=failed, trial_id=trial_id, round=number, later_compactions=is_active))
    return pd.concat(tables, ignore_index=True)


def describe_events(results: harness.Results, events: pd.DataFrame) -> pd.DataFrame:
    """Return for each drawn compaction its sizes in tokens, sums over the steps before, and failed checks that rest on it."""
    columns = ["trial_id", "round", "step", "tokens_before", "tokens_after"]
    table = events.merge(results.compactions.loc[results.compactions.status == "applied", columns], on=["trial_id", "round"])
    for row in table.itertuples():
        is_recent = results.steps.step.between(row.step - RECENT_STEPS, row.step - 1)
        steps = results.steps[is_recent & (results.steps.trial_id == row.trial_id)]
        for name in RECENT:
            table.loc[row.Index, f"recent_{name}"] = steps[name].sum()
        autopsy = build_stored_autopsy(harness.find_session(row.trial_id, results.output))
        table.loc[row.Index, "failed_checks"] = len(autopsy.find_compaction(row.round).failed_checks)
    return table


def main(workers: int) -> None:
    """Run the twins and write the tables."""
    output, cache = FOLDER / "output", FOLDER / "output" / "actions"
    results = harness.load(output)
    trials = results.trials[["trial_id", "task", "seed", "score", "success", "steps"]]
    events = draw_events(results)
    with ProcessPoolExecutor(workers) as executor:
        harm = pd.concat(executor.map(partial(run_event, output, cache), events), ignore_index=True)
    keys = ["trial_id", "round"]
    drawn = pd.DataFrame(events, columns=keys).merge(trials[["trial_id", "task", "seed"]], on="trial_id")
    names = dict(zip(trials.trial_id, trials.task + "/" + trials.seed.astype(str), strict=True))
    for name, table in (
        ("harm", harm.merge(drawn, on=keys)),
        ("probes", results.probes.merge(drawn, on=keys)),
        ("events", describe_events(results, drawn)),
    ):
        table["session"] = table["trial_id"].map(names)
        table.drop(columns="trial_id").to_csv(FOLDER / f"{name}.csv", index=False)
    print(f"{len(events)} compactions, {len(harm)} twins")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
