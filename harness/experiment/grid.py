"""The grid: base trial × axes, and extra arms, as a sequence of cells.

Cells come in blocks of one task and seed, so that what is compared is run close together. Cells with equal configurations
are one cell. Extra arms (a control, an A/A arm) vary over the task and seed axes only, so every block has each of them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from harness.errors import UsageError
from harness.experiment.paths import changes_of, value_at, with_values
from harness.experiment.trial import Trial, from_plain, to_plain

BLOCK_AXES = ("task", "seed")
"""Axes over which arms are paired; they vary slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An arm beside the grid: the base trial with some changes, in every block."""

    name: str
    trial: Mapping[str, object] = field(default_factory=dict)
    """What differs from the base: nested tables or dotted paths. A table with a `kind` replaces the policy whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A trial in its place in a grid."""

    trial: Trial
    arm: str
    """Readable name of the arm: equal for all seeds and tasks."""
    axes: Mapping[str, object]
    """The trial's value on each axis by dotted path; None where an extra arm has no such field."""


class Grid(Sequence[Cell]):
    """All cells of an experiment, read and checked once; has a length, an index and an order that never changes."""

    def __init__(self, base: Trial, axes: Mapping[str, Sequence[object]], arms: Sequence[Arm] = ()) -> None:
        """Expand.

        Raises:
            UnknownName: an axis or change of a path that trials do not have.
            UsageError: an empty axis, two arms of one name, a value of the wrong type.
        """
        self._base = to_plain(base)
        self._axes = {path: list(axes[path]) for path in sorted(axes)}
        _refuse_odd(self._axes, arms)
        self._cells = tuple(_unique(self._expand(arms)))

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Cell]: ...
    def __getitem__(self, index: int | slice) -> Cell | Sequence[Cell]:
        """The cell at a place."""
        return self._cells[index]

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{path}[{len(values)}]" for path, values in self._axes.items())
        return f"Grid({len(self)} trials: {sizes or 'no axes'})"

    def _expand(self, arms: Sequence[Arm]) -> Iterator[Cell]:
        blocks = {path: self._axes[path] for path in BLOCK_AXES if path in self._axes}
        inner = {path: values for path, values in self._axes.items() if path not in blocks}
        for block in _product(blocks):
            for point in _product(inner):
                yield self._cell({**block, **point}, "axes", None)
            for arm in arms:
                yield self._cell({**block, **changes_of(arm.trial)}, f"arms.{arm.name}", arm.name)

    def _cell(self, values: dict[str, object], where: str, name: str | None) -> Cell:
        plain = with_values(self._base, values, where)
        trial = from_plain(plain, where)
        full = to_plain(trial)
        axes = {path: value_at(full, path) for path in self._axes}
        return Cell(trial=trial, arm=name or _label(trial, axes), axes=axes)


def _product(axes: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _unique(cells: Iterator[Cell]) -> Iterator[Cell]:
    seen: set[str] = set()
    for cell in cells:
        if (trial_id := cell.trial.trial_id) not in seen:
            seen.add(trial_id)
            yield cell


def _label(trial: Trial, axes: Mapping[str, object]) -> str:
    inner = {path: value for path, value in axes.items() if path not in BLOCK_AXES}
    short = {path: path.rsplit(".", 1)[-1] for path in inner}
    clash = len(set(short.values())) < len(short)
    parts = (f"{path if clash else short[path]}={_short(value)}" for path, value in inner.items())
    return " ".join(parts) or trial.policy_kind


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("kind", dict(value)))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _refuse_odd(axes: Mapping[str, list[object]], arms: Sequence[Arm]) -> None:
    for path, values in axes.items():
        if not values:
            raise UsageError(f"axes.{path}: at least one value is needed (got an empty list)")
    names = [arm.name for arm in arms]
    for name in names:
        if not name.strip() or names.count(name) > 1:
            raise UsageError(f"arms: every arm needs a name of its own (got {name!r})")
