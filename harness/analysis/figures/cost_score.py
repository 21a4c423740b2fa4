"""Chart of cost against score, or another metric, with one point per arm, paired intervals and the Pareto front.

An arm is on the Pareto front if no other arm is at least as good and as cheap. The intervals belong to the differences from the
baseline on the same tasks and seeds. An interval that does not reach a line through the baseline excludes equality with it. The
front is exploratory, because the best of many arms is better by chance.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arm_marks import COLOURS, STAR, ArmMark
from harness.analysis.arms import select_outcomes
from harness.analysis.baselines import compare_with_baseline, find_bounds, prepare_arms, resolve_baseline, resolve_metric
from harness.analysis.chart_options import Theme, Width
from harness.analysis.effects import estimate_effect
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import describe_arms, format_value
from harness.analysis.figures.marks import choose_colour, choose_point, make_handle
from harness.analysis.formatting import ESTIMAND_NOTE, format_usd, label_arms
from harness.analysis.measures import METRICS, estimate_cell, find_front
from harness.analysis.tables import Tables, require_single_level
from harness.analysis.validity import NEEDED_COLUMNS, pair_trials
from harness.errors import format_count
from harness.experiment.paths import name_control
from harness.text import escape_control_characters

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *("arm", "place", "settings", "mark", "metric", "baseline", "n", "cost_usd", "cost_low_usd", "cost_high_usd"),
    *("value", "low", "high", "is_bound", "is_on_front", "level"),
)
UNSUITABLE_METRICS = ("cost",)
"""Metrics with which the chart would show cost against cost."""
CONTROL_NOTE = " Thin lines join each policy with its recency control, which retained equally many tokens."
MAX_LISTED = 12
"""Largest number of arms that the legend lists; of more arms, it explains the settings that colours and shapes show."""


def table(results: Tables, *, metric: str | None = None, baseline: str | Mapping[str, object] | None = None) -> pd.DataFrame:
    """Return the data of the chart of cost against score, one row per arm.

    Arms without tasks and seeds in common with the baseline are left out. The table is empty if only one arm remains.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm, settings | str | name of the arm; JSON object with its values of the settings that the plan varies |
    | place | int | position of the arm in the report, from 0 |
    | mark | str | colour and shape of the arm in every chart of the experiment, such as `blue circle` |
    | metric, baseline | str | name of the metric on the vertical axis; name of the baseline |
    | n | int | pairs of the same task and seed; for the baseline, its trials |
    | cost_usd | float | mean cost per trial of agent, summarizer and sub-agents, over tasks |
    | cost_low_usd, cost_high_usd | float | 95 % interval of the paired difference from the baseline, around the cost |
    | value | float | mean of the metric over tasks |
    | low, high | float | as for the cost, around the value and within the bounds of the metric; NaN if there is none |
    | is_bound | bool | whether the arm knows what the task needs later, so that it is no choice and never on the front |
    | is_on_front | bool | whether no other arm is at least as good and as cheap |
    | level | str | fidelity level |

    Args:
        results: Results of one experiment.
        metric: Name of a metric other than cost; None for success, or score if success is the same in all trials of most arms.
        baseline: Baseline of the intervals, by its name or by settings as in `harness.compare`; None for the arm of the declared
            contrasts, or else the arm without compaction, or else the first arm.

    Example:
        >>> import harness, pandas, pathlib, tempfile
        >>> runs = {"task": list("aabb"), "arm": list("xyxy"), "passed": [1, 0, 1, 1], "usd": [1, 2, 3, 3.3]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "runs.csv")
        ...     pandas.DataFrame(runs).to_csv(path)
        ...     results = harness.load_outcomes(path, task="task", arm="arm", success="passed", cost="usd")
        >>> harness.figures.cost_score.table(results)[["arm", "cost_usd", "value"]].round(2).values.tolist()
        [['x', 2.0, 1.0], ['y', 2.65, 0.5]]

    Raises:
        UnknownName: There is no such metric or arm; the message suggests similar names.
        UsageError: The settings of the baseline select no arm or several arms.
    """
    open_outcomes(results)
    results = select_outcomes(results)
    trials = prepare_arms(results)
    if trials.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    chosen, against = resolve_metric(trials, metric), resolve_baseline(results, baseline)
    reference, level = trials[trials["arm"] == against], require_single_level(trials)
    if reference.empty:  # all trials of the baseline were excluded
        return pd.DataFrame(columns=list(COLUMNS))
    value, cost_usd = (estimate_cell(reference, shown_metric).value for shown_metric in (chosen, METRICS["cost"]))
    effects = compare_with_baseline(trials, against, [chosen], is_tested=False)
    places, bounds = describe_arms(trials, results).set_index("arm"), find_bounds(results)
    rows: list[dict[str, Any]] = [
        {"arm": against, "n": len(reference), "value": value, "low": nan, "high": nan}
        | {"cost_usd": cost_usd, "cost_low_usd": nan, "cost_high_usd": nan}
    ]
    amounts = list(dict.fromkeys(["total_cost_usd", *([chosen.column] if chosen.is_ratio else [])]))
    paired = trials[[*NEEDED_COLUMNS, *amounts]]  # other columns would be copied for each arm
    groups = dict(iter(paired.groupby("arm", sort=False)))
    for arm, by_metric in effects.items():
        pairs = pair_trials(groups[arm], groups[against], amounts)
        amount_effects = {name: estimate_effect(pairs, name, scale="difference", is_tested=False) for name in amounts}
        cost, effect = amount_effects["total_cost_usd"], amount_effects.get(chosen.column, by_metric[chosen.name])
        differences = zip(("value", "low", "high"), (effect.value, *effect.interval), strict=True)
        ceiling = inf if chosen.kind == "amount" else 1.0  # a mean cannot lie beyond the bounds of its metric
        shown = {name: min(max(value + difference, 0.0), ceiling) for name, difference in differences}
        costs = {"cost_usd": cost.value, "cost_low_usd": cost.interval.low, "cost_high_usd": cost.interval.high}
        rows.append(
            {"arm": arm, "n": effect.pair_count} | shown | {name: max(cost_usd + cost, 0.0) for name, cost in costs.items()}
        )
    points = pd.DataFrame(rows)
    points = points[(points["n"] > 0) & points["cost_usd"].notna() & points["value"].notna()]
    if len(points) < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    points = points.assign(
        metric=chosen.name, baseline=against, level=level, place=points["arm"].map(places["place"]).astype(int)
    ).assign(**{name: points["arm"].map(places[name]) for name in ("settings", "mark")}, is_bound=points["arm"].isin(bounds))
    choices = points if points["is_bound"].all() else points[~points["is_bound"]]  # bounds only count if all arms are bounds
    pairs = zip(choices["cost_usd"], choices["value"], strict=True)
    front = find_front(dict(zip(choices["arm"], pairs, strict=True)), chosen)
    points = points.assign(is_on_front=points["arm"].isin(front))
    return points[list(COLUMNS)].sort_values("place", ignore_index=True)


def draw(table: pd.DataFrame, ax: "Axes | None" = None, *, theme: Theme = "light", width: Width = "notebook") -> "Figure":
    """Draw cost against score, or another metric, with one point per arm, paired intervals and the Pareto front.

    The legend lists up to twelve arms. Of more arms, it explains which setting the colour shows and which the shape, and the arms
    on the front are numbered. A thin line joins a policy with its recency control, which retained equally many tokens.

    Example::

        table = harness.figures.cost_score.table(results)
        harness.figures.cost_score.draw(table, theme="dark").savefig("cost_score.png")

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    message = "no two arms with known costs share tasks and seeds, so there is no cost to draw against a score"
    return style.draw_chart(table, ax, _draw_figure, _draw_points, theme=theme, width=width, empty_message=message)


