"""Chart of how many tokens the model sees at each step of every session, with threshold, context window and compactions.

If the plan varies several settings (axes), the chart is a grid of panels: one setting is shown in rows, one in columns and a
third by colour. Each line is one session. The line rises from step to step and falls at each compaction (triangle). It ends in a
dot (success) or a cross (failure), or in a square for a session outside of trials, whose outcome nobody checked. With many
sessions in a panel, the ends are counted in two lanes above the panel instead.
"""

import json
from math import isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.arms import select_valid, tabulate_axes
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.formatting import format_label, format_short_number
from harness.analysis.tables import Tables
from harness.analysis.validity import drop_repeats
from harness.compaction.description import describe_measures
from harness.errors import UsageError, format_count
from harness.policies import policy_from_plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOKEN_COLUMNS = ("view_tokens", "tokens_before", "threshold_tokens", "window_tokens")
COLUMNS = (
    "trial_id",
    "row",
    "column",
    "line",
    "reference",
    "seed",
    "step",
    *TOKEN_COLUMNS,
    "success",
    "level",
    "policy",
    "acts_on",
)
X_LABEL, Y_LABEL = "step (number)", "view (tokens)"
MAX_PANELS = 24
MAX_COLUMNS = 4
MAX_NAMES = 3
"""Maximum number of policies that the header names; more policies are counted."""
CROWDED_SESSIONS = 6
"""Number of sessions in one panel of the chart above which the lines of the sessions are drawn lighter."""


