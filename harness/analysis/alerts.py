"""Alerts of the kind that monitors a production service, evaluated on every trial of an experiment.

Each trial has its own clock: the time of its model calls, tools and summaries, which is virtual for a scripted model. Therefore
alerts do not depend on how many trials run at once.

- *overflow rate*: fires if the number of summaries within 5 minutes exceeds 10 % of the number of model calls. Each window of 5
  minutes ends with a model call; a session shorter than 5 minutes is one window.
- *cache hit rate*: fires if the provider read less than 70 % of a session's prompt tokens from its cache, as the column
  `cache_hit_share` of the table of trials says. If the provider reports no cache, the value is simulated and marked as such.
- *summarization cost*: fires if summaries cost more than 10 US dollars within one hour.

A value equal to the threshold does not fire an alert.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.formatting import Section, format_usd, make_arm_section
from harness.analysis.tables import Tables, select
from harness.errors import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Alert that fires if a measured value of a session crosses a threshold, with advice on the cause."""

    name: str
    label: str
    """Heading of the alert's column in the report."""
    severity: Literal["warning", "critical"] = "warning"
    threshold: float
    fires_above: bool = True
    """Whether the alert fires if the measured value is above its threshold (True) or below it (False)."""
    window_seconds: float = inf
    """Length of the time window over which the value is measured, in seconds; infinity means the whole session."""
    condition_text: str
    advice: str

    def should_fire(self, value: float) -> bool:
        """Return whether the alert fires for a measured value; False for an unknown value (NaN)."""
        return value > self.threshold if self.fires_above else value < self.threshold


OVERFLOW_RATE = Alert(
    name="overflow rate",
    label="overflow rate > 10 %",
    threshold=0.1,
    window_seconds=300.0,
    condition_text="a summary before more than 10 % of the model calls within 5 minutes",
    advice="check the thresholds of pruning and what fills the context",
)
CACHE_HIT_RATE = Alert(
    name="cache hit rate",
    label="cache hits < 70 %",
    threshold=0.7,
    fires_above=False,
    condition_text="less than 70 % of the prompt tokens read from a cache",
    advice="check what changes early in the requests, such as the system prompt or masking at every step",
)
SUMMARIZATION_COST = Alert(
    name="summarization cost",
    label="summaries > $10/h",
    severity="critical",
    threshold=10.0,
    window_seconds=3600.0,
    condition_text="more than $10 for summaries within one hour",
    advice="check how often summaries are written, and by which model",
)
ALERTS = (OVERFLOW_RATE, CACHE_HIT_RATE, SUMMARIZATION_COST)
_STEP_COLUMNS = ("step", "model_seconds", "tool_seconds")
_TRIAL_COLUMNS = ("trial_id", "arm", "cache_hit_share", "cache_hits_simulated")
_COMPACTION_COLUMNS = ("event", "step", "summarizer_seconds", "summarizer_cost_usd")

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

        - `trial_id`, `arm` and `alert`: Names of the trial, of its arm (configuration) and of the alert.
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
    summaries_by_trial = _split_by_trial(summaries, _COMPACTION_COLUMNS, "event")
    no_summaries = {name: summaries[name].to_numpy()[:0] for name in _COMPACTION_COLUMNS}
    rows = [
        (trial_id, arm, alert.name, value, alert.threshold, alert.should_fire(value), step, simulated)
        for trial_id, arm, hit_share, hits_simulated in zip(*(results.trials[name] for name in _TRIAL_COLUMNS), strict=True)
        if trial_id in steps_by_trial
        for alert, value, step, simulated in (
            *_evaluate_trial(steps_by_trial[trial_id], summaries_by_trial.get(trial_id, no_summaries)),
            (CACHE_HIT_RATE, hit_share, None, pd.notna(hits_simulated) and bool(hits_simulated)),
        )
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


def _evaluate_trial(steps: Columns, summaries: Columns) -> Iterator[tuple[Alert, float, int | None, bool]]:
    """Yield each alert about summaries with its worst value in one trial, the step of this value, and False."""
    numbers = steps["step"]
    step_seconds = steps["model_seconds"] + steps["tool_seconds"]
    before = np.searchsorted(numbers, summaries["step"])  # index of the model call after each summary
    summary_seconds = np.zeros(len(numbers) + 1)
    np.add.at(summary_seconds, before, summaries["summarizer_seconds"])
    ends = np.cumsum(step_seconds + summary_seconds[:-1])
    when = np.concatenate([[0.0], ends])[before] + summaries["summarizer_seconds"]
    yield OVERFLOW_RATE, *_find_worst_overflow_rate(numbers, ends, ends[np.minimum(before, len(ends) - 1)]), False
    yield SUMMARIZATION_COST, *_find_worst_summary_cost(numbers, summaries, before, when), False


def _find_worst_overflow_rate(numbers: np.ndarray, ends: np.ndarray, when: np.ndarray) -> tuple[float, int | None]:
    """Return the highest rate of summaries per model call in any time window, and the last step of this window.

    Args:
        numbers: Step number of each model call.
        ends: Time at which each model call ends, in seconds since the session started.
        when: Time at which the model call after each summary ends, in seconds since the session started.
    """
    whole = ends >= OVERFLOW_RATE.window_seconds
    whole[-1] |= not whole.any()
    last = np.flatnonzero(whole)
    since = ends[last] - OVERFLOW_RATE.window_seconds
    calls = np.searchsorted(ends, ends[last], side="right") - np.searchsorted(ends, since, side="right")
    summaries = np.searchsorted(when, ends[last], side="right") - np.searchsorted(when, since, side="right")
    rates = summaries / calls
    worst = int(np.argmax(rates))
    return float(rates[worst]), int(numbers[last[worst]])


def _find_worst_summary_cost(
    numbers: np.ndarray, summaries: Columns, before: np.ndarray, when: np.ndarray
) -> tuple[float, int | None]:
    if not len(before):
        return 0.0, None
    paid = np.concatenate([[0.0], np.cumsum(summaries["summarizer_cost_usd"])])
    since = np.searchsorted(when, when - SUMMARIZATION_COST.window_seconds, side="right")
    sums = paid[1:] - paid[since]
    if np.isnan(sums).any():
        return float("nan"), None
    worst = int(np.argmax(sums))
    return float(sums[worst]), int(numbers[min(before[worst], len(numbers) - 1)])


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
