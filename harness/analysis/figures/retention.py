"""Chart of how many compactions the values of facts survive, as Kaplan-Meier curves with one panel per kind of fact.

A fact is a value that the agent must remember. Its value lives from its introduction to the first compaction after which it
cannot be read in the messages that the model sees (the view). A value that is never lost, or that is replaced by a newer value,
is censored. Each line is an arm (configuration). If there are many arms, each line stands for one value of a setting that the
plan varies, and combines the facts of all arms with that value. Kinds of facts are never combined.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from harness.analysis.arms import select_current, select_valid
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.groups import choose_line, group_trials, make_handles
from harness.analysis.retention import FACT_KINDS, estimate_survival, find_cliff_round, measure_lifetimes
from harness.analysis.tables import Tables, require_single_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    "kind",
    "group",
    "place",
    "rounds",
    "alive",
    "low",
    "high",
    "at_risk",
    "lost",
    "sessions_at_risk",
    "cliff_round",
    "sessions",
    "level",
)
MIN_SESSIONS = 3
"""Smallest number of sessions of a curve that must still have values to lose; the chart ends where all curves have fewer."""


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of how many compactions facts stay visible to the model.

    There is one row per point of a curve, for each kind of fact and group of trials. A curve has a point at round 0, in every
    round in which a value was lost, and in the round in which the last value was seen. A round is a compaction.

    | column | dtype | unit |
    | --- | --- | --- |
    | kind | str | kind of the facts |
    | group | str | name of the arm, or value of the setting |
    | place | int | position of the group in the legend, from 0 |
    | rounds | int | compactions since the value was introduced |
    | alive, low, high | float | share of values still in view, 0 to 1, with pointwise 95 % bounds over sessions; NaN if unknown |
    | at_risk, lost | int | number of values |
    | sessions_at_risk | int | number of sessions with a value at risk |
    | cliff_round | Int64 | first round of the curve after which fewer than half of the values are in view; missing if none |
    | sessions | int | number of sessions behind the curve |
    | level | str | fidelity level |

    Example::

        table = harness.figures.retention.table(results)
        table[["kind", "group", "rounds", "alive"]]
    """
    open_outcomes(results)
    trials = select_valid(select_current(results.trials))
    trials = trials[trials["trial_id"].isin(results.probes["trial_id"].unique())]
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = group_trials(trials)
    lives = measure_lifetimes(results.probes[results.probes["trial_id"].isin(groups)])
    rows = lives.groupby(["kind", lives["trial_id"].map(groups)]).indices
    places = {group: place for place, group in enumerate(dict.fromkeys(groups.values()))}
    keys = [(kind, group) for kind in FACT_KINDS for group in places if (kind, group) in rows]
    curves = [estimate_survival(lives.iloc[rows[key]]) for key in keys]
    labels = pd.DataFrame(
        {
            "kind": [kind for kind, _ in keys],
            "group": [group for _, group in keys],
            "place": [places[group] for _, group in keys],
            "cliff_round": pd.array([find_cliff_round(curve) for curve in curves], dtype="Int64"),
            "sessions": [curve["sessions_at_risk"].iloc[0] for curve in curves],
            "level": require_single_level(trials),
        }
    )
    repeated_labels = labels.take(np.repeat(np.arange(len(curves)), [len(curve) for curve in curves])).reset_index(drop=True)
    return pd.concat(curves, ignore_index=True).join(repeated_labels)[list(COLUMNS)]


def draw(
    table: pd.DataFrame, ax: "Axes | None" = None, *, theme: style.Theme = "light", width: style.Width = "notebook"
) -> "Figure":
    """Draw for how many compactions facts stay visible to the model, one panel per kind of fact.

    The horizontal axis ends where fewer than three sessions of every curve have values that can still be lost. If `ax` is given,
    only the panel of the first kind of fact is drawn on it.

    Example::

        table = harness.figures.retention.table(results)
        harness.figures.retention.draw(table, theme="dark").savefig("retention.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no fact was probed at a compaction, so there is no retention to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_first_kind, theme=theme, width=width, empty_message=message)


def _draw_first_kind(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_panel(ax, table, _list_kinds(table)[0])
    ax.set(xlabel="compactions since introduced (count)", ylabel="in view (share of values)")


def _list_kinds(table: pd.DataFrame) -> list[str]:
    return [kind for kind in FACT_KINDS if kind in set(table["kind"])]


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    from matplotlib.ticker import FixedLocator, MaxNLocator

    kinds = _list_kinds(table)
    across = min(4, style.fit_columns(2.45), len(kinds))
    down = -(-len(kinds) // across)
    figure = style.make_figure(max(5.6, 2.45 * across + 0.7), 1.95 * down + 1.75)
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    axes[0, 0].xaxis.set_major_locator(MaxNLocator(4, integer=True))  # the panels share it; drawing many ticks takes long
    axes[0, 0].yaxis.set_major_locator(FixedLocator((0, 0.5, 1)))
    for place, ax in enumerate(axes.flat):
        if place < len(kinds):
            _draw_panel(ax, table, kinds[place])
            ax.tick_params(labelbottom=place + across >= len(kinds))
        else:
            ax.remove()
    for row in axes:
        row[0].set_ylabel("in view (share of values)")
    for place in range(max(0, len(kinds) - across), len(kinds)):
        axes.flat[place].set_xlabel("compactions since introduced (count)")
    style.add_legend(figure, make_handles(table), 2.4)
    values = int(table.loc[table["rounds"] == 0, "at_risk"].sum())
    about = f"{values} values of facts, by kind; band: pointwise 95 % over sessions"
    if (last := find_last_round(table)) < table["rounds"].max():
        about += f"; drawn to round {last} of {int(table['rounds'].max())}, while {MIN_SESSIONS} sessions go on"
    style.add_header(figure, "How long facts stay in view", about, level)
    return figure


def find_last_round(table: pd.DataFrame) -> int:
    """Return the last compaction at which at least three sessions of a curve have values that can still be lost.

    The chart ends there. If no curve has so many sessions, all compactions are shown.
    """
    shown = table[table["sessions_at_risk"] >= MIN_SESSIONS]
    last = int(shown["rounds"].max()) if len(shown) else 0
    return last if last > 0 else int(table["rounds"].max())


def _draw_panel(ax: "Axes", table: pd.DataFrame, kind: str) -> None:
    rows, max_rounds = table[table["kind"] == kind], find_last_round(table)
    for (place, _), curve in rows.groupby(["place", "group"], sort=True):
        ends_early = curve["alive"].iloc[-1] == 0 and curve["rounds"].iloc[-1] < max_rounds
        ordered = pd.concat([curve, curve.tail(1).assign(rounds=max_rounds)]) if ends_early else curve
        x, line = ordered["rounds"].to_numpy(), choose_line(place)
        ax.step(x, ordered["alive"], where="post", linewidth=1.5, zorder=3, **line)
        ax.fill_between(x, ordered["low"], ordered["high"], step="post", color=line["color"], alpha=0.13, linewidth=0, zorder=1)
    values = int(rows.loc[rows["rounds"] == 0, "at_risk"].sum())
    ax.set(title=f"{kind} (n = {values})", xlim=(0, max(1, max_rounds)), ylim=(-0.03, 1.04))
    ax.grid(axis="y")
