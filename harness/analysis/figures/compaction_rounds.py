"""How often was the view compacted, and did those trials succeed? Left: all trials. Right: every trial by its arm.

A comparison of trials with many rounds and trials with few is no effect of compaction: long sessions have more rounds and are
harder. The chart shows exposure; effects are read from paired arms.
"""

from typing import TYPE_CHECKING

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
    """One row per trial that counts.

    | column | dtype | unit |
    | --- | --- | --- |
    | trial_id, arm, task | str | |
    | place | int | of the arm, from the top, from 0 |
    | seed | int | |
    | rounds | int | applied compactions |
    | success | bool | every check passed |
    | level | str | fidelity |
    """
    trials = select_valid(results.trials)
    places = {arm: place for place, arm in enumerate(order_arms(trials))} if len(trials) else {}
    rows = trials.assign(rounds=trials["compactions"], place=trials["arm"].map(places), success=trials["success"].astype(bool))
    return rows[list(COLUMNS)].sort_values(["place", "rounds", "task", "seed"], ignore_index=True)


def draw(table: pd.DataFrame, ax: "Axes | None" = None) -> "Figure":
    """Draw the table of this figure; with `ax` only the distribution over all trials is drawn, there.

    Raises:
        UsageError: an empty table, or several levels.
    """
    message = "there is no trial that counts, so there are no rounds to draw"
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
    style.add_footer(
        figure, "Right: one mark per trial. Long sessions have more rounds and are harder, so read effects from paired arms only."
    )
    return figure


def _draw_distribution(ax: "Axes", table: pd.DataFrame) -> None:
    most = int(table["rounds"].max())
    rounds = np.arange(most + 1)
    won, lost = (np.bincount(table["rounds"][table["success"] == success], minlength=most + 1) for success in (True, False))
    ax.bar(rounds, won, color=style.SUCCESS_COLOUR, width=0.78, label=f"success ({won.sum()})")
    ax.bar(
        rounds,
        lost,
        bottom=won,
        color=style.FAILURE_COLOUR,
        width=0.78,
        hatch="///",
        edgecolor="white",
        linewidth=0,
        label=f"failure ({lost.sum()})",
    )
    for r, total in enumerate((won + lost).tolist()):
        if total:
            ax.text(r, total, f" {total} ", ha="center", va="bottom", fontsize=7.5, color=style.MUTED_COLOUR)
    ax.set_xlabel("compaction rounds per trial (count)")
    ax.set_ylabel("trials (count)")
    _use_integer_ticks(ax.xaxis, ax.yaxis)
    ax.set_title(f"all trials (n = {len(table)})")
    ax.set_ylim(0, 1.3 * float((won + lost).max()))
    ax.legend(loc="upper right", ncols=2, handlelength=1.2)


def _draw_by_arm(ax: "Axes", table: pd.DataFrame) -> None:
    arms = table.drop_duplicates("place").set_index("place")["arm"].sort_index()
    for won, mark, colour in ((True, "o", style.SUCCESS_COLOUR), (False, "X", style.FAILURE_COLOUR)):
        rows = _spread_marks(table)
        chosen = rows[rows["success"] == won]
        ax.scatter(
            chosen["rounds"],
            chosen["y"],
            marker=mark,
            s=20 if won else 24,
            color=colour,
            edgecolor="white",
            linewidth=0.4,
            zorder=3,
        )
    counts = table["place"].value_counts()
    ax.set_yticks(list(arms.index), [f"{format_label(arm, 72)}  (n = {counts[place]})" for place, arm in arms.items()])
    ax.tick_params(axis="y", labelsize=6.8, length=0)
    ax.set_ylim(len(arms) - 0.4, -0.6)
    ax.grid(axis="y", zorder=0)
    _use_integer_ticks(ax.xaxis)
    ax.set_xlabel("compaction rounds (count)", color=style.TEXT_COLOUR)
    ax.set_title("by arm: dot = success, cross = failure")
    ax.spines["left"].set_visible(False)
    ax.set_xlim(-0.7, max(1, int(table["rounds"].max())) + 0.5)


def _use_integer_ticks(*axes: "Axis") -> None:
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _spread_marks(table: pd.DataFrame) -> pd.DataFrame:
    """Trials of one arm with equal rounds side by side rather than on top of each other."""
    groups = table.groupby(["place", "rounds"])
    size = groups["rounds"].transform("size")
    offset = (groups.cumcount() - (size - 1) / 2) * np.minimum(0.16, 0.8 / size)
    return table.assign(rounds=table["rounds"] + offset, y=table["place"])
