"""What a policy says of itself, read off its class, its fields and its pipeline: nothing is told twice, so nothing can differ.

A pipeline is made of values, so what it could do is known without running it: whether it has a rule at all, and whether one
of its rules holds a summary format. Of a policy of another package that has no such pipeline only its fields are known.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any

from harness.compaction.pipeline import Pipeline
from harness.messages import Message, part_text
from harness.plan import SummaryFormat
from harness.protocols import Truncates

NOT_A_CONSTANT = frozenset({"kind"})
"""Fields that name a policy and configure nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a policy could do if the occasion came."""

    acts: bool
    """It has a rule that could change a view; without one it is a control."""
    summarizes: bool
    """It could ask for a summary."""


def abilities(policy: object) -> Abilities:
    """What a policy could do, as it is configured."""
    pipeline = getattr(policy, "pipeline", None)
    if not isinstance(pipeline, Pipeline):
        return Abilities(acts=True, summarizes=getattr(policy, "summarizer", None) is not None)
    reducers = [part for rule in pipeline.rules for part in parts(rule.reducer)]
    return Abilities(acts=bool(pipeline.rules), summarizes=any(isinstance(part, SummaryFormat) for part in reducers))


def parts(value: object) -> Iterator[object]:
    """A value and everything that it holds, fields and tuples gone into."""
    yield value
    if isinstance(value, tuple):
        for one in value:
            yield from parts(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from parts(getattr(value, field.name))


def stages(policy: object) -> tuple[str, ...]:
    """One line for what becomes of tool outputs, if it says so, and one for each rule: moment, trigger and reducer.

    Fields that are as usual are left out.
    """
    pipeline = getattr(policy, "pipeline", None)
    first = (f"output: {told(policy.truncation)}",) if isinstance(policy, Truncates) else ()
    if not isinstance(pipeline, Pipeline):
        return (*first, "not told: it is no pipeline of stages")
    return (*first, *(f"{rule.moment}: {told(rule.trigger)} → {told(rule.reducer)}" for rule in pipeline.rules))


def told(value: object) -> str:
    """A stage as its class and those of its fields that differ from their defaults; a summary format as its class."""
    if isinstance(value, SummaryFormat):
        return type(value).__name__
    if isinstance(value, Message):
        return f"{value.role} {' '.join(map(part_text, value.parts))!r}"
    if isinstance(value, tuple):
        return f"({', '.join(map(told, value))})"
    if not is_dataclass(value) or isinstance(value, type):
        return str(value)
    given = [(field, getattr(value, field.name)) for field in fields(value) if field.repr]
    words = [_argument(field, held) for field, held in given if held != default_of(field)]
    return f"{type(value).__name__}({', '.join(words)})" if words else type(value).__name__


def _argument(field: "Field[Any]", value: object) -> str:
    return told(value) if is_dataclass(value) or isinstance(value, tuple) else f"{field.name}={told(value)}"


def default_of(field: "Field[Any]") -> object:
    """The default of a field, `MISSING` where it must be given."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def defaults(kind: type[Any]) -> dict[str, object]:
    """The constants of a preset and what they are if nothing is said."""
    return {field.name: default_of(field) for field in fields(kind) if field.init and field.name not in NOT_A_CONSTANT}


def sentence(kind: type[Any]) -> str:
    """What a policy does: the first paragraph of its description, without its source; empty = it has none."""
    first = (inspect.getdoc(kind) or "").split("\n\n", 1)[0]
    return " ".join(first.partition("Source:")[0].split())


def source(kind: type[Any]) -> str:
    """Where a policy comes from: the sentence of its description that begins with `Source:`; empty = it tells none."""
    said = re.search(r"Source:\s+(.+?)(?:\.(?=\s+[A-Z])|\.?\Z)", inspect.getdoc(kind) or "", re.DOTALL)
    return " ".join(said[1].split()) if said else ""
