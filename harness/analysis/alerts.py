"""Alerts of all trials or sessions of results; `harness.metrics.alerts` defines the alerts."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import TypeAlias

import numpy as np
import pandas as pd

from harness.analysis.tables import Tables, iterate_parts, iterate_trials
from harness.metrics.alerts import CACHE_HIT_RATE, AlertMonitor, AlertReading

_STEP_COLUMNS = ("step", "model_seconds", "tool_seconds")
_TRIAL_COLUMNS = ("trial_id", "arm", "cache_hit_share", "cache_hits_simulated")
_SUMMARY_NUMBERS = ("step", "summarizer_seconds", "summarizer_cost_usd")

_ALERT_COLUMNS = ("trial_id", "arm", "alert", "value", "threshold", "fired", "step", "simulated")


def evaluate_alerts(results: Tables) -> pd.DataFrame:
    """Evaluate every monitoring alert, such as a low cache hit rate, on every trial.

    An alert measures a value in each period of a session, for example in every 5 minutes.

    Returns:
        One row per trial and alert with these columns:

        - `trial_id`, `arm` and `alert`: Names of the trial, of its arm and of the alert.
        - `value`: Worst value of all periods; NaN if unknown.
        - `threshold`: Value beyond which the alert fires.
        - `fired`: Whether the worst value is beyond the threshold.
        - `step`: Number of the last model call in the worst period; missing if there is none.
        - `simulated`: Whether a cache was simulated because the provider reports none.
    """
    compactions = results.compactions
    wrote_summary = (compactions["summarizer"] != "") | ((compactions["status"] == "applied") & (compactions["inserted"] > 0))
    summaries = compactions[wrote_summary]
    has_call = summaries["summarizer"] != ""
    summaries = summaries.assign(summarizer_cost_usd=summaries["summarizer_cost_usd"].where(has_call, 0.0))
    no_summaries = {name: summaries[name].to_numpy()[:0] for name in _SUMMARY_NUMBERS}
    readings: dict[str, tuple[AlertReading, ...]] = {}
    for part in iterate_parts(results, "steps", ("trial_id", *_STEP_COLUMNS)):
        own = summaries[summaries["trial_id"].isin(part["trial_id"].unique())]
        summaries_by_trial = dict(_split_by_trial(own, _SUMMARY_NUMBERS, "event"))
        for trial_id, steps in _split_by_trial(part, _STEP_COLUMNS, "step"):
            readings[trial_id] = tuple(_evaluate_trial(steps, summaries_by_trial.get(trial_id, no_summaries)))
    rows = [
        (trial_id, arm, alert.name, value, alert.threshold, reading.fires, step, simulated)
        for trial_id, arm, hit_share, hits_simulated in zip(*(results.trials[name] for name in _TRIAL_COLUMNS), strict=True)
        if trial_id in readings
        for reading in (
            *readings[trial_id],
            AlertReading(CACHE_HIT_RATE, hit_share, None, pd.notna(hits_simulated) and bool(hits_simulated)),
        )
        for alert, value, step, simulated in [reading]
    ]
    table = pd.DataFrame(rows, columns=list(_ALERT_COLUMNS))
    return table.astype({"value": "float64", "fired": "bool", "step": "Int64", "simulated": "bool"})


Columns: TypeAlias = Mapping[str, np.ndarray]
"""Values of some columns for the rows of one trial, by the name of the column."""


def _split_by_trial(table: pd.DataFrame, names: Sequence[str], order: str) -> Iterator[tuple[str, Columns]]:
    """Yield the id of each trial with the values of some columns in its rows, sorted by the column `order`."""
    for rows in iterate_trials(table, names, order):
        trial_ids, columns = rows["trial_id"].to_numpy(), {name: rows[name].to_numpy() for name in names}
        changes = np.flatnonzero(trial_ids[1:] != trial_ids[:-1]) + 1
        for start, end in pairwise([0, *changes, len(trial_ids)]):
            yield str(trial_ids[start]), {name: values[start:end] for name, values in columns.items()}


def _evaluate_trial(steps: Columns, summaries: Columns) -> Iterator[AlertReading]:
    """Yield the worst value of each alert about summaries in one trial."""
    monitor, waiting = AlertMonitor(), deque(zip(*(summaries[name].tolist() for name in _SUMMARY_NUMBERS), strict=True))

    def add_summaries(end: float) -> None:
        while waiting and waiting[0][0] <= end:
            _, seconds, cost_usd = waiting.popleft()
            monitor.add_summary(seconds, cost_usd)

    for step, model_seconds, tool_seconds in zip(*(steps[name].tolist() for name in _STEP_COLUMNS), strict=True):
        add_summaries(step)
        monitor.add_step(step, model_seconds + tool_seconds)
    add_summaries(inf)
    yield from monitor.read_summaries()
