"""Chart of what fills the context over the steps: tokens of system, user and assistant messages, tool results and summaries.

The context of a session is a saw-tooth: it grows, and falls at each compaction. A mean over sessions would smear the teeth, and
no arm would seem to reach its threshold. Each panel therefore shows one session, the one with the median number of steps, and a
band for the whole contexts of all sessions.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.analysis.arms import drop_earlier_plans, find_arm, select_valid
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.groups import describe_omitted, group_trials
from harness.analysis.figures.marks import set_title
from harness.analysis.formatting import format_short_number, label_arms
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.validity import drop_repeats

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *("group", "place", "mark", "trial_id", "step", "moment", "kind", "tokens", "low", "high", "sessions"),
    *("threshold_tokens", "window_tokens", "level"),
)
MOMENTS = ("before compaction", "request")
"""Moments of a step at which the context is shown: before a compaction, if there is one, and when it is sent."""
BAND = (0.1, 0.9)
"""Quantiles of the sizes of contexts between which the band of a panel lies."""
KINDS = ("system", "user", "summaries", "assistant", "tool results")
"""Kinds of messages, from the bottom of the chart to the top. All messages that a compaction inserted count as summaries."""
_KIND_BY_ROLE = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool results"}
TITLE_CHARACTERS = 34
LIMITS = {"threshold_tokens": "threshold of the policy", "window_tokens": "context window"}
"""Labels of the horizontal lines of a panel, by the column with their number of tokens."""


def table(results: Tables, *, arms: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the data of the chart of context composition, with one row per group, step, moment and kind of message.

    The messages are those of one session of each group, the one with the median number of steps. Each group is an arm or, with
    more than twelve arms, one value of a setting that the plan varies. Repeated runs (A/A) are excluded.

    | column | dtype | unit |
    | --- | --- | --- |
    | group | str | name of the arm, or value of the setting |
    | place | int | position of the group in the chart, from 0 |
    | mark | str | colour and shape of the group in every chart of the experiment, such as `blue circle` |
    | trial_id | str | id of the session whose messages are shown |
    | step | int | number of the step, from 1 |
    | moment | str | `request` or, for a step that begins with a compaction, also `before compaction` |
    | kind | str | system, user, summaries, assistant or tool results |
    | tokens | float | tokens of such messages in view of the session, as estimated by the policy |
    | low, high | float | 10 % and 90 % quantiles of the largest context at the step, over the sessions that have the step |
    | sessions | int | number of sessions of the group that have the step |
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
    valid_trials = select_valid(current.trials)
    trials = drop_repeats(valid_trials)
    repeats = len(valid_trials) - len(trials)
    if arms is not None:
        trials = trials[trials["arm"].isin([find_arm(current.trials, arm) for arm in arms])]
    messages = select(current, trials).message_sizes
    if messages.empty or trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = group_trials(trials, results)
    shown = trials[trials["trial_id"].isin(groups.labels)]
    sizes = _measure_contexts(results, shown)
    rows = []
    for name, members in shown.groupby(shown["trial_id"].map(groups.labels), sort=False):
        ordered = members.sort_values(["steps", "compactions", "trial_id"])
        session = ordered.iloc[(len(ordered) - 1) // 2]
        own_sizes = sizes[sizes["trial_id"] == session["trial_id"]].set_index("step")
        parts = _split_contexts(messages[messages["trial_id"] == session["trial_id"]], own_sizes)
        at_steps = sizes[sizes["trial_id"].isin(members["trial_id"])].groupby("step")["peak_tokens"]
        band = pd.DataFrame({name: at_steps.quantile(share) for name, share in zip(("low", "high"), BAND, strict=True)})
        band["sessions"] = at_steps.size()
        labels = {"group": name, "place": groups.places[str(name)], "mark": groups.marks[str(name)]}
        limits = {limit: _find_common(members[limit]) for limit in LIMITS}
        rows.append(parts.join(band, on="step").assign(**labels, trial_id=session["trial_id"], **limits))
    whole = pd.concat(rows, ignore_index=True).sort_values("place", kind="stable", ignore_index=True)
    is_used = whole.groupby("kind")["tokens"].transform("max") > 0
    composition = whole[is_used].assign(level=require_single_level(trials))[list(COLUMNS)].reset_index(drop=True)
    composition.attrs |= {"omitted": groups.omitted, "repeats": repeats}
    return composition


def _measure_contexts(results: Tables, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the tokens of each request and before its compaction, if any, as the policy estimates them, by trial and step."""
    applied = results.compactions[results.compactions["status"] == "applied"]
    drops = applied.groupby(["trial_id", "step"], as_index=False)["tokens_before"].max()
    counts = trials["steps"].to_numpy(dtype=int)
    sizes = pd.DataFrame({"trial_id": np.repeat(trials["trial_id"].to_numpy(), counts)})
    sizes["step"] = sizes.groupby("trial_id").cumcount() + 1
    sizes = sizes.merge(results.steps[["trial_id", "step", "view_tokens"]], how="left").merge(drops, how="left")
    sizes[["view_tokens", "tokens_before"]] = sizes[["view_tokens", "tokens_before"]].astype(float)
    return sizes.assign(peak_tokens=sizes[["view_tokens", "tokens_before"]].max(axis=1))


def _find_common(values: pd.Series) -> float:
    known = values.astype(float).unique()
    return float(known[0]) if len(known) == 1 and known[0] > 0 else np.nan


