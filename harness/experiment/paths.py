"""Dotted paths into nested tables: how axes, arms and error messages name one value of a trial."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from harness.errors import UnknownName, UsageError


def flatten(table: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Every leaf of a nested table by its dotted path; an empty table is a leaf."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        path = f"{before}{key}"
        flat.update(flatten(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value})
    return flat


def changes_of(table: Mapping[str, object], before: str = "") -> dict[str, object]:
    """What a partial table changes, by dotted path: like `flatten`, but a table with a `kind` is one value of its own."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        path = f"{before}{key}"
        whole = not isinstance(value, Mapping) or "kind" in value
        flat.update({path: value} if whole else changes_of(value, f"{path}."))  # type: ignore[arg-type]
    return flat


def known_paths(table: Mapping[str, object], before: str = "") -> Iterator[str]:
    """Every path that can be set: the leaves and the tables that hold them."""
    for key, value in table.items():
        path = f"{before}{key}"
        yield path
        if isinstance(value, Mapping):
            yield from known_paths(value, f"{path}.")


def value_at(table: Mapping[str, object], path: str) -> object:
    """The value at a path; None when there is none."""
    value: object = table
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def with_values(table: Mapping[str, object], values: Mapping[str, object], where: str) -> dict[str, object]:
    """A copy of a table with other values at some paths; whole tables are set before the fields inside them.

    Raises:
        UnknownName: a path that the table does not have; the nearest ones are offered.
    """
    copy = _copy(table)
    for path in sorted(values):
        if value_at(copy, path) is None and path not in (known := set(known_paths(copy))):
            raise UnknownName(f"path in {where}:", path, known)
        *parents, last = path.split(".")
        holder: Any = copy
        for step in parents:
            holder = holder[step]
        holder[last] = _copy(value) if isinstance(value := values[path], Mapping) else value
    return copy


def _copy(table: Mapping[str, object]) -> dict[str, object]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in table.items()}


def refuse_coerced(given: object, got: object, where: str) -> None:
    """Refuse what a lenient reader would bend into shape: text for a number, a number for a switch, no finite number.

    Args:
        given: what stood in the plan.
        got: what it was read as, as plain data.
        where: dotted path, for the message.

    Raises:
        UsageError: names the path, what stood there and what is allowed.
    """
    if isinstance(given, Mapping) and isinstance(got, Mapping):
        for key, value in given.items():
            refuse_coerced(value, got.get(key), f"{where}.{key}" if where else str(key))
    elif isinstance(given, list | tuple) and isinstance(got, list | tuple):
        for place, (one, other) in enumerate(zip(given, got, strict=False)):
            refuse_coerced(one, other, f"{where}[{place}]")
    elif isinstance(given, float) and not math.isfinite(given):
        raise UsageError(f"{where}: a finite number is needed (got {given!r})")
    elif _sort(given) != _sort(got):
        raise UsageError(f"{where}: {_sort(got)} is needed (got {given!r:.80}, which is {_sort(given)})")


def _sort(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case None:
            return "nothing"
        case _:
            return "a table"
