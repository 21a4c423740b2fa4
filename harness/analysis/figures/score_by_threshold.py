"""Chart of score, or another metric, over the threshold of compaction: one line per task, and their mean with its interval.

Only arms that differ in nothing but the threshold are compared. Arms are grouped by all their other settings, and the mean is
taken over the groups that have every threshold. From six thresholds on, an isotonic fit shows whether the mean rises or falls.
"""

import json
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import drop_earlier_plans, select_outcomes, select_valid
from harness.analysis.baselines import resolve_metric
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.marks import DASHES, MARKERS
from harness.analysis.formatting import ESTIMAND_NOTE, format_short_number
from harness.analysis.measures import METRICS, Metric, add_measures, estimate_cell
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.validity import drop_repeats, name_configurations
from harness.errors import format_count
from harness.text import escape_control_characters, format_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *("task", "threshold", "threshold_tokens", "window_tokens", "metric", "n", "groups", "value", "low", "high", "fit", "level"),
)
MEAN = ""
"""Value of the column `task` in the rows of the mean over tasks."""
MIN_FIT_LEVELS = 6
"""Smallest number of thresholds for an isotonic fit; with fewer, a fit would only connect the points."""
MAX_NAMED_TASKS = 12
"""Largest number of tasks whose lines differ in style and marks and have an entry in the legend."""
_THRESHOLD_FIELDS = ("threshold", "trigger_tokens")


def table(results: Tables, *, metric: str | None = None) -> pd.DataFrame:
    """Return the data of the chart of score over threshold, one row per threshold for the mean and each task.

    | column | dtype | unit |
    | --- | --- | --- |
    | task | str | name of the task; empty for the mean over tasks |
    | threshold | float | threshold as a share of the whole window, 0 to 1 |
    | threshold_tokens, window_tokens | float | tokens |
    | metric | str | name of the metric |
    | n | int | number of trials |
    | groups | int | groups of arms that differ in the threshold only, per task |
    | value | float | mean of the metric |
    | low, high | float | 95 % interval, for the mean over tasks; NaN for a single task and where there is no interval |
    | fit | float | isotonic fit to the mean over tasks, rising or falling; NaN with fewer than six thresholds |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.
        metric: Name of a metric; None for success, or score if success is the same in all trials of most arms.

    Example::

        table = harness.figures.score_by_threshold.table(results)
        table[["task", "threshold_tokens", "value"]]

    Raises:
        UnknownName: There is no such metric; the message suggests similar names.
    """
    open_outcomes(results)
    results = select_outcomes(results)
    current = drop_earlier_plans(results)
    valid_trials = add_measures(select(current, select_valid(current.trials)))
    trials = drop_repeats(valid_trials)
    chosen = resolve_metric(trials, metric)
    known = trials[trials["threshold_tokens"].notna() & (trials["window_tokens"] > 0)]
    known = known.assign(
        threshold=known["threshold_tokens"].astype(float) / known["window_tokens"], group=_describe_groups(known)
    )
    balanced = _select_balanced(known)
    if balanced["threshold"].nunique() < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    rows = [_build_row(MEAN, rows, chosen) for _, rows in balanced.groupby("threshold")]
    fit = _fit(np.array([row["value"] for row in rows]), np.array([row["n"] for row in rows], dtype=float))
    rows = [row | {"fit": value} for row, value in zip(rows, fit, strict=True)]
    if balanced["task"].nunique() > 1:
        rows += [
            _build_row(str(task), rows_of_task, chosen) | {"low": nan, "high": nan, "fit": nan}
            for (task, _), rows_of_task in balanced.groupby(["task", "threshold"])
        ]
    line_table = pd.DataFrame(rows).assign(level=require_single_level(balanced))[list(COLUMNS)]
    line_table.attrs["repeats"] = len(valid_trials) - len(trials)
    return line_table


def _describe_groups(trials: pd.DataFrame) -> pd.Series:
    """Return a text that is equal for trials whose configurations differ only in task, seed, replicate and threshold."""
    policies = {
        text: json.dumps({name: value for name, value in json.loads(text).items() if name not in _THRESHOLD_FIELDS})
        for text in trials["policy_json"].unique()
    }
    settings = name_configurations(trials, {"task", "seed", "replicate", "policy"})
    return settings + trials["policy_json"].map(policies).astype(object)


def _select_balanced(trials: pd.DataFrame) -> pd.DataFrame:
    """Select trials such that all groups of arms have the same thresholds, and their means are comparable.

    The thresholds are those of the group with the most thresholds; groups without all of these are left out.
    """
    if trials.empty:
        return trials
    levels = trials.groupby("group")["threshold"].agg(frozenset)
    wanted = max(levels, key=lambda thresholds: (len(thresholds), int((levels == thresholds).sum()), sorted(thresholds)))
    groups = [name for name, thresholds in levels.items() if thresholds >= wanted]
    return trials[trials["group"].isin(groups) & trials["threshold"].isin(wanted)]