def _draw_figure(table: pd.DataFrame, level: str) -> "Figure":
    figure = style.make_figure(*((8.4, 5.8) if len(table) > MAX_LISTED else (7.4, 4.9)))
    ax = figure.subplots()
    handles = _draw_all(ax, table)
    metric, baseline = METRICS[str(table["metric"].iloc[0])], table[table["arm"] == table["baseline"]]
    place = f" at {format_usd(baseline['cost_usd'].iloc[0])} USD" if len(baseline) else ""
    name = escape_control_characters(str(table["baseline"].iloc[0]))
    about = f"{format_count(len(table), 'arm')}, baseline: {name}{place}"
    style.add_header(figure, f"Cost against {metric.name}", about, level)
    is_all_bounds = bool(table["is_bound"].all())
    bound = "; hollow: knows the future, so no choice" if table["is_bound"].any() and not is_all_bounds else ""
    note = (
        "Bars: 95 % intervals of the paired differences from the baseline. Cost differs where a bar across is clear of the "
        f"upright dotted line, {metric.name} where an upright bar is clear of the dotted line across. {ESTIMAND_NOTE} Pareto "
        f"front: the arms that no other beats in both means; exploratory{bound}.{_describe_front(table)}"
        f"{CONTROL_NOTE if _pair_controls(table) else ''}"
    )
    style.add_legend(figure, handles, 1.2, note)
    return figure


def _draw_points(ax: "Axes", table: pd.DataFrame) -> None:
    ax.legend(handles=_draw_all(ax, table), fontsize=style.LEGEND_POINTS)


