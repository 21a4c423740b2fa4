"""Chart of what fills the context over the steps: tokens of system, user and assistant messages, tool results and summaries.

Each panel shows the mean over the sessions of an arm that still run at a step. A panel ends where fewer than half of the
sessions run, so that one long session does not stretch it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import drop_earlier_plans, find_arm, order_arms, select_valid
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.groups import group_trials
from harness.analysis.formatting import format_label, format_short_number
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.validity import drop_repeats
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("group", "place", "step", "kind", "tokens", "sessions", "threshold_tokens", "window_tokens", "level")
KINDS = ("system", "user", "summaries", "assistant", "tool results")
"""Kinds of messages, from the bottom of the chart to the top. All messages that a compaction inserted count as summaries."""
_KIND_BY_ROLE = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool results"}
MAX_PANELS = 12
LIMITS = {"threshold_tokens": "threshold of the policy", "window_tokens": "context window"}
"""Labels of the horizontal lines of a panel, by the column with their number of tokens."""
SHOWN_SHARE = 0.5
"""Share of an arm's sessions that must still run at a step for the chart to show this step."""


def table(results: Tables, *, arms: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the data of the chart of context composition, with one row per group, step and kind of message.

    Each group is an arm or, with more than twelve arms, one value of a setting that the plan varies. Repeated runs (A/A) are
    excluded.

    | column | dtype | unit |
    | --- | --- | --- |
    | group | str | name of the arm, or value of the setting |
    | place | int | position of the group in the chart, from 0 |
    | step | int | number of the step, from 1 |
    | kind | str | system, user, summaries, assistant or tool results |
    | tokens | float | mean over the running sessions of the estimated tokens of such messages in view at the step |
    | sessions | int | number of sessions that have the step |
    | threshold_tokens, window_tokens | float | tokens; NaN if there is none or the trials of the group differ |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.
        arms: Names of the arms to include; None for all.

    Example::

        table = harness.figures.context_composition.table(results)
        table.groupby(["group", "kind"])["tokens"].max()

    Raises:
        UnknownName: There is no such arm; the message suggests similar names.
    """
    open_outcomes(results)
    current = drop_earlier_plans(results)
    trials = drop_repeats(select_valid(current.trials))
    if arms is not None:
        trials = trials[trials["arm"].isin([find_arm(current.trials, arm) for arm in arms])]
    messages = select(current, trials).message_sizes
    if messages.empty or trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    few = trials["arm"].nunique() <= MAX_PANELS
    labels = dict(zip(trials["trial_id"], trials["arm"], strict=True)) if few else group_trials(trials)
    order = order_arms(trials) if few else list(dict.fromkeys(labels.values()))
    places = {name: place for place, name in enumerate(order)}
    shown_trials = trials[trials["trial_id"].isin(labels)].set_index("trial_id")
    last_steps = shown_trials["steps"].astype(int)
    places_of_trials = pd.Series({trial_id: places[labels[trial_id]] for trial_id in shown_trials.index})
    messages = messages[messages["trial_id"].isin(labels)]
    totals = _sum_tokens(messages, last_steps, places_of_trials, len(places))
    rows = []
    for name, place in places.items():
        is_inside = (places_of_trials == place).to_numpy()
        steps = last_steps.to_numpy()[is_inside]
        running = (steps[:, None] >= np.arange(1, totals.shape[1] + 1)).sum(axis=0)
        shown = int((running >= SHOWN_SHARE * len(steps)).sum())
        means = totals[place, :shown] / running[:shown, None]
        rows.append(
            pd.DataFrame(
                {"step": np.repeat(np.arange(1, shown + 1), len(KINDS)), "kind": list(KINDS) * shown, "tokens": means.ravel()}
                | {"sessions": np.repeat(running[:shown], len(KINDS)), "group": name, "place": place}
            ).assign(**{limit: _find_common(shown_trials[is_inside][limit]) for limit in LIMITS})
        )
    whole = pd.concat(rows, ignore_index=True)
    used = whole.groupby("kind")["tokens"].transform("max") > 0
    return whole[used].assign(level=require_single_level(trials))[list(COLUMNS)].reset_index(drop=True)


def _find_common(values: pd.Series) -> float:
    known = values.astype(float).unique()
    return float(known[0]) if len(known) == 1 and known[0] > 0 else np.nan


def _sum_tokens(messages: pd.DataFrame, last_steps: pd.Series, places: pd.Series, arm_count: int) -> np.ndarray:
    """Return the tokens that the model sees, summed over sessions, as an array by place of the arm, step and kind.

    A message is seen from the step after the one that added it or, if a compaction inserted it, from the step after the
    compaction. It is last seen in the step before the compaction that removes it.
    """
    first = messages["step"].to_numpy(dtype=int) + 1
    left = messages["compacted_before_step"].to_numpy(dtype=float, na_value=np.inf)
    ends = np.minimum(left, messages["trial_id"].map(last_steps).to_numpy(dtype=float) + 1).astype(int)
    is_seen = ends > first
    kinds = _classify(messages).to_numpy()
    rows = messages["trial_id"].map(places).to_numpy(dtype=int)
    changes = np.zeros((arm_count, int(last_steps.max()) + 2, len(KINDS)))
    tokens = messages["tokens"].to_numpy(dtype=float)
    np.add.at(changes, (rows[is_seen], first[is_seen], kinds[is_seen]), tokens[is_seen])
    np.add.at(changes, (rows[is_seen], ends[is_seen], kinds[is_seen]), -tokens[is_seen])
    return np.asarray(np.cumsum(changes, axis=1)[:, 1:-1], dtype=float)


def _classify(messages: pd.DataFrame) -> pd.Series:
    kinds = messages["role"].map(_KIND_BY_ROLE)
    kinds = kinds.where(messages["origin"] != "inserted", "summaries")
    return kinds.map({kind: place for place, kind in enumerate(KINDS)})


def draw(
    table: pd.DataFrame, ax: "Axes | None" = None, *, theme: style.Theme = "light", width: style.Width = "notebook"
) -> "Figure":
    """Draw what fills the context over the steps, with one panel per arm or group of arms.

    If `ax` is given, the panel of the first arm is drawn on it.

    Example::

        table = harness.figures.context_composition.table(results)
        harness.figures.context_composition.draw(table, theme="dark").savefig("context_composition.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no message of a valid trial is stored, so there is no composition of the context to draw"
    return style.draw_chart(table, ax, _draw_figure, _draw_first_arm, theme=theme, width=width, empty_message=message)


def _draw_first_arm(ax: "Axes", table: pd.DataFrame) -> None:
    _draw_panel(ax, table[table["place"] == table["place"].min()])
    ax.set(xlabel="step (number)", ylabel="view (tokens)")


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    shown = sorted(table["place"].unique())
    across = min(len(shown), style.fit_columns(2.5), 4)
    down = -(-len(shown) // across)
    figure = style.make_figure(max(5.6, 2.5 * across + 0.9), 1.75 * down + 1.5)
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for place, ax in enumerate(axes.flat):
        ax.set_visible(place < len(shown))
        if place < len(shown):
            _draw_panel(ax, table[table["place"] == shown[place]])
            ax.tick_params(labelbottom=place + across >= len(shown))
            ax.set(
                xlabel="step (number)" if place + across >= len(shown) else "",
                ylabel="view (tokens)" if place % across == 0 else "",
            )
    style.add_legend(figure, _list_handles(table), 1.8)
    sessions = int(table.groupby("place")["sessions"].max().sum())
    about = f"{format_count(sessions, 'session')}; mean over those that still run; tokens as estimated for the journal"
    style.add_header(figure, "What fills the context", about, level)
    return figure


def _draw_panel(ax: "Axes", rows: pd.DataFrame) -> None:
    fills = _list_fills(rows)
    by_kind = rows.pivot_table(index="step", columns="kind", values="tokens", observed=True)
    ordered = [kind for kind in KINDS if kind in by_kind and by_kind[kind].max() > 0]
    ax.stackplot(by_kind.index, [by_kind[kind] for kind in ordered], colors=[fills[kind] for kind in ordered], linewidth=0)
    first = rows.iloc[0]
    for column in LIMITS:
        if first[column] > 0:
            ax.axhline(first[column], zorder=3, **_choose_line(column))
    ax.yaxis.set_major_formatter(lambda value, _: format_short_number(value))
    sessions = int(rows["sessions"].max())
    ax.set_title(f"{format_label(first['group'], 34)} (n = {sessions})", fontsize=7.8)
    ax.set_xlim(1, max(2, int(rows["step"].max())))
    ax.set_ylim(bottom=0)


def _list_fills(table: pd.DataFrame) -> dict[str, str]:
    palette = style.read_colours().palette
    colours = dict(zip(KINDS, (palette[6], palette[5], palette[1], palette[4], palette[0]), strict=True))
    return {kind: colour for kind, colour in colours.items() if kind in set(table["kind"])}


def _choose_line(column: str) -> dict[str, Any]:
    """Return the line style of the threshold or the window, by the column with its number of tokens."""
    colours = style.read_colours()
    if column == "threshold_tokens":
        return {"color": colours.text, "linestyle": (0, (4, 2)), "linewidth": 0.9}
    return {"color": colours.muted, "linestyle": "-", "linewidth": 0.9}


def _list_handles(table: pd.DataFrame) -> "list[Artist]":
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    fills: list[Artist] = [Patch(color=colour, label=kind) for kind, colour in _list_fills(table).items()]
    lines = [Line2D([], [], label=label, **_choose_line(column)) for column, label in LIMITS.items() if table[column].max() > 0]
    return [*fills, *lines]
