"""The three alerts of a running service (S3.17), asked of an experiment: in which trials would each have gone off?

A trial is watched on its own clock: the time of its model calls, tools and summaries, which of a scripted model is virtual. So an
arm does not alarm more because many of its trials ran at once, or because simulated time flies.

- *overflow rate*: summaries per model call within 5 minutes, above 10 %. The 5 minutes end with a model call; a session that is
  shorter is one window.
- *cache hit rate*: share of the prompts that was read from the provider's cache, over the session, below 70 %. Where the provider
  reports no cache at all, the share of each request that stood in the one before it: what a cache that forgets nothing would
  have read, so an upper bound. It is marked as simulated.
- *summarization cost*: US dollars for summaries within an hour, above 10.

At the threshold itself none goes off.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from harness.analysis.arms import order_arms
from harness.analysis.formatting import Section, format_usd, make_arm_section
from harness.analysis.tables import Tables
from harness.errors import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition on a session, and what to do where it holds."""

    name: str
    label: str
    """Heading of its column in the report."""
    severity: Literal["warning", "critical"]
    threshold: float
    fires_above: bool
    """Goes off above the threshold; else below it."""
    window_seconds: float | None
    """None = over the whole session."""
    condition_text: str
    advice: str

    def should_fire(self, value: float) -> bool:
        """Whether it goes off at a value; never at one that is not known."""
        return value > self.threshold if self.fires_above else value < self.threshold


OVERFLOW_RATE = Alert(
    name="overflow rate",
    label="overflow rate > 10 %",
    severity="warning",
    threshold=0.1,
    fires_above=True,
    window_seconds=300.0,
    condition_text="a summary before more than 10 % of the model calls of 5 minutes",
    advice="look at the thresholds of pruning, and at what fills the context",
)
CACHE_HIT_RATE = Alert(
    name="cache hit rate",
    label="cache hits < 70 %",
    severity="warning",
    threshold=0.7,
    fires_above=False,
    window_seconds=None,
    condition_text="less than 70 % of the prompts read from a cache",
    advice="look at what changes early in the requests: the system prompt, masking at every step",
)
SUMMARIZATION_COST = Alert(
    name="summarization cost",
    label="summaries > $10/h",
    severity="critical",
    threshold=10.0,
    fires_above=True,
    window_seconds=3600.0,
    condition_text="more than $10 for summaries in an hour",
    advice="look at how often it is summarized, and by which model",
)
ALERTS = (OVERFLOW_RATE, CACHE_HIT_RATE, SUMMARIZATION_COST)
_STEP_COLUMNS = (
    *("trial_id", "step", "model_seconds", "tool_seconds", "cache_read_tokens", "cache_write_tokens"),
    *("kept_prefix_tokens", "view_tokens", "prompt_tokens"),
)
_COMPACTION_COLUMNS = (
    *("trial_id", "event", "step", "status", "inserted", "summarizer", "summarizer_seconds", "summarizer_cost_usd"),
)
"""Columns that the alerts look at: tables are parted by trial, which costs by the column."""


_SIMULATED_NOTE = "Cache hits are simulated, where the provider reports no cache: what requests share."
_ALERT_COLUMNS = ("trial_id", "arm", "alert", "value", "threshold", "fired", "step", "simulated")


def evaluate_alerts(results: Tables) -> pd.DataFrame:
    """One row for each trial and alert.

    Columns: `trial_id`, `arm`, `alert`, `value` (the worst of the session; NaN: not known), `threshold`, `fired`, `step` (the
    model call at which the worst window ends; missing: none) and `simulated`.
    """
    steps_by_trial = dict(tuple(results.steps[[*_STEP_COLUMNS]].groupby("trial_id")))
    compactions = results.compactions[[*_COMPACTION_COLUMNS]]
    compactions_by_trial = dict(tuple(compactions.groupby("trial_id")))
    rows = [
        (trial_id, arm, alert.name, value, alert.threshold, alert.should_fire(value), step, simulated)
        for trial_id, arm in zip(results.trials["trial_id"], results.trials["arm"], strict=True)
        if trial_id in steps_by_trial
        for alert, value, step, simulated in _evaluate_trial(
            steps_by_trial[trial_id], compactions_by_trial.get(trial_id, compactions.iloc[:0])
        )
    ]
    table = pd.DataFrame(rows, columns=list(_ALERT_COLUMNS))
    return table.astype({"value": "float64", "fired": "bool", "step": "Int64", "simulated": "bool"})


