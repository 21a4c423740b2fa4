"""Chart of pass@k and pass^k: the probability that at least one, and that all, of k repeated trials succeed.

Replicates have the same configuration, task and seed, and differ only in the seed of the model. A policy that makes an agent
unreliable lowers pass^k, while pass@k may stay the same. The estimates are unbiased for each configuration, task and seed (an
instance), and averaged over the instances.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import drop_earlier_plans, select_outcomes, select_valid
from harness.analysis.chart_options import Theme, Width
from harness.analysis.estimands import choose_estimand
from harness.analysis.estimation import compute_mean_bounds
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.groups import describe_omitted, group_trials
from harness.analysis.figures.marks import choose_line, choose_point, make_handles
from harness.analysis.formatting import ESTIMAND_NOTE
from harness.analysis.statistics import estimate_pass_at_k, estimate_pass_hat_k
from harness.analysis.tables import Tables, require_single_level
from harness.analysis.validity import name_configurations
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("group", "place", "mark", "measure", "k", "instances", "value", "low", "high", "level")
MEASURES = {"pass@k": "at least one of k succeeds", "pass^k": "all of k succeed"}
MIN_REPLICATES = 2


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of pass@k and pass^k, one row per group of trials, measure and k.

    Each group is an arm or, with many arms, one value of a setting that the plan varies. A configuration with a task and a seed
    (an instance) counts only if it ran at least twice. The largest k is the smallest number of runs of an instance in the group.
    The table is empty if all these runs succeeded, or none, since all probabilities are then 1, or 0.

    | column | dtype | unit |
    | --- | --- | --- |
    | group | str | name of the arm, or value of the setting |
    | place | int | position of the group in the legend, from 0 |
    | mark | str | colour and shape of the group in every chart of the experiment, such as `blue circle` |
    | measure | str | `pass@k` or `pass^k` |
    | k | int | number of replicates |
    | instances | int | configurations with a task and a seed that have several replicates |
    | value | float | probability, mean over tasks of the mean over their instances, 0 to 1 |
    | low, high | float | 95 % interval over tasks or, with fewer than six tasks, instances; NaN if there is none |
    | level | str | fidelity level |

    Example::

        table = harness.figures.reliability.table(results)
        table[table["measure"] == "pass^k"][["group", "k", "value"]]
    """
    open_outcomes(results)
    results = select_outcomes(results)
    trials = select_valid(drop_earlier_plans(results).trials)
    trials = trials.assign(configuration=_name_configurations(trials))
    keys = ["configuration", "task", "seed"]
    replicates = trials.groupby(keys)["trial_id"].transform("size") if len(trials) else pd.Series(dtype=int)
    repeated = trials[replicates >= MIN_REPLICATES]
    if repeated["success"].nunique() < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    named = repeated.assign(arm=repeated["configuration"])
    groups = group_trials(named, results)
    shown = named.assign(group=named["trial_id"].map(groups.labels)).dropna(subset=["group"])
    counts = shown.groupby(["group", *keys])["success"].agg(["sum", "size"]).reset_index()
    rows = [
        {"group": name, "place": groups.places[str(name)], "mark": groups.marks[str(name)], "measure": measure, "k": k}
        | _estimate(instances, measure, k)
        for name, instances in counts.groupby("group", sort=False)
        for measure in MEASURES
        for k in range(1, int(instances["size"].min()) + 1)
    ]
    whole = pd.DataFrame(rows).assign(level=require_single_level(shown))
    line_table = whole[list(COLUMNS)].sort_values(["place", "measure", "k"], ignore_index=True)
    line_table.attrs["omitted"] = groups.omitted
    return line_table


def _name_configurations(trials: pd.DataFrame) -> pd.Series:
    """Return, for each trial, the first arm of its configuration, so that arms that repeat another arm (A/A) join it."""
    configurations = name_configurations(trials, {"task", "seed", "replicate"})
    ordered = trials.assign(configuration=configurations).sort_values("replicate", kind="stable")
    first = ordered.drop_duplicates("configuration").set_index("configuration")["arm"]
    return configurations.map(first)


def _estimate(instances: pd.DataFrame, measure: str, k: int) -> dict[str, Any]:
    estimate = estimate_pass_at_k if measure == "pass@k" else estimate_pass_hat_k
    values = [estimate(int(won), int(size), k) for won, size in zip(instances["sum"], instances["size"], strict=True)]
    by_seed = pd.Series(values, index=instances.index).groupby([instances["task"], instances["seed"]], sort=True).mean()
    arrays = [np.asarray(seed_values, dtype=float) for _, seed_values in by_seed.groupby(level="task", sort=True)]
    bounds = compute_mean_bounds("bounded", arrays, choose_estimand(len(arrays)))
    low, high = float(bounds.low), float(bounds.high)
    return {"instances": len(values), "value": float(bounds.value), "low": low, "high": high}


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the probability that at least one (pass@k), and that all (pass^k), of k repeats succeed.

    Each line is a group of trials. If `ax` is given, only pass^k is drawn on it.

    Example::

        table = harness.figures.reliability.table(results)
        harness.figures.reliability.draw(table, theme="dark").savefig("reliability.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = (
        "no instance of a task has several replicates of which some succeeded and others failed; to measure reliability, add "
        "replicate = [0, 1, 2] to the axes of the plan"
    )
    return style.draw_chart(table, ax, _draw_figure, _draw_hat, theme=theme, width=width, empty_message=message)


def _draw_hat(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_panel(ax, table, "pass^k")
    ax.set_ylabel("probability (%)")


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    figure = style.make_figure(8.0, 3.9)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, measure in zip(axes, MEASURES, strict=True):
        _draw_panel(ax, table, measure)
    axes[0].set_ylabel("probability (%)")
    note = f"Unbiased estimates per instance, mean over tasks; bars: 95 % intervals. {ESTIMAND_NOTE}"
    groups = table.drop_duplicates("place").sort_values("place")
    style.add_legend(figure, make_handles(zip(groups["group"], groups["mark"], strict=True), has_line=True), 2.4, note)
    instances = sorted(table["instances"].unique())
    spread = f"{instances[0]}" if len(instances) == 1 else f"{instances[0]} to {instances[-1]}"
    about = f"{format_count(table['place'].nunique(), 'group')} of {spread} instances with at least {MIN_REPLICATES} replicates"
    about += describe_omitted(table.attrs.get("omitted", ()))
    style.add_header(figure, "Reliability: pass@k and pass^k", about, level)
    return figure


def _draw_panel(ax: "Axes", table: pd.DataFrame, measure: str) -> None:
    rows, places = table[table["measure"] == measure], sorted(table["place"].unique())
    for number, place in enumerate(places):
        line_rows = rows[rows["place"] == place]
        mark = str(line_rows["mark"].iloc[0])
        look: dict[str, Any] = choose_point(mark, 5) | choose_line(mark)
        x = line_rows["k"] + 0.3 * ((number + 0.5) / len(places) - 0.5)
        ax.plot(x, 100 * line_rows["value"], linewidth=1.5, **look)
        ax.vlines(x, 100 * line_rows["low"], 100 * line_rows["high"], color=look["color"], linewidth=1.2)
    ax.set_xticks(range(1, int(table["k"].max()) + 1))
    ax.set(xlabel="k (replicates)", title=f"{measure}: {MEASURES[measure]}", ylim=(-4, 104))
    ax.set_xlim(0.6, int(table["k"].max()) + 0.4)
    ax.grid(axis="y")
