"""Chart of one loss and its consequence: the context of two sessions over their steps, one of which lost a fact that it needed.

Both sessions ran the same task and seed in two arms. Red marks where the first one lost the fact, used a wrong value and failed a
check, green where the second one kept the fact, used it right and passed the check. The chart shows an example.
"""

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arm_marks import read_marks
from harness.analysis.arms import drop_earlier_plans, select_outcomes
from harness.analysis.chart_options import Theme, Width
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.marks import choose_colour
from harness.analysis.formatting import format_label, format_short_number
from harness.analysis.loss_story import LossStory, find_loss_story
from harness.analysis.tables import Tables, iterate_parts, require_single_level
from harness.text import escape_control_characters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *("arm", "mark", "trial_id", "task", "seed", "fact", "kind", "check", "step", "view_tokens", "tokens_before"),
    *("round_step", "fate", "use_step", "use", "has_failed", "level"),
)
TITLE = "One session loses a fact, and a check finds it"
"""Title of the chart."""
EXAMPLE = "An example, chosen by a fixed rule; no evidence"
"""Remark that the chart shows only one pair of sessions."""
NOTE_CHARACTERS = 52
"""Length at which a remark in the chart continues on the next line."""
_BAD = {"light": "#b3261e", "dark": "#ff8a80"}
_GOOD = {"light": "#1b7f4b", "dark": "#5fd39a"}


def table(results: Tables) -> pd.DataFrame:
    """Return the data of the chart, one row per step of both sessions, the one that lost the fact first.

    The table is empty if no session used a value wrong after losing it while another arm kept it on the same task and seed, or if
    the journal of the results is missing.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm, mark | str | name of the arm; its colour and shape in every chart of the experiment, such as `blue circle` |
    | trial_id, task, seed | str, str, int | |
    | fact, kind, check | str | name and kind of the fact; title of the check that needs it |
    | step | int | number of the step, from 1 |
    | view_tokens | float | estimated tokens of the view (the messages sent to the model) at this step |
    | tokens_before | float | estimated tokens of the view before the compaction at this step; NaN if there was none |
    | round_step, fate | int, str | step before which the fact was lost or kept by a compaction; words for it |
    | use_step, use | int, str | step in which the agent used the fact; words for the value |
    | has_failed | bool | whether the session failed the check |
    | level | str | fidelity level |

    Example::

        table = harness.figures.loss_story.table(results)
        table.drop_duplicates("arm")[["arm", "fate", "use"]]
    """
    open_outcomes(results)
    current = drop_earlier_plans(select_outcomes(results))
    story = find_loss_story(current) if len(current.trials) else None
    if story is None:
        return pd.DataFrame(columns=list(COLUMNS))
    return build_table(current, story)


