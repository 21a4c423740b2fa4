"""Chart of how many compactions the values of facts survive, as Kaplan-Meier curves with one panel per kind of fact.

A fact is a value that the agent must remember. Its value lives from its introduction to the first compaction after which it
cannot be read in the view (the messages that the model sees). A value that is never lost, or that is replaced by a newer value,
is censored. Each line is an arm (configuration). If there are many arms, each line stands for one value of a setting that the
plan varies, and combines the facts of all arms with that value. Kinds of facts are never combined.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import order_arms, select_valid, tabulate_axes
from harness.analysis.figures.style import MUTED_COLOUR, PALETTE, add_header, add_legend, draw_chart, make_figure
from harness.analysis.formatting import format_label
from harness.analysis.retention import FACT_KINDS, estimate_survival, find_cliff_round, measure_lifetimes
from harness.analysis.tables import Tables, require_single_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("kind", "group", "place", "rounds", "alive", "low", "high", "at_risk", "lost", "cliff_round", "sessions", "level")
MAX_GROUPS = len(PALETTE)
LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), "-.", (0, (4, 1, 1, 1, 1, 1)), (0, (7, 2)), "-")
"""Line styles of the curves in the retention chart, so that curves differ in more than colour."""


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the retention chart: how many compactions facts stay visible to the model, by kind and group of trials.

    There is one row per point of a curve: round 0 and every round in which a value was lost, or in which the last value was seen.

    | column | dtype | unit |
    | --- | --- | --- |
    | kind | str | kind of the facts |
    | group | str | arm, or value of an axis |
    | place | int | position of the group in the legend, from 0 |
    | rounds | int | compactions since the value was introduced |
    | alive, low, high | float | share of values still in view, 0 to 1, with pointwise 95 % bounds (Greenwood) |
    | at_risk, lost | int | number of values |
    | cliff_round | Int64 | first round of the curve after which fewer than half of the values are in view; missing if none |
    | sessions | int | number of sessions behind the curve |
    | level | str | fidelity level |
    """
    trials = select_valid(results.trials)
    trials = trials[trials["trial_id"].isin(results.probes["trial_id"])]
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = _group_trials(trials)
    lives = measure_lifetimes(results.probes[results.probes["trial_id"].isin(groups)])
    lives = lives.assign(group=lives["trial_id"].map(groups))
    order = {name: place for place, name in enumerate(dict.fromkeys(groups.values()))}
    curves = [
        _estimate_curve(rows).assign(kind=kind, group=group, place=order[group], sessions=rows["trial_id"].nunique())
        for kind in FACT_KINDS
        for group in order
        if len(rows := lives[(lives["kind"] == kind) & (lives["group"] == group)])
    ]
    return pd.concat(curves, ignore_index=True).assign(level=require_single_level(trials))[list(COLUMNS)]


def _estimate_curve(lifetime_rows: pd.DataFrame) -> pd.DataFrame:
    curve = estimate_survival(lifetime_rows)
    return curve.assign(cliff_round=pd.Series(find_cliff_round(curve), index=curve.index, dtype="Int64"))


def _group_trials(trials: pd.DataFrame) -> dict[str, str]:
    """Return the label of the curve in the retention chart to which each trial belongs, by trial id.

    A curve stands for an arm, or for one value of a setting that the plan varies.
    """
    arms = order_arms(trials)
    rows = sorted(zip(trials["arm"], trials["trial_id"], strict=True), key=lambda row: arms.index(row[0]))
    if len(arms) <= MAX_GROUPS:
        return {trial_id: arm for arm, trial_id in rows}
    long = tabulate_axes(trials)
    named = [axis for axis, values in long.groupby("axis") if 1 < values["value"].map(str).nunique() <= MAX_GROUPS - 1]
    axis = next((one for one in named if long.loc[long["axis"] == one, "value"].map(type).eq(str).all()), next(iter(named), None))
    if axis is None:
        return {trial_id: arm for arm, trial_id in rows if arm in arms[:MAX_GROUPS]}
    chosen = long[long["axis"] == axis]
    labels = {row.trial_id: f"{axis.rsplit('.', 1)[-1]} {row.value}" for row in chosen.itertuples()}
    return {trial_id: labels[trial_id] for _, trial_id in rows if trial_id in labels}


def draw(table: pd.DataFrame, ax: "Axes | None" = None) -> "Figure":
    """Draw the retention chart: how many compactions a fact stays in the model's view, with one panel per kind of fact.

    If `ax` is given, only the panel of the first kind of fact is drawn on it.

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no fact was probed at a compaction, so there is no retention to draw"
    return draw_chart(table, ax, _draw_figure, _draw_first_kind, empty_message=message)


def _draw_first_kind(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_panel(ax, table, _list_kinds(table)[0])
    ax.set(xlabel="compactions since introduced (count)", ylabel="in view (share of values)")


def _list_kinds(table: pd.DataFrame) -> list[str]:
    return [kind for kind in FACT_KINDS if kind in set(table["kind"])]


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    kinds = _list_kinds(table)
    across = min(4, len(kinds))
    down = -(-len(kinds) // across)
    figure = make_figure(max(5.6, 2.45 * across + 0.7), 1.95 * down + 1.75)
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for place, ax in enumerate(axes.flat):
        if place < len(kinds):
            _draw_panel(ax, table, kinds[place])
            ax.tick_params(labelbottom=place + across >= len(kinds))
        else:
            ax.set_visible(False)
    for row in axes:
        row[0].set_ylabel("in view (share of values)")
    for place in range(max(0, len(kinds) - across), len(kinds)):
        axes.flat[place].set_xlabel("compactions since introduced (count)")
    _add_legend(figure, table)
    values = int(table.loc[table["rounds"] == 0, "at_risk"].sum())
    about = f"{values} values of facts, by kind; band: pointwise 95 %, too narrow because facts of one session are lost together"
    add_header(figure, "How long facts stay in view", about, level)
    return figure


def _draw_panel(ax: "Axes", table: pd.DataFrame, kind: str) -> None:
    rows, max_rounds = table[table["kind"] == kind], int(table["rounds"].max())
    for (place, _), curve in rows.groupby(["place", "group"], sort=True):
        ordered = pd.concat([curve, curve.tail(1).assign(rounds=max_rounds)]) if curve["alive"].iloc[-1] == 0 else curve
        x, line = ordered["rounds"].to_numpy(), _choose_line(place)
        ax.step(x, ordered["alive"], where="post", linewidth=1.5, zorder=3, **line)
        ax.fill_between(x, ordered["low"], ordered["high"], step="post", color=line["color"], alpha=0.13, linewidth=0, zorder=1)
    ax.axhline(0.5, color=MUTED_COLOUR, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0.5)
    values = int(rows.loc[rows["rounds"] == 0, "at_risk"].sum())
    ax.set(title=f"{kind} (n = {values})", xlim=(0, max(1, max_rounds)), ylim=(-0.03, 1.04))
    ax.grid(axis="y")


def _add_legend(figure: "Figure", table: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D

    groups = table.drop_duplicates("place").sort_values("place")
    handles = [Line2D([], [], **_choose_line(group.place), label=format_label(group.group, 50)) for group in groups.itertuples()]
    add_legend(figure, handles, 2.4)


def _choose_line(place: int) -> dict[str, Any]:
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": LINE_STYLES[place % len(LINE_STYLES)]}
