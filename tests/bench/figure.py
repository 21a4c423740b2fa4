"""One measured figure and its bar."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number, its unit, and what it must not exceed."""

    name: str
    value: float
    unit: str
    bar: float | None
    """None = shown for comparison only."""

    @property
    def ok(self) -> bool:
        return self.bar is None or self.value <= self.bar

    def line(self) -> str:
        bar = "" if self.bar is None else f"≤ {self.bar:g}"
        return f"{'ok  ' if self.ok else 'OVER'}  {self.name:<58} {self.value:>10.3f} {self.unit:<10} {bar}"


def write(figures: Iterable[Figure], path: Path) -> None:
    rows = [asdict(figure) | {"ok": figure.ok} for figure in figures]
    path.write_text(json.dumps(rows, indent=1) + "\n")
