"""Chart of cost against score, or another metric, with one point per arm, paired intervals and the Pareto front.

An arm is on the Pareto front if no other arm is at least as good and as cheap. The intervals belong to the differences from the
baseline on the same tasks and seeds. An interval that does not reach a line through the baseline excludes equality with it. The
front is exploratory, because the best of many arms is better by chance.
"""

import json
from collections.abc import Mapping
from math import nan
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.arms import select_outcomes
from harness.analysis.baselines import compare_with_baseline, find_bounds, prepare_arms, resolve_baseline, resolve_metric
from harness.analysis.effects import estimate_effect
from harness.analysis.families import open_outcomes
from harness.analysis.figures import style
from harness.analysis.figures.arm_rows import describe_arms, format_value
from harness.analysis.formatting import ESTIMAND_NOTE, format_label, format_usd
from harness.analysis.measures import METRICS, estimate_cell, find_front
from harness.analysis.tables import Tables, require_single_level
from harness.analysis.validity import NEEDED_COLUMNS, pair_trials
from harness.errors import format_count

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *("arm", "place", "settings", "metric", "baseline", "n", "cost_usd", "cost_low_usd", "cost_high_usd"),
    *("value", "low", "high", "is_bound", "is_on_front", "level"),
)
UNSUITABLE_METRICS = ("cost",)
"""Metrics with which the chart would show cost against cost."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MAX_LISTED = 12
"""Largest number of arms that the chart distinguishes by colour and marker; more arms are distinguished by their settings."""


def table(results: Tables, *, metric: str | None = None, baseline: str | Mapping[str, object] | None = None) -> pd.DataFrame:
    """Return the data of the chart of cost against score, one row per arm.

    Arms without tasks and seeds in common with the baseline are left out. The table is empty if only one arm remains.

    | column | dtype | unit |
    | --- | --- | --- |
    | arm, settings | str | name of the arm; JSON object with its values of the settings that the plan varies |
    | place | int | position of the arm in the report, from 0 |
    | metric, baseline | str | name of the metric on the vertical axis; name of the baseline |
    | n | int | pairs of the same task and seed; for the baseline, its trials |
    | cost_usd | float | mean cost per trial of agent, summarizer and sub-agents, over tasks |
    | cost_low_usd, cost_high_usd | float | 95 % interval of the paired difference from the baseline, around the cost |
    | value | float | mean of the metric over tasks |
    | low, high | float | 95 % interval of the paired difference from the baseline, around the value; NaN if there is none |
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
    places, bounds = describe_arms(trials).set_index("arm"), find_bounds(results)
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
        shown = {name: value + difference for name, difference in differences}
        costs = {"cost_usd": cost.value, "cost_low_usd": cost.interval.low, "cost_high_usd": cost.interval.high}
        rows.append({"arm": arm, "n": effect.pair_count} | shown | {name: cost_usd + cost for name, cost in costs.items()})
    points = pd.DataFrame(rows)
    points = points[(points["n"] > 0) & points["cost_usd"].notna() & points["value"].notna()]
    if len(points) < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    points = points.assign(
        metric=chosen.name, baseline=against, level=level, place=points["arm"].map(places["place"]).astype(int)
    ).assign(settings=points["arm"].map(places["settings"]), is_bound=points["arm"].isin(bounds))
    choices = points if points["is_bound"].all() else points[~points["is_bound"]]  # bounds only count if all arms are bounds
    pairs = zip(choices["cost_usd"], choices["value"], strict=True)
    front = find_front(dict(zip(choices["arm"], pairs, strict=True)), chosen)
    points = points.assign(is_on_front=points["arm"].isin(front))
    return points[list(COLUMNS)].sort_values("place", ignore_index=True)


