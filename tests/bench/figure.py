"""One measured figure and its bar."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number, its unit, and what it must not exceed."""

    name: str
    value: float | None
    """None = it could not be measured; `note` says why."""
    unit: str
    bar: float | None
    """None = shown for comparison only."""
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether it holds; None = nobody knows, since it was not measured."""
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
