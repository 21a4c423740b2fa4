"""The grid: base trial × axes, and extra arms, as a sequence of cells.

Cells come in blocks of one task, seed and world, so that what is compared is run close together. Cells with equal configurations
are one cell. Extra arms (a control, an A/A arm) vary over those axes only, so every block has each of them.

An arm is known by its name, so whatever has one name is one configuration on several tasks and seeds. A number of tokens that
is told as a quantile (see `harness.experiment.quantiles`) is another one on each task and one treatment all the same, so
arms and axes show it as it was told.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, Literal, overload

from harness import codec
from harness.errors import UsageError, format_count
from harness.experiment.paths import changes_of, flatten, value_at, with_values
from harness.experiment.quantiles import Quantile, Uncompressed, told
from harness.experiment.trial import Trial, to_plain
from harness.policies import expand_shorthand
from harness.task import World

BLOCK_AXES = ("task", "seed", "world")
"""Axes over which arms are paired; they vary slowest. Those of the world are its knobs."""


def is_block(path: str) -> bool:
    """Whether the values of an axis are problems on which arms are paired."""
    return path.partition(".")[0] in BLOCK_AXES


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
    """The trial's value on each axis by dotted path, a quantile as it was told; None where an extra arm has no such field."""
    quantiles: Mapping[str, Quantile] = field(default_factory=dict)
    """The trial's numbers of tokens that were told as quantiles, by dotted path."""

    @property
    def plain(self) -> dict[str, object]:
        """The trial as nested tables, quantiles as they were told."""
        return with_values(to_plain(self.trial), {path: one.text for path, one in self.quantiles.items()}, "trial")


class Grid(Sequence[Cell]):
    """All cells of an experiment, read and checked once; has a length, an index and an order that never changes."""

    def __init__(
        self,
        base: Trial,
        axes: Mapping[str, Sequence[object]],
        arms: Sequence[Arm] = (),
        *,
        backend: Literal["auto", "docker", "bubblewrap", "local"] | None = None,
        uncompressed: Uncompressed | None = None,
    ) -> None:
        """Expand.

        Args:
            base: what every trial has unless an axis or an arm says otherwise.
            axes: values by dotted path.
            arms: beside the grid.
            backend: of the sandbox in all trials, whatever base, axes and arms say; None = as they say.
            uncompressed: where numbers of tokens that are told as quantiles are looked up; None = there are none.

        Raises:
            UnknownName: an axis or change of a path that trials do not have.
            UsageError: an axis that is empty or no list, two arms of one name, a value of the wrong type, a quantile that
                cannot be looked up.
        """
        self._base, self._backend, self._uncompressed = to_plain(base), backend, uncompressed
        self._axes = {path: _values(path, axes[path]) for path in sorted(axes)}
        _refuse_odd(self._axes, arms)
        self._cells = _named(tuple(_unique(self._expand(arms))))
        _refuse_shared_names(self._cells)

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
        return f"Grid({format_count(len(self), 'trial')}: {sizes or 'no axes'})"

    def _expand(self, arms: Sequence[Arm]) -> Iterator[Cell]:
        blocks = {path: values for path, values in self._axes.items() if is_block(path)}
        inner = {path: values for path, values in self._axes.items() if path not in blocks}
        for block in _product(blocks):
            for point in _product(inner):
                yield self._cell({**block, **point}, "axes", None)
            for arm in arms:
                yield self._cell({**block, **changes_of(arm.trial)}, f"arms.{arm.name}", arm.name)

    def _cell(self, values: dict[str, object], where: str, name: str | None) -> Cell:
        plain = with_values(self._base, {path: _in_full(path, value) for path, value in values.items()}, where)
        trial, quantiles = told(plain, self._uncompressed, where)
        if self._backend is not None:
            trial = replace(trial, sandbox=replace(trial.sandbox, backend=self._backend))
        cell = Cell(trial=trial, arm=name or "", axes={}, quantiles=quantiles)
        full = cell.plain
        return replace(cell, axes={path: value_at(full, path) for path in self._axes})


