"""Alerts of all trials or sessions of results, and the report's section on them; `harness.metrics.alerts` defines the alerts."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import TypeAlias

import numpy as np
import pandas as pd

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.formatting import Section, format_usd, make_arm_section
from harness.analysis.tables import Tables, select
from harness.errors import format_count
from harness.metrics.alerts import ALERTS, CACHE_HIT_RATE, SUMMARIZATION_COST, Alert, AlertMonitor, AlertReading

_STEP_COLUMNS = ("step", "model_seconds", "tool_seconds")
_TRIAL_COLUMNS = ("trial_id", "arm", "cache_hit_share", "cache_hits_simulated")
_SUMMARY_NUMBERS = ("step", "summarizer_seconds", "summarizer_cost_usd")
_COMPACTION_COLUMNS = ("event", *_SUMMARY_NUMBERS)

_ALERT_NOTE = (
    "Overflow rate: summaries per model call, in any 5 minutes of a trial. Cache hits: share of the prompt tokens of a trial "
    "that came from a cache. Summaries: US dollars for summaries in any hour of a trial."
)
_SIMULATED_NOTE = (
    "Where the provider reports no cache, cache hits are simulated: the share of each request that repeats the one before."
)
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
    steps_by_trial = _split_by_trial(results.steps, _STEP_COLUMNS, "step")
    summaries = compactions[wrote_summary]
    asked = summaries["summarizer"] != ""
    summaries = summaries.assign(summarizer_cost_usd=summaries["summarizer_cost_usd"].where(asked, 0.0))
    summaries_by_trial = _split_by_trial(summaries, _COMPACTION_COLUMNS, "event")
    no_summaries = {name: summaries[name].to_numpy()[:0] for name in _COMPACTION_COLUMNS}
    rows = [
        (trial_id, arm, alert.name, value, alert.threshold, reading.fires, step, simulated)
        for trial_id, arm, hit_share, hits_simulated in zip(*(results.trials[name] for name in _TRIAL_COLUMNS), strict=True)
        if trial_id in steps_by_trial
        for reading in (
            *_evaluate_trial(steps_by_trial[trial_id], summaries_by_trial.get(trial_id, no_summaries)),
            AlertReading(CACHE_HIT_RATE, hit_share, None, pd.notna(hits_simulated) and bool(hits_simulated)),
        )
        for alert, value, step, simulated in [reading]
    ]
    table = pd.DataFrame(rows, columns=list(_ALERT_COLUMNS))
    return table.astype({"value": "float64", "fired": "bool", "step": "Int64", "simulated": "bool"})


Columns: TypeAlias = Mapping[str, np.ndarray]
"""Values of some columns for the rows of one trial, by the name of the column."""


def _split_by_trial(table: pd.DataFrame, names: Sequence[str], order: str) -> dict[str, Columns]:
    """Split some columns of a table by trial; return the values of each column as an array, by trial id.

    Rows without a trial are left out. The rows of each trial are sorted by the column `order`.
    """
    ordered = table.loc[table["trial_id"].notna(), ["trial_id", *names]].sort_values(["trial_id", order], kind="stable")
    trial_ids, columns = ordered["trial_id"].to_numpy(), {name: ordered[name].to_numpy() for name in names}
    changes = np.flatnonzero(trial_ids[1:] != trial_ids[:-1]) + 1
    return {
        str(trial_ids[start]): {name: values[start:end] for name, values in columns.items()}
        for start, end in pairwise([0, *changes, len(trial_ids)])
        if start < end
    }


def _evaluate_trial(steps: Columns, summaries: Columns) -> Iterator[AlertReading]:
    """Yield the worst value of each alert about summaries in one trial."""
    monitor, waiting = AlertMonitor(), deque(zip(*(summaries[name].tolist() for name in _SUMMARY_NUMBERS), strict=True))

    def add_summaries(until: float) -> None:
        while waiting and waiting[0][0] <= until:
            _, seconds, cost_usd = waiting.popleft()
            monitor.add_summary(seconds, cost_usd)

    for step, model_seconds, tool_seconds in zip(*(steps[name].tolist() for name in _STEP_COLUMNS), strict=True):
        add_summaries(step)
        monitor.add_step(step, model_seconds + tool_seconds)
    add_summaries(inf)
    yield from monitor.read_summaries()


def build_alert_sections(results: Tables) -> Iterator[Section]:
    """Yield the report's section on monitoring alerts: fired alerts, cache savings and pruning times by arm.

    Excluded trials are left out. Nothing is yielded if no trial has steps.
    """
    trials = select_valid(results.trials)
    alert_table = evaluate_alerts(select(results, trials))
    if alert_table.empty:
        return
    shown_arms = set(alert_table["arm"])
    yield make_arm_section(
        "Monitoring: number of trials in which an alert would fire, and the worst value",
        ("n", *(alert.label for alert in ALERTS), "cache saved USD", "could save", "pruning ms"),
        {
            arm: _format_row(alert_table[alert_table["arm"] == arm], trials[trials["arm"] == arm])
            for arm in order_arms(trials)
            if arm in shown_arms
        },
        (
            _ALERT_NOTE,
            *([_SIMULATED_NOTE] if alert_table["simulated"].any() else []),
            "Cache saved: as the provider reports. Could save: USD with a cache that forgets nothing. Pruning: mean time.",
            *_describe_fired_alerts(alert_table),
        ),
    )


def _format_row(alert_table: pd.DataFrame, trials: pd.DataFrame) -> Iterator[str]:
    yield str(alert_table["trial_id"].nunique())
    for alert in ALERTS:
        alert_rows = alert_table[alert_table["alert"] == alert.name]
        worst = alert_rows["value"].max() if alert.fires_above else alert_rows["value"].min()
        yield f"{int(alert_rows['fired'].sum())}, {_format_value(alert, float(worst))}"
    yield format_usd(float(trials["cache_saved_usd"].sum(min_count=1)))
    yield format_usd(float(trials["cache_could_save_usd"].sum(min_count=1)))
    pruned, took = trials["prunings"].sum(), trials["pruning_seconds"].sum(min_count=1)
    yield "" if not pruned or pd.isna(took) else f"{1000 * float(took) / int(pruned):.1f}"


def _format_value(alert: Alert, value: float) -> str:
    return format_usd(value) if alert is SUMMARIZATION_COST else "?" if np.isnan(value) else f"{100 * value:.1f} %"


def _describe_fired_alerts(alert_table: pd.DataFrame) -> Iterator[str]:
    for alert in ALERTS:
        off = alert_table[(alert_table["alert"] == alert.name) & alert_table["fired"]]
        if len(off):
            worst = ", ".join(f"{arm} ({count})" for arm, count in off["arm"].value_counts().head(3).items())
            where = f"in {format_count(len(off), 'trial')}, mostly of {worst}"
            yield f"{alert.severity}, {alert.name}: {alert.condition_text} {where}; {alert.advice}."
