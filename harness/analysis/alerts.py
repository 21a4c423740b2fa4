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

from harness.analysis.arms import in_order
from harness.analysis.formatting import Section, short_names, usd
from harness.analysis.tables import Tables
from harness.errors import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition on a session, and what to do where it holds."""

    name: str
    severity: Literal["warning", "critical"]
    threshold: float
    above: bool
    """Goes off above the threshold; else below it."""
    window_seconds: float | None
    """None = over the whole session."""
    says: str
    advice: str

    def fires(self, value: float) -> bool:
        """Whether it goes off at a value; never at one that is not known."""
        return value > self.threshold if self.above else value < self.threshold


OVERFLOW_RATE = Alert(
    name="overflow rate",
    severity="warning",
    threshold=0.1,
    above=True,
    window_seconds=300.0,
    says="a summary before more than 10 % of the model calls of 5 minutes",
    advice="look at the thresholds of pruning, and at what fills the context",
)
CACHE_HIT_RATE = Alert(
    name="cache hit rate",
    severity="warning",
    threshold=0.7,
    above=False,
    window_seconds=None,
    says="less than 70 % of the prompts read from a cache",
    advice="look at what changes early in the requests: the system prompt, masking at every step",
)
SUMMARIZATION_COST = Alert(
    name="summarization cost",
    severity="critical",
    threshold=10.0,
    above=True,
    window_seconds=3600.0,
    says="more than $10 for summaries in an hour",
    advice="look at how often it is summarized, and by which model",
)
ALERTS = (OVERFLOW_RATE, CACHE_HIT_RATE, SUMMARIZATION_COST)
_OF_STEPS = (
    *("trial_id", "step", "model_seconds", "tool_seconds", "cache_read_tokens", "cache_write_tokens"),
    *("kept_prefix_tokens", "view_tokens", "prompt_tokens"),
)
_OF_COMPACTIONS = (
    *("trial_id", "event", "step", "status", "inserted", "summarizer", "summarizer_seconds", "summarizer_cost_usd"),
)
"""Columns that the alerts look at: tables are parted by trial, which costs by the column."""


def alerts(results: Tables) -> pd.DataFrame:
    """One row for each trial and alert.

    Columns: `trial_id`, `arm`, `alert`, `value` (the worst of the session; NaN: not known), `threshold`, `fired`, `step` (the
    model call at which the worst window ends; missing: none) and `simulated`.
    """
    steps = dict(tuple(results.steps[[*_OF_STEPS]].groupby("trial_id")))
    compactions = results.compactions[[*_OF_COMPACTIONS]]
    acts = dict(tuple(compactions.groupby("trial_id")))
    rows = [
        {"trial_id": trial_id, "arm": arm, "alert": alert.name, "value": value, "threshold": alert.threshold}
        | {"fired": alert.fires(value), "step": step, "simulated": simulated}
        for trial_id, arm in zip(results.trials["trial_id"], results.trials["arm"], strict=True)
        if trial_id in steps
        for alert, value, step, simulated in _watched(steps[trial_id], acts.get(trial_id, compactions.iloc[:0]))
    ]
    table = pd.DataFrame(rows, columns=["trial_id", "arm", "alert", "value", "threshold", "fired", "step", "simulated"])
    return table.astype({"value": "float64", "fired": "bool", "step": "Int64", "simulated": "bool"})


def _watched(steps: pd.DataFrame, acts: pd.DataFrame) -> Iterator[tuple[Alert, float, int | None, bool]]:
    steps, acts = steps.sort_values("step"), acts.sort_values("event")
    numbers = steps["step"].to_numpy()
    took = (steps["model_seconds"] + steps["tool_seconds"]).to_numpy(dtype=float)
    asked = (acts["summarizer"] != "") | ((acts["status"] == "applied") & (acts["inserted"] > 0))
    acts = acts[asked]
    before = np.searchsorted(numbers, acts["step"].to_numpy())  # the place of the model call that follows each summary
    waited = np.zeros(len(numbers) + 1)
    np.add.at(waited, before, acts["summarizer_seconds"].to_numpy(dtype=float))
    ends = np.cumsum(took + waited[:-1])
    when = np.concatenate([[0.0], ends])[before] + acts["summarizer_seconds"].to_numpy(dtype=float)
    yield OVERFLOW_RATE, *_overflow_rate(numbers, ends, ends[np.minimum(before, len(ends) - 1)]), False
    yield CACHE_HIT_RATE, *_cache_hit_rate(steps)
    yield SUMMARIZATION_COST, *_cost(numbers, acts, before, when), False


def _overflow_rate(numbers: np.ndarray, ends: np.ndarray, when: np.ndarray) -> tuple[float, int | None]:
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


def _cache_hit_rate(steps: pd.DataFrame) -> tuple[float, int | None, bool]:
    simulated = not (steps["cache_read_tokens"].sum() or steps["cache_write_tokens"].sum())
    part, whole = ("kept_prefix_tokens", "view_tokens") if simulated else ("cache_read_tokens", "prompt_tokens")
    sent = steps[whole].sum()
    return (float(steps[part].sum() / sent) if sent else float("nan")), None, simulated


def _cost(numbers: np.ndarray, acts: pd.DataFrame, before: np.ndarray, when: np.ndarray) -> tuple[float, int | None]:
    assert SUMMARIZATION_COST.window_seconds is not None
    if acts.empty:
        return 0.0, None
    paid = np.concatenate([[0.0], np.cumsum(acts["summarizer_cost_usd"].to_numpy(dtype=float))])
    since = np.searchsorted(when, when - SUMMARIZATION_COST.window_seconds, side="right")
    sums = paid[1:] - paid[since]
    if np.isnan(sums).any():
        return float("nan"), None
    worst = int(np.argmax(sums))
    return float(sums[worst]), int(numbers[min(before[worst], len(numbers) - 1)])


def alert_sections(results: Tables) -> Iterator[Section]:
    """The alerts by arm, beside what caches and prunings came to; nothing where no step was made."""
    found = alerts(results)
    if found.empty:
        return
    trials = results.trials
    arms = [arm for arm in in_order(trials) if arm in set(found["arm"])]
    heading, names = short_names(arms)
    simulated = bool(found["simulated"].any())
    yield Section(
        heading="What monitoring would say: trials in which an alert goes off, and the worst value",
        columns=(
            heading,
            "n",
            "overflow rate > 10 %",
            "cache hits < 70 %",
            "summaries > $10/h",
            "cache saved USD",
            "could save",
            "pruning ms",
        ),
        rows=tuple((names[arm], *_row(found[found["arm"] == arm], trials[trials["arm"] == arm])) for arm in arms),
        notes=(
            "On each trial's own clock: summaries per model call in 5 minutes, cache hits of the session, dollars of an hour.",
            *(["Cache hits are simulated, where the provider reports no cache: what requests share."] if simulated else []),
            "Cache saved: reported by the provider; could save: simulated, a cache that forgets nothing. Pruning: mean of one.",
            *_advice(found),
        ),
    )


def _row(found: pd.DataFrame, trials: pd.DataFrame) -> Iterator[str]:
    yield str(found["trial_id"].nunique())
    for alert in ALERTS:
        of = found[found["alert"] == alert.name]
        worst = of["value"].max() if alert.above else of["value"].min()
        yield f"{int(of['fired'].sum())}, {_value(alert, float(worst))}"
    yield usd(float(trials["cache_saved_usd"].sum(min_count=1)))
    yield usd(float(trials["cache_could_save_usd"].sum(min_count=1)))
    pruned, took = trials["prunings"].sum(), trials["pruning_seconds"].sum(min_count=1)
    yield "" if not pruned or pd.isna(took) else f"{1000 * float(took) / int(pruned):.1f}"


def _value(alert: Alert, value: float) -> str:
    return usd(value) if alert is SUMMARIZATION_COST else "?" if np.isnan(value) else f"{100 * value:.1f} %"


def _advice(found: pd.DataFrame) -> Iterator[str]:
    for alert in ALERTS:
        off = found[(found["alert"] == alert.name) & found["fired"]]
        if len(off):
            worst = ", ".join(f"{arm} ({count})" for arm, count in off["arm"].value_counts().head(3).items())
            where = f"in {counted(len(off), 'trial')}, most of {worst}"
            yield f"{alert.severity}, {alert.name}: {alert.says} {where}; {alert.advice}."
