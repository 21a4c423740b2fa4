"""Heat map of a metric by a policy's threshold and number of kept messages, with one panel per summarizer.

Each field (cell) shows the value, its interval and the number of trials, so that a colour based on two trials is not mistaken for
a result. The colours are scaled to the data, but span at least the widest interval, so that noise is not shown as a strong
contrast. With a baseline, fields show the paired difference from it or, for amounts such as
cost, the ratio, and colours diverge from no difference.
"""

import json
import math
from math import log2, nan
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import (
    build_sort_key,
    drop_earlier_plans,
    find_arm,
    read_policy_field,
    read_specified_field,
    select_outcomes,
    select_valid,
)
from harness.analysis.axes import is_grid_arm
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.formatting import ESTIMAND_NOTE, format_short_number
from harness.analysis.measures import METRICS, Metric, add_measures, choose_metric, estimate_cell, estimate_change, find_metric
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.validity import drop_repeats
from harness.errors import UsageError, format_count
from harness.experiment.paths import format_short
from harness.text import escape_control_characters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

KEY_COLUMNS = ("summarizer", "threshold", "keep_last")
COLUMNS = (*KEY_COLUMNS, "metric", "baseline", "n", "value", "low", "high", "threshold_tokens", "level")
CELL_WIDTH_INCHES, SMALL_CELL_WIDTH_INCHES, CELL_HEIGHT_INCHES = 0.94, 0.78, 0.74
LABEL_INCHES = 0.078
"""Width of a character of a label or title."""
PAPER_INCHES = style.WIDTHS_INCHES["paper"]
MIN_SPAN = 0.02
"""Smallest difference that the colours span without an interval, as a share of the larger value."""
MIN_ROWS = 2
"""Smallest number of cells of which a report draws the chart."""


def table(results: Tables, *, metric: str | None = None, baseline: "str | Mapping[str, object] | None" = None) -> pd.DataFrame:
    """Return the data of the heat map, one row per coloured field (cell).

    A cell pools all trials with the same summarizer, threshold and `keep_last`, whatever their other settings. If the plan varies
    settings, extra arms that it adds to their combinations (the grid) are excluded. So are trials of earlier plans and repeated
    runs (A/A); `attrs["repeats"]` is the number of excluded repeats.

    | column | dtype | unit |
    | --- | --- | --- |
    | summarizer | str | model that writes the summaries |
    | threshold | object | share of the available window, 0 to 1 (float), tokens (int), or a quantile of tokens (str) |
    | keep_last | int | number of recent messages kept unchanged |
    | metric | str | name of the metric |
    | baseline | str | arm that is subtracted; empty without one |
    | n | int | number of trials or, with a baseline, of pairs, without repeats (A/A) |
    | value | float | mean over tasks in the metric's unit or, with a baseline, the paired difference, or the ratio of an amount |
    | low, high | float | 95 % interval of the value over tasks or, with fewer than six tasks, seeds; NaN if there is none |
    | threshold_tokens | float | threshold in tokens; NaN if it differs between the trials of the cell |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.
        metric: Name of a metric in `harness.analysis.measures.METRICS`; None for success, or score if success is the same in all
            trials of most cells.
        baseline: Arm to subtract, by its name or by settings as in `harness.compare`; None shows the values themselves.

    Example::

        table = harness.figures.heat_map.table(results, metric="score")
        table[["threshold", "keep_last", "value", "n"]]

    Raises:
        UnknownName: There is no such metric or arm; the message suggests similar names.
        UsageError: The settings of the baseline select no arm or several arms.
    """
    open_outcomes(results)
    results = select_outcomes(results)
    current = drop_earlier_plans(results)
    trials = add_measures(select(current, select_valid(current.trials)))
    share, tokens = read_policy_field(trials, "threshold"), read_specified_field(trials, "trigger_tokens")
    summarizer, keep_last = read_policy_field(trials, "summarizer"), read_policy_field(trials, "keep_last")
    cells = trials.assign(summarizer=summarizer, threshold=tokens.where(tokens.notna(), share), keep_last=keep_last)
    in_grid = [is_grid_arm(arm, json.loads(text or "{}")) for arm, text in zip(cells["arm"], cells["axes_json"], strict=True)]
    grid_trials = (cells[in_grid] if any(in_grid) else cells).dropna(subset=list(KEY_COLUMNS))
    first_runs = drop_repeats(grid_trials)
    groups = dict(
        sorted(first_runs.groupby(list(KEY_COLUMNS), sort=False), key=lambda group: list(map(build_sort_key, group[0])))
    )
    chosen = choose_metric(list(groups.values())) if metric is None else find_metric(metric)
    against = "" if baseline is None else find_arm(current.trials, baseline)
    baseline_trials = trials[trials["arm"] == against]
    rows = [
        (*key, chosen.name, against, *_estimate(group, baseline_trials, chosen), *_describe_cell(group))
        for key, group in groups.items()
    ]
    thresholds = pd.Series([row[1] for row in rows], dtype=object)  # so that tokens beside a share stay an integer
    cell_table = pd.DataFrame(rows, columns=list(COLUMNS)).assign(threshold=thresholds)
    cell_table.attrs["repeats"] = len(grid_trials) - len(first_runs)
    return cell_table


