"""What a policy says of itself, read off its class, its fields and its pipeline: nothing is told twice, so nothing can differ.

A pipeline is made of values, so what it could do is known without running it: whether it has a rule at all, and whether one
of its rules holds a summary format. Of a policy of another package that has no such pipeline only its fields are known.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any

from harness.compaction.pipeline import Pipeline, Preset
from harness.messages import Message, extract_part_text
from harness.plan import SummaryFormat
from harness.protocols import TruncatingPolicy

NON_CONFIG_FIELDS = frozenset({"kind"})
"""Fields that name a policy and configure nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a policy could do if the occasion came."""

    can_act: bool
    """It has a rule that could change a view; without one it is a control."""
    can_summarize: bool
    """It could ask for a summary."""


def name_policy(policy: object) -> str:
    """Return the name of a policy's family: its `kind`, or its class without one."""
    return str(getattr(policy, "kind", type(policy).__name__))


def find_summarizer(policy: object) -> str | None:
    """Return the model that a policy names for its summaries; None = the policy asks for none."""
    name: str | None = getattr(policy, "summarizer", None)
    return name


def inspect_abilities(policy: object) -> Abilities:
    """What a policy could do, as it is configured."""
    pipeline = getattr(policy, "pipeline", None)
    if not isinstance(pipeline, Pipeline):
        return Abilities(can_act=True, can_summarize=find_summarizer(policy) is not None)
    reducers = [part for rule in pipeline.rules for part in walk_parts(rule.reducer)]
    return Abilities(can_act=bool(pipeline.rules), can_summarize=any(isinstance(part, SummaryFormat) for part in reducers))


def walk_parts(value: object) -> Iterator[object]:
    """A value and everything that it holds, fields and tuples gone into."""
    yield value
    for part in list_parts(value):
        yield from walk_parts(part)


def list_parts(value: object) -> tuple[object, ...]:
    """Return the elements of a tuple or the fields of a dataclass; none of any other value."""
    if isinstance(value, tuple):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(getattr(value, field.name) for field in fields(value))
    return ()


def describe_stages(policy: object) -> tuple[str, ...]:
    """One line for what becomes of tool outputs, if it says so, and one for each rule: moment, trigger and reducer.

    Fields that are as usual are left out.
    """
    pipeline = getattr(policy, "pipeline", None)
    truncation_line = (f"output: {format_stage(policy.truncation)}",) if isinstance(policy, TruncatingPolicy) else ()
    if not isinstance(pipeline, Pipeline):
        return (*truncation_line, "not told: it is no pipeline of stages")
    return (
        *truncation_line,
        *(f"{rule.moment}: {format_stage(rule.trigger)} → {format_stage(rule.reducer)}" for rule in pipeline.rules),
    )


def format_stage(value: object) -> str:
    """A stage as its class and those of its fields that differ from their defaults; a summary format as its class."""
    if isinstance(value, SummaryFormat):
        return type(value).__name__
    if isinstance(value, Message):
        return f"{value.role} {' '.join(map(extract_part_text, value.parts))!r}"
    if isinstance(value, tuple):
        return f"({', '.join(map(format_stage, value))})"
    if not is_dataclass(value) or isinstance(value, type):
        return str(value)
    field_values = [(field, getattr(value, field.name)) for field in fields(value) if field.repr]
    words = [_format_argument(field, held) for field, held in field_values if held != resolve_default(field)]
    return f"{type(value).__name__}({', '.join(words)})" if words else type(value).__name__


def _format_argument(field: "Field[Any]", value: object) -> str:
    return format_stage(value) if is_dataclass(value) or isinstance(value, tuple) else f"{field.name}={format_stage(value)}"


def resolve_default(field: "Field[Any]") -> object:
    """The default of a field, `MISSING` where it must be given."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def list_config_fields(policy_class: type[Any]) -> "list[Field[Any]]":
    """Return the fields that configure a policy; those that presets share come last."""
    shared_bases = [base for base in policy_class.__mro__ if base.__module__ == Preset.__module__]
    ranks = {name: rank for rank, base in enumerate(shared_bases, start=1) for name in inspect.get_annotations(base)}
    config_fields = [field for field in fields(policy_class) if field.init and field.name not in NON_CONFIG_FIELDS]
    return sorted(config_fields, key=lambda field: ranks.get(field.name, 0))


def list_defaults(policy_class: type[Any]) -> dict[str, object]:
    """The constants of a preset and what they are if nothing is said."""
    return {field.name: resolve_default(field) for field in list_config_fields(policy_class)}


def extract_description(policy_class: type[Any]) -> str:
    """What a policy does: the first paragraph of its description, without its source; empty = it has none."""
    first = (inspect.getdoc(policy_class) or "").split("\n\n", 1)[0]
    return " ".join(first.partition("Source:")[0].split())


def extract_source(policy_class: type[Any]) -> str:
    """Where a policy comes from: the sentence of its description that begins with `Source:`; empty = it tells none."""
    match = re.search(r"Source:\s+(.+?)(?:\.(?=\s+[A-Z])|\.?\Z)", inspect.getdoc(policy_class) or "", re.DOTALL)
    return " ".join(match[1].split()) if match else ""