class _PanelPosition(NamedTuple):
    """Place of a session in the chart of token curves: row and column of its panel, and label of its colour."""

    row: str = ""
    column: str = ""
    line: str = ""
    reference: bool = False


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of how many tokens the model sees, one row per step of every valid trial.

    Repeated runs (A/A) are excluded; their number is in `attrs["repeats"]`.

    | column | dtype | unit |
    | --- | --- | --- |
    | trial_id | str | |
    | row, column, line | str | panel and colour: values of the settings that the plan varies, or the arm |
    | reference | bool | whether the arm lacks one of these settings; it is drawn faintly in every panel |
    | seed, step | int | seed of the trial, missing for a session outside of trials; number of the step, from 1 |
    | view_tokens | float | estimated tokens of the view (the messages sent to the model) at this step |
    | tokens_before | float | estimated tokens of the view before the compaction at this step; NaN if there was none |
    | threshold_tokens, window_tokens | float | tokens; NaN if the policy has no threshold or the window is unknown |
    | success | bool | whether every check of the trial passed; missing for a session outside of trials |
    | level | str | fidelity level |
    | policy | str | name of the policy |
    | acts_on | str | token counts that the policy compares with its threshold; empty if these are `view_tokens` or unknown |

    Example::

        table = harness.figures.token_curves.table(results)
        table.groupby("trial_id")["view_tokens"].max()
    """
    open_outcomes(results)
    valid_trials = select_valid(results.trials)
    trials = drop_repeats(valid_trials)
    assigned = _assign_positions(trials)
    positions = pd.DataFrame(list(assigned.values()), columns=list(_PanelPosition._fields), index=pd.Index(assigned, dtype="str"))
    applied = results.compactions[results.compactions["status"] == "applied"]
    drops = applied.groupby(["trial_id", "step"], as_index=False)["tokens_before"].max()
    trial_columns = ["trial_id", "seed", "threshold_tokens", "window_tokens", "success", "level", "policy"]
    shown_trials = trials[trial_columns].join(positions, on="trial_id")
    shown_trials["acts_on"] = trials["policy_json"].map({text: _describe_counts(text) for text in trials["policy_json"].unique()})
    steps = results.steps[["trial_id", "step", "view_tokens"]].merge(shown_trials, on="trial_id").merge(drops, how="left")
    steps[list(TOKEN_COLUMNS)] = steps[list(TOKEN_COLUMNS)].astype(float)
    steps["window_tokens"] = steps["window_tokens"].where(steps["window_tokens"] > 0)
    curve_table = steps[list(COLUMNS)].sort_values(["trial_id", "step"], ignore_index=True)
    curve_table.attrs["repeats"] = len(valid_trials) - len(trials)
    return curve_table


def _describe_counts(policy_json: str) -> str:
    plain = json.loads(policy_json or "{}")
    try:
        policy = policy_from_plain(plain)
    except UsageError:  # of another package, or stored by another version
        return ""
    is_of_older_version = hasattr(policy, "measure") and "measure" not in plain  # which measured in another way than today
    return "" if is_of_older_version else describe_measures(policy)


def _assign_positions(trials: pd.DataFrame) -> dict[str, _PanelPosition]:
    """Return, for each trial, the panel of its curve and the label of the curve's colour.

    Rows of panels differ in the threshold, columns in a named choice such as the summarizer, and colours in the other settings
    that the plan varies. If the plan varies no setting, every arm (configuration) has its own panel.
    """
    long = tabulate_axes(trials)
    varied_axes = [axis for axis, rows in long.groupby("axis") if rows["value"].map(json.dumps).nunique() > 1]
    if not varied_axes:
        return {trial.trial_id: _PanelPosition(column=str(trial.arm)) for trial in trials.itertuples()}
    numeric = {axis: all(isinstance(value, int | float) for value in rows["value"]) for axis, rows in long.groupby("axis")}
    order = sorted(varied_axes, key=lambda axis: (axis != "policy.threshold", numeric[axis], axis))
    values = {trial_id: dict(zip(rows["axis"], rows["value"], strict=True)) for trial_id, rows in long.groupby("trial_id")}
    return {
        trial.trial_id: _build_position(values.get(trial.trial_id, {}), order, str(trial.arm)) for trial in trials.itertuples()
    }


def _build_position(values: dict[str, Any], order: list[str], arm: str) -> _PanelPosition:
    if any(axis not in values for axis in order):
        return _PanelPosition(line=arm, reference=True)
    labels = [_format_axis_value(axis.rsplit(".", 1)[-1], values[axis]) for axis in order]
    if len(labels) == 1:
        return _PanelPosition(column=labels[0])
    return _PanelPosition(row=labels[0], column=labels[1], line=", ".join(labels[2:]))


def _format_axis_value(name: str, value: Any) -> str:
    return f"{name} {value:g}" if isinstance(value, int | float) else str(value)


def draw(
    table: pd.DataFrame, ax: "Axes | None" = None, *, theme: style.Theme = "light", width: style.Width = "notebook"
) -> "Figure":
    """Draw how many tokens the model sees at each step of every session, in panels arranged by setting.

    If `ax` is given, the sessions of all panels are drawn on it.

    Example::

        table = harness.figures.token_curves.table(results)
        harness.figures.token_curves.draw(table, theme="dark").savefig("token_curves.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no valid trial has stored steps, so there is no token curve to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_all_sessions, theme=theme, width=width, empty_message=message)


def _draw_all_sessions(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_panel(ax, table, _assign_colours(table))
    _set_limits(ax, table)
    ax.set(xlabel=X_LABEL, ylabel=Y_LABEL)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    grid = table[~table["reference"]] if not table["reference"].all() else table.assign(reference=False)
    panels = _arrange_panels(grid, min(MAX_COLUMNS, style.fit_columns(2.55)))
    rows, columns = max(place[0] for place in panels.values()) + 1, max(place[1] for place in panels.values()) + 1
    figure = style.make_figure(max(5.6, 2.55 * columns + 0.9), 1.62 * rows + 1.55)
    axes: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    colours, beside = _assign_colours(grid), table[table["reference"]]
    crowded = _is_crowded(grid)
    for (row, column), (y, x) in panels.items():
        inside = grid[(grid["row"] == row) & (grid["column"] == column)]
        _draw_panel(axes[y][x], pd.concat([beside, inside]), colours)
        axes[y][x].set_title(
            ", ".join(format_label(label, 44) for label in (row, column) if label), fontsize=8, pad=17 if crowded else None
        )
    filled = set(panels.values())
    _set_limits(axes[0][0], table)
    for y, x in np.ndindex(rows, columns):
        axes[y][x].set_visible((y, x) in filled)
        is_lowest, is_leftmost = (y + 1, x) not in filled, all((y, left) not in filled for left in range(x))
        axes[y][x].tick_params(labelbottom=is_lowest, labelleft=is_leftmost)
        axes[y][x].set(xlabel=X_LABEL if is_lowest else "", ylabel=Y_LABEL if is_leftmost else "")
    _add_legend(figure, table, colours, crowded=crowded)
    trials = format_count(table["trial_id"].nunique(), "session")
    sessions = f"{trials}{style.describe_excluded_repeats(table)}, one line each{_describe_omitted_panels(grid, panels)}"
    style.add_header(
        figure, "Context at each step", f"{sessions}; tokens as estimated by the policy{_describe_acts_on(table)}", level
    )
    return figure


def _describe_acts_on(table: pd.DataFrame) -> str:
    """Return a clause on the policies whose threshold applies to other token counts than those of the lines."""
    policies = table.drop_duplicates(["policy", "acts_on"])
    if policies["acts_on"].nunique() == 1:
        counts = policies["acts_on"].iloc[0]
        return f", which acts on {counts}" if counts else ""
    clauses = []
    for counts, rows in policies[policies["acts_on"] != ""].groupby("acts_on", sort=False):
        names = sorted(rows["policy"].unique())
        shown = ", ".join(names) if len(names) <= MAX_NAMES else f"{len(names)} policies"
        clauses.append(f"; {shown} {'acts' if len(names) == 1 else 'act'} on {counts}")
    return "".join(clauses)


def _arrange_panels(grid: pd.DataFrame, max_columns: int) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the row and column number of each panel in the figure, by the labels of the panel's row and column."""
    keys = grid[["row", "column"]].drop_duplicates()
    rows, columns = sorted(keys["row"].unique(), key=_build_number_key), sorted(keys["column"].unique(), key=_build_number_key)
    pairs = [(row, column) for row in rows for column in columns if ((keys["row"] == row) & (keys["column"] == column)).any()]
    if len(rows) > 1 and len(columns) <= max_columns:
        kept = pairs[:MAX_PANELS]
        return {(row, column): (rows.index(row), columns.index(column)) for row, column in kept}
    across = min(max_columns, len(pairs))
    return {pair: divmod(place, across) for place, pair in enumerate(pairs[:MAX_PANELS])}


def _build_number_key(label: str) -> tuple[float, str]:
    try:
        return (float(label.rsplit(" ", 1)[-1]), label)
    except ValueError:
        return (float("inf"), label)


def _describe_omitted_panels(grid: pd.DataFrame, panels: dict[tuple[str, str], tuple[int, int]]) -> str:
    panel_count = len(grid[["row", "column"]].drop_duplicates())
    return f"; {len(panels)} of {panel_count} panels" if panel_count > len(panels) else ""


def _assign_colours(grid: pd.DataFrame) -> dict[Any, str]:
    """Return the line colours by value of the setting that colours distinguish or, without such a setting, by seed.

    If there are more seeds than colours, all seeds have the same one.
    """
    lines, seeds = sorted(grid["line"].unique(), key=_build_number_key), sorted(map(int, grid["seed"].dropna().unique()))
    if len(lines) > 1:
        return {name: style.read_colours().palette[place % len(style.read_colours().palette)] for place, name in enumerate(lines)}
    return {
        seed: style.read_colours().palette[place]
        if len(seeds) <= len(style.read_colours().palette)
        else style.read_colours().palette[0]
        for place, seed in enumerate(seeds)
    }


def _is_crowded(grid: pd.DataFrame) -> bool:
    return bool((grid.groupby(["row", "column"])["trial_id"].nunique() > CROWDED_SESSIONS).any())


def _draw_panel(ax: "Axes", rows: pd.DataFrame, colours: dict[Any, str]) -> None:
    crowded = _is_crowded(rows[~rows["reference"]])
    many: dict[tuple[str, bool], list[pd.DataFrame]] = {}
    for _, session in rows.groupby("trial_id", sort=False):
        first = session.iloc[0]
        is_reference = bool(first["reference"])
        colour = (
            style.read_colours().muted
            if is_reference
            else colours.get(first["line"]) or colours.get(_read_seed(first["seed"]), style.read_colours().palette[0])
        )
        if crowded:
            many.setdefault((colour, is_reference), []).append(session)
        else:
            _draw_session(ax, session, colour, 0.55 if is_reference else 0.9)
    for (colour, is_reference), sessions in many.items():
        _draw_many(ax, sessions, colour, 0.3 if is_reference else 0.55)
    if crowded:
        _draw_ends(ax, rows[~rows["reference"]])
    _draw_limits(ax, rows)
    ax.yaxis.set_major_formatter(lambda value, _: format_short_number(value))
    ax.grid(axis="y")


def _draw_session(ax: "Axes", session: pd.DataFrame, colour: str, strength: float) -> None:
    x, y = zip(*_list_points(session), strict=True)
    ax.plot(x, y, color=colour, linewidth=1.1 * strength**0.5, alpha=strength, zorder=1.5 + strength / 2)
    drops = session.dropna(subset=["tokens_before"])
    marks: dict[str, Any] = {"linestyle": "none", "color": colour}
    if not drops.empty:
        size = (14 * strength) ** 0.5
        ax.plot(drops["step"], drops["tokens_before"], marker="v", markersize=size, markeredgewidth=0, zorder=3, **marks)
    mark, edge = _END_MARKS[_read_outcome(session["success"].iloc[-1])], style.read_colours().background
    ax.plot(x[-1], y[-1], marker=mark, markersize=22**0.5, markeredgecolor=edge, markeredgewidth=0.5, zorder=4, **marks)


_END_MARKS = {True: "o", False: "X", None: "s"}
"""Marks at the ends of lines, by success; None is the outcome of a session that nobody checked."""


def _read_outcome(success: Any) -> bool | None:
    return None if pd.isna(success) else bool(success)


def _read_seed(seed: Any) -> int | None:
    return None if pd.isna(seed) else int(seed)


def _list_points(session: pd.DataFrame) -> list[tuple[float, float]]:
    """Return the points of a session's line: the tokens at each step and, at a compaction, the tokens before it."""
    points: list[tuple[float, float]] = []
    for step, tokens, before in zip(*(session[name].tolist() for name in ("step", "view_tokens", "tokens_before")), strict=True):
        if not isnan(before):
            points.append((step, before))
        points.append((step, tokens))
    return points


def _draw_many(ax: "Axes", sessions: list[pd.DataFrame], colour: str, strength: float) -> None:
    """Draw many sessions of one colour as one line with gaps, without marks, which would hide each other."""
    points = [point for session in sessions for point in [*_list_points(session), (nan, nan)]]
    x, y = zip(*points, strict=True)
    ax.plot(x, y, color=colour, linewidth=0.7, alpha=strength, zorder=1.5 + strength / 2)


def _draw_ends(ax: "Axes", rows: pd.DataFrame) -> None:
    """Draw the ends of many sessions in two lanes above the panel, with their numbers, so that none is hidden."""
    ends = rows.sort_values("step").groupby("trial_id")[["step", "success"]].last()
    colours = style.read_colours()
    lanes: tuple[tuple[bool | None, float, str], ...] = ((True, 1.025, colours.success), (False, 1.085, colours.failure))
    if ends["success"].isna().any():
        lanes = ((None, 1.145 if ends["success"].notna().any() else 1.025, colours.muted), *lanes)
    outcomes = [_read_outcome(success) for success in ends["success"]]
    for outcome, lane, colour in lanes:
        if outcome is not None and ends["success"].isna().all():
            continue
        steps = ends["step"][[ended == outcome for ended in outcomes]]
        mark = _END_MARKS[outcome]
        options: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 5, "linewidth": 0}
        ax.scatter(steps, [lane] * len(steps), marker=mark, s=15, color=colour, alpha=0.55, **options)
        text: dict[str, Any] = {"transform": ax.transAxes, "ha": "left", "va": "center", "fontsize": 6.5, "color": colour}
        ax.text(1.01, lane, str(len(steps)), **text)


def _draw_limits(ax: "Axes", rows: pd.DataFrame) -> None:
    for tokens in sorted(rows[~rows["reference"]]["threshold_tokens"].dropna().unique()):
        ax.axhline(tokens, color=style.read_colours().text, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
        _label_limit(ax, _describe_threshold(tokens, rows), tokens, style.read_colours().text)
    for tokens in rows["window_tokens"].dropna().unique():
        ax.axhline(tokens, color=style.read_colours().muted, linewidth=1.3, zorder=1)
        ax.axhspan(tokens, tokens * 1.12, color=style.read_colours().faint, alpha=0.6, linewidth=0, zorder=0.5)
        _label_limit(ax, f"window {format_short_number(tokens)}", tokens, style.read_colours().muted)


def _describe_threshold(tokens: float, rows: pd.DataFrame) -> str:
    windows = rows["window_tokens"].dropna().unique()
    share = f" ({100 * tokens / windows[0]:.0f} % of window)" if len(windows) == 1 else ""
    return f"threshold {format_short_number(tokens)}{share}"


def _label_limit(ax: "Axes", text: str, tokens: float, colour: str) -> None:
    # at the left end, because the curves start far below the line
    ax.annotate(
        text,
        (0, tokens),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2),
        textcoords="offset points",
        va="bottom",
        fontsize=6.8,
        color=colour,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": style.read_colours().background, "alpha": 0.75, "linewidth": 0},
        zorder=5,
    )


def _set_limits(ax: "Axes", table: pd.DataFrame) -> None:
    tops = [table["view_tokens"].max(), table["tokens_before"].max(), 1.12 * table["window_tokens"].max()]
    ax.set(xlim=(0, 1.03 * table["step"].max()), ylim=(0, 1.02 * float(pd.Series(tops).max())))


def _add_legend(figure: "Figure", table: pd.DataFrame, colours: dict[Any, str], *, crowded: bool) -> None:
    from matplotlib.lines import Line2D

    by_seed = bool(colours) and not set(colours) & set(table["line"])
    many = by_seed and len(colours) > len(style.read_colours().palette)
    named = {f"seeds {min(colours)} to {max(colours)}": style.read_colours().palette[0]} if many else colours
    lines = [
        Line2D([], [], color=colour, linewidth=1.6, label=f"seed {name}" if by_seed and not many else format_label(name, 40))
        for name, colour in named.items()
    ]
    beside = [
        Line2D([], [], color=style.read_colours().muted, linewidth=1.2, alpha=0.6, label=format_label(name, 40))
        for name in sorted(table[table["reference"]]["line"].unique())[:4]
    ]
    outcomes = (("o", "success"), ("X", "failure")) if table["success"].notna().any() else ()
    unchecked = (("s", "end, unchecked"),) if table["success"].isna().any() else ()
    marked = (("v", "compaction"), *outcomes, *unchecked)
    marks = [
        Line2D([], [], color=style.read_colours().muted, linewidth=0, marker=mark, markersize=5, label=label)
        for mark, label in marked[int(crowded) :]
    ]
    style.add_legend(figure, [*lines[:8], *beside, *marks], 1.3)