def _draw_all(ax: "Axes", table: pd.DataFrame) -> "list[Artist]":
    metric = METRICS[str(table["metric"].iloc[0])]
    _draw_baseline(ax, table)
    for policy, control in _pair_controls(table):
        line: dict[str, Any] = {"color": style.read_colours().muted, "linewidth": 0.8, "zorder": 1.8}
        ax.plot([control.cost_usd, policy.cost_usd], [control.value, policy.value], **line)
    front = table[table["is_on_front"]].sort_values("cost_usd")
    ax.plot(front["cost_usd"], front["value"], drawstyle="steps-post", zorder=1.5, **_choose_front_line())
    crowded = len(table) > MAX_LISTED
    for row in table.itertuples():
        colour = choose_colour(row.mark)
        options: dict[str, Any] = {"color": colour, "linewidth": 0.7 if crowded else 1.1, "alpha": 0.35 if crowded else 0.75}
        ax.plot([row.cost_low_usd, row.cost_high_usd], [row.value, row.value], zorder=2, **options)
        ax.plot([row.cost_usd, row.cost_usd], [row.low, row.high], zorder=2, **options)
        # a repeat of the baseline lies at the same place and stays visible around it
        size, order = (4.5, 3.5) if row.arm == row.baseline else (6.5, 3)
        is_hollow = bool(row.is_bound and not table["is_bound"].all())
        ax.plot(row.cost_usd, row.value, zorder=order, **choose_point(row.mark, size, is_hollow=is_hollow))
    if crowded:
        _number_front(ax, front)
    ax.margins(0.06)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if metric.kind == "rate":
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    ax.set(xlabel=METRICS["cost"].label, ylabel=metric.label)
    ax.grid(zorder=0)
    return _list_handles(table)


def _pair_controls(table: pd.DataFrame) -> list[tuple[Any, Any]]:
    """Return the rows of each arm and of its recency control, which retained equally many tokens; empty without controls."""
    rows = {row.arm: row for row in table.itertuples()}
    return [(row, rows[name_control(arm)]) for arm, row in rows.items() if name_control(arm) in rows]


def _draw_baseline(ax: "Axes", table: pd.DataFrame) -> None:
    baseline = table[table["arm"] == table["baseline"]]
    line: dict[str, Any] = {"color": style.read_colours().muted, "linewidth": 0.9, "linestyle": (0, (1, 2)), "zorder": 1}
    for row in baseline.itertuples():
        ax.axvline(row.cost_usd, **line)
        ax.axhline(row.value, **line)


def _number_front(ax: "Axes", front: pd.DataFrame) -> None:
    for number, row in enumerate(front.itertuples(), start=1):
        options: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "fontweight": "bold", "zorder": 4}
        ax.annotate(
            str(number), (row.cost_usd, row.value), xytext=(-4, 5), ha="right", color=style.read_colours().text, **options
        )


def _describe_front(table: pd.DataFrame) -> str:
    """Return a sentence that lists the numbered arms on the Pareto front; empty if the legend names all arms."""
    if len(table) <= MAX_LISTED:
        return ""
    front = table[table["is_on_front"]].sort_values("cost_usd")
    settings = [json.loads(row.settings) if row.settings else {} for row in front.itertuples()]
    names = next((", ".join(values) for values in settings if values), "arm")
    texts = [
        ", ".join(format_value(value) for value in values.values()) or escape_control_characters(arm)
        for values, arm in zip(settings, front["arm"], strict=True)
    ]
    return f" Front ({names}): {'; '.join(f'{number}: {text}' for number, text in enumerate(texts, start=1))}."


def _choose_front_line() -> dict[str, Any]:
    return {"color": style.read_colours().faint, "linewidth": 3.5, "solid_capstyle": "butt"}


def _list_handles(table: pd.DataFrame) -> "list[Artist]":
    """Return the entries of the legend: the arms or, if they are many, the settings that colours and shapes show."""
    from matplotlib.lines import Line2D

    front = Line2D([], [], label="Pareto front", **_choose_front_line())
    if len(table) <= MAX_LISTED:
        return [*_list_arms(table), front]
    explained = [handle for part in ("colour", "shape", "fill") for handle in _explain_part(table, part)]
    is_star = table["mark"].map(lambda mark: ArmMark.from_text(mark).shape == STAR)
    named = table[is_star] if explained else table[table["is_on_front"] | (table["arm"] == table["baseline"])]
    return [*explained, *_list_arms(named), front]


def _list_arms(table: pd.DataFrame) -> "list[Artist]":
    labels = label_arms(table["arm"])
    return [
        make_handle(row.mark, f"{labels[row.arm]}{' (baseline)' if row.arm == row.baseline else ''}", has_line=False)
        for row in table.itertuples()
    ]


def _explain_part(table: pd.DataFrame, part: str) -> "list[Artist]":
    """Return the entries of the legend for the values of the setting that a part of the marks shows; none if there is none.

    Args:
        table: Table of the chart.
        part: Name of the part, a field of `ArmMark`.
    """
    rows = [(json.loads(row.settings), ArmMark.from_text(row.mark)) for row in table.itertuples() if row.settings]
    rows = [(settings, mark) for settings, mark in rows if mark.shape != STAR]
    plain = ArmMark(colour=COLOURS.index("ink"), shape=0)
    for name in rows[0][0] if rows else ():
        texts = {format_value(settings[name]): getattr(mark, part) for settings, mark in rows}
        pairs = {(format_value(settings[name]), getattr(mark, part)) for settings, mark in rows}
        if len(texts) > 1 and len(pairs) == len(texts) == len(set(texts.values())):
            ordered = sorted(texts.items(), key=lambda item: item[1])
            marks = [replace(plain, **{part: place}) for _, place in ordered]
            return [
                make_handle(str(mark), f"{name} {text}", has_line=False) for mark, (text, _) in zip(marks, ordered, strict=True)
            ]
    return []
