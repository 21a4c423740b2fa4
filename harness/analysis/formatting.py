"""A part of a report before anything is laid out: plain strings only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from harness.analysis.statistics import Interval
from harness.text import escape_control_characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, a table (no columns = none) and sentences below it."""

    heading: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


LEVEL_LABELS: Mapping[str, str] = {
    "L0": "L0 simulated",
    "L1": "L1 scripted agent, real summarizer",
    "L2-open": "L2 open-loop replay",
    "L2-fork": "L2 forked sessions",
    "L3": "L3 real model",
}
"""Fidelity levels in words; results of different levels are never pooled."""


def describe_level(level: str) -> str:
    """A fidelity level as it stands on tables and charts."""
    return LEVEL_LABELS.get(level, level)


def format_short_number(value: float) -> str:
    """A count as people say it: 900, 12k, 1.2M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def format_usd(amount: float) -> str:
    """Dollars, `?` when unknown."""
    return "?" if isnan(amount) else f"{amount:.2f}" if amount == 0 or amount >= 0.01 else f"{amount:.2g}"


def format_interval(interval: Interval, *, signed: bool = False) -> str:
    """An interval of ratios, or of differences when signed; nothing when there is none."""
    if isnan(interval.low):
        return ""
    return f" [{interval.low:+.3f}, {interval.high:+.3f}]" if signed else f" [{interval.low:.2f}, {interval.high:.2f}]"


def format_points(interval: Interval) -> str:
    """An interval of differences of rates, in percentage points."""
    return f"[{100 * interval.low:+.0f}, {100 * interval.high:+.0f}]"


def format_label(text: object, max_characters: int = 60) -> str:
    """A name as it may stand on a chart: one line, and not longer than there is room for."""
    line = escape_control_characters(str(text))
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"


def make_arm_section(
    heading: str, columns: Iterable[str], rows: Mapping[str, Iterable[str]], notes: Iterable[str] = ()
) -> Section:
    """Return a section with a row for each arm, whose short name stands in a first column of its own."""
    arm_column, names = shorten_arm_names(list(rows))
    return Section(
        heading=heading,
        columns=(arm_column, *columns),
        rows=tuple((names[arm], *cells) for arm, cells in rows.items()),
        notes=tuple(notes),
    )


def shorten_arm_names(arms: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A heading, and a short name for each arm of a grid: `a=1 b=x` becomes `1, x` below the heading `a, b`.

    Arms that are named otherwise keep their names.
    """
    parts = {arm: [part.split("=", 1) for part in arm.split(" ")] for arm in arms}
    grid = {arm: said for arm, said in parts.items() if all(len(one) == 2 for one in said)}
    headings = {tuple(name for name, _ in said) for said in grid.values()}
    if len(grid) < 2 or len(headings) != 1:
        return "arm", {arm: arm for arm in arms}
    return ", ".join(headings.pop()), {arm: ", ".join(value for _, value in grid[arm]) if arm in grid else arm for arm in arms}
