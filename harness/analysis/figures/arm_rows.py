"""Rows of a chart for arms (configurations): names, or one column of text for each setting that the plan varies.

Fifty long names of arms cannot be read. Arms that combine the values of several settings (a grid) therefore have one column per
setting, and a value is printed only where it changes from one row to the next.
"""

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import order_arms, read_axes
from harness.analysis.axes import is_grid_arm
from harness.analysis.figures import style
from harness.analysis.formatting import format_label
from harness.experiment.paths import is_arm_setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

ROW_INCHES = 0.19
LABEL_POINTS = 7.2
_GAP_POINTS = 9.0
_MAX_CHARACTERS = 40


def describe_arms(trials: pd.DataFrame) -> pd.DataFrame:
    """List the arms (configurations) in the order in which a chart shows them, one row per arm.

    The order is that of the report, but arms that a plan adds to the combinations of settings (the grid) come first.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm | str | name of the arm |
    | place | int | position in the chart from the top, from 0 |
    | settings | str | JSON object with the arm's value of each setting that the plan varies; empty for other arms |
    """
    if trials.empty:
        return pd.DataFrame({"arm": [], "place": [], "settings": []}).astype({"arm": object, "place": int, "settings": object})
    first = trials.drop_duplicates("arm").set_index("arm")
    axes = read_axes(first)
    values = {arm: _list_settings(str(arm), str(text), axes[str(text)]) for arm, text in first["axes_json"].items()}
    varied = _list_varied([settings for settings in values.values() if settings])
    ordered = sorted(order_arms(trials), key=lambda arm: bool(values[arm]))
    rows = [
        {"arm": arm, "place": place, "settings": _dump({name: values[arm].get(name) for name in varied}) if values[arm] else ""}
        for place, arm in enumerate(ordered)
    ]
    return pd.DataFrame(rows)


def _list_settings(arm: str, axes_json: str, axes: "Mapping[str, object]") -> dict[str, object]:
    """Return an arm's value of each setting that the plan varies; empty for an arm outside the grid of settings."""
    if not is_grid_arm(arm, json.loads(axes_json or "{}")):
        return {}
    return {path: value for path, value in axes.items() if is_arm_setting(path)}


def _list_varied(values: "Sequence[Mapping[str, object]]") -> list[str]:
    paths = sorted({path for settings in values for path in settings})
    return [path for path in paths if len({json.dumps(settings.get(path)) for settings in values}) > 1]


def _dump(values: "Mapping[str, object]") -> str:
    return json.dumps({_shorten(path, values): value for path, value in values.items()}) if values else ""


def _shorten(path: str, values: "Mapping[str, object]") -> str:
    """Return the last part of a dotted path, or the whole path if several paths have the same last part."""
    last = path.rsplit(".", 1)[-1]
    return path if sum(other_path.rsplit(".", 1)[-1] == last for other_path in values) > 1 else last


def format_value(value: object) -> str:
    """Return the value of a setting as a short label."""
    return f"{value:g}" if isinstance(value, float) else "–" if value is None else format_label(value, _MAX_CHARACTERS)


def compute_height_inches(arm_count: int, margin_inches: float = 1.6) -> float:
    """Return the height of a figure with one row per arm and a row of headings."""
    return max(2.6, (arm_count + 1) * ROW_INCHES + margin_inches)


def draw_arms(ax: "Axes", rows: pd.DataFrame, beside: "Mapping[str, Mapping[int, str]] | None" = None) -> float:
    """Draw the names of the arms, or the values of their settings, at the left of axes with one row per arm.

    Returns the width of the drawn text in inches.

    Args:
        ax: Axes whose vertical coordinate is the place of an arm.
        rows: Table with the columns `arm`, `place` and `settings`; rows of one arm may be repeated.
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
    settings = {int(row.place): json.loads(row.settings) for row in arms.itertuples() if row.settings}
    names = {int(row.place): format_label(row.arm, 56) for row in arms.itertuples() if not row.settings}
    width_points = _draw_column(ax, "" if settings else "arm", names, offset_points)
    if settings:
        width_points = max(width_points, _draw_settings(ax, settings, offset_points))
        for place in _list_breaks(settings, arms["place"].tolist()):
            ax.axhline(place - 0.5, color=colours.faint, linewidth=0.7, zorder=0)
    return width_points / 72


def _draw_settings(ax: "Axes", settings: "Mapping[int, Mapping[str, Any]]", offset_points: float) -> float:
    """Draw a column of text for each setting; return the distance from the axes at which the first one begins."""
    names = list(next(iter(settings.values())))
    shown: dict[str, dict[int, str]] = {name: {} for name in names}
    last: list[str] = []
    for place, values in sorted(settings.items()):
        texts = [format_value(values[name]) for name in names]
        changed = False
        for column, name in enumerate(names):
            changed = changed or texts[: column + 1] != last[: column + 1] or column == len(names) - 1
            if changed:
                shown[name][place] = texts[column]
        last = texts
    for name in reversed(names):
        offset_points = _draw_column(ax, name, shown[name], offset_points)
    return offset_points


def _draw_column(ax: "Axes", heading: str, texts: "Mapping[int, str]", offset_points: float) -> float:
    """Draw a column of text that ends at a distance from the axes; return the distance at which it begins."""
    colours = style.read_colours()
    options: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": LABEL_POINTS}
    for place, text in [(-1, heading), *texts.items()]:
        colour = colours.muted if place == -1 else colours.text
        ax.annotate(text, (0, place), xycoords=("axes fraction", "data"), xytext=(-offset_points, 0), color=colour, **options)
    widest = max(map(len, [heading, *texts.values()]))
    return offset_points + 0.56 * LABEL_POINTS * widest + _GAP_POINTS


def _list_breaks(settings: "Mapping[int, Mapping[str, Any]]", places: "Sequence[int]") -> list[int]:
    """Return the rows above which the chart draws a line: those whose first setting differs from the row above."""
    firsts = {place: next(iter(values.values())) if (values := settings.get(place)) else None for place in places}
    ordered = sorted(places)
    return [place for above, place in pairwise(ordered) if firsts[above] != firsts[place]]