def _estimate(trials: pd.DataFrame, baseline: pd.DataFrame, metric: Metric) -> tuple[int, float, float, float]:
    if baseline.empty:
        return estimate_cell(trials, metric)
    if set(trials["arm"]) == set(baseline["arm"]):
        return len(trials), 1.0 if metric.is_ratio else 0.0, nan, nan
    effect = estimate_change(trials, baseline, metric, is_tested=False)
    return effect.pair_count, effect.value, *effect.interval


def _describe_cell(trials: pd.DataFrame) -> tuple[float, str]:
    tokens = trials["threshold_tokens"].astype(float).unique()
    return float(tokens[0]) if len(tokens) == 1 else nan, require_single_level(trials)


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw a metric by compaction threshold and number of kept messages, one panel per summarizer.

    If `ax` is given, the panel of the only summarizer is drawn on it.

    Example::

        table = harness.figures.heat_map.table(results)
        harness.figures.heat_map.draw(table, theme="dark").savefig("heat_map.png")

    Raises:
        UsageError: The table is empty, it has several fidelity levels, or `ax` is given and there are several summarizers.
    """
    message = "no trial has a policy with threshold, keep_last and summarizer, so there is no heat map to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_single_panel, theme=theme, width=width, empty_message=message)


def _draw_single_panel(ax: "Axes", table: pd.DataFrame) -> None:
    if (panels := table["summarizer"].nunique()) > 1:
        raise UsageError(
            f"ax holds one panel, but the table has {panels} summarizers with a panel each; select the rows of one of them or "
            "omit ax"
        )
    _draw_panel(ax, table, _list_axis_values(table), *_scale_colours(table))


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    scale, panels = _list_axis_values(table), sorted(table["summarizer"].unique())
    metric, colour_map, norm = _read_metric(table), *_scale_colours(table)
    cell_inches = CELL_WIDTH_INCHES if style.read_max_width_inches() > PAPER_INCHES else SMALL_CELL_WIDTH_INCHES
    panel_inches = len(scale["keep_last"]) * cell_inches + 0.3
    across = min(len(panels), style.fit_columns(panel_inches, 1.5))
    down = -(-len(panels) // across)  # rounded up
    height = down * (len(scale["threshold"]) * CELL_HEIGHT_INCHES + 0.45) + 1.4
    figure = style.make_figure(max(across * panel_inches + 1.5, 5.6), height)
    axes = figure.subplots(down, across, sharey=True, squeeze=False)
    images = []
    for ax, name in zip(axes.flat, panels, strict=False):
        images.append(_draw_panel(ax, table[table["summarizer"] == name], scale, colour_map, norm))
        title = escape_control_characters(f"summarizer {name}")
        ax.set_title("\n".join(wrap(title, max(12, int(panel_inches / LABEL_INCHES)))))
    for place, ax in enumerate(axes.flat):
        ax.set_visible(place < len(panels))
        ax.set_ylabel(_wrap_label(ax.get_ylabel(), height / down - 1.0) if place % across == 0 else "")
        ax.set_xlabel(ax.get_xlabel() if place + across >= len(panels) else "")
    baseline = str(table["baseline"].iloc[0])
    bar = figure.colorbar(images[0], ax=list(axes.flat), shrink=0.95, aspect=18 * down, pad=0.015)
    ticks = _list_ticks(metric, norm, has_baseline=bool(baseline))
    bar.set_ticks(list(ticks.values()), labels=list(ticks))
    bar.ax.minorticks_off()
    bar.set_label(_wrap_label(metric.difference_label if baseline else metric.label, height - 1.4))
    bar.outline.set_visible(False)
    unit = "pair" if baseline else "trial"
    about = f"{format_count(int(table['n'].sum()), unit)}{style.describe_excluded_repeats(table)}"
    if baseline:
        about += f"; baseline: {escape_control_characters(baseline)}"
    style.add_header(figure, f"{metric.name.capitalize()} by threshold and kept messages", about, level)
    direction = "High" if metric.is_higher_better else "Low"
    cells = f"Each cell: value, 95 % interval, number of {unit}s."
    style.add_footer(figure, f"{cells} {direction} is better. {ESTIMAND_NOTE} {metric.description}")
    return figure


def _read_metric(table: pd.DataFrame) -> Metric:
    return METRICS[str(table["metric"].iloc[0])]


def _wrap_label(label: str, height_inches: float) -> str:
    """Return a label of a vertical axis on as many lines as its height needs."""
    return "\n".join(wrap(label, max(10, int(height_inches / LABEL_INCHES))))


def _list_ticks(metric: Metric, norm: "Normalize", *, has_baseline: bool) -> dict[str, float]:
    """Return the ticks of the colour bar by label, without those whose label would be that of another tick."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    inside = [float(tick) for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]
    return {_format_colour(metric, tick, has_baseline=has_baseline): tick for tick in reversed(inside)}


