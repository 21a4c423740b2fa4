"""Chart of success over lost facts: the share of trials that passed every check, by the share of needed facts that were lost.

A fact is needed if a call after a compaction contains it and no tool call can find it again. It is lost if the last compaction
before this call left no visible value. The chart describes trials and compares no arms: trials that lose more may also differ in
other ways.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import drop_earlier_plans, select_outcomes, select_valid
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.intervals import compute_wilson_bounds
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.validity import drop_repeats
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("first", "last", "lost", "n", "tasks", "value", "low", "high", "level")
BIN_ENDS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Largest share of lost facts in each group of trials; the first group has the trials that lost none."""


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of success over lost facts, one row per group of trials that lost similar shares.

    Trials without a needed fact are left out, and so are repeated runs (A/A).

    | column | dtype | unit |
    | --- | --- | --- |
    | first, last | float | bounds of the shares in the group, 0 to 1; the first bound is not included unless both are 0 |
    | lost | float | mean share of the needed facts that a trial of the group lost, 0 to 1 |
    | n | int | number of trials |
    | tasks | int | number of tasks of these trials |
    | value | float | share of the trials that passed every check, 0 to 1 |
    | low, high | float | 95 % interval of this share by Wilson's method, which takes trials as independent |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.

    Example::

        table = harness.figures.success_by_loss.table(results)
        table[["lost", "n", "value"]]
    """
    open_outcomes(results)
    results = select_outcomes(results)
    current = drop_earlier_plans(results)
    valid_trials = select(current, select_valid(current.trials)).trials
    trials = drop_repeats(valid_trials)
    shares = _measure_lost_shares(results.probes)
    shown = trials.assign(lost=trials["trial_id"].map(shares)).dropna(subset=["lost"])
    if shown.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    # the index of the first bound that is not below the share
    places = np.searchsorted(np.array(BIN_ENDS), shown["lost"].to_numpy(dtype=float))
    rows = [_build_row(int(place), group) for place, group in shown.groupby(places)]
    group_table = pd.DataFrame(rows).assign(level=require_single_level(shown))[list(COLUMNS)]
    group_table.attrs |= {"repeats": len(valid_trials) - len(trials), "without_needs": len(trials) - len(shown)}
    return group_table


def _measure_lost_shares(probes: pd.DataFrame) -> "pd.Series[float]":
    """Return the share of the needed facts that each trial lost, by the id of the trial.

    Trials without a needed fact are left out.
    """
    needed = probes[probes["used_step"].notna() & probes["reacquisition_calls"].isna()]
    last = needed.sort_values("event").groupby(["trial_id", "fact", "used_step"]).tail(1)
    by_fact = (~last["seen_after"].astype(bool)).groupby([last["trial_id"], last["fact"]]).any()
    return by_fact.groupby("trial_id").mean()


def _build_row(place: int, trials: pd.DataFrame) -> dict[str, Any]:
    bounds = compute_wilson_bounds(float(trials["success"].astype(bool).sum()), float(len(trials)))
    return {
        "first": BIN_ENDS[max(0, place - 1)],
        "last": BIN_ENDS[place],
        "lost": float(trials["lost"].mean()),
        "n": len(trials),
        "tasks": int(trials["task"].nunique()),
        "value": float(bounds.value),
        "low": float(bounds.low),
        "high": float(bounds.high),
    }


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the share of trials that passed every check over the share of needed facts that they lost.

    Example::

        table = harness.figures.success_by_loss.table(results)
        harness.figures.success_by_loss.draw(table, theme="dark").savefig("success_by_loss.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no trial needed a fact after a compaction that no tool call finds again, so there is no loss to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_points, theme=theme, width=width, empty_message=message)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    figure = style.make_figure(6.2, 4.0)
    ax = figure.subplots()
    _draw_points(ax, table)
    left_out = table.attrs.get("without_needs", 0)
    about = f"{format_count(int(table['n'].sum()), 'trial')} of {format_count(int(table['tasks'].max()), 'task')}"
    about += f"; {left_out} without a needed fact left out" * bool(left_out) + style.describe_excluded_repeats(table)
    style.add_header(figure, "Success over lost facts", about, level)
    note = (
        "Bars: 95 % interval, which takes trials as independent. Numbers: trials. A needed fact is one that a call after a "
        "compaction contains and that no tool call finds again."
    )
    style.add_legend(figure, ax.get_legend_handles_labels()[0], 2.4, note)
    return figure


def _draw_points(ax: "Axes", table: pd.DataFrame) -> None:
    colours = style.read_colours()
    lost = 100 * table["lost"]
    for place, row in zip(lost, table.itertuples(), strict=True):
        ax.plot([place, place], [100 * row.low, 100 * row.high], color=colours.muted, linewidth=1.6, zorder=2)
        ax.annotate(
            str(row.n),
            (place, 100 * row.value),
            color=colours.text,
            textcoords="offset points",
            xytext=(5, 4),
            fontsize=style.LEGEND_POINTS,
        )
    line: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 1.5, "zorder": 3, "label": "trials with similar losses"}
    ax.plot(lost, 100 * table["value"], color=colours.text, **line)
    ax.set(xlabel="needed facts lost (%)", ylabel="trials that passed every check (%)", ylim=(-4, 104), xlim=(-4, 108))
    ax.grid(axis="y")
