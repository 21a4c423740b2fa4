"""Lines of a chart: one per arm (configuration) or, with many arms, one per value of a setting that the plan varies."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import order_arms, tabulate_axes
from harness.analysis.figures import style
from harness.analysis.formatting import format_label

if TYPE_CHECKING:
    from matplotlib.artist import Artist

LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), "-.", (0, (4, 1, 1, 1, 1, 1)), (0, (7, 2)), "-")
"""Line styles, so that lines differ in more than colour."""


def group_trials(trials: pd.DataFrame) -> dict[str, str]:
    """Return the label of the line to which each trial belongs, by trial id.

    A line stands for an arm or, if there are more arms than colours, for one value of a setting that the plan varies.
    """
    arms = order_arms(trials)
    rows = sorted(zip(trials["arm"], trials["trial_id"], strict=True), key=lambda row: arms.index(row[0]))
    if len(arms) <= style.MAX_GROUPS:
        return {trial_id: arm for arm, trial_id in rows}
    long = tabulate_axes(trials)
    named = [axis for axis, values in long.groupby("axis") if 1 < values["value"].map(str).nunique() <= style.MAX_GROUPS - 1]
    axis = next(
        (candidate for candidate in named if long.loc[long["axis"] == candidate, "value"].map(type).eq(str).all()),
        next(iter(named), None),
    )
    if axis is None:
        return {trial_id: arm for arm, trial_id in rows if arm in arms[: style.MAX_GROUPS]}
    chosen = long[long["axis"] == axis]
    labels = {row.trial_id: f"{axis.rsplit('.', 1)[-1]} {row.value}" for row in chosen.itertuples()}
    return {trial_id: labels[trial_id] for _, trial_id in rows if trial_id in labels}


def choose_line(place: int) -> dict[str, Any]:
    """Return the colour and style of the line at a position in the legend."""
    palette = style.read_colours().palette
    return {"color": palette[place % len(palette)], "linestyle": LINE_STYLES[place % len(LINE_STYLES)]}


def make_handles(table: pd.DataFrame, max_characters: int = 50) -> "list[Artist]":
    """Return the entries of a legend, one for each line of a chart.

    The lines are read from the columns `place` and `group` of the chart's table.
    """
    from matplotlib.lines import Line2D

    groups = table.drop_duplicates("place").sort_values("place")
    return [
        Line2D([], [], **choose_line(row.place), label=format_label(row.group, max_characters)) for row in groups.itertuples()
    ]