def _values(path: str, given: object) -> list[object]:
    """The values of an axis as a plan has them; in a notebook policies may be among them, and numbers of numpy."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"axes.{path}: a list of values is needed (got {repr(given)[:80]}); write [...] around a single one")
    return [_plain(value) for value in given]


def _plain(value: Any) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return codec.to_plain(value, type(value))
    return value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value


def _in_full(path: str, value: object) -> object:
    return expand_shorthand(value) if path == "policy" else value


def _product(axes: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _unique(cells: Iterator[Cell]) -> Iterator[Cell]:
    seen: dict[str, Cell] = {}
    for cell in cells:
        known = seen.setdefault(cell.trial.trial_id, cell)
        if known is cell:
            yield cell
        elif known.quantiles != cell.quantiles:
            raise UsageError(
                f"{_quantiles(known) or 'a number'} and {_quantiles(cell) or 'a number'} are the same trial of "
                f"{cell.trial.problem}; leave one out"
            )


def _quantiles(cell: Cell) -> str:
    """Of a trial, in words; empty = it has none."""
    return " and ".join(f"{path}={quantile.text} ({quantile})" for path, quantile in cell.quantiles.items())


def _named(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The same cells, those of the grid named by their axes: once all are known, so that names tell them apart."""
    words = _Words([cell.axes for cell in cells if not cell.arm])
    return tuple(cell if cell.arm else replace(cell, arm=words.label(cell.axes) or cell.trial.policy_kind) for cell in cells)


class _Words:
    """How the values of the axes are said in the name of an arm."""

    def __init__(self, points: Iterable[Mapping[str, object]]) -> None:
        all_tables: dict[tuple[str, object], list[dict[str, object]]] = {}
        self._differ: dict[tuple[str, object], list[str]] = {}
        """Fields in which the tables of one kind differ, by path and kind."""
        for axes in points:
            for path, value in axes.items():
                if isinstance(value, Mapping) and "kind" in value:
                    tables, flat = all_tables.setdefault((path, value["kind"]), []), flatten(value)
                    if flat not in tables:
                        tables.append(flat)
        for (path, kind), tables in all_tables.items():
            told = sorted({name for table in tables for name in table})
            self._differ[path, kind] = [name for name in told if any(one.get(name) != tables[0].get(name) for one in tables)]

    def label(self, axes: Mapping[str, object]) -> str:
        """A point of the grid but for task and seed; empty when there is nothing else."""
        inner = {path: value for path, value in axes.items() if not is_block(path)}
        short = {path: path.rsplit(".", 1)[-1] for path in inner}
        clash = len(set(short.values())) < len(short)
        said = {path: self._said(path, value, axes) for path, value in inner.items()}
        return " ".join(f"{path if clash else short[path]}={said[path]}" for path in inner)

    def _said(self, path: str, value: Any, axes: Mapping[str, object]) -> str:
        """A policy by its kind, and by what differs between those of its kind and is no axis itself."""
        if not (isinstance(value, Mapping) and "kind" in value):
            return _short(value)
        flat = flatten(value)
        names = [name for name in self._differ[path, value["kind"]] if f"{path}.{name}" not in axes]
        fields = ",".join(f"{name}={_short(flat.get(name))}" for name in names)
        return f"{value['kind']}({fields})" if fields else str(value["kind"])


def _short(value: object) -> str:
    """A number in few digits where they are exact."""
    if isinstance(value, float):
        return text if float(text := f"{value:g}") == value else repr(value)
    return str(value)


def _refuse_shared_names(cells: Sequence[Cell]) -> None:
    """Two configurations under one name would be counted as one arm."""
    known: dict[str, Cell] = {}
    for cell in cells:
        first = known.setdefault(cell.arm, cell)
        if _configuration(first) != _configuration(cell):
            one, other = flatten(_plain_of_arm(first)), flatten(_plain_of_arm(cell))
            differ = [path for path in dict.fromkeys([*one, *other]) if one.get(path) != other.get(path)]
            raise UsageError(
                f"arms: {cell.arm!r} names two configurations, which differ in {', '.join(differ)}; give one another name"
            )


def _configuration(cell: Cell) -> object:
    """What cells of one arm have in common; tables only where they must be, since a grid may have many cells."""
    return _plain_of_arm(cell) if cell.quantiles else replace(cell.trial, task="", seed=0, world=World())


def _plain_of_arm(cell: Cell) -> dict[str, object]:
    return {name: value for name, value in cell.plain.items() if name not in BLOCK_AXES}


def _refuse_odd(axes: Mapping[str, list[object]], arms: Sequence[Arm]) -> None:
    for path, values in axes.items():
        if not values:
            raise UsageError(f"axes.{path}: at least one value is needed (got an empty list)")
        told = [_in_full(path, value) for value in values]
        for place, value in enumerate(values):
            if told[place] in told[:place]:
                raise UsageError(
                    f"axes.{path}: {_short(value):.80} stands there twice; `replicate` is the axis that runs it again"
                )
    names = [arm.name for arm in arms]
    for name in names:
        if not name.strip() or names.count(name) > 1:
            raise UsageError(f"arms: every arm needs a name of its own (got {name!r})")
