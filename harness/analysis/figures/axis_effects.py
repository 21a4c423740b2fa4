"""Chart of the effect of each setting that the plan varies (axis), averaged over the other settings.

Each value of a setting is compared with the first. The arms that combine the values of the settings form a grid. Two arms of the
grid that differ in only one setting are compared on each task and seed, and the differences are averaged over all such pairs of
arms. Arms that a plan adds to the grid never count.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import drop_earlier_plans, select_outcomes, select_valid
from harness.analysis.axes import contrast_axes
from harness.analysis.baselines import resolve_metrics
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import draw_arms, format_value
from harness.analysis.figures.forest import FILL_NOTE, describe_estimands, draw_first_panel, make_panels
from harness.analysis.measures import add_measures
from harness.analysis.tables import Tables, require_single_level, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *("axis", "setting", "against", "place", "metric", "arm_pairs", "n"),
    *("value", "low", "high", "p_value", "estimand", "refusal", "level"),
)


def table(results: Tables, *, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the data of the chart of axis effects, one row per metric and value of a varied setting (axis).

    | column | dtype | unit |
    | --- | --- | --- |
    | axis | str | dotted path of the setting |
    | setting | str | value of the axis |
    | against | str | value of the axis with which `setting` is compared |
    | place | int | position in the chart from the top, from 0 |
    | metric | str | name of the metric |
    | arm_pairs | int | pairs of arms that differ in this axis only |
    | n | int | pairs of the same task and seed |
    | value | float | mean of the differences, or typical ratio |
    | low, high | float | 95 % interval; NaN if there is none |
    | p_value | float | two-sided p-value for no effect, not adjusted for other comparisons; NaN without an interval |
    | estimand | str | `tasks like these` or `these tasks` |
    | refusal | str | reason why there is no interval; empty if there is one |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.
        metrics: Names of metrics; None for success, or score if success is the same in all trials of most arms, and cost.

    Example::

        table = harness.figures.axis_effects.table(results, metrics=["score", "cost"])
        table[["setting", "against", "value", "low", "high"]]

    Raises:
        UnknownName: There is no such metric; the message suggests similar names.
    """
    open_outcomes(results)
    results = select_outcomes(results)
    current = drop_earlier_plans(results)
    trials = add_measures(select(current, select_valid(current.trials)))
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    chosen = resolve_metrics(trials, metrics)
    level = require_single_level(trials)
    rows: list[dict[str, Any]] = [
        {
            "axis": axis_contrast.axis,
            "setting": format_value(axis_contrast.value),
            "against": format_value(axis_contrast.baseline),
            "place": place,
            "metric": metric.name,
            "arm_pairs": axis_contrast.arm_pairs,
            "n": effect.pair_count,
            "value": effect.value,
            "low": effect.interval.low,
            "high": effect.interval.high,
            "p_value": effect.p_value,
            "estimand": effect.estimand,
            "refusal": effect.refusal,
            "level": level,
        }
        for place, axis_contrast in enumerate(contrast_axes(trials, [metric.column for metric in chosen]))
        for metric, effect in zip(chosen, axis_contrast.effects, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the effect of each value of a varied setting (axis) against its first value, one panel per metric.

    If `ax` is given, the panel of the first metric is drawn on it.

    Example::

        table = harness.figures.axis_effects.table(results)
        harness.figures.axis_effects.draw(table, theme="dark").savefig("axis_effects.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no two arms differ in exactly one axis of the plan, so there is no effect of an axis to draw"
    draw_axes = partial(draw_first_panel, draw_names=_draw_names)
    return style.draw_chart(_add_row_labels(table), ax, _draw_figure, draw_axes, theme=theme, width=width, empty_message=message)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    figure = make_panels(table, _draw_names)
    axes_count = table["axis"].nunique()
    about = f"{axes_count} {'axis' if axes_count == 1 else 'axes'}, each value against the first, averaged over the other axes"
    style.add_header(figure, "Effect of each axis", about, level)
    estimands = describe_estimands(table)
    style.add_footer(
        figure,
        f"95 % intervals for {estimands}; arms: pairs of arms that differ in this axis only; n: pairs of task and seed. "
        f"{FILL_NOTE}",
    )
    return figure


def _add_row_labels(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the columns `arm` and `settings`, from which the rows of a chart get their labels.

    A row of this chart is a value of an axis, so the axis takes the place of the arm.
    """
    settings = [
        json.dumps({"axis": row.axis.rsplit(".", 1)[-1], "value": row.setting, "against": row.against})
        for row in table.itertuples()
    ]
    return table.assign(arm=table["axis"], settings=settings)


def _draw_names(ax: "Axes", table: pd.DataFrame, metric: str) -> float:
    rows = table[table["metric"] == metric]
    beside = {
        "arms": {int(row.place): str(row.arm_pairs) for row in rows.itertuples()},
        "n": {int(row.place): str(row.n) for row in rows.itertuples()},
    }
    return draw_arms(ax, rows, beside)
