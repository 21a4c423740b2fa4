"""Shades of the cells of the report page, which show values of arms or differences to a baseline.

The ends of the colours are at least as far apart as the ends of the widest interval, so that differences within the intervals do
not look large.
"""

from collections.abc import Collection, Mapping, Sequence
from math import floor, inf, isfinite, log
from typing import Any, NamedTuple, TypeAlias

from harness.analysis.measures import METRICS, Metric

SHADES = 8
"""Number of shades of values."""
NO_DIFFERENCE = 3
"""Shade of no difference, in the middle of those of differences."""

Estimate: TypeAlias = Sequence[Any] | None
"""Number of trials or pairs, value, bounds and so on, as the page gets them; None without an estimate."""


class Scale(NamedTuple):
    """Shades of cells, from the lowest value, 0, on, and the values of the lowest and the highest shade."""

    shades: list[int | None]
    """Shade of each cell; None for a cell without a value."""
    low: float | None
    high: float | None


class _Extent(NamedTuple):
    value: float
    width: float


def shade_cells(part: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the shades of all cells that the page may show, with the ends of the colours of those that show values.

    Args:
        part: Values of the page for one fidelity level (how much of a run is real).
        names: Names of the arms in the order of the page.
    """
    shown = {place for table in part["tables"] for row in table["cells"] for place in row}
    rows = part["task_cells"] or {}
    return {
        "arms": {
            name: shade_values(
                metric, [arm["cells"][name] if place in shown else None for place, arm in enumerate(part["arms"])]
            )._asdict()
            for name, metric in METRICS.items()
        },
        "tasks": {name: _shade_task_cells(METRICS[name], by_arm) for name, by_arm in rows.items()},
        "effects": {
            baseline: {
                name: _shade_arm_effects(METRICS[name], by_arm, shown) | {names.index(baseline): NO_DIFFERENCE}
                for name, by_arm in by_metric.items()
            }
            for baseline, by_metric in part["effects"].items()
        },
        "task_effects": {
            baseline: {
                name: _shade_task_effects(METRICS[name], by_arm) | {names.index(baseline): [NO_DIFFERENCE] * len(part["tasks"])}
                for name, by_arm in by_metric.items()
            }
            for baseline, by_metric in part["task_effects"].items()
        },
    }


def shade_values(metric: Metric, estimates: Sequence[Estimate]) -> Scale:
    """Return the shades of cells that show values of a metric."""
    sizes = [_locate(estimate) for estimate in estimates]
    known = [size for size in sizes if size is not None]
    if not known:
        return Scale([None] * len(sizes), None, None)
    lowest, highest = min(size.value for size in known), max(size.value for size in known)
    span = max(highest - lowest, *(size.width for size in known))
    ceiling = inf if metric.kind == "amount" else max(1.0, highest)
    # the span lies around the middle of the values, moved if it would leave the range of the metric
    low = max(min((lowest + highest - span) / 2, ceiling - span), min(0.0, lowest))

    def shade(size: _Extent | None) -> int | None:
        if size is None:
            return None
        return min(SHADES - 1, max(0, floor(SHADES * (size.value - low) / span) if span > 0 else SHADES // 2))

    return Scale([shade(size) for size in sizes], low, low + span)


def shade_differences(metric: Metric, estimates: Sequence[Estimate]) -> list[int | None]:
    """Return the shades of cells that show differences to a baseline, or ratios, from 0 for the lowest one to 6."""
    sizes = [_locate(estimate, is_ratio=metric.is_ratio) for estimate in estimates]
    largest = max((max(abs(size.value), size.width / 2) for size in sizes if size is not None), default=0.0) or 1.0
    # values from -largest to largest become shades from 0 to 2 * NO_DIFFERENCE, rounded as JavaScript rounds
    return [None if size is None else floor(NO_DIFFERENCE * (1 + size.value / largest) + 0.5) for size in sizes]


def _locate(estimate: Estimate, *, is_ratio: bool = False) -> _Extent | None:
    """Return the place of an estimate on the scale of colours and the width of its interval there; 0 without an interval."""
    if estimate is None or estimate[1] is None or (is_ratio and estimate[1] <= 0):
        return None
    _, value, low, high, *_ = estimate
    has_interval = low is not None and high is not None and isfinite(high - low) and not (is_ratio and low <= 0)
    if is_ratio:
        return _Extent(log(value), log(high / low) if has_interval else 0.0)
    return _Extent(value, high - low if has_interval else 0.0)


def _shade_task_cells(metric: Metric, rows: Sequence[Sequence[Estimate]]) -> dict[str, Any]:
    scale = shade_values(metric, [cell for row in rows for cell in row])
    shades = iter(scale.shades)
    return scale._asdict() | {"shades": [[next(shades) for _ in row] for row in rows]}


def _shade_arm_effects(metric: Metric, effects: Mapping[int, Estimate], shown: Collection[int]) -> dict[int, int | None]:
    """Return the shades of differences to one baseline, by arm, of the arms that have a cell."""
    listed = [place for place in effects if place in shown]
    return dict(zip(listed, shade_differences(metric, [effects[place] for place in listed]), strict=True))


def _shade_task_effects(metric: Metric, effects: Mapping[int, Sequence[Estimate]]) -> dict[int, list[int | None]]:
    """Return the shades of differences to one baseline on each task, by arm; all of them have the same ends of the colours."""
    shades = iter(shade_differences(metric, [effect for by_task in effects.values() for effect in by_task]))
    return {place: [next(shades) for _ in by_task] for place, by_task in effects.items()}
