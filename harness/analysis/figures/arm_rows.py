"""Rows of a chart for arms: names, or one column of text for each setting that the plan varies.

Fifty long names of arms cannot be read. Arms that combine the values of several settings (a grid) therefore have one column per
setting, and a value is printed only where it changes from one row to the next.
"""

import json
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arm_marks import list_settings, read_marks
from harness.analysis.arms import order_arms
from harness.analysis.figures import style
from harness.analysis.figures.marks import choose_point
from harness.analysis.formatting import label_arms
from harness.analysis.tables import Tables
from harness.experiment.paths import format_short
from harness.text import escape_control_characters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

ROW_INCHES = 0.19
LINE_INCHES = 0.13
MARK_POINTS = 5.0
LABEL_POINTS = 7.2
_GAP_POINTS = 9.0
_MAX_CHARACTERS = 40
"""Length at which the name of an arm continues on the next line."""


def describe_arms(trials: pd.DataFrame, results: Tables) -> pd.DataFrame:
    """List the arms in the order in which a chart shows them, one row per arm.

    The order is that of the report, but arms that a plan adds to the grid come first.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm | str | name of the arm |
    | place | int | position in the chart from the top, from 0 |
    | settings | str | JSON object with the arm's value of each setting that the plan varies; empty for other arms |
    | mark | str | colour and shape of the arm in the whole experiment, such as `blue circle` |

    Args:
        trials: Trials whose arms are listed.
        results: Results of the whole experiment; marks are chosen among all its arms, so that an arm has one mark in every chart.
    """
    if trials.empty:
        columns = {"arm": object, "place": int, "settings": object, "mark": object}
        return pd.DataFrame({name: [] for name in columns}).astype(columns)
    values, marks = list_settings(trials), read_marks(results)
    ordered = sorted(order_arms(trials), key=values.__contains__)  # arms that a plan adds to the grid have no values
    rows = [
        {"arm": arm, "place": place, "settings": _dump(values.get(arm, {})), "mark": marks[arm]}
        for place, arm in enumerate(ordered)
    ]
    return pd.DataFrame(rows)


def _dump(values: "Mapping[str, object]") -> str:
    return json.dumps({_shorten(path, values): value for path, value in values.items()}) if values else ""


def _shorten(path: str, values: "Mapping[str, object]") -> str:
    """Return the last part of a dotted path, or the whole path if several paths have the same last part."""
    last = path.rsplit(".", 1)[-1]
    return path if sum(other_path.rsplit(".", 1)[-1] == last for other_path in values) > 1 else last


def format_value(value: object) -> str:
    """Return the value of a setting as a label, whole and on one line; a dash for None."""
    return "–" if value is None else escape_control_characters(format_short(value))


def _wrap(text: str) -> str:
    return "\n".join(wrap(text, _MAX_CHARACTERS)) or text


def compute_row_inches(rows: pd.DataFrame) -> float:
    """Return the height of a row that holds the longest name or value, which continues on further lines.

    Args:
        rows: Table with the columns `arm` and `settings`.
    """
    values = {_wrap(format_value(value)) for text in set(rows["settings"]) - {""} for value in json.loads(text).values()}
    lines = [label.count("\n") + 1 for label in (*_label_rows(rows).values(), *values)]
    return ROW_INCHES + LINE_INCHES * (max(lines, default=1) - 1)


def compute_height_inches(rows: pd.DataFrame, margin_inches: float = 1.6) -> float:
    """Return the height of a figure with one row per arm, or place, of a table and a row of headings."""
    return max(2.6, float(rows["place"].nunique() + 1) * compute_row_inches(rows) + margin_inches)


def _label_rows(rows: pd.DataFrame) -> dict[str, str]:
    """Return the labels of the arms that have no columns of settings."""
    return label_arms(dict.fromkeys(rows.loc[rows["settings"] == "", "arm"]), _MAX_CHARACTERS)


