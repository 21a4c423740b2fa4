"""Chart of completion against calls: the share of an arm's trials that finished, or succeeded, within a number of calls.

A curve that rises later needs more model calls. A curve that ends lower leaves more trials unfinished at the limits of steps,
window or time. Trials that never finish stay in the denominator.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import drop_earlier_plans, select_outcomes, select_valid
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.groups import choose_line, group_trials, make_handles
from harness.analysis.formatting import ESTIMAND_NOTE
from harness.analysis.measures import METRICS, add_measures, estimate_cell
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.validity import drop_repeats
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("group", "place", "outcome", "calls", "share", "low", "high", "n", "level")
OUTCOMES = {"finished": "agent declared the task finished", "success": "every check passed"}


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of completion against calls, with one row per point of a curve.

    Each curve is an arm or, with many arms, one value of a setting that the plan varies. Repeated runs (A/A) are excluded.

    | column | dtype | unit |
    | --- | --- | --- |
    | group | str | name of the arm, or value of the setting |
    | place | int | position of the group in the legend, from 0 |
    | outcome | str | `finished` (the agent declared the task finished) or `success` (every check passed) |
    | calls | int | model calls of the agent |
    | share | float | share of the trials with the outcome within so many calls, mean over tasks, 0 to 1 |
    | low, high | float | 95 % interval of the share at the end of the curve; NaN elsewhere |
    | n | int | number of trials of the group |
    | level | str | fidelity level |

    Example:
        >>> import harness, pandas, pathlib, tempfile
        >>> runs = {"task": list("aabb"), "arm": list("xyxy"), "passed": [1, 0, 1, 1], "calls": [3, 5, 4, 9]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "runs.csv")
        ...     pandas.DataFrame(runs).to_csv(path)
        ...     results = harness.load_outcomes(path, task="task", arm="arm", success="passed", turns="calls")
        >>> table = harness.figures.completion_by_calls.table(results)
        >>> table[(table["group"] == "x") & (table["outcome"] == "success")][["calls", "share"]].values.tolist()
        [[0.0, 0.0], [3.0, 0.5], [4.0, 1.0], [9.0, 1.0]]
    """
    open_outcomes(results)
    results = select_outcomes(results)
    current = drop_earlier_plans(results)
    trials = drop_repeats(add_measures(select(current, select_valid(current.trials))))
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = group_trials(trials)
    shown = trials.assign(group=trials["trial_id"].map(groups)).dropna(subset=["group"])
    places = {name: place for place, name in enumerate(dict.fromkeys(groups.values()))}
    finished = (shown["status"] == "completed") | shown["success"].astype(bool)
    flags = {"finished": finished, "success": shown["success"].astype(bool)}
    longest = int(shown["steps"].max())
    if longest == 0:  # another study may not say how many calls its runs took
        return pd.DataFrame(columns=list(COLUMNS))
    curves = [
        _compute_curve(rows.assign(success=flags[outcome][rows.index]), longest).assign(
            group=name, place=places[str(name)], outcome=outcome, n=len(rows)
        )
        for name, rows in shown.groupby("group", sort=False)
        for outcome in OUTCOMES
    ]
    whole = pd.concat(curves, ignore_index=True).assign(level=require_single_level(shown))
    return whole[list(COLUMNS)].sort_values(["place", "outcome", "calls"], ignore_index=True)


def _compute_curve(trials: pd.DataFrame, longest: int) -> pd.DataFrame:
    """Return the share of trials that succeeded within each number of model calls; only the last row has an interval."""
    weights = 1.0 / (trials.groupby("task")["task"].transform("size") * trials["task"].nunique())
    ends = weights[trials["success"]].groupby(trials.loc[trials["success"], "steps"].astype(int)).sum()
    calls, shares = ends.index.to_numpy(), ends.cumsum().to_numpy()
    cell = estimate_cell(trials, METRICS["success"])
    whole = pd.DataFrame(
        {"calls": np.r_[0, calls, longest], "share": np.r_[0.0, shares, cell.value], "low": np.nan, "high": np.nan}
    )
    whole.loc[len(whole) - 1, ["low", "high"]] = cell.low, cell.high
    return whole


def draw(
    table: pd.DataFrame, ax: "Axes | None" = None, *, theme: style.Theme = "light", width: style.Width = "notebook"
) -> "Figure":
    """Draw the share of trials that have finished, and that have succeeded, within a number of model calls.

    If `ax` is given, only the finished trials are drawn on it.

    Example::

        table = harness.figures.completion_by_calls.table(results)
        harness.figures.completion_by_calls.draw(table, theme="dark").savefig("completion_by_calls.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "there is no valid trial with a known number of calls, so there is no completion to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_finished, theme=theme, width=width, empty_message=message)


def _draw_finished(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_panel(ax, table, "finished")
    ax.set_ylabel("trials (%)")


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    figure = style.make_figure(8.6, 4.0)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, outcome in zip(axes, OUTCOMES, strict=True):
        _draw_panel(ax, table, outcome)
    axes[0].set_ylabel("trials (%)")
    note = f"Mean over tasks. Bars at the right: 95 % intervals of the final shares. {ESTIMAND_NOTE} Unfinished trials count."
    style.add_legend(figure, make_handles(table, 44), 2.2, note)
    counts = table.drop_duplicates("place")["n"]
    spread = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    style.add_header(figure, "Completion against calls", f"{format_count(len(counts), 'group')} of {spread} trials", level)
    return figure


def _draw_panel(ax: "Axes", table: pd.DataFrame, outcome: str) -> None:
    rows = table[table["outcome"] == outcome]
    longest, count = int(table["calls"].max()), table["place"].nunique()
    for place, curve in rows.groupby("place"):
        line: dict[str, Any] = choose_line(int(str(place)))
        ax.step(curve["calls"], 100 * curve["share"], where="post", linewidth=1.5, **line)
        end = curve.iloc[-1]
        x = longest * (1.02 + 0.09 * (int(str(place)) + 0.5) / count)
        ax.plot([x, x], [100 * end["low"], 100 * end["high"]], color=line["color"], linewidth=1.6, solid_capstyle="butt")
        ax.plot(x, 100 * end["share"], marker="o", markersize=3.5, color=line["color"])
    ax.set(xlabel="model calls (count)", title=f"{outcome}: {OUTCOMES[outcome]}", ylim=(-2, 103), xlim=(0, longest * 1.12))
    ax.grid(axis="y")