def build_table(results: Tables, story: LossStory) -> pd.DataFrame:
    """Return the data of the chart of a story that was found in the results; see `table`."""
    marks, level = read_marks(results), require_single_level(results.trials)
    applied = results.compactions[results.compactions["status"] == "applied"]
    drops = applied.groupby(["trial_id", "step"], as_index=False)["tokens_before"].max()
    parts = []
    trial_ids = [side.trial_id for side in (story.lost, story.kept)]
    columns = ["trial_id", "step", "view_tokens"]
    shown = pd.concat([rows.loc[rows["trial_id"].isin(trial_ids), columns] for rows in iterate_parts(results, "steps", columns)])
    for side in (story.lost, story.kept):
        steps = shown[shown["trial_id"] == side.trial_id]
        parts.append(
            steps.merge(drops, on=["trial_id", "step"], how="left").assign(
                arm=side.arm,
                mark=marks[side.arm],
                task=story.task,
                seed=story.seed,
                fact=story.fact,
                kind=story.kind,
                check=story.check,
                round_step=side.round_step,
                fate=side.fate,
                use_step=side.use_step,
                use=side.use,
                has_failed=side.has_failed,
                level=level,
            )
        )
    rows = pd.concat(parts, ignore_index=True)
    rows[["view_tokens", "tokens_before"]] = rows[["view_tokens", "tokens_before"]].astype(float)
    return rows[list(COLUMNS)]


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw the context of both sessions over their steps, with the loss and its consequence.

    If `ax` is given, both sessions are drawn on it, without remarks.

    Example::

        table = harness.figures.loss_story.table(results)
        harness.figures.loss_story.draw(table, theme="dark").savefig("loss_story.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no session used a value wrong after losing it while another arm kept it, so there is no loss to draw"

    def draw_figure(rows: pd.DataFrame, level: str) -> "Figure":
        return _draw_figure(rows, level, theme)

    return style.draw_chart(table, ax, draw_figure, _draw_lines, theme=theme, width=width, empty_message=message)


def _draw_lines(ax: "Axes", table: pd.DataFrame) -> None:
    for _, rows in table.groupby("trial_id", sort=False):
        _draw_line(ax, rows)
    ax.set(xlabel="step (number)", ylabel="view (tokens)")


def _draw_figure(table: pd.DataFrame, level: str, theme: Theme) -> "Figure":
    sessions = [rows for _, rows in table.groupby("trial_id", sort=False)]
    figure = style.make_figure(8.6, 4.9)
    axes: Any = figure.subplots(len(sessions), 1, sharex=True, sharey=True)
    top = table[["view_tokens", "tokens_before"]].max().max()
    for ax, rows in zip(axes, sessions, strict=True):
        _draw_line(ax, rows)
        _mark(ax, rows, top, theme)
        arm = escape_control_characters(str(rows["arm"].iloc[0]))
        ax.set_title(arm, color=choose_colour(rows["mark"].iloc[0]), fontweight="bold", fontsize=9)
        ax.set(ylabel="view (tokens)", ylim=(0, 1.5 * top), xlim=(0, 1.16 * table["step"].max()))
        ax.set_yticks([tick for tick in ax.get_yticks() if tick <= 1.05 * top])
        ax.yaxis.set_major_formatter(lambda value, _: format_short_number(value))
    axes[-1].set_xlabel("step (number)")
    first = table.iloc[0]
    lost, kept = (escape_control_characters(str(rows["arm"].iloc[0])) for rows in sessions)
    about = (
        f"{format_label(first['task'])}, seed {first['seed']}, in two arms: {lost} fails the check "
        f"“{format_label(first['check'])}”, {kept} passes it. ▼: compaction. {EXAMPLE}"
    )
    style.add_header(figure, TITLE, about, level)
    return figure


def _draw_line(ax: "Axes", rows: pd.DataFrame) -> None:
    x: list[float] = []
    y: list[float] = []
    for step, tokens, before in zip(rows["step"], rows["view_tokens"], rows["tokens_before"], strict=True):
        if not pd.isna(before):
            x.append(step)
            y.append(before)
        x.append(step)
        y.append(tokens)
    colour = choose_colour(rows["mark"].iloc[0])
    ax.plot(x, y, color=colour, linewidth=1.6, zorder=2)
    drops = rows.dropna(subset=["tokens_before"])
    ax.plot(
        drops["step"],
        drops["tokens_before"],
        marker="v",
        markersize=5,
        color=colour,
        linestyle="none",
        markeredgewidth=0,
        zorder=3,
    )
    ax.grid(axis="y")


def _mark(ax: "Axes", rows: pd.DataFrame, top: float, theme: Theme) -> None:
    first = rows.iloc[0]
    has_failed = bool(first["has_failed"])
    colour = (_BAD if has_failed else _GOOD)[theme]
    drop = rows[rows["step"] == first["round_step"]]
    height = float(drop["tokens_before"].fillna(drop["view_tokens"]).iloc[0]) if len(drop) else top
    ax.plot([first["round_step"]], [height], marker="v", markersize=9, color=colour, linestyle="none", zorder=4)
    _annotate(ax, f"step {first['round_step']}: {first['fate']}", (first["round_step"], height), (6, 10), "bottom", "left")
    used = rows[rows["step"] == first["use_step"]]
    level = float(used["view_tokens"].iloc[0]) if len(used) else float(rows["view_tokens"].iloc[-1])
    mark: dict[str, Any] = {
        "marker": "X" if has_failed else "o",
        "markersize": 9,
        "markeredgecolor": style.read_colours().background,
    }
    ax.plot([first["use_step"]], [level], color=colour, linestyle="none", zorder=5, **mark)
    ax.plot([first["use_step"]] * 2, [0.08 * top, level], color=colour, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1.5)
    _annotate(ax, f"step {first['use_step']}: {first['use']}", (first["use_step"], 0.08 * top), (5, -3), "bottom", "left")
    last = rows.iloc[-1]
    verdict = "✕ check failed" if has_failed else "● check passed"
    ax.annotate(
        verdict,
        (last["step"], last["view_tokens"]),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        fontweight="bold",
        color=colour,
    )


def _annotate(ax: "Axes", text: str, point: tuple[float, float], shift: tuple[int, int], va: str, ha: str) -> None:
    lines = "\n".join(wrap(escape_control_characters(text), NOTE_CHARACTERS))
    background = style.read_colours().background
    ax.annotate(
        lines,
        point,
        xytext=shift,
        textcoords="offset points",
        va=va,
        ha=ha,
        fontsize=7.8,
        bbox={"boxstyle": "square,pad=0.15", "facecolor": background, "alpha": 0.85, "linewidth": 0},
        zorder=6,
    )
