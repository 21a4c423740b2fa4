"""Ranges of a preset's fields, declared in their annotations and checked when a policy is made."""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args, get_type_hints

from harness.errors import UsageError


class Range(NamedTuple):
    """Values that a field may hold; None is allowed wherever the type of the field allows it."""

    contains: Callable[[float], bool]
    requirement: str
    """End of the message that refuses a value, such as `must be at least 1`."""


Positive: TypeAlias = Annotated[int, Range(lambda value: value >= 1, "must be at least 1")]
NonNegative: TypeAlias = Annotated[int, Range(lambda value: value >= 0, "must not be negative")]
Share: TypeAlias = Annotated[float, Range(lambda value: 0 < value <= 1, "must be above 0 and at most 1")]


def check_ranges(policy: Any) -> None:
    """Refuse a policy with a field outside its range.

    Raises:
        UsageError: names the field, its value and its range.
    """
    policy_class: Any = type(policy)
    for name, field_range in _list_ranges(policy_class):
        value = getattr(policy, name)
        if value is not None and not field_range.contains(value):
            raise UsageError(f"{name}={value!r} {field_range.requirement}")


@lru_cache(maxsize=256)
def _list_ranges(policy_class: Any) -> tuple[tuple[str, Range], ...]:
    """Return each field that has a range, also where the field may be None."""
    hints = get_type_hints(policy_class, include_extras=True)
    return tuple(
        (name, extra)
        for name, hint in hints.items()
        for part in (hint, *get_args(hint))
        for extra in getattr(part, "__metadata__", ())
        if isinstance(extra, Range)
    )
