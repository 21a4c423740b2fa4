"""Chart of the distribution of per-task cost ratios: how much each task costs under an arm compared with the baseline.

The ratio of a task is the typical ratio over its seeds. A typical ratio near 1 can hide tasks that cost half and tasks that cost
double; only the ratios of the single tasks show this.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import select_outcomes
from harness.analysis.baselines import compare_with_baseline, prepare_arms, resolve_baseline
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import compute_height_inches, describe_arms, draw_arms
from harness.analysis.figures.forest import use_ratio_axis
from harness.analysis.figures.marks import choose_point
from harness.analysis.formatting import ESTIMAND_NOTE
from harness.analysis.measures import METRICS, Metric, find_metric
from harness.analysis.tables import Tables, require_single_level
from harness.analysis.validity import NEEDED_COLUMNS, pair_trials
from harness.errors import UsageError, format_count
from harness.text import escape_control_characters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("arm", "place", "settings", "mark", "metric", "baseline", "task", "n", "ratio", "typical", "low", "high", "level")
UNSUITABLE_METRICS = tuple(name for name, metric in METRICS.items() if not metric.is_ratio)
"""Metrics that can be 0, so that the ratio of two arms is not defined."""


def table(results: Tables, *, metric: str = "cost", baseline: str | Mapping[str, object] | None = None) -> pd.DataFrame:
    """Return the data of the chart of cost ratios (arm divided by baseline), one row per arm and task.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm, settings | str | name of the arm; JSON object with its values of the settings that the plan varies |
    | place | int | position of the arm in the chart from the top, from 0 |
    | mark | str | colour and shape of the arm in every chart of the experiment, such as `blue circle` |
    | metric, baseline | str | names of the metric and of the baseline |
    | task | str | name of the task |
    | n | int | pairs of the task: seeds and replicates with values above 0 |
    | ratio | float | geometric mean of the ratios of the task's pairs, arm divided by baseline |
    | typical | float | typical ratio over tasks |
    | low, high | float | 95 % interval of the typical ratio; NaN if there is none |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.
        metric: Name of a metric that is an amount: cost, tokens or steps.
        baseline: Arm to compare with, by its name or by settings as in `harness.compare`; None for the arm of the declared
            contrasts, or else the arm without compaction, or else the first arm.

    Example:
        >>> import harness, pandas, pathlib, tempfile
        >>> runs = {"task": list("aabb"), "arm": list("xyxy"), "passed": [1, 0, 1, 1], "usd": [1, 2, 3, 3.3]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "runs.csv")
        ...     pandas.DataFrame(runs).to_csv(path)
        ...     results = harness.load_outcomes(path, task="task", arm="arm", success="passed", cost="usd")
        >>> harness.figures.cost_ratios.table(results)[["arm", "task", "ratio"]].round(2).values.tolist()
        [['y', 'a', 2.0], ['y', 'b', 1.1]]

    Raises:
        UnknownName: There is no such metric or arm; the message suggests similar names.
        UsageError: The metric is no amount, or the settings of the baseline select no arm or several arms.
    """
    open_outcomes(results)
    results = select_outcomes(results)
    chosen = find_metric(metric)
    if not chosen.is_ratio:
        amounts = ", ".join(name for name, other_metric in METRICS.items() if other_metric.is_ratio)
        raise UsageError(f"metric {metric!r} can be 0, so the chart cannot show its ratio of two arms; choose one of {amounts}")
    trials = prepare_arms(results)
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    against = resolve_baseline(results, baseline)
    reference, level = trials[trials["arm"] == against], require_single_level(trials)
    arms = describe_arms(trials, results)
    others = arms[arms["arm"] != against].reset_index(drop=True)
    effects = compare_with_baseline(trials, against, [chosen], is_tested=False)
    ratios = _compute_ratios(trials, reference, chosen)
    shown = others[others["arm"].isin(ratios["arm"])]
    chosen_effects = [effects[arm][chosen.name] for arm in shown["arm"]]
    shown = shown.assign(place=shown.index, metric=chosen.name, baseline=against, level=level)
    shown = shown.assign(
        typical=[effect.value for effect in chosen_effects],
        low=[effect.interval.low for effect in chosen_effects],
        high=[effect.interval.high for effect in chosen_effects],
    )
    return shown.merge(ratios, on="arm", sort=False)[list(COLUMNS)]


def _compute_ratios(trials: pd.DataFrame, baseline: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return the typical ratio of each arm to the baseline on each task, with the number of pairs."""
    a, b = (side[[*NEEDED_COLUMNS, metric.column]] for side in (trials, baseline))
    sides = [pair_trials(rows, b, [metric.column]).assign(arm=arm) for arm, rows in a.groupby("arm", sort=False)]
    pairs = pd.concat(sides, ignore_index=True)
    values_a, values_b = (pairs[f"{metric.column}_{side}"].astype(float) for side in "ab")
    is_known = (values_a > 0) & (values_b > 0)
    logs = np.log(values_a[is_known] / values_b[is_known])
    by_task = logs.groupby([pairs["arm"], pairs["task"]], sort=True).agg(["mean", "size"]).reset_index()
    return by_task.assign(ratio=np.exp(by_task["mean"])).rename(columns={"size": "n"})[["arm", "task", "n", "ratio"]]


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the cost ratio of each task as a dot, one row per arm, above the typical ratio with its interval.

    Example::

        table = harness.figures.cost_ratios.table(results)
        harness.figures.cost_ratios.draw(table, theme="dark").savefig("cost_ratios.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no arm shares tasks and seeds with known costs with the baseline, so there are no ratios to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_rows, theme=theme, width=width, empty_message=message)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    arms = table["place"].nunique()
    figure = style.make_figure(7.4, compute_height_inches(table))
    _draw_rows(figure.subplots(), table)
    tasks = format_count(table["task"].nunique(), "task")
    metric = str(table["metric"].iloc[0])
    about = f"{format_count(arms, 'arm')} on {tasks}; baseline: {escape_control_characters(str(table['baseline'].iloc[0]))}"
    style.add_header(figure, f"{metric.capitalize()} ratio of each task", about, level)
    style.add_footer(
        figure,
        f"Mark: a task, typical ratio over its seeds. Black bar: typical ratio over tasks, 95 % interval. {ESTIMAND_NOTE}",
    )
    return figure


def _draw_rows(ax: "Axes", table: pd.DataFrame) -> None:
    colours, metric = style.read_colours(), METRICS[str(table["metric"].iloc[0])]
    arms = table.drop_duplicates("place")
    draw_arms(ax, table, {"tasks": {int(place): str(len(rows)) for place, rows in table.groupby("place")}})
    ax.axvline(1.0, color=colours.muted, linewidth=0.9, zorder=1)
    for (place, mark), rows in table.groupby(["place", "mark"]):
        point: dict[str, Any] = choose_point(mark, 4.2) | {"alpha": 0.75, "markeredgewidth": 0}
        ax.plot(rows["ratio"], [place - 0.16] * len(rows), zorder=2, **point)
    for row in arms.itertuples():
        ax.plot([row.low, row.high], [row.place + 0.22] * 2, color=colours.text, linewidth=1.3, solid_capstyle="butt", zorder=3)
        ax.plot(row.typical, row.place + 0.22, marker="|", markersize=6, markeredgewidth=1.6, color=colours.text, zorder=4)
        text = f"{metric.format_change(row.typical)} {metric.format_change_interval(row.low, row.high)}"
        position: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (6, 0), "textcoords": "offset points"}
        ax.annotate(text, (1, row.place), va="center", fontsize=7, color=colours.text, **position)
    use_ratio_axis(ax, pd.concat([table["ratio"], arms["low"], arms["high"]]))
    ax.set_xlabel(f"{metric.name} of the arm ÷ {metric.name} of the baseline (ratio), ← better")
    ax.grid(axis="x", zorder=0)
