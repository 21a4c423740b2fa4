"""Chart of how many compactions the values of facts survive: a table of arms and kinds of facts, and Kaplan-Meier curves.

The table shows the share of values in view after one and after three compactions. The curves below show every number of
compactions, with one panel per kind of fact.

A fact is a value that the agent must remember. Its value lives from its introduction to the first compaction after which it
cannot be read in the view. A value that is never lost, or that is replaced by a newer value, is censored. Each line is an arm. If
there are many arms, each line stands for one value of a setting that the plan varies, and combines the facts of all arms with
that value. Kinds of facts are never combined.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import select_current, select_valid
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import compute_row_inches, draw_arms
from harness.analysis.figures.groups import describe_omitted, group_trials
from harness.analysis.figures.marks import choose_line, make_handles
from harness.analysis.retention import FACT_KINDS, estimate_survival, find_cliff_round, measure_lifetimes
from harness.analysis.tables import Tables, require_single_level
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    "kind",
    "group",
    "place",
    "mark",
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
SHOWN_ROUNDS = (1, 3)
"""Numbers of compactions for which the chart has a table of arms and kinds of facts."""
CELL_INCHES = 0.33
MIN_SESSIONS = 3
"""Smallest number of sessions of a curve that must still have values to lose; the chart ends where all curves have fewer."""


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart of how many compactions facts stay visible to the model.

    There is one row per point of a curve, for each kind of fact and group of trials. A curve has a point at rounds 0, 1 and 3, in
    every round in which a value was lost, and in the round in which the last value was seen. A round is a compaction.

    | column | dtype | unit |
    | --- | --- | --- |
    | kind | str | kind of the facts |
    | group | str | name of the arm, or value of the setting |
    | place | int | position of the group in the legend, from 0 |
    | mark | str | colour and shape of the group in every chart of the experiment, such as `blue circle` |
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
    groups = group_trials(trials, results)
    places = groups.places
    lives = measure_lifetimes(results.probes[results.probes["trial_id"].isin(groups.labels)])
    rows = lives.groupby(["kind", lives["trial_id"].map(groups.labels)]).indices
    keys = [(kind, group) for kind in FACT_KINDS for group in places if (kind, group) in rows]
    curves = [estimate_survival(lives.iloc[rows[key]], SHOWN_ROUNDS) for key in keys]
    labels = pd.DataFrame(
        {
            "kind": [kind for kind, _ in keys],
            "group": [group for _, group in keys],
            "place": [places[group] for _, group in keys],
            "mark": [groups.marks[group] for _, group in keys],
            "cliff_round": pd.array([find_cliff_round(curve) for curve in curves], dtype="Int64"),
            "sessions": [curve["sessions_at_risk"].iloc[0] for curve in curves],
            "level": require_single_level(trials),
        }
    )
    repeated_labels = labels.take(np.repeat(np.arange(len(curves)), [len(curve) for curve in curves])).reset_index(drop=True)
    curve_table = pd.concat(curves, ignore_index=True).join(repeated_labels)[list(COLUMNS)]
    curve_table.attrs["omitted"] = groups.omitted
    return curve_table


def select_round(table: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Return the share of values in view after a number of compactions, with one row per kind of fact and group.

    The columns are `kind`, `group`, `place`, `mark`, `alive`, `low` and `high`. A curve that ends before, while some of its
    values are in view, has no row.

    Args:
        table: Table of the chart.
        rounds: Number of compactions since a value was introduced.
    """
    until = table[table["rounds"] <= rounds].groupby(["kind", "place"], sort=False).tail(1)
    ends = table.groupby(["kind", "place"])["rounds"].max().rename("last")
    reached = until.join(ends, on=["kind", "place"])
    known = reached[(reached["last"] >= rounds) | (reached["alive"] == 0)]
    return known[["kind", "group", "place", "mark", "alive", "low", "high"]].reset_index(drop=True)


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the share of facts that stay visible to the model, by arm and kind, after one and three compactions, then as curves.

    The curves end where fewer than three sessions of every curve have values that can still be lost. If `ax` is given, only the
    curves of the first kind of fact are drawn on it.

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
    kinds, arms = _list_kinds(table), _list_rows(table)
    is_wide = style.read_max_width_inches() > style.WIDTHS_INCHES["paper"]
    # `-(-a // b)` is a / b, rounded up
    across = min(style.fit_columns(1.75), -(-len(kinds) // 2) if len(kinds) > 3 else len(kinds))
    down = -(-len(kinds) // across)
    row_inches = max(CELL_INCHES, compute_row_inches(arms))
    table_inches = ((len(arms) + 1.4) * row_inches + 0.4) * (1 if is_wide else len(SHOWN_ROUNDS))
    figure = style.make_figure(style.read_max_width_inches(), table_inches + 1.5 * down + 1.7)
    halves = figure.add_gridspec(2, 1, height_ratios=[table_inches, 1.5 * down])
    shape = (1, len(SHOWN_ROUNDS)) if is_wide else (len(SHOWN_ROUNDS), 1)
    tables = halves[0].subgridspec(*shape)
    for place, rounds in enumerate(SHOWN_ROUNDS):
        _draw_table(figure.add_subplot(tables[place]), table, arms, rounds, has_names=place == 0 or not is_wide)
    axes = halves[1].subgridspec(down, across).subplots(sharex=True, sharey=True, squeeze=False)
    _draw_curves(axes, table, kinds)
    groups = zip(arms["arm"], arms["mark"], strict=True)
    note = (
        "Cells: % of values in view, 95 % interval over sessions; –: no session went on so long. Curves: the same, without "
        "intervals."
    )
    style.add_legend(figure, make_handles(groups, has_line=True), 2.4, note)
    values = int(table.loc[table["rounds"] == 0, "at_risk"].sum())
    about = f"{values} values of facts, by kind; a compaction counts from when the value was introduced"
    if (last := find_last_round(table)) < table["rounds"].max():
        about += f"; curves to compaction {last} of {int(table['rounds'].max())}, while {MIN_SESSIONS} sessions go on"
    about += describe_omitted(table.attrs.get("omitted", ()))
    style.add_header(figure, "How long facts stay in view", about, level)
    return figure


def _list_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the tables at the top of the chart, as `draw_arms` takes them."""
    rows = table.drop_duplicates("place").sort_values("place")[["group", "mark"]].rename(columns={"group": "arm"})
    return rows.assign(place=range(len(rows)), settings="")


def _draw_table(ax: "Axes", table: pd.DataFrame, arms: pd.DataFrame, rounds: int, *, has_names: bool) -> None:
    """Draw the share of values in view after a number of compactions, with one row per arm and one column per kind of fact."""
    from matplotlib import colormaps

    kinds, colours = _list_kinds(table), style.read_colours()
    places, cells = dict(zip(arms["arm"], arms["place"], strict=True)), select_round(table, rounds)
    grid = np.full((len(arms), len(kinds)), np.nan)
    colour_map = colormaps[colours.sequential]
    for cell in cells.itertuples():
        x, y = kinds.index(cell.kind), places[cell.group]
        grid[y, x] = cell.alive
        text: dict[str, Any] = {"ha": "center", "va": "center", "color": style.choose_ink(colour_map(cell.alive))}
        ax.text(x, y - 0.14, f"{100 * cell.alive:.0f}", fontsize=8, fontweight="bold", **text)
        if cell.high > cell.low:  # sessions that agree by chance give no interval
            ax.text(x, y + 0.24, f"[{100 * cell.low:.0f}, {100 * cell.high:.0f}]", fontsize=5.6, **text)
    for y, x in np.argwhere(np.isnan(grid)):
        ax.text(x, y, "–", ha="center", va="center", fontsize=8, color=colours.muted)
    ax.set_facecolor(colours.background)
    ax.imshow(grid, cmap=colour_map, vmin=0, vmax=1, aspect="auto")
    if has_names:
        draw_arms(ax, arms)
    ax.set_ylim(len(arms) - 0.5, -1.2)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    for y in range(1, len(arms)):
        ax.axhline(y - 0.5, color=colours.background, linewidth=2)
    for x in range(1, len(kinds)):
        ax.axvline(x - 0.5, color=colours.background, linewidth=2)
    ax.set_xticks([])
    for x, kind in enumerate(kinds):
        options: dict[str, Any] = {"rotation": 22, "rotation_mode": "anchor", "ha": "left", "va": "bottom", "fontsize": 6.4}
        ax.text(x - 0.3, -0.58, kind, color=colours.muted, **options)
    ax.set_title(f"in view after {format_count(rounds, 'compaction')} (% of values)")


def _draw_curves(axes: Any, table: pd.DataFrame, kinds: list[str]) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    across = axes.shape[1]
    axes[0, 0].xaxis.set_major_locator(MaxNLocator(4, integer=True))  # the panels share it; drawing many ticks takes long
    axes[0, 0].yaxis.set_major_locator(FixedLocator((0, 0.5, 1)))
    for place, ax in enumerate(axes.flat):
        if place < len(kinds):
            _draw_panel(ax, table, kinds[place])
            ax.tick_params(labelbottom=place + across >= len(kinds))
            ax.set_xlabel("compactions (count)" if place + across >= len(kinds) else "")
        else:
            ax.remove()
    for row in axes:
        row[0].set_ylabel("in view (share)")


def find_last_round(table: pd.DataFrame) -> int:
    """Return the last compaction at which at least three sessions of a curve have values that can still be lost.

    The chart ends there. If no curve has so many sessions, all compactions are shown.
    """
    shown = table[table["sessions_at_risk"] >= MIN_SESSIONS]
    last = int(shown["rounds"].max()) if len(shown) else 0
    return last if last > 0 else int(table["rounds"].max())


def _draw_panel(ax: "Axes", table: pd.DataFrame, kind: str) -> None:
    rows, max_rounds = table[table["kind"] == kind], find_last_round(table)
    for (_, mark), curve in rows.groupby(["place", "mark"], sort=True):
        ends_early = curve["alive"].iloc[-1] == 0 and curve["rounds"].iloc[-1] < max_rounds
        ordered = pd.concat([curve, curve.tail(1).assign(rounds=max_rounds)]) if ends_early else curve
        ax.step(ordered["rounds"], ordered["alive"], where="post", linewidth=1.3, zorder=3, **choose_line(mark))
    values = int(rows.loc[rows["rounds"] == 0, "at_risk"].sum())
    ax.set(title=f"{kind} (n = {values})", xlim=(0, max(1, max_rounds)), ylim=(-0.03, 1.04))
    ax.grid(axis="y")
