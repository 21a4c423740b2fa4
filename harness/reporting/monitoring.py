"""Sections of the report on how sessions ran: monitoring alerts with cache savings, and the time that the harness adds."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from harness.analysis.alerts import evaluate_alerts
from harness.analysis.arms import order_arms, select_valid
from harness.analysis.formatting import format_usd
from harness.analysis.overhead import OVERHEAD_PARTS, measure_overhead
from harness.analysis.tables import Tables, select
from harness.errors import format_count
from harness.metrics.alerts import ALERTS, SUMMARIZATION_COST, Alert
from harness.reporting.section import Section, make_arm_section
from harness.text import format_percent

_ALERT_NOTE = (
    "Overflow rate: summaries per model call, in any 5 minutes of a trial. Cache hits: share of the prompt tokens of a trial "
    "that came from a cache. Summaries: US dollars for summaries in any hour of a trial."
)
_SIMULATED_NOTE = (
    "Where the provider reports no cache, cache hits are simulated: the share of each request that repeats the one before."
)
_OVERHEAD_NOTE = (
    "Mean wall time of the parts of a step on the machine that ran it; total: their sum. Planning: asking the policy, whether or "
    "not anything was due. Compaction: carrying out plans, without waiting for the summarizer. Snapshots are only taken in "
    "sessions that can be reopened. Pruning: mean of one compaction that inserts nothing, planning included."
)


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
    return format_usd(value) if alert is SUMMARIZATION_COST else "?" if np.isnan(value) else format_percent(value, 1)


def _describe_fired_alerts(alert_table: pd.DataFrame) -> Iterator[str]:
    for alert in ALERTS:
        off = alert_table[(alert_table["alert"] == alert.name) & alert_table["fired"]]
        if len(off):
            worst = ", ".join(f"{arm} ({count})" for arm, count in off["arm"].value_counts().head(3).items())
            trials_text = f"in {format_count(len(off), 'trial')}, mostly of {worst}"
            yield f"{alert.severity}, {alert.name}: {alert.condition_text} {trials_text}; {alert.advice}."


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
        yield make_arm_section("Overhead of the harness, milliseconds per step", ("steps", *names), rows, (_OVERHEAD_NOTE,))


def _format_ms(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.2f}"
