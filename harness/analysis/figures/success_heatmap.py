"""Heat map of the success rate by a policy's threshold and number of kept messages, with one panel per summarizer.

Each cell shows the numbers of successes and trials, the success rate and its interval, so that a colour based on two
trials is not mistaken for a result.
"""

from math import nan
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import (
    build_sort_key,
    drop_earlier_plans,
    estimate_success,
    read_policy_field,
    read_specified_field,
    select_valid,
)
from harness.analysis.figures.style import TEXT_COLOUR, add_footer, add_header, describe_excluded_repeats, draw_chart, make_figure
from harness.analysis.formatting import format_label
from harness.analysis.tables import Tables, require_single_level
from harness.errors import UsageError, format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEY_COLUMNS = ("summarizer", "threshold", "keep_last")
COLUMNS = (*KEY_COLUMNS, "successes", "trials", "share", "low", "high", "level")
CELL_WIDTH_INCHES, CELL_HEIGHT_INCHES = 0.92, 0.74


def table(results: Tables) -> pd.DataFrame:
    """Return the table from which the heat map of success rates is drawn, with one row per cell of the heat map.

    A cell pools all trials with the same summarizer, threshold and `keep_last`, whatever their other settings and whether or not
    their arm belongs to the grid of the plan. Trials of earlier plans and repeated runs (A/A) are excluded; `attrs["repeats"]` is
    the number of excluded repeats.

    | column | dtype | unit |
    | --- | --- | --- |
    | summarizer | str | model that writes the summaries |
    | threshold | object | share of the available window, 0 to 1 (float), tokens (int), or a quantile of tokens (str) |
    | keep_last | int | number of recent messages kept unchanged |
    | successes, trials | int | number of trials, without repeats (A/A) |
    | share, low, high | float | success rate and its 95 % interval over tasks or, with fewer than six tasks, seeds, 0 to 1 |
    | level | str | fidelity level |
    """
    trials = select_valid(drop_earlier_plans(results).trials)
    share, tokens = read_policy_field(trials, "threshold"), read_specified_field(trials, "trigger_tokens")
    summarizer, keep_last = read_policy_field(trials, "summarizer"), read_policy_field(trials, "keep_last")
    cells = trials.assign(summarizer=summarizer, threshold=tokens.where(tokens.notna(), share), keep_last=keep_last)
    grid_trials = cells.dropna(subset=list(KEY_COLUMNS))
    first_runs = grid_trials.query("replicate == 0")
    groups = first_runs.groupby(list(KEY_COLUMNS), sort=False)
    rows = []
    for key, group in sorted(groups, key=lambda one: [build_sort_key(value) for value in one[0]]):
        rate = estimate_success(group)
        rows.append((*key, rate.successes, rate.trials, rate.share, rate.low, rate.high, require_single_level(group)))
    thresholds = pd.Series(
        [row[1] for row in rows], dtype=object
    )  # object, so that a number of tokens beside a share stays an integer
    cell_table = pd.DataFrame(rows, columns=list(COLUMNS)).assign(threshold=thresholds)
    cell_table.attrs["repeats"] = len(grid_trials) - len(first_runs)
    return cell_table


def draw(table: pd.DataFrame, ax: "Axes | None" = None) -> "Figure":
    """Draw the heat map of success rates by compaction threshold and number of kept messages, with one panel per summarizer.

    If `ax` is given, the panel of the only summarizer is drawn on it.

    Raises:
        UsageError: The table is empty, it has several fidelity levels, or `ax` is given and there are several summarizers.
    """
    message = "no trial has a policy with threshold, keep_last and summarizer, so there is no heat map to draw"
    return draw_chart(table, ax, _draw_figure, _draw_single_panel, empty_message=message)


def _draw_single_panel(ax: "Axes", table: pd.DataFrame) -> None:
    if (panels := table["summarizer"].nunique()) > 1:
        raise UsageError(f"ax holds one panel, but there are {panels} summarizers; select one of them or omit ax")
    _draw_panel(ax, table, _list_axis_values(table))


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    scale, panels = _list_axis_values(table), sorted(table["summarizer"].unique())
    width = len(panels) * (len(scale["keep_last"]) * CELL_WIDTH_INCHES + 0.35) + 1.5
    figure = make_figure(max(width, 5.6), len(scale["threshold"]) * CELL_HEIGHT_INCHES + 1.75)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    images = [_draw_panel(ax, table[table["summarizer"] == name], scale) for ax, name in zip(axes, panels, strict=True)]
    for ax, summarizer in zip(axes, panels, strict=True):
        ax.set_title(f"summarizer {format_label(summarizer, 40)}")
        ax.label_outer()
    bar = figure.colorbar(images[0], ax=list(axes), shrink=0.95, aspect=18, pad=0.015, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.ax.set_yticklabels(["0", "25", "50", "75", "100"])
    bar.set_label("successful trials (%)")
    bar.outline.set_visible(False)
    about = f"{format_count(int(table['trials'].sum()), 'trial')}{describe_excluded_repeats(table)}"
    add_header(figure, "Success by threshold and kept messages", about, level)
    add_footer(figure, "Each cell: successful / all trials, share, 95 % interval. Success = every check passed.")
    return figure


def _list_axis_values(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {name: sorted(table[name].unique(), key=build_sort_key) for name in ("threshold", "keep_last")}


def _format_tick(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else format_label(value, 12)


def _describe_threshold_axis(thresholds: list[Any]) -> str:
    """Return the label for the axis of compaction thresholds, which may be shares of the context window, tokens or both."""
    tokens = "tokens; q = quantile of uncompressed contexts" if any(isinstance(one, str) for one in thresholds) else "tokens"
    shares = [isinstance(one, float) for one in thresholds]
    if all(shares):
        return "threshold (share of available window)"
    return f"threshold (share of available window, or {tokens})" if any(shares) else f"threshold ({tokens})"


def _draw_panel(ax: "Axes", cells: pd.DataFrame, scale: dict[str, list[Any]]) -> Any:
    rows, columns = scale["threshold"], scale["keep_last"]
    shares = {(cell.threshold, cell.keep_last): cell.share for cell in cells.itertuples()}
    colours = [[shares.get((row, column), nan) for column in columns] for row in rows]
    ax.set_facecolor("#f2f3f5")
    image = ax.imshow(colours, cmap="cividis", vmin=0, vmax=1, aspect="auto", origin="lower")
    for cell in cells.itertuples():
        _annotate_cell(ax, columns.index(cell.keep_last), rows.index(cell.threshold), cell)
    ax.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    ax.set_yticks(range(len(rows)), [_format_tick(value) for value in rows])
    ax.set_xticks([place - 0.5 for place in range(1, len(columns))], minor=True)
    ax.set_yticks([place - 0.5 for place in range(1, len(rows))], minor=True)
    ax.grid(which="minor", color="white", linewidth=2.0)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="keep-last (messages)", ylabel=_describe_threshold_axis(rows))
    return image


def _annotate_cell(ax: "Axes", x: int, y: int, cell: Any) -> None:
    ink = "white" if cell.share < 0.55 else TEXT_COLOUR
    ax.text(x, y + 0.2, f"{cell.successes}/{cell.trials}", ha="center", va="center", color=ink, fontsize=9.5, fontweight="bold")
    ax.text(x, y - 0.06, f"{100 * cell.share:.0f} %", ha="center", va="center", color=ink, fontsize=8)
    bounds = f"[{100 * cell.low:.0f}, {100 * cell.high:.0f}]"
    ax.text(x, y - 0.29, bounds, ha="center", va="center", color=ink, fontsize=7.5)