def _format_colour(metric: Metric, value: float, *, has_baseline: bool) -> str:
    if not has_baseline:
        return metric.format_value(value)
    return metric.format_change(2.0**value if metric.is_ratio else value)


def _scale_colours(table: pd.DataFrame) -> "tuple[Colormap, Normalize]":
    """Return a colour map and the range of values that it covers.

    The range is that of the data or, with a baseline, one that is symmetric about no change, but at least the widest interval.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    metric, colours = _read_metric(table), style.read_colours()
    values = _scale_values(table, "value").dropna()
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    widths = (_scale_values(table, "high") - _scale_values(table, "low")).dropna()
    widest = float(widths.max()) if len(widths) else 0.0
    if table["baseline"].iloc[0]:
        largest = max(abs(low), abs(high), MIN_SPAN, widest / 2)
        ends = colours.diverging if metric.is_higher_better else colours.diverging[::-1]
        return LinearSegmentedColormap.from_list("diverging", list(ends)), Normalize(-largest, largest)
    span = max(high - low, widest, MIN_SPAN * max(abs(high), MIN_SPAN))
    ceiling = math.inf if metric.kind == "amount" else max(1.0, high)
    first = max(min((low + high - span) / 2, ceiling - span), min(0.0, low))  # no colours for values that cannot be
    name = colours.sequential if metric.is_higher_better else f"{colours.sequential}_r"
    return colormaps[name], Normalize(first, first + span)


def _scale_values(table: pd.DataFrame, column: str) -> pd.Series:
    # with the logarithm of a ratio, half and double are equally strong
    if table["baseline"].iloc[0] and _read_metric(table).is_ratio:
        return table[column].map(lambda value: log2(value) if value > 0 else nan)
    return table[column].astype(float)


def _list_axis_values(table: pd.DataFrame) -> dict[str, list[Any]]:
    values = {name: sorted(table[name].unique(), key=build_sort_key) for name in ("threshold", "keep_last")}
    return values | {"labels": [_describe_threshold(value, table) for value in values["threshold"]]}


def _format_tick(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escape_control_characters(format_short(value))


def _describe_threshold_axis(thresholds: list[Any]) -> str:
    has_quantiles = any(isinstance(threshold, str) for threshold in thresholds)
    tokens = "tokens; q = quantile of uncompacted contexts" if has_quantiles else "tokens"
    shares = [isinstance(threshold, float) for threshold in thresholds]
    if all(shares):
        return "threshold (share of available window)"
    return f"threshold (share of available window, or {tokens})" if any(shares) else f"threshold ({tokens})"


def _draw_panel(ax: "Axes", cells: pd.DataFrame, scale: dict[str, list[Any]], colour_map: "Colormap", norm: "Normalize") -> Any:
    rows, columns = scale["threshold"], scale["keep_last"]
    metric, colours = _read_metric(cells), style.read_colours()
    shown = cells.assign(colour=_scale_values(cells, "value"))
    values = {(cell.threshold, cell.keep_last): cell.colour for cell in shown.itertuples()}
    grid = [[values.get((row, column), nan) for column in columns] for row in rows]
    ax.set_facecolor(colours.panel)
    image = ax.imshow(grid, cmap=colour_map, norm=norm, aspect="auto", origin="lower")
    for cell in shown.itertuples():
        ink = colours.muted if pd.isna(cell.colour) else style.choose_ink(colour_map(norm(cell.colour)))
        _annotate_cell(ax, columns.index(cell.keep_last), rows.index(cell.threshold), cell, metric, ink)
    ax.set_xticks(range(len(columns)), [format_short(value) for value in columns])
    ax.set_yticks(range(len(rows)), scale["labels"])
    ax.set_xticks([place - 0.5 for place in range(1, len(columns))], minor=True)
    ax.set_yticks([place - 0.5 for place in range(1, len(rows))], minor=True)
    ax.grid(which="minor", color=colours.background, linewidth=2.0)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="keep-last (messages)", ylabel=_describe_threshold_axis(rows))
    return image


def _describe_threshold(value: object, cells: pd.DataFrame) -> str:
    tokens = cells.loc[[threshold == value for threshold in cells["threshold"]], "threshold_tokens"].dropna().unique()
    if isinstance(value, int) or len(tokens) != 1:
        return _format_tick(value)
    return f"{_format_tick(value)}\n{format_short_number(tokens[0])} tokens"


def _annotate_cell(ax: "Axes", x: int, y: int, cell: Any, metric: Metric, ink: str) -> None:
    if cell.baseline:
        value, interval = metric.format_change(cell.value), metric.format_change_interval(cell.low, cell.high)
    else:
        value, interval = metric.format_value(cell.value), metric.format_interval(cell.low, cell.high)
    options: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
    ax.text(x, y + 0.2, value, fontsize=9.5, fontweight="bold", **options)
    ax.text(x, y - 0.06, interval, fontsize=7.0, **options)
    ax.text(x, y - 0.29, f"n = {cell.n}", fontsize=6.8, **options)
