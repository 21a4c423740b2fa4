"""A measured figure and its limit."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured number with its unit and its limit."""

    name: str
    value: float | None
    """Measured number; None if it could not be measured, for the reason in `note`."""
    unit: str
    bar: float | None
    """Largest allowed value; None for a figure that is shown for comparison only."""
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """True if the value is within the limit, None if it was not measured."""
        if self.value is None:
            return None
        return self.bar is None or self.value <= self.bar

    def line(self) -> str:
        bar = "" if self.bar is None else f"≤ {self.bar:g}"
        verdict = {True: "ok", False: "OVER", None: "?"}[self.ok]
        value = "not measured" if self.value is None else f"{self.value:.3f}"
        note = f"  ({self.note})" if self.note else ""
        return f"{verdict:<4}  {self.name:<58} {value:>12} {self.unit:<10} {bar}{note}"


def write(figures: Iterable[Figure], path: Path) -> None:
    rows = [asdict(figure) | {"ok": figure.ok} for figure in figures]
    path.write_text(json.dumps(rows, indent=1) + "\n")