def _split_contexts(messages: pd.DataFrame, sizes: pd.DataFrame) -> pd.DataFrame:
    """Return the tokens of each kind of message in the contexts of a session, by step and moment.

    A message is seen from the step after the one that added it or, if a compaction inserted it, from the step of the compaction.
    It is last seen before the compaction that removes it. The estimates for the messages are scaled so that they add up to the
    estimate for the whole context, if that is known.

    Args:
        messages: Sizes of the messages of the session.
        sizes: Sizes of the contexts of the session, by step.
    """
    end = messages["compacted_before_step"].to_numpy(dtype=float, na_value=np.inf)
    tokens, is_inserted = messages["tokens"].to_numpy(dtype=float), (messages["origin"] == "inserted").to_numpy()
    first = messages["step"].to_numpy(dtype=int) + ~is_inserted
    kinds = _classify(messages).to_numpy()
    rows = []
    for size in sizes.itertuples():
        step = size.Index
        was_seen = (first <= step) & (end >= step) & ~(is_inserted & (first == step))
        moments = [(MOMENTS[0], size.tokens_before, was_seen)] if size.tokens_before > 0 else []
        for moment, whole_tokens, is_seen in (*moments, (MOMENTS[1], size.view_tokens, (first <= step) & (end > step))):
            sums = np.bincount(kinds[is_seen], tokens[is_seen], minlength=len(KINDS))
            scaled = sums * (whole_tokens / sums.sum() if sums.sum() > 0 and whole_tokens > 0 else 1.0)
            rows += [(step, moment, kind, kind_tokens) for kind, kind_tokens in zip(KINDS, scaled, strict=True)]
    return pd.DataFrame(rows, columns=["step", "moment", "kind", "tokens"])


def _classify(messages: pd.DataFrame) -> pd.Series:
    kinds = messages["role"].map(_KIND_BY_ROLE)
    kinds = kinds.where(messages["origin"] != "inserted", "summaries")
    return kinds.map({kind: place for place, kind in enumerate(KINDS)})


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
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
    rows = table[table["place"] == table["place"].min()]
    _draw_panel(ax, rows)
    _set_ranges(ax, rows)
    ax.set(xlabel="step (number)", ylabel="view (tokens)")


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    shown = sorted(table["place"].unique())
    across = min(len(shown), style.fit_columns(2.5), 4)
    down = -(-len(shown) // across)
    figure = style.make_figure(max(5.6, 2.5 * across + 0.9), 1.75 * down + 1.5)
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    _set_ranges(axes[0, 0], table)
    for place, ax in enumerate(axes.flat):
        ax.set_visible(place < len(shown))
        if place < len(shown):
            _draw_panel(ax, table[table["place"] == shown[place]])
            ax.tick_params(labelbottom=place + across >= len(shown))
            ax.set(
                xlabel="step (number)" if place + across >= len(shown) else "",
                ylabel="view (tokens)" if place % across == 0 else "",
            )
    note = "Areas: the session with the median number of steps. Thin lines: at each step, 80 % of all sessions lie between them."
    style.add_legend(figure, _list_handles(table), 1.8, note)
    sessions = int(table.groupby("place")["sessions"].max().sum())
    repeats = style.describe_excluded_repeats(table)
    about = f"one session of each arm, of {sessions} in all{repeats}; tokens as estimated by the policy"
    about += describe_omitted(table.attrs.get("omitted", ()))
    style.add_header(figure, "What fills the context", about, level)
    return figure


def _draw_panel(ax: "Axes", rows: pd.DataFrame) -> None:
    fills = _list_fills(rows)
    ordered = rows.assign(kind=pd.Categorical(rows["kind"], KINDS), moment=pd.Categorical(rows["moment"], MOMENTS))
    by_kind = ordered.pivot_table(index=["step", "moment"], columns="kind", values="tokens", observed=True)
    kinds = [kind for kind in KINDS if kind in by_kind and by_kind[kind].max() > 0]
    steps = by_kind.index.get_level_values("step")
    ax.stackplot(steps, [by_kind[kind] for kind in kinds], colors=[fills[kind] for kind in kinds], linewidth=0)
    band, first = rows.drop_duplicates("step"), rows.iloc[0]
    if band["sessions"].max() > 1:
        for edge in ("low", "high"):
            ax.plot(band["step"], band[edge], zorder=2.5, **_choose_band())
    for column in LIMITS:
        if first[column] > 0:
            ax.axhline(first[column], zorder=3, **_choose_line(column))
    ax.yaxis.set_major_formatter(lambda value, _: format_short_number(value))
    label = label_arms([first["group"]], TITLE_CHARACTERS)[first["group"]]
    set_title(ax, first["mark"], f"{label} (n = {int(rows['sessions'].max())})")


def _set_ranges(ax: "Axes", table: pd.DataFrame) -> None:
    totals = table.groupby(["place", "step", "moment"])["tokens"].sum()
    tops = pd.Series([totals.max(), table["high"].max(), *(table[limit].max() for limit in LIMITS)])
    ax.set(xlim=(1, max(2, int(table["step"].max()))), ylim=(0, 1.06 * float(tops.max())))


def _list_fills(table: pd.DataFrame) -> dict[str, str]:
    colours = dict(zip(KINDS, style.read_colours().fills, strict=True))
    return {kind: colour for kind, colour in colours.items() if kind in set(table["kind"])}


def _choose_band() -> dict[str, Any]:
    return {"color": style.read_colours().text, "alpha": 0.7, "linewidth": 0.6}


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
    bands = [Line2D([], [], label="80 % of sessions lie between", **_choose_band())] if table["sessions"].max() > 1 else []
    lines = [Line2D([], [], label=label, **_choose_line(column)) for column, label in LIMITS.items() if table[column].max() > 0]
    return [*fills, *bands, *lines]
