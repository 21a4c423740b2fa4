"""Chart of how many tokens the model sees at each step of every session, with threshold, context window and compactions.

If the plan varies several settings (axes), the chart is a grid of panels: one setting is shown in rows, one in columns and a
third by lines of the colours and styles of their arms. Each line is one session. The line rises from step to step and falls at
each compaction (triangle). It ends in a dot (success) or a cross (failure), or in a square for a session outside of trials, whose
outcome nobody checked. With many sessions in a panel, the session with the median number of steps is darker, and the ends stand
in two lanes above the panel, whose title counts them.
"""

import json
from math import isnan, nan
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.arm_marks import MAX_SINGLE_ARMS, ArmMark, read_marks
from harness.analysis.arms import order_arms, select_valid, tabulate_axes
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.marks import choose_colour, choose_line, set_title
from harness.analysis.formatting import format_short_number, label_arms
from harness.analysis.tables import Tables
from harness.analysis.validity import drop_repeats
from harness.errors import format_count
from harness.text import escape_control_characters, format_percent

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOKEN_COLUMNS = ("view_tokens", "tokens_before", "threshold_tokens", "window_tokens")
COLUMNS = (
    "trial_id",
    "arm",
    "place",
    "mark",
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
REFERENCE_STRENGTH = 0.4
"""Opacity of the lines of arms that stand in every panel."""
CROWDED_TITLE_PAD = 17.0
"""Distance in points between a panel with lanes of ends and its title."""
TITLE_CHARACTERS, LINE_CHARACTERS = 40, 44
"""Lengths at which a label and a whole title continue on the next line."""
MAX_NAMES = 3
"""Maximum number of policies that the header names; more policies are counted."""
CROWDED_SESSIONS = 6
"""Number of sessions in one panel of the chart above which the lines of the sessions are drawn lighter."""


class _PanelPosition(NamedTuple):
    """Place of a session in the chart of token curves: row and column of its panel, and label of its line."""

    row: str
    column: str
    line: str
    reference: bool


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of how many tokens the model sees, one row per step of every valid trial.

    Repeated runs (A/A) are excluded; their number is in `attrs["repeats"]`.

    | column | dtype | unit |
    | --- | --- | --- |
    | trial_id | str | |
    | arm, mark | str | name of the arm; its colour and shape in every chart of the experiment, such as `blue circle` |
    | place | int | position of the arm in the report, from 0 |
    | row, column, line | str | panel and line: values of the settings that the plan varies, or the arm |
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
    trial_columns = ["trial_id", "arm", "seed", "threshold_tokens", "window_tokens", "success", "level", "policy", "acts_on"]
    shown_trials = trials[trial_columns].join(positions, on="trial_id")
    shown_trials["acts_on"] = shown_trials["acts_on"].fillna("")
    places, marks = {arm: place for place, arm in enumerate(order_arms(trials))}, read_marks(results)
    shown_trials = shown_trials.assign(place=shown_trials["arm"].map(places), mark=shown_trials["arm"].map(marks))
    steps = results.steps[["trial_id", "step", "view_tokens"]].merge(shown_trials, on="trial_id").merge(drops, how="left")
    steps[list(TOKEN_COLUMNS)] = steps[list(TOKEN_COLUMNS)].astype(float)
    steps["window_tokens"] = steps["window_tokens"].where(steps["window_tokens"] > 0)
    curve_table = steps[list(COLUMNS)].sort_values(["trial_id", "step"], ignore_index=True)
    curve_table.attrs["repeats"] = len(valid_trials) - len(trials)
    return curve_table


def _assign_positions(trials: pd.DataFrame) -> dict[str, _PanelPosition]:
    """Return, for each trial, the panel of its curve and the label of the curve.

    Rows of panels differ in the threshold, columns in a named choice such as the summarizer, and lines in the other settings
    that the plan varies. If the plan varies no setting, every arm has its own panel.
    """
    long = tabulate_axes(trials)
    varied_axes = [axis for axis, rows in long.groupby("axis") if rows["value"].map(json.dumps).nunique() > 1]
    if not varied_axes:
        return {trial.trial_id: _PanelPosition("", str(trial.arm), "", reference=False) for trial in trials.itertuples()}
    numeric = {axis: all(isinstance(value, int | float) for value in rows["value"]) for axis, rows in long.groupby("axis")}
    order = sorted(varied_axes, key=lambda axis: (axis != "policy.threshold", numeric[axis], axis))
    values = {trial_id: dict(zip(rows["axis"], rows["value"], strict=True)) for trial_id, rows in long.groupby("trial_id")}
    return {
        trial.trial_id: _build_position(values.get(trial.trial_id, {}), order, str(trial.arm)) for trial in trials.itertuples()
    }


def _build_position(values: dict[str, Any], order: list[str], arm: str) -> _PanelPosition:
    if any(axis not in values for axis in order):
        return _PanelPosition("", "", arm, reference=True)
    labels = [_format_axis_value(axis.rsplit(".", 1)[-1], values[axis]) for axis in order]
    if len(labels) == 1:
        return _PanelPosition("", labels[0], "", reference=False)
    return _PanelPosition(labels[0], labels[1], ", ".join(labels[2:]), reference=False)


def _format_axis_value(name: str, value: Any) -> str:
    return f"{name} {value:g}" if isinstance(value, int | float) else str(value)


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
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
    _draw_panel(ax, table)
    _set_ranges(ax, table)
    ax.set(xlabel=X_LABEL, ylabel=Y_LABEL)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    grid = table[~table["reference"]] if not table["reference"].all() else table.assign(reference=False)
    panels = _arrange_panels(grid, min(MAX_COLUMNS, style.fit_columns(2.55)))
    rows, columns = max(place[0] for place in panels.values()) + 1, max(place[1] for place in panels.values()) + 1
    figure = style.make_figure(max(5.6, 2.55 * columns + 0.9), 1.62 * rows + 1.55)
    axes: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    beside, crowded = table[table["reference"]], _is_crowded(grid)
    for (row, column), (y, x) in panels.items():
        inside = grid[(grid["row"] == row) & (grid["column"] == column)]
        _draw_panel(axes[y][x], pd.concat([beside, inside]))
        _title_panel(axes[y][x], inside, ", ".join(label for label in (row, column) if label), crowded=crowded)
    filled = set(panels.values())
    _set_ranges(axes[0][0], table)
    for y, x in np.ndindex(rows, columns):
        axes[y][x].set_visible((y, x) in filled)
        is_lowest, is_leftmost = (y + 1, x) not in filled, all((y, left) not in filled for left in range(x))
        axes[y][x].tick_params(labelbottom=is_lowest, labelleft=is_leftmost)
        axes[y][x].set(xlabel=X_LABEL if is_lowest else "", ylabel=Y_LABEL if is_leftmost else "")
    _add_legend(figure, table, grid, crowded=crowded)
    trials = format_count(table["trial_id"].nunique(), "session")
    sessions = f"{trials}{style.describe_excluded_repeats(table)}, one line each{_describe_omitted_panels(grid, panels)}"
    about = f"{sessions}; tokens as estimated by the policy{_describe_acts_on(table)}"
    style.add_header(figure, "Context at each step", about, level)
    return figure


def _title_panel(ax: "Axes", rows: pd.DataFrame, label: str, *, crowded: bool) -> None:
    """Give a panel its title: its label, the mark of its arm if it has only one, and how many of many sessions succeeded."""
    lines = ["\n".join(wrap(escape_control_characters(label), TITLE_CHARACTERS)) or " "]
    sessions = rows.drop_duplicates("trial_id")
    if crowded and sessions["success"].notna().all():
        lines.append(f"{int(sessions['success'].astype(bool).sum())} of {len(sessions)} succeeded")
    marks, pad = list(dict.fromkeys(rows["mark"])), CROWDED_TITLE_PAD if crowded else None
    set_title(
        ax,
        marks[0] if len(marks) == 1 else "",
        ": ".join(lines) if len(": ".join(lines)) < LINE_CHARACTERS else "\n".join(lines),
        pad,
    )


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
    """Return the row and column number of each panel in the figure, by the labels of the panel's row and column.

    Panels are in the order of their arms.
    """
    ordered = grid.drop_duplicates("trial_id").sort_values("place", kind="stable")
    rows, columns = list(dict.fromkeys(ordered["row"])), list(dict.fromkeys(ordered["column"]))
    known = set(zip(ordered["row"], ordered["column"], strict=True))
    pairs = [(row, column) for row in rows for column in columns if (row, column) in known]
    if len(rows) > 1 and len(columns) <= max_columns:
        return {(row, column): (rows.index(row), columns.index(column)) for row, column in pairs[:MAX_PANELS]}
    if 1 < len(rows) <= max_columns:  # rows and columns change places, so that panels with an equal setting stay in line
        return {(row, column): (columns.index(column), rows.index(row)) for row, column in pairs[:MAX_PANELS]}
    across = min(max_columns, len(pairs))
    return {pair: divmod(place, across) for place, pair in enumerate(pairs[:MAX_PANELS])}


def _describe_omitted_panels(grid: pd.DataFrame, panels: dict[tuple[str, str], tuple[int, int]]) -> str:
    panel_count = len(grid[["row", "column"]].drop_duplicates())
    return f"; {len(panels)} of {panel_count} panels" if panel_count > len(panels) else ""


def _is_crowded(grid: pd.DataFrame) -> bool:
    return bool((grid.groupby(["row", "column"])["trial_id"].nunique() > CROWDED_SESSIONS).any())


def _draw_panel(ax: "Axes", rows: pd.DataFrame) -> None:
    crowded = _is_crowded(rows[~rows["reference"]])
    is_single = rows.loc[~rows["reference"], "mark"].nunique() <= 1
    rows_by_look: dict[tuple[str, bool], list[pd.DataFrame]] = {}
    for _, session in rows.groupby("trial_id", sort=False):
        first = session.iloc[0]
        is_reference = bool(first["reference"])
        line = choose_line(first["mark"]) | ({"linestyle": "-"} if is_single else {})
        if crowded:
            rows_by_look.setdefault((first["mark"], is_reference), []).append(session)
        else:
            _draw_session(ax, session, line, REFERENCE_STRENGTH if is_reference else 0.9)
    for (mark, is_reference), sessions in rows_by_look.items():
        _draw_many(ax, sessions, choose_line(mark) | ({"linestyle": "-"} if is_single else {}), 0.25 if is_reference else 0.4)
    if crowded:
        _draw_ends(ax, rows[~rows["reference"]])
        for _, arm_rows in rows[~rows["reference"]].groupby("arm", sort=False):
            _draw_median(ax, arm_rows)
    _draw_limits(ax, rows)
    ax.yaxis.set_major_formatter(lambda value, _: format_short_number(value))
    ax.grid(axis="y")


def _draw_session(ax: "Axes", session: pd.DataFrame, line: dict[str, Any], strength: float) -> None:
    x, y = zip(*_list_points(session), strict=True)
    ax.plot(x, y, linewidth=1.1 * strength**0.5, alpha=strength, zorder=1.5 + strength / 2, **line)
    drops = session.dropna(subset=["tokens_before"])
    marks: dict[str, Any] = {"linestyle": "none", "color": line["color"]}
    if not drops.empty:
        size = (14 * strength) ** 0.5
        ax.plot(drops["step"], drops["tokens_before"], marker="v", markersize=size, markeredgewidth=0, zorder=3, **marks)
    mark, edge = _END_MARKS[_read_outcome(session["success"].iloc[-1])], style.read_colours().background
    ax.plot(x[-1], y[-1], marker=mark, markersize=22**0.5, markeredgecolor=edge, markeredgewidth=0.5, zorder=4, **marks)


_END_MARKS = {True: "o", False: "X", None: "s"}
"""Marks at the ends of lines, by success; None is the outcome of a session that nobody checked."""
_END_LANES = {True: 1.085, False: 1.025, None: 1.025}
"""Heights of the lanes of ends above a panel, by success, as shares of the height of the panel."""


def _read_outcome(success: Any) -> bool | None:
    return None if pd.isna(success) else bool(success)


def _list_points(session: pd.DataFrame) -> list[tuple[float, float]]:
    """Return the points of a session's line: the tokens at each step and, at a compaction, the tokens before it."""
    points: list[tuple[float, float]] = []
    for step, tokens, before in zip(*(session[name].tolist() for name in ("step", "view_tokens", "tokens_before")), strict=True):
        if not isnan(before):
            points.append((step, before))
        points.append((step, tokens))
    return points


def _draw_many(ax: "Axes", sessions: list[pd.DataFrame], line: dict[str, Any], strength: float) -> None:
    """Draw many sessions of one arm as one line with gaps, without marks, which would hide each other."""
    points = [point for session in sessions for point in [*_list_points(session), (nan, nan)]]
    x, y = zip(*points, strict=True)
    ax.plot(x, y, linewidth=0.7, alpha=strength, zorder=1.5 + strength / 2, **line)


def _draw_median(ax: "Axes", rows: pd.DataFrame) -> None:
    """Draw the session of an arm with the median number of steps over the many others."""
    lengths = rows.groupby("trial_id")["step"].max().sort_values(kind="stable")
    session = rows[rows["trial_id"] == lengths.index[(len(lengths) - 1) // 2]]
    x, y = zip(*_list_points(session), strict=True)
    ax.plot(x, y, linewidth=1.2, color=style.read_colours().text, zorder=3)


def _draw_ends(ax: "Axes", rows: pd.DataFrame) -> None:
    """Draw the ends of many sessions in lanes above the panel, by outcome, so that none is hidden."""
    ends = rows.sort_values("step").groupby("trial_id")[["step", "success", "mark"]].last()
    for (mark, success), group in ends.groupby(["mark", "success"], dropna=False):
        outcome = _read_outcome(success)
        options: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 5, "markeredgewidth": 0}
        look: dict[str, Any] = {"marker": _END_MARKS[outcome], "markersize": 3.9, "color": choose_colour(mark), "alpha": 0.6}
        ax.plot(group["step"], [_END_LANES[outcome]] * len(group), linestyle="none", **look, **options)


def _draw_limits(ax: "Axes", rows: pd.DataFrame) -> None:
    is_below = ~(rows["threshold_tokens"] >= rows["window_tokens"])  # else the line of the window says it
    for tokens in sorted(rows[~rows["reference"] & is_below]["threshold_tokens"].dropna().unique()):
        ax.axhline(tokens, color=style.read_colours().text, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
        _label_limit(ax, _describe_threshold(tokens, rows), tokens, style.read_colours().text)
    for tokens in rows["window_tokens"].dropna().unique():
        ax.axhline(tokens, color=style.read_colours().muted, linewidth=1.3, zorder=1)
        ax.axhspan(tokens, tokens * 1.12, color=style.read_colours().faint, alpha=0.6, linewidth=0, zorder=0.5)
        _label_limit(ax, f"window {format_short_number(tokens)}", tokens, style.read_colours().muted)


def _describe_threshold(tokens: float, rows: pd.DataFrame) -> str:
    windows = rows["window_tokens"].dropna().unique()
    share = f" ({format_percent(tokens / windows[0])} of window)" if len(windows) == 1 else ""
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


def _set_ranges(ax: "Axes", table: pd.DataFrame) -> None:
    tops = [table["view_tokens"].max(), table["tokens_before"].max(), 1.12 * table["window_tokens"].max()]
    ax.set(xlim=(0, 1.03 * table["step"].max()), ylim=(0, 1.02 * float(pd.Series(tops).max())))


def _add_legend(figure: "Figure", table: pd.DataFrame, grid: pd.DataFrame, *, crowded: bool) -> None:
    from matplotlib.lines import Line2D

    outcomes = (("o", "success"), ("X", "failure")) if table["success"].notna().any() else ()
    unchecked = (("s", "end, unchecked"),) if table["success"].isna().any() else ()
    marked = (("v", "compaction"), *outcomes, *unchecked)
    text = style.read_colours().text
    median = [Line2D([], [], color=text, linewidth=1.2, label="session with the median number of steps")] if crowded else []
    marks = [
        Line2D([], [], color=style.read_colours().muted, linewidth=0, marker=mark, markersize=5, label=label)
        for mark, label in marked[int(crowded) :]
    ]
    beside = table[table["reference"]] if not table["reference"].all() else table.head(0)
    pairs = beside.drop_duplicates("arm").sort_values("place")
    labels = label_arms(pairs["arm"])
    faint = [
        Line2D(
            [], [], linewidth=1.2, alpha=REFERENCE_STRENGTH, label=f"{labels[row.arm]} (in each panel)", **choose_line(row.mark)
        )
        for row in pairs.itertuples()
    ]
    style.add_legend(figure, [*_list_lines(grid), *faint, *median, *marks], 2.4)


def _list_lines(grid: pd.DataFrame) -> "list[Artist]":
    """Return the entries of the legend for lines that share a panel: arms or, if they are many, values of a setting."""
    from matplotlib.lines import Line2D

    if (grid.groupby(["row", "column"])["arm"].nunique() == 1).all():
        return []
    arms = grid.drop_duplicates("arm").sort_values("place")
    if len(arms) <= MAX_SINGLE_ARMS:
        labels = label_arms(arms["arm"])
        return [Line2D([], [], linewidth=1.6, label=labels[row.arm], **choose_line(row.mark)) for row in arms.itertuples()]
    looks = {line: {ArmMark.from_text(mark) for mark in rows["mark"]} for line, rows in arms.groupby("line", sort=False)}
    handles: list[Artist] = []
    for line, marks in looks.items():
        look = choose_line(str(next(iter(marks))))
        has_colour, has_dash = len({mark.colour for mark in marks}) == 1, len({mark.shape for mark in marks}) == 1
        if has_colour or has_dash:
            shown = (
                look | ({} if has_colour else {"color": style.read_colours().muted}) | ({} if has_dash else {"linestyle": "-"})
            )
            handles.append(Line2D([], [], linewidth=1.6, label=escape_control_characters(str(line)), **shown))
    return handles
