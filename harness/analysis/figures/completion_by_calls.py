"""Chart of completion against calls: the share of an arm's trials that finished, or succeeded, within a number of calls.

A curve that rises later needs more model calls. A curve that ends lower leaves more trials unfinished at the limits of steps,
window or time. Trials that never finish stay in the denominator.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import drop_earlier_plans, select_outcomes, select_valid
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.groups import describe_omitted, group_trials
from harness.analysis.figures.marks import choose_colour, choose_line, choose_point, make_handles
from harness.analysis.formatting import ESTIMAND_NOTE
from harness.analysis.measures import METRICS, add_measures, estimate_cell
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.validity import drop_repeats
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("group", "place", "mark", "outcome", "calls", "share", "low", "high", "n", "level")
END_SHARE, MIN_END_SLOTS = 0.16, 5
"""Width of the area of final shares as a share of the number of calls, and the smallest number of arms that divide it."""
MAX_APART_POINTS = 3.0
"""Largest vertical distance by which a line is moved so that equal lines stay visible."""
OUTCOMES = {"finished": "agent declared the task finished", "success": "every check passed"}


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of completion against calls, with one row per point of a curve.

    Each curve is an arm or, with many arms, one value of a setting that the plan varies. Repeated runs (A/A) are excluded.

    | column | dtype | unit |
    | --- | --- | --- |
    | group | str | name of the arm, or value of the setting |
    | place | int | position of the group in the legend, from 0 |
    | mark | str | colour and shape of the group in every chart of the experiment, such as `blue circle` |
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
    valid_trials = add_measures(select(current, select_valid(current.trials)))
    trials = drop_repeats(valid_trials)
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = group_trials(trials, results)
    shown = trials.assign(group=trials["trial_id"].map(groups.labels)).dropna(subset=["group"])
    finished = (shown["status"] == "completed") | shown["success"].astype(bool)
    flags = {"finished": finished, "success": shown["success"].astype(bool)}
    longest = int(shown["steps"].max())
    if longest == 0:  # another study may not say how many calls its runs took
        return pd.DataFrame(columns=list(COLUMNS))
    curves = [
        _compute_curve(rows.assign(success=flags[outcome][rows.index]), longest).assign(
            group=name, place=groups.places[str(name)], mark=groups.marks[str(name)], outcome=outcome, n=len(rows)
        )
        for name, rows in shown.groupby("group", sort=False)
        for outcome in OUTCOMES
    ]
    whole = pd.concat(curves, ignore_index=True).assign(level=require_single_level(shown))
    curve_table = whole[list(COLUMNS)].sort_values(["place", "outcome", "calls"], ignore_index=True)
    curve_table.attrs |= {"omitted": groups.omitted, "repeats": len(valid_trials) - len(trials)}
    return curve_table


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


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the share of trials that have finished, and that have succeeded, within a number of model calls.

    If all trials succeeded, or none, the panel of successes is left out, and the header says so.
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
    constant = _describe_constant_success(table)
    outcomes = [outcome for outcome in OUTCOMES if not (constant and outcome == "success")]
    figure = style.make_figure(4.3 * len(outcomes) if len(outcomes) > 1 else 6.6, 4.0)
    axes = figure.subplots(1, len(outcomes), sharey=True, squeeze=False)[0]
    for ax, outcome in zip(axes, outcomes, strict=True):
        _draw_panel(ax, table, outcome)
    axes[0].set_ylabel("trials (%)")
    note = (
        f"Mean over tasks. At the right: final shares with 95 % intervals. {ESTIMAND_NOTE} Unfinished trials count. Lines lie "
        "up to 2 % apart so that none hides another."
    )
    groups = table.drop_duplicates("place").sort_values("place")
    style.add_legend(figure, make_handles(zip(groups["group"], groups["mark"], strict=True), has_line=True), 2.4, note)
    spread = f"{groups['n'].min()}" if groups["n"].nunique() == 1 else f"{groups['n'].min()} to {groups['n'].max()}"
    left_out = style.describe_excluded_repeats(table) + describe_omitted(table.attrs.get("omitted", ()))
    about = f"{format_count(len(groups), 'group')} of {spread} trials{left_out}{constant}"
    style.add_header(figure, "Completion against calls", about, level)
    return figure


def _describe_constant_success(table: pd.DataFrame) -> str:
    """Return a remark on why there is no panel of successes; empty if some trials succeeded and others did not."""
    ends = table[table["outcome"] == "success"].groupby("place")["share"].last()
    if (ends == 0).all():
        return "; no trial passed every check, so successes have no panel"
    return "; every trial passed every check, so successes have no panel" if (ends == 1).all() else ""


def _draw_panel(ax: "Axes", table: pd.DataFrame, outcome: str) -> None:
    from matplotlib.transforms import ScaledTranslation

    rows, figure = table[table["outcome"] == outcome], ax.figure
    longest, places = int(table["calls"].max()), sorted(table["place"].unique())
    slot = longest * END_SHARE / max(MIN_END_SLOTS, len(places))
    edge = longest * 1.02
    right = edge + slot * len(places)
    for number, place in enumerate(places):
        curve = rows[rows["place"] == place]
        mark, end = str(curve["mark"].iloc[0]), curve.iloc[-1]
        apart_points = MAX_APART_POINTS * (2 * (number + 0.5) / len(places) - 1)
        shift = ScaledTranslation(0, apart_points / 72, figure.dpi_scale_trans)
        ax.step(
            curve["calls"], 100 * curve["share"], where="post", linewidth=1.5, transform=ax.transData + shift, **choose_line(mark)
        )
        x = edge + slot * (number + 0.5)
        bar: dict[str, Any] = {"color": choose_colour(mark), "linewidth": 1.6, "solid_capstyle": "butt"}
        ax.plot([x, x], [100 * end["low"], 100 * end["high"]], **bar)
        ax.plot(x, 100 * end["share"], **choose_point(mark, 4.5))
    ax.axvspan(edge, right, color=style.read_colours().panel, linewidth=0, zorder=0)
    ax.set(xlabel="model calls (count)", title=f"{outcome}: {OUTCOMES[outcome]}", ylim=(-4, 104), xlim=(0, right))
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= longest])
    ax.grid(axis="y")