def _build_row(task: str, trials: pd.DataFrame, metric: Metric) -> dict[str, Any]:
    cell = estimate_cell(trials, metric)
    return {
        "task": task,
        "threshold": float(trials["threshold"].iloc[0]),
        "threshold_tokens": float(trials["threshold_tokens"].astype(float).mean()),
        "window_tokens": float(trials["window_tokens"].mean()),
        "metric": metric.name,
        "n": len(trials),
        "groups": int(trials.groupby("task")["group"].nunique().max()),
        "value": cell.value,
        "low": cell.low,
        "high": cell.high,
    }


def _fit(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the rising or the falling isotonic fit, whichever is closer; NaN with too few or unknown values."""
    if len(values) < MIN_FIT_LEVELS or np.isnan(values).any():
        return np.full(len(values), nan)
    from scipy.optimize import isotonic_regression  # noqa: PLC0415  (slow, and few experiments have so many thresholds)

    fits = [np.asarray(isotonic_regression(values, weights=weights, increasing=up).x) for up in (True, False)]
    return min(fits, key=lambda fit: float((weights * (fit - values) ** 2).sum()))


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw score, or another metric, over the threshold: one line per task, and their mean with its interval.

    Example::

        table = harness.figures.score_by_threshold.table(results)
        harness.figures.score_by_threshold.draw(table, theme="dark").savefig("score_by_threshold.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no two arms differ in the threshold only, so there is no score over a threshold to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_with_legend, theme=theme, width=width, empty_message=message)


def _draw_with_legend(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_lines(ax, table)
    ax.legend(fontsize=style.LEGEND_POINTS)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    figure = style.make_figure(6.9, 4.4)
    ax = figure.subplots()
    _draw_lines(ax, table)
    mean, metric = table[table["task"] == MEAN], METRICS[str(table["metric"].iloc[0])]
    tasks = format_count(max(1, table.loc[table["task"] != MEAN, "task"].nunique()), "task")
    groups = format_count(int(mean["groups"].max()), "group")
    counts = sorted(mean["n"].unique())
    spread = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    about = f"{tasks}; {groups} of arms that differ in the threshold only; {spread} trials at each threshold"
    about += style.describe_excluded_repeats(table)
    style.add_header(figure, f"{metric.name.capitalize()} over threshold", about, level)
    fit = " Dashed: isotonic fit." if mean["fit"].notna().any() else ""
    note = f"Bars: 95 % interval of the mean over tasks, or over seeds with fewer than six tasks. {ESTIMAND_NOTE}{fit}"
    style.add_legend(figure, ax.get_legend_handles_labels()[0], 3.2, note)
    return figure


def _choose_task_line(place: int) -> dict[str, Any]:
    # grey, since colours stand for arms
    colours, number = style.read_colours(), place % len(MARKERS)
    face = colours.muted if place < len(MARKERS) else colours.background
    return {
        "color": colours.muted,
        "linestyle": DASHES[number],
        "marker": MARKERS[number],
        "markersize": 5,
        "markerfacecolor": face,
        "markeredgecolor": colours.muted,
        "markeredgewidth": 0.8,
    }


def _draw_lines(ax: "Axes", table: pd.DataFrame) -> None:
    colours, metric = style.read_colours(), METRICS[str(table["metric"].iloc[0])]
    tasks = [task for task in dict.fromkeys(table["task"]) if task != MEAN]
    for place, task in enumerate(tasks):
        rows = table[table["task"] == task].sort_values("threshold")
        is_named = len(tasks) <= MAX_NAMED_TASKS
        look = _choose_task_line(place) if is_named else {"color": colours.muted}
        options: dict[str, Any] = {"linewidth": 1.1, "alpha": 0.9 if is_named else 0.4}
        ax.plot(rows["threshold"], rows["value"], label=escape_control_characters(task) if is_named else None, **look, **options)
    mean = table[table["task"] == MEAN].sort_values("threshold")
    for row in mean.itertuples():
        if not isnan(row.low):
            ax.plot([row.threshold, row.threshold], [row.low, row.high], color=colours.text, linewidth=1.6, zorder=4)
    line: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 2.0, "zorder": 5}
    ax.plot(mean["threshold"], mean["value"], color=colours.text, label="mean over tasks" if tasks else "mean", **line)
    if mean["fit"].notna().any():
        fit: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.4, "drawstyle": "steps-mid", "zorder": 3}
        ax.plot(mean["threshold"], mean["fit"], color=colours.muted, label="isotonic fit", **fit)
    labels = [f"{format_percent(row.threshold)}\n{format_short_number(row.threshold_tokens)}" for row in mean.itertuples()]
    ax.set_xticks(mean["threshold"], labels)
    if metric.kind == "rate":
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    window = format_short_number(float(mean["window_tokens"].iloc[0]))
    ax.set(xlabel=f"threshold (% of the whole window of {window} tokens, and tokens)", ylabel=metric.label)
    ax.grid(axis="y")
    ax.margins(x=0.06)