def _evaluate_trial(steps: pd.DataFrame, compactions: pd.DataFrame) -> Iterator[tuple[Alert, float, int | None, bool]]:
    steps, compactions = steps.sort_values("step"), compactions.sort_values("event")
    numbers = steps["step"].to_numpy()
    step_seconds = (steps["model_seconds"] + steps["tool_seconds"]).to_numpy(dtype=float)
    wrote_summary = (compactions["summarizer"] != "") | ((compactions["status"] == "applied") & (compactions["inserted"] > 0))
    compactions = compactions[wrote_summary]
    before = np.searchsorted(numbers, compactions["step"].to_numpy())  # the place of the model call that follows each summary
    summary_seconds = np.zeros(len(numbers) + 1)
    np.add.at(summary_seconds, before, compactions["summarizer_seconds"].to_numpy(dtype=float))
    ends = np.cumsum(step_seconds + summary_seconds[:-1])
    when = np.concatenate([[0.0], ends])[before] + compactions["summarizer_seconds"].to_numpy(dtype=float)
    yield OVERFLOW_RATE, *_find_worst_overflow_rate(numbers, ends, ends[np.minimum(before, len(ends) - 1)]), False
    yield CACHE_HIT_RATE, *_compute_cache_hit_rate(steps)
    yield SUMMARIZATION_COST, *_find_worst_summary_cost(numbers, compactions, before, when), False


def _find_worst_overflow_rate(numbers: np.ndarray, ends: np.ndarray, when: np.ndarray) -> tuple[float, int | None]:
    """Of calls that end at `ends`; a summary counts when the call ends before which it was written."""
    assert OVERFLOW_RATE.window_seconds is not None
    whole = ends >= OVERFLOW_RATE.window_seconds
    whole[-1] |= not whole.any()
    last = np.flatnonzero(whole)
    since = ends[last] - OVERFLOW_RATE.window_seconds
    calls = np.searchsorted(ends, ends[last], side="right") - np.searchsorted(ends, since, side="right")
    summaries = np.searchsorted(when, ends[last], side="right") - np.searchsorted(when, since, side="right")
    rates = summaries / calls
    worst = int(np.argmax(rates))
    return float(rates[worst]), int(numbers[last[worst]])


def _compute_cache_hit_rate(steps: pd.DataFrame) -> tuple[float, int | None, bool]:
    simulated = not (steps["cache_read_tokens"].sum() or steps["cache_write_tokens"].sum())
    part, whole = ("kept_prefix_tokens", "view_tokens") if simulated else ("cache_read_tokens", "prompt_tokens")
    sent = steps[whole].sum()
    return (float(steps[part].sum() / sent) if sent else float("nan")), None, simulated


def _find_worst_summary_cost(
    numbers: np.ndarray, compactions: pd.DataFrame, before: np.ndarray, when: np.ndarray
) -> tuple[float, int | None]:
    assert SUMMARIZATION_COST.window_seconds is not None
    if compactions.empty:
        return 0.0, None
    paid = np.concatenate([[0.0], np.cumsum(compactions["summarizer_cost_usd"].to_numpy(dtype=float))])
    since = np.searchsorted(when, when - SUMMARIZATION_COST.window_seconds, side="right")
    sums = paid[1:] - paid[since]
    if np.isnan(sums).any():
        return float("nan"), None
    worst = int(np.argmax(sums))
    return float(sums[worst]), int(numbers[min(before[worst], len(numbers) - 1)])


def build_alert_sections(results: Tables) -> Iterator[Section]:
    """The alerts by arm, beside what caches and prunings came to; nothing where no step was made."""
    alert_table = evaluate_alerts(results)
    if alert_table.empty:
        return
    trials = results.trials
    shown_arms = set(alert_table["arm"])
    yield make_arm_section(
        "What monitoring would say: trials in which an alert goes off, and the worst value",
        ("n", *(alert.label for alert in ALERTS), "cache saved USD", "could save", "pruning ms"),
        {
            arm: _format_row(alert_table[alert_table["arm"] == arm], trials[trials["arm"] == arm])
            for arm in order_arms(trials)
            if arm in shown_arms
        },
        (
            "On each trial's own clock: summaries per model call in 5 minutes, cache hits of the session, dollars of an hour.",
            *([_SIMULATED_NOTE] if alert_table["simulated"].any() else []),
            "Cache saved: reported by the provider; could save: simulated, a cache that forgets nothing. Pruning: mean of one.",
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
            where = f"in {format_count(len(off), 'trial')}, most of {worst}"
            yield f"{alert.severity}, {alert.name}: {alert.condition_text} {where}; {alert.advice}."
