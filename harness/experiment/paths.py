"""Dotted paths, such as `policy.threshold`, that name a value inside the nested tables of a trial."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from harness.errors import UnknownName

BLOCK_AXES = ("task", "seed", "world")
"""Settings of a trial that describe its problem rather than the configuration under study.

Configurations are compared on equal problems, and trials are ordered so that trials of the same problem run close together.
"""
REPETITION_AXES = ("replicate", "summarizer_seed")
"""Settings of a trial that repeat it with other random draws: of the agent's model, or of a scripted summarizer."""

EARLIER_ARM_PATTERN = r" \(earlier (?:plan|revision) [0-9a-f]{6}\)$"
"""Regular expression for the end of the name of an arm whose trials the plan of today does not contain."""
_REPEATED_ARM = re.compile(r"(?P<arm>.+) \(with (?P<model>[^()]+)\)", re.DOTALL)


def is_block(path: str) -> bool:
    """Return whether a setting varies the problem (task, seed or world), not the configuration under study."""
    return path.partition(".")[0] in BLOCK_AXES


def is_earlier_arm(arm: str) -> bool:
    """Return whether the trials of an arm ran under an earlier plan, or with earlier revisions of the parts that they use."""
    return re.search(EARLIER_ARM_PATTERN, arm) is not None


def name_repeated_arm(arm: str, model: str) -> str:
    """Return the name of an arm that is run once more with another model than the grid's, such as `control (with gpt-5)`."""
    return f"{arm} (with {model})"


CONTROL_PREFIX = "recency@tokens of "
"""Beginning of the name of an arm that is the recency control of another arm."""


def name_control(arm: str) -> str:
    """Return the name of the recency control of an arm, such as `recency@tokens of codex`."""
    return f"{CONTROL_PREFIX}{arm}"


def parse_repeated_arm(arm: str) -> tuple[str, str]:
    """Return the name of the repeated arm and the other model, as `name_repeated_arm` got them; an empty model for other arms."""
    match = _REPEATED_ARM.fullmatch(arm)
    return (match["arm"], match["model"]) if match else (arm, "")


def is_arm_setting(path: str) -> bool:
    """Return whether trials that differ in a setting belong to different compared configurations (arms).

    Problems, and repetitions of a trial with other random draws of the model or of the summarizer, belong to the same arm.
    """
    return not is_block(path) and path not in REPETITION_AXES


def format_short(value: object) -> str:
    """Return a value as short text for a name or message; a float gets its short form, such as `0.5`, only if that is exact."""
    if isinstance(value, float):
        return text if float(text := f"{value:g}") == value else repr(value)
    return str(value)


def flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the values of a nested table by dotted path, such as `policy.threshold`.

    An empty inner table counts as a value.
    """
    flat: dict[str, object] = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        flat.update(flatten(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value})
    return flat


class ValueNamer:
    """Object that names tables, such as policies, among the values of settings under study.

    The name of a table has its kind and the fields in which tables of this kind differ, e.g. `keep-last(threshold=0.5)`.
    """

    def __init__(self, points: Iterable[Mapping[str, object]]) -> None:
        """Prepare the names.

        Args:
            points: Values of the settings of each compared configuration, by dotted path.
        """
        all_tables: dict[tuple[str, object], list[dict[str, object]]] = {}
        self._differ: dict[tuple[str, object], list[str]] = {}
        """Fields in which the compared tables of one kind differ, by the dotted path of the setting and the kind of table."""
        for axes in points:
            for path, value in axes.items():
                if isinstance(value, Mapping) and "kind" in value:
                    tables, flat = all_tables.setdefault((path, value["kind"]), []), flatten(value)
                    if flat not in tables:
                        tables.append(flat)
        for (path, kind), tables in all_tables.items():
            names = sorted({name for table in tables for name in table})
            self._differ[path, kind] = [name for name in names if any(table.get(name) != tables[0].get(name) for table in tables)]

    def name_tables(self, axes: Mapping[str, object]) -> dict[str, object]:
        """Return the values of settings by dotted path, with a name in place of each table with a kind."""
        return {path: self._name_table(path, value, axes) for path, value in axes.items()}

    def _name_table(self, path: str, value: object, axes: Mapping[str, object]) -> object:
        """Return the name of a table with a kind, without fields that are varied separately; return other values as they are."""
        if not (isinstance(value, Mapping) and "kind" in value):
            return value
        flat = flatten(value)
        names = [name for name in self._differ[path, value["kind"]] if f"{path}.{name}" not in axes]
        fields = ",".join(f"{name}={format_short(flat.get(name))}" for name in names)
        return f"{value['kind']}({fields})" if fields else str(value["kind"])


def list_changes(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the values that an extra configuration (arm) of a plan changes, by dotted path.

    A table with a `kind`, which describes a whole policy, counts as a single value.
    """
    flat: dict[str, object] = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        is_leaf = not isinstance(value, Mapping) or "kind" in value
        flat.update({path: value} if is_leaf else list_changes(value, f"{path}."))  # type: ignore[arg-type]
    return flat


def refuse_unknown_paths(paths: Iterable[str], known: Collection[str], location: str) -> None:
    """Raise `UnknownName` for the first unknown dotted path; the message suggests the nearest known paths."""
    for path in paths:
        if path not in known:
            raise UnknownName(f"path in {location}:", path, known)


def list_paths(table: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Yield the dotted path, such as `policy.threshold`, of every value and every inner table in a nested table."""
    for key, value in table.items():
        path = f"{prefix}{key}"
        yield path
        if isinstance(value, Mapping):
            yield from list_paths(value, f"{path}.")


def look_up_value(table: Mapping[str, object], path: str) -> object:
    """Return the value at a dotted path in a nested table; None if the path does not exist."""
    value: object = table
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def with_values(table: Mapping[str, object], values: Mapping[str, object], location: str) -> dict[str, object]:
    """Return a copy of a nested table with new values at some dotted paths, such as `policy.threshold`.

    A whole inner table is replaced before single values inside it, so that both kinds of changes take effect.

    Args:
        table: Nested table that is copied.
        values: New values, by the dotted path of the value that each replaces.
        location: Dotted path of the whole table in the plan, for error messages.

    Raises:
        UnknownName: The table does not have one of the paths.
    """
    copy = _copy(table)
    for path in sorted(values):
        if look_up_value(copy, path) is None:
            refuse_unknown_paths([path], set(list_paths(copy)), location)
        *parents, last = path.split(".")
        holder: Any = copy
        for step in parents:
            holder = holder[step]
        holder[last] = _copy(value) if isinstance(value := values[path], Mapping) else value
    return copy


def _copy(table: Mapping[str, object]) -> dict[str, object]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in table.items()}
