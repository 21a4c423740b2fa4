"""Chart of the number of compactions per trial: for each arm, how many trials had how many, and how they ended.

Successful and failed trials have a lane each, and sessions outside of trials, whose outcome nobody checked, have one
between. A bubble with the number of trials stands at each number of compactions, so that no trial hides another and arms are
never pooled.

Trials with many compactions must not be compared with trials with few: long sessions have more compactions and are harder. The
chart shows how often trials were compacted; effects of compaction must be read from paired comparisons of arms.
"""

from typing import TYPE_CHECKING

import pandas as pd

from harness.analysis.arms import select_valid
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import describe_arms, draw_arms
from harness.analysis.tables import Tables
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("trial_id", "arm", "place", "settings", "task", "seed", "rounds", "success", "level")
ROW_INCHES = 0.28
MAX_COLUMNS = 32
"""Largest number of positions along the horizontal axis.

A wider range of compactions is divided into equal classes; trials without a compaction have a class of their own.
"""


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart "Compaction rounds per trial", with one row per valid trial.

    | column | dtype | unit |
    | --- | --- | --- |
    | trial_id, arm, task | str | |
    | settings | str | JSON object with the arm's values of the settings that the plan varies; empty for other arms |
    | place | int | position of the arm in the chart from the top, from 0 |
    | seed | int | missing for a session outside of trials |
    | rounds | int | applied compactions |
    | success | bool | every check passed; missing for a session outside of trials, whose outcome nobody checked |
    | level | str | fidelity level |

    Example::

        table = harness.figures.compaction_rounds.table(results)
        table.groupby("arm")["rounds"].median()
    """
    open_outcomes(results)
    trials = select_valid(results.trials).dropna(subset="compactions")
    arms = describe_arms(trials).set_index("arm")
    rows = trials.assign(
        rounds=trials["compactions"].astype(int),
        place=trials["arm"].map(arms["place"]),
        settings=trials["arm"].map(arms["settings"]),
    )
    return rows[list(COLUMNS)].sort_values(["place", "rounds", "task", "seed"], ignore_index=True)


def draw(
    table: pd.DataFrame, ax: "Axes | None" = None, *, theme: style.Theme = "light", width: style.Width = "notebook"
) -> "Figure":
    """Draw how many compactions (rounds) the trials of each arm had and how they ended, with one row per arm.

    Example::

        table = harness.figures.compaction_rounds.table(results)
        harness.figures.compaction_rounds.draw(table, theme="dark").savefig("compaction_rounds.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "there is no valid trial whose number of compactions is known, so there are no compaction rounds to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_by_arm, theme=theme, width=width, empty_message=message)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    from matplotlib.lines import Line2D

    arms = table["arm"].nunique()
    figure = style.make_figure(8.6, max(3.0, arms * ROW_INCHES + 1.9))
    _draw_by_arm(figure.subplots(), table)
    exposed = int((table["rounds"] > 0).sum())
    about = f"{format_count(len(table), 'trial')}, {exposed} with at least one compaction"
    style.add_header(figure, "Compaction rounds per trial", about, level)
    colours = style.read_colours()
    kinds = [("trials that succeeded", colours.success), ("trials that failed", colours.failure)]
    has_outcome = table["success"].notna()
    kinds = [*(kinds if has_outcome.any() else []), *([] if has_outcome.all() else [("unchecked sessions", colours.muted)])]
    handles = [
        Line2D([], [], marker="o", linestyle="none", markersize=7, color=colour, label=f"{label}, with their number")
        for label, colour in kinds
    ]
    note = "Long sessions have more rounds and are harder, so read effects only from paired comparisons."
    style.add_legend(figure, handles, 1.2, note)
    return figure


def _draw_by_arm(ax: "Axes", table: pd.DataFrame) -> None:
    from matplotlib.ticker import MaxNLocator

    colours = style.read_colours()
    class_width = max(1, -(-int(table["rounds"].max()) // (MAX_COLUMNS - 1)))
    counts = count_bubbles(table, class_width)
    trials = table["place"].value_counts()
    draw_arms(ax, table, {"n": {int(place): str(trials[place]) for place in trials.index}})
    most = int(counts["trials"].max())
    for row in counts.itertuples():
        if pd.isna(row.success):
            y, colour = row.place, colours.muted
        else:
            y = row.place + (-0.22 if row.success else 0.22)
            colour = colours.success if row.success else colours.failure
        ax.scatter(row.rounds, y, s=46 + 60 * (row.trials / most) ** 0.5, color=colour, linewidth=0, zorder=3)
        ink = style.choose_ink(colour)
        ax.text(row.rounds, y, str(row.trials), ha="center", va="center_baseline", fontsize=6.2, color=ink, zorder=4)
    for place in range(int(table["place"].max()) + 1):
        ax.axhline(place + 0.5, color=colours.faint, linewidth=0.6, zorder=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    classes = "" if class_width == 1 else f", from 1 in classes of {class_width}, at the largest number of each"
    ax.set(xlabel=f"compaction rounds per trial (count{classes})")
    ax.set_xlim(-0.7 * class_width, max(1, int(counts["rounds"].max())) + 0.7 * class_width)
    ax.grid(axis="x", zorder=0)


def count_bubbles(table: pd.DataFrame, class_width: int = 1) -> pd.DataFrame:
    """Count the trials of each bubble of the chart, by place of the arm, success and number of compactions.

    Args:
        table: Table of the chart.
        class_width: Number of different counts of compactions that share a bubble; `rounds` is the largest of them. Trials
            without a compaction share no bubble with others.
    """
    rounds = -(-table["rounds"] // class_width) * class_width
    groups = table.assign(rounds=rounds).groupby(["place", "success", "rounds"], dropna=False)
    return groups.size().rename("trials").reset_index()
