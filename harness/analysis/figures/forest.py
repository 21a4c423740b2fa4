"""Rows of paired effects with intervals (a forest plot), shared by the charts that compare arms or values of a setting."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from harness.analysis.arm_marks import COLOURS, ArmMark
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import MARK_POINTS, compute_height_inches
from harness.analysis.figures.marks import choose_point
from harness.analysis.intervals import ALPHA
from harness.analysis.measures import METRICS, Metric
from harness.analysis.statistics import adjust_benjamini_hochberg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL_POINTS = 7.0
FILL_NOTE = (
    "Filled: interval and test, with p adjusted for all effects of the chart (Benjamini and Hochberg), show a difference; "
    "hollow: no difference shown. Exploratory."
)
"""Sentences below charts of effects that say what filled and hollow marks mean."""
NEUTRAL = ArmMark(colour=COLOURS.index("ink"), shape=0)
"""Mark of an effect that belongs to no arm."""
MIN_LOGARITHMIC_FACTOR = 4.0
MIN_PANEL_INCHES = 1.3
"""Width of the axes of a panel below which panels are drawn one below the other."""

DrawNames: TypeAlias = Callable[["Axes", pd.DataFrame, str], float]
"""Function that labels the rows of a panel, given its axes, the table and the name of the metric; returns its width in inches."""


def describe_estimands(table: pd.DataFrame) -> str:
    """Return in words to which tasks the effects of a table apply, e.g. `these tasks only`."""
    texts = {"tasks like these": "all tasks of this kind", "these tasks": "these tasks only"}
    return " and ".join(texts.get(estimand, estimand) for estimand in sorted(table["estimand"].unique()))


def draw_effects(ax: "Axes", rows: pd.DataFrame, metric: Metric) -> None:
    """Draw the effects on a metric with their intervals, one per row, and write their numbers beside them.

    The mark of an effect is filled if both its interval and its test exclude that the compared arms are equal.

    Args:
        ax: Axes whose vertical coordinate is the `place` of a row.
        rows: Table with the columns `place`, `value`, `low`, `high` and `p_value`. With a column `mark`, each effect has the
            colour and shape of its arm.
        metric: Metric whose differences, or ratios, are shown.
    """
    colours, no_effect = style.read_colours(), 1.0 if metric.is_ratio else 0.0
    ax.axvline(no_effect, color=colours.muted, linewidth=0.9, zorder=1)
    for row in rows.itertuples():
        is_shown = row.p_value <= ALPHA and not row.low <= no_effect <= row.high
        point = choose_point(getattr(row, "mark", str(NEUTRAL)), MARK_POINTS, is_hollow=not is_shown)
        bar: dict[str, Any] = {"color": point["color"], "linewidth": 1.3, "solid_capstyle": "butt"}
        ax.plot([row.low, row.high], [row.place, row.place], zorder=2, **bar)
        ax.plot(row.value, row.place, zorder=3, **point)
    _write_numbers(ax, rows, metric)
    if metric.is_ratio:
        use_ratio_axis(ax, pd.concat([rows["value"], rows["low"], rows["high"]]))
    elif metric.kind == "rate":
        ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}" if value else "0")
    better = "better →" if metric.is_higher_better else "← better"
    ax.set_xlabel(f"{metric.difference_label}, {better}")
    ax.grid(axis="x", zorder=0)


def _write_numbers(ax: "Axes", rows: pd.DataFrame, metric: Metric) -> None:
    options: dict[str, Any] = {"textcoords": "offset points", "ha": "left", "va": "center", "fontsize": LABEL_POINTS}
    for row, text in zip(rows.itertuples(), _format_numbers(rows, metric), strict=True):
        position: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (6, 0), "color": style.read_colours().text}
        ax.annotate(text, (1, row.place), **position, **options)


def _format_numbers(rows: pd.DataFrame, metric: Metric) -> list[str]:
    return [f"{metric.format_change(row.value)} {metric.format_change_interval(row.low, row.high)}" for row in rows.itertuples()]


def use_ratio_axis(ax: "Axes", ratios: pd.Series) -> None:
    """Label the horizontal axis with ratios such as ×0.5; logarithmic if they differ by a factor of four."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    known = ratios[ratios > 0]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.5, 2.0)
    if high / low > MIN_LOGARITHMIC_FACTOR:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.xaxis.set_major_formatter(lambda value, _: f"×{value:g}")


def make_panels(table: pd.DataFrame, draw_names: DrawNames) -> "Figure":
    """Make a figure with one panel of effects per metric, without header and footer.

    The panels stand side by side, and only the first one has names of rows. If they would be too narrow, they stand one below
    the other, each with names.

    Args:
        table: Effects with the columns `metric`, `arm`, `settings`, `place` (row of the panel, from 0), and those of
            `draw_effects`.
        draw_names: Function that labels the rows of a panel.
    """
    metrics = list(dict.fromkeys(table["metric"]))
    height_inches = compute_height_inches(table)
    figure = style.make_figure(3.0 + 3.3 * len(metrics), height_inches)
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    names_inches = draw_panel(axes[0], table, metrics[0], draw_names)
    numbers = [text for name in metrics for text in _format_numbers(table[table["metric"] == name], METRICS[name])]
    # a character is on average 0.56 times as wide as its font size; 72 points are an inch
    numbers_inches = 0.56 * LABEL_POINTS / 72 * max(map(len, numbers))
    if len(metrics) > 1 and (figure.get_figwidth() - names_inches) / len(metrics) - numbers_inches < MIN_PANEL_INCHES:
        figure = style.make_figure(6.3, height_inches * len(metrics))
        for ax, metric in zip(figure.subplots(len(metrics), 1), metrics, strict=True):
            draw_panel(ax, table, metric, draw_names)
        return figure
    for ax, metric in zip(axes[1:], metrics[1:], strict=True):
        draw_panel(ax, table, metric, None)
    return figure


def draw_first_panel(ax: "Axes", table: pd.DataFrame, draw_names: DrawNames) -> None:
    """Draw the effects on the first metric of a table, with the names of the rows."""
    draw_panel(ax, table, str(table["metric"].iloc[0]), draw_names)


def draw_panel(ax: "Axes", table: pd.DataFrame, metric: str, draw_names: DrawNames | None) -> float:
    """Draw the effects on one metric, with the names of the rows unless `draw_names` is None.

    Returns the width of the names in inches. The p-values are adjusted for all effects of the table, those on other metrics too.
    """
    names_inches = 0.0
    if draw_names is not None:
        names_inches = draw_names(ax, table, metric)
    else:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylim(float(table["place"].max()) + 0.7, -1.5)
    adjusted = table.assign(p_value=adjust_benjamini_hochberg(table["p_value"].tolist()))
    draw_effects(ax, adjusted[adjusted["metric"] == metric], METRICS[metric])
    ax.set_title(METRICS[metric].name)
    return names_inches