def draw(
    table: pd.DataFrame, ax: "Axes | None" = None, *, theme: style.Theme = "light", width: style.Width = "notebook"
) -> "Figure":
    """Draw cost against score, or another metric, with one point per arm, paired intervals and the Pareto front.

    Each of up to twelve arms has its own colour and marker. With more arms, the colour shows one setting and the marker another,
    and the arms on the front are numbered.

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
    about = f"{format_count(len(table), 'arm')}, baseline: {format_label(table['baseline'].iloc[0], 60)}{place}"
    style.add_header(figure, f"Cost against {metric.name}", about, level)
    is_all_bounds = bool(table["is_bound"].all())
    bound = "; hollow: knows the future, so no choice" if table["is_bound"].any() and not is_all_bounds else ""
    note = (
        "Bars: 95 % intervals of the paired differences from the baseline. Cost differs where a bar across is clear of the "
        f"upright dotted line, {metric.name} where an upright bar is clear of the dotted line across. {ESTIMAND_NOTE} Line: "
        f"Pareto front, the arms that no other beats in both means; exploratory{bound}.{_describe_front(table)}"
    )
    style.add_legend(figure, handles, 1.2, note)
    return figure


def _draw_points(ax: "Axes", table: pd.DataFrame) -> None:
    ax.legend(handles=_draw_all(ax, table), fontsize=style.LEGEND_POINTS)


def _draw_all(ax: "Axes", table: pd.DataFrame) -> "list[Artist]":
    colours, metric = style.read_colours(), METRICS[str(table["metric"].iloc[0])]
    looks, handles = _assign_looks(table)
    _draw_baseline(ax, table)
    front = table[table["is_on_front"]].sort_values("cost_usd")
    ax.plot(front["cost_usd"], front["value"], drawstyle="steps-post", color=colours.muted, linewidth=1.4, zorder=1.5)
    crowded = len(table) > MAX_LISTED
    for row in table.itertuples():
        colour, marker = looks[row.arm]
        options: dict[str, Any] = {"color": colour, "linewidth": 0.7 if crowded else 1.1, "alpha": 0.35 if crowded else 0.75}
        ax.plot([row.cost_low_usd, row.cost_high_usd], [row.value, row.value], zorder=2, **options)
        ax.plot([row.cost_usd, row.cost_usd], [row.low, row.high], zorder=2, **options)
        face = colours.background if row.is_bound and not table["is_bound"].all() else colour
        edge: dict[str, Any] = {
            "markeredgecolor": colour if face != colour else colours.background,
            "markeredgewidth": 1.1 if face != colour else 0.6,
        }
        # a repeat of the baseline lies at the same place and stays visible around it
        size, order = (4.5, 3.5) if row.arm == row.baseline else (6.5, 3)
        ax.plot(
            row.cost_usd, row.value, marker=marker, markersize=size, markerfacecolor=face, linestyle="none", zorder=order, **edge
        )
    if crowded:
        _number_front(ax, front)
    ax.margins(0.06)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if metric.kind != "amount":
        low, high = ax.get_ylim()
        ax.set_ylim(max(-0.04, low), min(1.04, high))
    if metric.kind == "rate":
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    ax.set(xlabel=METRICS["cost"].label, ylabel=metric.label)
    ax.set_xlim(left=max(0.0, float(ax.get_xlim()[0])))
    ax.grid(zorder=0)
    return handles


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
        ", ".join(format_value(value) for value in values.values()) or format_label(arm, 40)
        for values, arm in zip(settings, front["arm"], strict=True)
    ]
    return f" Front ({names}): {'; '.join(f'{number}: {text}' for number, text in enumerate(texts, start=1))}."


def _assign_looks(table: pd.DataFrame) -> "tuple[dict[str, tuple[str, str]], list[Artist]]":
    """Return the colour and marker of each arm, and the entries of the legend."""
    from matplotlib.lines import Line2D

    colours = style.read_colours()
    palette = colours.palette
    if len(table) <= MAX_LISTED:
        looks = {
            row.arm: (palette[place % len(palette)], MARKERS[(place + place // len(palette)) % len(MARKERS)])
            for place, row in enumerate(table.itertuples())
        }
        baseline = str(table["baseline"].iloc[0])
        labels = {arm: f"{format_label(arm, 44)}{' (baseline)' if arm == baseline else ''}" for arm in looks}
        return looks, [_make_handle(*looks[arm], label) for arm, label in labels.items()]
    settings = {row.arm: json.loads(row.settings) for row in table.itertuples() if row.settings}
    by_colour, by_marker = _choose_axes(list(settings.values()))
    shades = {text: palette[place] for place, text in enumerate(_list_texts(settings, by_colour))}
    marks = {text: MARKERS[place] for place, text in enumerate(_list_texts(settings, by_marker))}
    looks, handles = {}, []
    for arm in table["arm"]:
        values = settings.get(arm, {})
        shade = shades.get(format_value(values[by_colour])) if by_colour in values else None
        mark = marks.get(format_value(values[by_marker])) if by_marker in values else None
        looks[arm] = (shade or colours.muted, mark or ("o" if arm in settings else "*"))
    handles += [_make_handle(colour, "o", f"{by_colour} {text}") for text, colour in shades.items()]
    handles += [_make_handle(colours.muted, mark, f"{by_marker} {text}") for text, mark in marks.items()]
    others = [arm for arm in table["arm"] if arm not in settings]
    if others:
        names = ", ".join(format_label(arm, 30) for arm in others[:3]) + (
            f" and {len(others) - 3} more" if len(others) > 3 else ""
        )
        handles.append(Line2D([], [], marker="*", linestyle="none", color=colours.muted, markersize=6, label=names))
    return looks, handles


def _make_handle(colour: str, marker: str, label: str) -> "Artist":
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=5.5, label=label)


def _choose_axes(settings: list[dict[str, object]]) -> tuple[str, str]:
    """Return the settings to show by colour and by marker, those with named values first; empty if there is none."""
    names = list(settings[0]) if settings else []
    counts = {name: len({format_value(arm_settings[name]) for arm_settings in settings}) for name in names}
    is_named = {name: any(isinstance(arm_settings[name], str | dict) for arm_settings in settings) for name in names}
    fitting = sorted((name for name in names if counts[name] <= style.MAX_GROUPS), key=lambda name: (not is_named[name], name))
    return fitting[0] if fitting else "", fitting[1] if len(fitting) > 1 else ""


def _list_texts(settings: dict[str, dict[str, object]], name: str) -> list[str]:
    if not name:
        return []
    values = {format_value(arm_settings[name]): arm_settings[name] for arm_settings in settings.values()}
    return sorted(
        values,
        key=lambda text: (isinstance(values[text], str), values[text] if isinstance(values[text], int | float) else 0, text),
    )
