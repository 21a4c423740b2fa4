"""Section of a report: a heading, a table and notes, before it is rendered as text, Markdown or HTML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

AGAINST = " against "
"""Words between the two arms in the name of a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Section of a report with a heading, an optional table and notes; a section without columns has no table."""

    heading: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    is_detail: bool = True
    """Whether the section is left out of the short form of the report."""
    sources: tuple[str, ...] = ()
    """Arm, or comparison `A against B`, from whose trials each row is computed; empty if the rows have no such source."""
    bars: tuple[float, ...] = ()
    """Share from 0 to 1 of each row, drawn as a bar behind the name of the row; empty for a table without bars."""

    def draw_bars(self) -> "Section":
        """Return the section with its bars as a column of block characters, for texts."""
        if not self.bars:
            return self
        rows = ((row[0], draw_text_bar(share), *row[1:]) for row, share in zip(self.rows, self.bars, strict=True))
        return replace(self, columns=(self.columns[0], "share", *self.columns[1:]), rows=tuple(rows), bars=())


BAR_CHARACTERS = 20
"""Length of a bar of 100 % in a text."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


def draw_text_bar(share: float) -> str:
    """Return a bar of block characters, as long as a share from 0 to 1 of 20 characters, on a ground of dots."""
    eighths = round(8 * BAR_CHARACTERS * min(1.0, max(0.0, share)))
    bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return bar + "·" * (BAR_CHARACTERS - len(bar))


def make_arm_section(
    heading: str, columns: Iterable[str], rows: Mapping[str, Iterable[str]], notes: Iterable[str] = ()
) -> Section:
    """Return a report section with one table row per arm, which begins with a short name."""
    arm_column, names = shorten_arm_names(list(rows))
    return Section(
        heading=heading,
        columns=(arm_column, *columns),
        rows=tuple((names[arm], *cells) for arm, cells in rows.items()),
        sources=tuple(rows),
        notes=tuple(notes),
    )


def shorten_arm_names(arms: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a heading for a report's column of arms, and a short name for each arm.

    For example, arm `a=1 b=x` becomes `1, x` under the heading `a, b`. Arms whose names do not have this form keep their names.
    """
    parts = {arm: [part.split("=", 1) for part in arm.split(" ")] for arm in arms}
    grid = {arm: pairs for arm, pairs in parts.items() if all(len(pair) == 2 for pair in pairs)}
    headings = {tuple(name for name, _ in pairs) for pairs in grid.values()}
    if len(grid) < 2 or len(headings) != 1:
        return "arm", {arm: arm for arm in arms}
    return ", ".join(headings.pop()), {arm: ", ".join(value for _, value in grid[arm]) if arm in grid else arm for arm in arms}
