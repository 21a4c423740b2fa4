"""Chart of the number of compactions per trial: a histogram of all trials, and one mark for each trial, arranged by arm.

Trials with many compactions must not be compared with trials with few: long sessions have more compactions and are harder. The
chart shows how often trials were compacted; effects of compaction must be read from paired comparisons of arms.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.figures import style
from harness.analysis.formatting import format_label
from harness.analysis.tables import Tables
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLUMNS = ("trial_id", "arm", "place", "task", "seed", "rounds", "success", "level")
ROW_INCHES = 0.17


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart "Compaction rounds per trial", with one row per valid trial.

    | column | dtype | unit |
    | --- | --- | --- |
    | trial_id, arm, task | str | |
    | place | int | position of the arm in the chart from the top, from 0 |
    | seed | int | |
    | rounds | int | applied compactions |
    | success | bool | every check passed |
    | level | str | fidelity level |
    """
    trials = select_valid(results.trials)
    places = {arm: place for place, arm in enumerate(order_arms(trials))} if len(trials) else {}
    rows = trials.assign(rounds=trials["compactions"], place=trials["arm"].map(places), success=trials["success"].astype(bool))
    return rows[list(COLUMNS)].sort_values(["place", "rounds", "task", "seed"], ignore_index=True)


def draw(table: pd.DataFrame, ax: "Axes | None" = None) -> "Figure":
    """Draw the chart of compaction rounds per trial from its table.

    Without `ax`, a new figure shows a histogram of all trials and every trial by arm. With `ax`, only the histogram is drawn.

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "there is no valid trial, so there are no compaction rounds to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_distribution, empty_message=message)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    arms = table["arm"].nunique()
    figure = style.make_figure(9.8, max(3.4, arms * ROW_INCHES + 1.6))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    _draw_distribution(left, table)
    _draw_by_arm(right, table)
    exposed = int((table["rounds"] > 0).sum())
    about = f"{format_count(len(table), 'trial')}, {exposed} with at least one compaction"
    style.add_header(figure, "Compaction rounds per trial", about, level)
    footer = (
        "Right: one mark per trial. Long sessions have more rounds and are harder, so read effects only from paired comparisons."
    )
    style.add_footer(figure, footer)
    return figure


def _draw_distribution(ax: "Axes", table: pd.DataFrame) -> None:
    most = int(table["rounds"].max())
    rounds = np.arange(most + 1)
    won, lost = (np.bincount(table["rounds"][table["success"] == success], minlength=most + 1) for success in (True, False))
    ax.bar(rounds, won, color=style.SUCCESS_COLOUR, width=0.78, label=f"success ({won.sum()})")
    bars: dict[str, Any] = {"bottom": won, "width": 0.78, "hatch": "///", "edgecolor": "white", "linewidth": 0}
    ax.bar(rounds, lost, color=style.FAILURE_COLOUR, label=f"failure ({lost.sum()})", **bars)
    for r, total in enumerate((won + lost).tolist()):
        if total:
            ax.text(r, total, f" {total} ", ha="center", va="bottom", fontsize=7.5, color=style.MUTED_COLOUR)
    _use_integer_ticks(ax.xaxis, ax.yaxis)
    ax.set(xlabel="compaction rounds per trial (count)", ylabel="trials (count)", title=f"all trials (n = {len(table)})")
    ax.set_ylim(0, 1.3 * float((won + lost).max()))
    ax.legend(loc="upper right", ncols=2, handlelength=1.2)


def _draw_by_arm(ax: "Axes", table: pd.DataFrame) -> None:
    arms = table.drop_duplicates("place").set_index("place")["arm"].sort_index()
    rows = _spread_marks(table)
    for won, mark, size, colour in ((True, "o", 20, style.SUCCESS_COLOUR), (False, "X", 24, style.FAILURE_COLOUR)):
        chosen = rows[rows["success"] == won]
        edge: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.4, "zorder": 3}
        ax.scatter(chosen["rounds"], chosen["y"], marker=mark, s=size, color=colour, **edge)
    counts = table["place"].value_counts()
    ax.set_yticks(list(arms.index), [f"{format_label(arm, 72)}  (n = {counts[place]})" for place, arm in arms.items()])
    ax.tick_params(axis="y", labelsize=6.8, length=0)
    ax.set_ylim(len(arms) - 0.4, -0.6)
    ax.grid(axis="y", zorder=0)
    _use_integer_ticks(ax.xaxis)
    ax.set(xlabel="compaction rounds per trial (count)", title="by arm: dot = success, cross = failure")
    ax.spines["left"].set_visible(False)
    ax.set_xlim(-0.7, max(1, int(table["rounds"].max())) + 0.5)


def _use_integer_ticks(*axes: "Axis") -> None:
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _spread_marks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the positions of the marks; marks of one arm that would overlap are placed side by side."""
    groups = table.groupby(["place", "rounds"])
    size = groups["rounds"].transform("size")
    offset = (groups.cumcount() - (size - 1) / 2) * np.minimum(0.16, 0.8 / size)
    return table.assign(rounds=table["rounds"] + offset, y=table["place"])