def draw_arms(ax: "Axes", rows: pd.DataFrame, beside: "Mapping[str, Mapping[int, str]] | None" = None) -> float:
    """Draw the names of the arms, or the values of their settings, at the left of axes with one row per arm.

    Returns the width of the drawn text in inches.

    Args:
        ax: Axes whose vertical coordinate is the place of an arm.
        rows: Table with the columns `arm`, `place` and `settings`; rows of one arm may be repeated. With a column `mark`, the
            mark of each arm stands beside its name.
        beside: Texts to show in columns at the right of the names, by heading and place, such as the number of trials.
    """
    arms = rows.drop_duplicates("place").sort_values("place")
    colours = style.read_colours()
    ax.set_ylim(float(arms["place"].max()) + 0.7, -1.5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    offset_points = 6.0
    for heading, texts in reversed(list((beside or {}).items())):
        offset_points = _draw_column(ax, heading, texts, offset_points)
    if "mark" in arms:
        offset_points = _draw_marks(ax, arms, offset_points)
    settings = {int(row.place): json.loads(row.settings) for row in arms.itertuples() if row.settings}
    labels = _label_rows(arms)
    names = {int(row.place): labels[row.arm] for row in arms.itertuples() if not row.settings}
    width_points = _draw_column(ax, "" if settings else "arm", names, offset_points)
    if settings:
        width_points = max(width_points, _draw_settings(ax, settings, offset_points))
        for place in _list_breaks(settings, arms["place"].tolist()):
            ax.axhline(place - 0.5, color=colours.faint, linewidth=0.7, zorder=0)
    return width_points / 72


def _draw_marks(ax: "Axes", arms: pd.DataFrame, offset_points: float) -> float:
    """Draw the marks of arms at a distance from the axes; return the distance at which the next column begins."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = ax.figure
    shift = ScaledTranslation(-(offset_points + MARK_POINTS / 2) / 72, 0, figure.dpi_scale_trans)
    for row in arms.itertuples():
        ax.plot(0, row.place, transform=ax.get_yaxis_transform() + shift, clip_on=False, **choose_point(row.mark, MARK_POINTS))
    return offset_points + MARK_POINTS + _GAP_POINTS / 2


def _draw_settings(ax: "Axes", settings: "Mapping[int, Mapping[str, Any]]", offset_points: float) -> float:
    """Draw a column of text for each setting; return the distance from the axes at which the first one begins."""
    names = list(next(iter(settings.values())))
    texts_by_setting: dict[str, dict[int, str]] = {name: {} for name in names}
    last: list[str] = []
    for place, values in sorted(settings.items()):
        texts = [_wrap(format_value(values[name])) for name in names]
        changed = False
        for column, name in enumerate(names):
            changed = changed or texts[: column + 1] != last[: column + 1] or column == len(names) - 1
            if changed:
                texts_by_setting[name][place] = texts[column]
        last = texts
    for name in reversed(names):
        offset_points = _draw_column(ax, name, texts_by_setting[name], offset_points)
    return offset_points


def _draw_column(ax: "Axes", heading: str, texts: "Mapping[int, str]", offset_points: float) -> float:
    """Draw a column of text that ends at a distance from the axes; return the distance at which it begins."""
    colours = style.read_colours()
    options: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": LABEL_POINTS}
    for place, text in [(-1, heading), *texts.items()]:
        colour = colours.muted if place == -1 else colours.text
        ax.annotate(text, (0, place), xycoords=("axes fraction", "data"), xytext=(-offset_points, 0), color=colour, **options)
    widest = max(len(line) for text in [heading, *texts.values()] for line in text.split("\n"))
    return offset_points + 0.56 * LABEL_POINTS * widest + _GAP_POINTS


def _list_breaks(settings: "Mapping[int, Mapping[str, Any]]", places: "Sequence[int]") -> list[int]:
    """Return the rows above which the chart draws a line: those whose first setting differs from the row above."""
    firsts = {place: next(iter(values.values())) if (values := settings.get(place)) else None for place in places}
    ordered = sorted(places)
    return [place for above, place in pairwise(ordered) if firsts[above] != firsts[place]]
