"""Chart of how many tokens the model sees at each step of every session, with threshold, context window and compactions.

If the plan varies several settings (axes), the chart is a grid of panels: one setting is shown in rows, one in columns and a
third by colour. Each line is one session. The line rises from step to step and falls at each compaction (triangle). It ends in a
dot (success) or a cross (failure).
"""

import json
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.arms import select_valid, tabulate_axes
from harness.analysis.figures import style
from harness.analysis.formatting import format_label, format_short_number
from harness.analysis.tables import Tables
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOKEN_COLUMNS = ("view_tokens", "tokens_before", "threshold_tokens", "window_tokens")
COLUMNS = ("trial_id", "row", "column", "line", "reference", "seed", "step", *TOKEN_COLUMNS, "success", "level")
MAX_PANELS = 24
MAX_COLUMNS = 4
CROWDED_SESSIONS = 6
"""Number of sessions in one panel of the chart above which the lines of the sessions are drawn lighter."""


class _PanelPosition(NamedTuple):
    """Position of a session in the chart of token curves: the row and column of its panel, and the label of its colour."""

    row: str = ""
    column: str = ""
    line: str = ""
    reference: bool = False


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of how many tokens the model sees, with one row per step of every valid trial.

    Repeated runs (A/A) are excluded; `attrs["repeats"]` is the number of excluded repeats.

    | column | dtype | unit |
    | --- | --- | --- |
    | trial_id | str | |
    | row, column, line | str | panel and colour: values of axes of the grid, or the arm |
    | reference | bool | whether the arm is outside the grid; it is drawn faintly in every panel |
    | seed, step | int | seed of the trial; number of the step, from 1 |
    | view_tokens | float | estimated tokens of the view (the messages sent to the model) at this step |
    | tokens_before | float | estimated tokens of the view before the compaction at this step; NaN if there was none |
    | threshold_tokens, window_tokens | float | tokens; NaN if the policy has no threshold or the window is unknown |
    | success | bool | whether every check of the trial passed |
    | level | str | fidelity level |
    """
    valid_trials = select_valid(results.trials)
    trials = valid_trials.query("replicate == 0")
    assigned = _assign_positions(trials)
    positions = pd.DataFrame(list(assigned.values()), columns=list(_PanelPosition._fields), index=pd.Index(assigned, dtype="str"))
    applied = results.compactions[results.compactions["status"] == "applied"]
    drops = applied.groupby(["trial_id", "step"], as_index=False)["tokens_before"].max()
    trial_columns = ["trial_id", "seed", "threshold_tokens", "window_tokens", "success", "level"]
    shown_trials = trials[trial_columns].join(positions, on="trial_id")
    steps = results.steps[["trial_id", "step", "view_tokens"]].merge(shown_trials, on="trial_id").merge(drops, how="left")
    steps[list(TOKEN_COLUMNS)] = steps[list(TOKEN_COLUMNS)].astype(float)
    steps["window_tokens"] = steps["window_tokens"].where(steps["window_tokens"] > 0)
    steps["success"] = steps["success"].astype(bool)
    curve_table = steps[list(COLUMNS)].sort_values(["trial_id", "step"], ignore_index=True)
    curve_table.attrs["repeats"] = len(valid_trials) - len(trials)
    return curve_table


def _assign_positions(trials: pd.DataFrame) -> dict[str, _PanelPosition]:
    """Return the panel in which each trial's curve is drawn and the label of the curve's colour, by trial id.

    Rows of panels differ in the threshold, columns in a named choice such as the summarizer, and colours in the other settings
    that the plan varies. If the plan varies no setting, every arm (configuration) has its own panel.
    """
    long = tabulate_axes(trials)
    varied_axes = [axis for axis, rows in long.groupby("axis") if rows["value"].map(json.dumps).nunique() > 1]
    if not varied_axes:
        return {one.trial_id: _PanelPosition(column=str(one.arm)) for one in trials.itertuples()}
    numeric = {axis: all(isinstance(value, int | float) for value in rows["value"]) for axis, rows in long.groupby("axis")}
    order = sorted(varied_axes, key=lambda axis: (axis != "policy.threshold", numeric[axis], axis))
    values = {trial_id: dict(zip(rows["axis"], rows["value"], strict=True)) for trial_id, rows in long.groupby("trial_id")}
    return {one.trial_id: _build_position(values.get(one.trial_id, {}), order, str(one.arm)) for one in trials.itertuples()}


def _build_position(values: dict[str, Any], order: list[str], arm: str) -> _PanelPosition:
    if any(axis not in values for axis in order):
        return _PanelPosition(line=arm, reference=True)
    labels = [_format_axis_value(axis.rsplit(".", 1)[-1], values[axis]) for axis in order]
    if len(labels) == 1:
        return _PanelPosition(column=labels[0])
    return _PanelPosition(row=labels[0], column=labels[1], line=", ".join(labels[2:]))


def _format_axis_value(name: str, value: Any) -> str:
    return f"{name} {value:g}" if isinstance(value, int | float) else str(value)


def draw(table: pd.DataFrame, ax: "Axes | None" = None) -> "Figure":
    """Draw the token curves: how many tokens the model sees at each step of every session, in panels arranged by setting.

    If `ax` is given, the sessions of all panels are drawn on it.

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no valid trial has stored steps, so there is no token curve to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_all_sessions, empty_message=message)


