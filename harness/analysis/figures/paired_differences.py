"""Forest plot: the paired difference of each arm from a baseline, with its interval, for one or several metrics.

Scores and rates are compared by their difference, and amounts such as cost by their typical ratio, on the same tasks and seeds.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import select_outcomes
from harness.analysis.baselines import compare_with_baseline, prepare_arms, resolve_baseline, resolve_metrics
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import describe_arms, draw_arms
from harness.analysis.figures.forest import FILL_NOTE, describe_estimands, draw_first_panel, make_panels
from harness.analysis.tables import Tables, require_single_level
from harness.errors import format_count
from harness.text import escape_control_characters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *(
        "arm",
        "place",
        "settings",
        "mark",
        "metric",
        "baseline",
        "n",
        "value",
        "low",
        "high",
        "p_value",
        "estimand",
        "refusal",
        "level",
    ),
)


def table(
    results: Tables, *, metrics: Sequence[str] | None = None, baseline: str | Mapping[str, object] | None = None
) -> pd.DataFrame:
    """Return the data of the forest plot, with one row per arm and metric.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm, settings | str | name of the arm; JSON object with its values of the settings that the plan varies |
    | place | int | position of the arm in the chart from the top, from 0 |
    | mark | str | colour and shape of the arm in every chart of the experiment, such as `blue circle` |
    | metric, baseline | str | names of the metric and of the baseline |
    | n | int | pairs of the same task and seed |
    | value | float | mean of the paired differences, arm minus baseline, or typical ratio, arm divided by baseline |
    | low, high | float | 95 % interval; NaN if there is none |
    | p_value | float | two-sided p-value for no effect, not adjusted for other comparisons; NaN without an interval |
    | estimand | str | `tasks like these` or `these tasks` |
    | refusal | str | reason why there is no interval; empty if there is one |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.
        metrics: Names of metrics; None for success, or score if success is the same in all trials of most arms, and cost.
        baseline: Arm to compare with, by its name or by settings as in `harness.compare`; None for the arm of the declared
            contrasts, or else the arm without compaction, or else the first arm.

    Example:
        >>> import harness, pandas, pathlib, tempfile
        >>> runs = {"task": list("aabb"), "arm": list("xyxy"), "passed": [1, 0, 1, 1], "usd": [1, 2, 3, 3.3]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "runs.csv")
        ...     pandas.DataFrame(runs).to_csv(path)
        ...     results = harness.load_outcomes(path, task="task", arm="arm", success="passed", cost="usd")
        >>> table = harness.figures.paired_differences.table(results, metrics=["cost"])
        >>> table[["arm", "baseline", "n", "value"]].round(2).values.tolist()
        [['y', 'x', 2, 1.48]]

    Raises:
        UnknownName: There is no such metric or arm; the message suggests similar names.
        UsageError: The settings of the baseline select no arm or several arms.
    """
    open_outcomes(results)
    results = select_outcomes(results)
    trials = prepare_arms(results)
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    chosen = resolve_metrics(trials, metrics)
    against, level = resolve_baseline(results, baseline), require_single_level(trials)
    arms = describe_arms(trials, results)
    others = arms[arms["arm"] != against].reset_index(drop=True)
    looks = {row.arm: {"settings": row.settings, "mark": row.mark} for row in others.itertuples()}
    effects = compare_with_baseline(trials, against, chosen)
    rows: list[dict[str, Any]] = [
        {"arm": arm, "place": place, **looks[arm], "metric": metric.name, "baseline": against, "level": level}
        | {"n": effect.pair_count, "value": effect.value, "low": effect.interval.low, "high": effect.interval.high}
        | {"p_value": effect.p_value, "estimand": effect.estimand, "refusal": effect.refusal}
        for place, arm in enumerate(others["arm"])
        for metric in chosen
        if (effect := effects[arm][metric.name]).pair_count
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the paired difference of each arm from the baseline, with one panel per metric.

    If `ax` is given, the panel of the first metric is drawn on it.

    Example::

        table = harness.figures.paired_differences.table(results)
        harness.figures.paired_differences.draw(table, theme="dark").savefig("paired_differences.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no arm shares tasks and seeds with the baseline, so there are no paired differences to draw"
    draw_axes = partial(draw_first_panel, draw_names=_draw_names)
    return style.draw_chart(table, ax, _draw_figure, draw_axes, theme=theme, width=width, empty_message=message)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    arms = table["place"].nunique()
    figure = make_panels(table, _draw_names)
    pairs = sorted(table["n"].unique())
    spread = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    baseline = escape_control_characters(str(table["baseline"].iloc[0]))
    about = f"{format_count(arms, 'arm')} against {baseline}; {spread} pairs of task and seed"
    style.add_header(figure, "Paired differences from the baseline", about, level)
    estimands = describe_estimands(table)
    style.add_footer(figure, f"95 % intervals for {estimands}. {FILL_NOTE}")
    return figure


def _draw_names(ax: "Axes", table: pd.DataFrame, _metric: str) -> float:
    return draw_arms(ax, table, {"n": {int(row.place): str(row.n) for row in table.itertuples()}})
