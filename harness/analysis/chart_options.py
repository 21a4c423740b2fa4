"""Options of charts by name, apart from the code that draws, so that a command knows them without loading it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Theme: TypeAlias = Literal["light", "dark"]
"""Colours of a figure: on white, for paper and light pages, or on a dark page."""
Width: TypeAlias = Literal["notebook", "paper"]
"""Largest width of a figure: that of a notebook or page, or that of the text of a printed page."""
Format: TypeAlias = Literal["png", "svg", "pdf"]
"""File format of a figure."""

FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")
"""File formats of figures."""
METRIC_NAMES = ("score", "success", "cost", "tokens", "steps", "retention")
"""Names of the metrics that `harness.analysis.measures` declares, in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartOptions:
    """Options of the command `harness report` about charts: which charts are drawn, and how they look."""

    file_format: Format | None = None
    """File format of all charts; None draws only the first one, as PNG."""
    metric: str | None = None
    baseline: str | None = None
    theme: Theme = "light"
    width: Width = "notebook"