def _draw_all_sessions(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_panel(ax, table, _assign_colours(table))
    _finish_axes(ax, table)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    grid = table[~table["reference"]] if not table["reference"].all() else table.assign(reference=False)
    panels = _arrange_panels(grid)
    rows, columns = max(place[0] for place in panels.values()) + 1, max(place[1] for place in panels.values()) + 1
    figure = style.make_figure(max(5.6, 2.55 * columns + 0.9), 1.62 * rows + 1.55)
    axes: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    colours, beside = _assign_colours(grid), table[table["reference"]]
    for (row, column), (y, x) in panels.items():
        inside = grid[(grid["row"] == row) & (grid["column"] == column)]
        _draw_panel(axes[y][x], pd.concat([beside, inside]), colours)
        axes[y][x].set_title(", ".join(format_label(one, 44) for one in (row, column) if one), fontsize=8)
    for y, x in np.ndindex(rows, columns):
        axes[y][x].set_visible((y, x) in panels.values())
    _finish_axes(axes[rows - 1][0], table)
    _add_legend(figure, table, colours)
    trials = format_count(table["trial_id"].nunique(), "session")
    sessions = f"{trials}{style.describe_excluded_repeats(table)}, one line each{_describe_omitted_panels(grid, panels)}"
    style.add_header(figure, "Context at each step", f"{sessions}; tokens as estimated by the policy", level)
    return figure


def _arrange_panels(grid: pd.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the row and column number of each panel in the figure, by the labels of the panel's row and column."""
    keys = grid[["row", "column"]].drop_duplicates()
    rows, columns = sorted(keys["row"].unique(), key=_build_number_key), sorted(keys["column"].unique(), key=_build_number_key)
    pairs = [(row, column) for row in rows for column in columns if ((keys["row"] == row) & (keys["column"] == column)).any()]
    if len(rows) > 1 and len(columns) <= MAX_COLUMNS + 2:
        kept = pairs[:MAX_PANELS]
        return {(row, column): (rows.index(row), columns.index(column)) for row, column in kept}
    across = min(MAX_COLUMNS, len(pairs))
    return {one: divmod(place, across) for place, one in enumerate(pairs[:MAX_PANELS])}


def _build_number_key(label: str) -> tuple[float, str]:
    try:
        return (float(label.rsplit(" ", 1)[-1]), label)
    except ValueError:
        return (float("inf"), label)


def _describe_omitted_panels(grid: pd.DataFrame, panels: dict[tuple[str, str], tuple[int, int]]) -> str:
    panel_count = len(grid[["row", "column"]].drop_duplicates())
    return f"; {len(panels)} of {panel_count} panels" if panel_count > len(panels) else ""


def _assign_colours(grid: pd.DataFrame) -> dict[Any, str]:
    """Return a line colour for each value of the setting that the chart of token curves distinguishes by colour.

    Without such an axis, each seed gets a colour; if there are more seeds than colours, all seeds get the same one.
    """
    lines, seeds = sorted(grid["line"].unique(), key=_build_number_key), sorted(int(seed) for seed in grid["seed"].unique())
    if len(lines) > 1:
        return {name: style.PALETTE[place % len(style.PALETTE)] for place, name in enumerate(lines)}
    return {
        seed: style.PALETTE[place] if len(seeds) <= len(style.PALETTE) else style.PALETTE[0] for place, seed in enumerate(seeds)
    }


def _draw_panel(ax: "Axes", rows: pd.DataFrame, colours: dict[Any, str]) -> None:
    crowded = rows[~rows["reference"]]["trial_id"].nunique() > CROWDED_SESSIONS
    for _, session in rows.groupby("trial_id", sort=False):
        first = session.iloc[0]
        colour = (
            style.MUTED_COLOUR if first["reference"] else colours.get(first["line"], colours.get(first["seed"], style.PALETTE[0]))
        )
        _draw_session(ax, session, colour, 0.55 if first["reference"] or crowded else 0.9)
    _draw_limits(ax, rows)
    ax.yaxis.set_major_formatter(lambda value, _: format_short_number(value))
    ax.grid(axis="y")


def _draw_session(ax: "Axes", session: pd.DataFrame, colour: str, strength: float) -> None:
    columns = (session[name].tolist() for name in ("step", "view_tokens", "tokens_before"))
    points: list[tuple[float, float]] = []
    for step, tokens, before in zip(*columns, strict=True):
        if not isnan(before):
            points.append((step, before))
        points.append((step, tokens))
    x, y = zip(*points, strict=True)
    ax.plot(x, y, color=colour, linewidth=1.1 * strength**0.5, alpha=strength, zorder=1.5 + strength / 2)
    drops = session.dropna(subset=["tokens_before"])
    marks: dict[str, Any] = {"linestyle": "none", "color": colour}
    if not drops.empty:
        size = (14 * strength) ** 0.5
        ax.plot(drops["step"], drops["tokens_before"], marker="v", markersize=size, markeredgewidth=0, zorder=3, **marks)
    mark = "o" if session["success"].iloc[-1] else "X"
    ax.plot(x[-1], y[-1], marker=mark, markersize=22**0.5, markeredgecolor="white", markeredgewidth=0.5, zorder=4, **marks)


def _draw_limits(ax: "Axes", rows: pd.DataFrame) -> None:
    for tokens in sorted(rows[~rows["reference"]]["threshold_tokens"].dropna().unique()):
        ax.axhline(tokens, color=style.TEXT_COLOUR, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
        _label_limit(ax, f"threshold {format_short_number(tokens)}", tokens, style.TEXT_COLOUR)
    for tokens in rows["window_tokens"].dropna().unique():
        ax.axhline(tokens, color=style.MUTED_COLOUR, linewidth=1.3, zorder=1)
        ax.axhspan(tokens, tokens * 1.12, color=style.FAINT_COLOUR, alpha=0.6, linewidth=0, zorder=0.5)
        _label_limit(ax, f"window {format_short_number(tokens)}", tokens, style.MUTED_COLOUR)


def _label_limit(ax: "Axes", text: str, tokens: float, colour: str) -> None:
    """Write a label at the left end of a horizontal line such as the threshold, because the curves start far below it."""
    ax.annotate(
        text,
        (0, tokens),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2),
        textcoords="offset points",
        va="bottom",
        fontsize=6.8,
        color=colour,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "alpha": 0.75, "linewidth": 0},
        zorder=5,
    )


def _finish_axes(ax: "Axes", table: pd.DataFrame) -> None:
    tops = [table["view_tokens"].max(), table["tokens_before"].max(), 1.12 * table["window_tokens"].max()]
    ax.set(xlim=(0, 1.03 * table["step"].max()), ylim=(0, 1.02 * float(pd.Series(tops).max())))
    ax.set(xlabel="step (number)", ylabel="view (tokens)")


def _add_legend(figure: "Figure", table: pd.DataFrame, colours: dict[Any, str]) -> None:
    from matplotlib.lines import Line2D

    by_seed = not set(colours) & set(table["line"])
    many = by_seed and len(colours) > len(style.PALETTE)
    named = {f"seeds {min(colours)} to {max(colours)}": style.PALETTE[0]} if many else colours
    lines = [
        Line2D([], [], color=colour, linewidth=1.6, label=f"seed {name}" if by_seed and not many else format_label(name, 40))
        for name, colour in named.items()
    ]
    beside = [
        Line2D([], [], color=style.MUTED_COLOUR, linewidth=1.2, alpha=0.6, label=format_label(name, 40))
        for name in sorted(table[table["reference"]]["line"].unique())[:4]
    ]
    marks = [
        Line2D([], [], color=style.MUTED_COLOUR, linewidth=0, marker=mark, markersize=5, label=label)
        for mark, label in (("v", "compaction"), ("o", "success"), ("X", "failure"))
    ]
    style.add_legend(figure, [*lines[:8], *beside, *marks], 1.3)
