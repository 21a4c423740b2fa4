"""How long do facts outlive compactions? Kaplan-Meier curves by round, one panel for each kind of fact.

A value lives from its telling to the first compaction after which it cannot be read in the view; what is never lost, or is
replaced by a newer value, is censored. Each line is an arm, or a value of the grid's first named axis where there are many
arms: facts of all its arms together, never of several kinds.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import axes_of, counting, in_order
from harness.analysis.figures.style import INK, PALETTE, QUIET, head, new_figure, styled
from harness.analysis.formatting import level_in_words, shown
from harness.analysis.retention import KINDS, cliff_round, lifetimes, survival
from harness.analysis.tables import Tables, one_level
from harness.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("kind", "group", "place", "rounds", "alive", "low", "high", "at_risk", "lost", "cliff_round", "sessions", "level")
MOST_GROUPS = len(PALETTE)
STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), "-.", (0, (4, 1, 1, 1, 1, 1)), (0, (7, 2)), "-")
"""Lines differ in more than colour."""


def table(results: Tables) -> pd.DataFrame:
    """One row per kind of fact, group and round at which one was lost or last seen; round 0 is the telling.

    | column | dtype | unit |
    | --- | --- | --- |
    | kind | str | of the facts |
    | group | str | arm, or value of an axis |
    | place | int | of the group in the legend, from 0 |
    | rounds | int | compactions since the telling |
    | alive, low, high | float | share of values still in view, 0 to 1, with pointwise 95 % bounds (Greenwood) |
    | at_risk, lost | int | values |
    | cliff_round | Int64 | of the whole curve: first round after which fewer than half are in view; missing = none was seen |
    | sessions | int | that the group's curve of this kind rests on |
    | level | str | fidelity |
    """
    trials = counting(results.trials)
    trials = trials[trials["trial_id"].isin(results.probes["trial_id"])]
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = _groups(trials)
    lives = lifetimes(results.probes[results.probes["trial_id"].isin(groups)])
    lives = lives.assign(group=lives["trial_id"].map(groups))
    order = {name: place for place, name in enumerate(dict.fromkeys(groups.values()))}
    curves = [
        _with_cliff(survival(rows)).assign(kind=kind, group=group, place=order[group], sessions=rows["trial_id"].nunique())
        for kind in KINDS
        for group in order
        if len(rows := lives[(lives["kind"] == kind) & (lives["group"] == group)])
    ]
    return pd.concat(curves, ignore_index=True).assign(level=one_level(trials))[list(COLUMNS)]


def _with_cliff(curve: pd.DataFrame) -> pd.DataFrame:
    return curve.assign(cliff_round=pd.Series(cliff_round(curve), index=curve.index, dtype="Int64"))


def _groups(trials: pd.DataFrame) -> dict[str, str]:
    """The group of each trial by its id, groups in the order in which they are shown."""
    arms = in_order(trials)
    rows = sorted(zip(trials["arm"], trials["trial_id"], strict=True), key=lambda row: arms.index(row[0]))
    if len(arms) <= MOST_GROUPS:
        return {trial_id: arm for arm, trial_id in rows}
    long = axes_of(trials)
    named = [axis for axis, values in long.groupby("axis") if 1 < values["value"].map(str).nunique() <= MOST_GROUPS - 1]
    axis = next((one for one in named if long.loc[long["axis"] == one, "value"].map(type).eq(str).all()), next(iter(named), None))
    if axis is None:
        return {trial_id: arm for arm, trial_id in rows if arm in arms[:MOST_GROUPS]}
    chosen = long[long["axis"] == axis]
    said = {row.trial_id: f"{axis.rsplit('.', 1)[-1]} {row.value}" for row in chosen.itertuples()}
    return {trial_id: said[trial_id] for _, trial_id in rows if trial_id in said}


def draw(table: pd.DataFrame, ax: "Axes | None" = None) -> "Figure":
    """Draw the table of this figure; with `ax` its first kind is drawn there, by itself.

    Raises:
        UsageError: an empty table, or several levels.
    """
    if table.empty:
        raise UsageError("no fact was probed at a compaction, so there is no retention to draw")
    level = level_in_words(one_level(table))
    kinds = [kind for kind in KINDS if kind in set(table["kind"])]
    with styled():
        if ax is None:
            return _figure(table, kinds, level)
        _panel(ax, table[table["kind"] == kinds[0]], kinds[0], int(table["rounds"].max()))
        _label(ax)
        figure: Figure = ax.figure  # type: ignore[assignment]
        return figure


def _figure(table: pd.DataFrame, kinds: list[str], level: str) -> "Figure":
    across = min(4, len(kinds))
    down = -(-len(kinds) // across)
    figure = new_figure(max(5.6, 2.45 * across + 0.7), 1.95 * down + 1.75)
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    most = int(table["rounds"].max())
    for place, ax in enumerate(axes.flat):
        if place < len(kinds):
            _panel(ax, table[table["kind"] == kinds[place]], kinds[place], most)
            ax.tick_params(labelbottom=place + across >= len(kinds))
        else:
            ax.set_visible(False)
    for row in axes:
        row[0].set_ylabel("in view (share of values)")
    for place in range(max(0, len(kinds) - across), len(kinds)):
        axes.flat[place].set_xlabel("compactions since told (count)")
    _legend(figure, table)
    values = int(table.loc[table["rounds"] == 0, "at_risk"].sum())
    about = f"{values} told values, by kind; band: pointwise 95 %, too narrow, since facts of one session are lost together"
    head(figure, "How long facts stay in view", about, level)
    return figure


def _panel(ax: "Axes", rows: pd.DataFrame, kind: str, most: int) -> None:
    for (place, _), curve in rows.groupby(["place", "group"], sort=True):
        ordered = pd.concat([curve, curve.tail(1).assign(rounds=most)]) if curve["alive"].iloc[-1] == 0 else curve
        x, colour = ordered["rounds"].to_numpy(), PALETTE[place % len(PALETTE)]
        ax.step(x, ordered["alive"], where="post", color=colour, linewidth=1.5, linestyle=STYLES[place % len(STYLES)], zorder=3)
        ax.fill_between(x, ordered["low"], ordered["high"], step="post", color=colour, alpha=0.13, linewidth=0, zorder=1)
    ax.axhline(0.5, color=QUIET, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0.5)
    ax.set_title(f"{kind} (n = {int(rows.loc[rows['rounds'] == 0, 'at_risk'].sum())})")
    ax.set_xlim(0, max(1, most))
    ax.set_ylim(-0.03, 1.04)
    ax.grid(axis="y")


def _label(ax: "Axes") -> None:
    ax.set_xlabel("compactions since told (count)", color=INK)
    ax.set_ylabel("in view (share of values)")


def _legend(figure: "Figure", table: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D

    groups = table.drop_duplicates("place").sort_values("place")
    handles = [
        Line2D(
            [], [], color=PALETTE[one.place % len(PALETTE)], linestyle=STYLES[one.place % len(STYLES)], label=shown(one.group, 50)
        )
        for one in groups.itertuples()
    ]
    widest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, min(len(handles), int(float(figure.get_figwidth()) / (0.06 * widest + 0.55))))
    figure.legend(handles=handles, loc="outside lower left", fontsize=7.5, handlelength=2.4, ncols=columns)
