"""Chart of the number of compactions per trial: for each arm, how many trials had how many, and how they ended.

Successful and failed trials have a lane each, and sessions outside of trials, whose outcome nobody checked, have one
between. A bubble with the number of trials stands at each number of compactions, so that no trial hides another and arms are
never pooled. A wide range of numbers is shown on a logarithmic scale, on which only large and nearly equal numbers share a
bubble.

Trials with many compactions must not be compared with trials with few: long sessions have more compactions and are harder. The
chart shows how often trials were compacted; effects of compaction must be read from paired comparisons of arms.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arm_marks import COLOURS, ArmMark
from harness.analysis.arms import select_valid
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import compute_row_inches, describe_arms, draw_arms
from harness.analysis.figures.marks import choose_colour, choose_point
from harness.analysis.tables import Tables
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("trial_id", "arm", "place", "settings", "mark", "task", "seed", "rounds", "success", "level")
ROW_INCHES = 0.28
MAX_LINEAR_ROUNDS = 30
"""Largest number of compactions up to which the horizontal axis is linear and every number has bubbles of its own."""
MIN_DISTANCE = 0.13
"""Smallest distance of two bubbles on a logarithmic axis; nearer ones become one."""
TICKS = (0, 1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000)
"""Labelled numbers on a logarithmic axis."""


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart "Compaction rounds per trial", with one row per valid trial.

    | column | dtype | unit |
    | --- | --- | --- |
    | trial_id, arm, task | str | |
    | settings | str | JSON object with the arm's values of the settings that the plan varies; empty for other arms |
    | mark | str | colour and shape of the arm in every chart of the experiment, such as `blue circle` |
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
    arms = describe_arms(trials, results).set_index("arm")
    looks = {name: trials["arm"].map(arms[name]) for name in ("place", "settings", "mark")}
    rows = trials.assign(rounds=trials["compactions"].astype(int), **looks)
    return rows[list(COLUMNS)].sort_values(["place", "rounds", "task", "seed"], ignore_index=True)


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
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
    row_inches = max(ROW_INCHES, compute_row_inches(table))
    figure = style.make_figure(8.6, max(3.0, arms * row_inches + 1.9))
    _draw_by_arm(figure.subplots(), table)
    exposed = int((table["rounds"] > 0).sum())
    about = f"{format_count(len(table), 'trial')}, {exposed} with at least one compaction"
    style.add_header(figure, "Compaction rounds per trial", about, level)
    outcomes: list[bool | None] = [True, False] if table["success"].notna().any() else []
    outcomes += [None] if table["success"].isna().any() else []
    labels = {True: "succeeded (upper lane)", False: "failed (lower lane)", None: "unchecked sessions"}
    ink = str(ArmMark(colour=COLOURS.index("ink"), shape=0))
    handles = [
        Line2D([], [], **choose_point(ink, 7, is_hollow=outcome is False), label=f"number of trials that {labels[outcome]}")
        for outcome in outcomes
    ]
    note = "Long sessions have more rounds and are harder, so read effects only from paired comparisons."
    if table["rounds"].max() > MAX_LINEAR_ROUNDS:
        note += " Nearly equal large numbers share a bubble at their mean."
    style.add_legend(figure, handles, 1.2, note)
    return figure


def _draw_by_arm(ax: "Axes", table: pd.DataFrame) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

    colours = style.read_colours()
    counts = count_bubbles(table)
    trials = table["place"].value_counts()
    draw_arms(ax, table, {"n": {int(place): str(trials[place]) for place in trials.index}})
    max_trials, marks = int(counts["trials"].max()), dict(zip(table["place"], table["mark"], strict=True))
    for row in counts.itertuples():
        is_failed = not pd.isna(row.success) and not row.success
        # successes are drawn above the line of their arm, failures below it
        y = row.place + (0 if pd.isna(row.success) else 0.22 if is_failed else -0.22)
        colour = choose_colour(marks[row.place])
        options: dict[str, Any] = {
            "facecolor": colours.background if is_failed else colour,
            "edgecolor": colour,
            "linewidth": 1.2,
        }
        ax.scatter(row.rounds, y, s=52 + 60 * (row.trials / max_trials) ** 0.5, zorder=3, **options)
        ink = colours.text if is_failed else style.choose_ink(colour)
        ax.text(row.rounds, y, str(row.trials), ha="center", va="center_baseline", fontsize=6.2, color=ink, zorder=4)
    for place in range(int(table["place"].max()) + 1):
        ax.axhline(place + 0.5, color=colours.faint, linewidth=0.6, zorder=0)
    largest = max(1, int(table["rounds"].max()))
    is_linear = largest <= MAX_LINEAR_ROUNDS
    if is_linear:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlim(-0.7, largest + 0.7)
    else:
        ax.set_xscale("function", functions=(np.log1p, np.expm1))
        ax.xaxis.set_major_locator(FixedLocator([tick for tick in TICKS if tick <= 1.1 * largest]))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.set_xlim(-0.2, 1.12 * largest)
    ax.set(xlabel=f"compaction rounds per trial (count{'' if is_linear else ', logarithmic'})")
    ax.grid(axis="x", zorder=0)


def count_bubbles(table: pd.DataFrame) -> pd.DataFrame:
    """Count the trials of each bubble of the chart, by place of the arm, success and number of compactions.

    If the largest number of compactions is above 30, nearly equal large numbers share a bubble, whose `rounds` is their mean.

    Args:
        table: Table of the chart.
    """
    groups = table.groupby(["place", "success", "rounds"], dropna=False)
    counts = groups.size().rename("trials").reset_index().astype({"rounds": float})
    if table["rounds"].max() <= MAX_LINEAR_ROUNDS:
        return counts
    parts = [_merge_near(part) for _, part in counts.groupby(["place", "success"], dropna=False)]
    return pd.concat(parts, ignore_index=True)


def _merge_near(bubbles: pd.DataFrame) -> pd.DataFrame:
    """Merge bubbles of one arm and outcome, sorted by `rounds`, until all have the smallest distance."""
    rows = bubbles.to_dict("records")
    while len(rows) > 1:
        gaps = [np.log1p(right["rounds"]) - np.log1p(left["rounds"]) for left, right in pairwise(rows)]
        place = int(np.argmin(gaps))
        if gaps[place] >= MIN_DISTANCE:
            break
        left, right = rows[place], rows.pop(place + 1)
        trials = left["trials"] + right["trials"]
        mean = (left["rounds"] * left["trials"] + right["rounds"] * right["trials"]) / trials
        rows[place] = left | {"rounds": mean, "trials": trials}
    return pd.DataFrame(rows)
