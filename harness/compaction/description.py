"""Descriptions of compaction policies, derived from the class, the fields and the rules (the pipeline) of a policy.

The rules are plain values, so what they can do, such as request summaries, is known without running them. Of a policy without
such rules, only the fields can be described.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

from harness.compaction.pipeline import Pipeline, Preset
from harness.compaction.stages import EARLIER_SUMMARIES
from harness.compaction.triggers import REPORTED_MEASURES
from harness.conversation.messages import Message, extract_part_text
from harness.conversation.plan import SummaryFormat
from harness.conversation.truncation import Truncation
from harness.errors import UsageError
from harness.protocols import Policy, TruncatingPolicy

NON_CONFIG_FIELDS = frozenset({"kind"})
"""Names of policy fields that only identify the policy and are not shown as settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """Abilities of a policy with its settings: whether it can compact at all, and whether it can request summaries."""

    can_act: bool
    """Whether the policy can ever compact. A policy that never compacts serves as a control in experiments."""
    can_summarize: bool
    """Whether the policy can request a summary from a model."""


def name_policy(policy: object) -> str:
    """Return the kind of a policy, such as `keep-last`, or the name of its class if it has none."""
    return str(getattr(policy, "kind", type(policy).__name__))


def find_summarizer(policy: object) -> str | None:
    """Return the name of the model that writes a policy's summaries; None if the policy requests none."""
    name: str | None = getattr(policy, "summarizer", None)
    return name


def reads_time(policy: object) -> bool:
    """Return whether a policy decides by the time between steps, so that the log of its session needs times."""
    return bool(getattr(policy, "reads_time", False))


def choose_truncation(policy: Policy, *, explore: bool = False) -> Truncation:
    """Return the limits to which long tool outputs are shortened in a session.

    Args:
        policy: Compaction policy of the session, which sets the limits.
        explore: Whether the agent has the tool `explore`. Without it, no shortened output proposes the tool.
    """
    limits = policy.truncation if isinstance(policy, TruncatingPolicy) else Truncation(max_characters=policy.clip_characters)
    return limits if explore else replace(limits, proposes_explore=False)


def inspect_abilities(policy: object) -> Abilities:
    """Return whether a policy with its settings can ever compact, and whether it can request summaries."""
    pipeline = getattr(policy, "pipeline", None)
    if not isinstance(pipeline, Pipeline):
        return Abilities(can_act=True, can_summarize=find_summarizer(policy) is not None)
    reducers = (part for rule in pipeline.rules for part in walk_parts(rule.reducer))
    return Abilities(can_act=bool(pipeline.rules), can_summarize=any(map(_writes_summaries, map(type, reducers))))


@cache
def _writes_summaries(kind: type) -> bool:
    # once for each class, because a check of a protocol takes longer than the rest of the search
    return issubclass(kind, SummaryFormat)


def describe_memory(policy: object) -> str:
    """Return by which facts about its earlier compactions a policy decides, as a phrase; empty if by the messages alone.

    Parts of a policy state such facts in a property `memory`. A policy that is no pipeline of parts may have the property itself.
    """
    pipeline = getattr(policy, "pipeline", None)
    rules = pipeline.rules if isinstance(pipeline, Pipeline) else ()
    parts = (policy, *(part for rule in rules for part in (*walk_parts(rule.trigger), *walk_parts(rule.reducer))))
    memories = dict.fromkeys(memory for part in parts if (memory := getattr(part, "memory", "")))
    if not inspect_abilities(policy).can_summarize:  # there are no summaries to remember
        memories.pop(EARLIER_SUMMARIES, None)
    return " and ".join(memories)


def advise_on_overflow(policy: object) -> str:
    """Return advice for a user whose session overflowed the window under a policy, e.g. to switch compaction on."""
    if switch := _find_off_switch(policy):
        return f"compaction is switched off by {switch}: switch it on, or take a larger window"
    if not inspect_abilities(policy).can_act:
        kind = name_policy(policy)
        return f"compaction is off with policy {kind!r}: switch it on with another, e.g. 'keep-last', or take a larger window"
    return "compact earlier (a lower threshold) or take a larger window"


def _find_off_switch(policy: object) -> str:
    """Return the setting, such as `enabled=False`, that removes all rules or those for a refused prompt; empty if none does."""
    if not isinstance(policy, Preset):
        return ""
    present, switches = _list_hooks(policy), list[tuple[bool, str]]()
    for name, default in list_defaults(type(policy)).items():
        if (value := getattr(policy, name)) != default:
            added = _list_hooks(policy, **{name: default}) - present
            if "overflow" in added or (added and not present):
                switches.append(("overflow" not in added, f"{name}={value!r}"))
    return min(switches)[1] if switches else ""


def _list_hooks(policy: Preset, **changes: Any) -> frozenset[str]:
    """Return the hooks of a policy's rules, with some fields changed; empty if its settings do not go together."""
    try:
        return frozenset(rule.hook for rule in replace(policy, **changes).pipeline.rules)
    except UsageError:
        return frozenset()


def describe_measures(policy: object) -> str:
    """Return which token counts a policy compares with its threshold, if not its own estimate of the messages; else empty."""
    measures = _list_measures(policy)
    counts = ["the model's own token count"] if measures & REPORTED_MEASURES else []
    counts += ["an estimate of the unedited messages"] if "unedited" in measures else []
    return " and ".join(counts)


def acts_on_reports(policy: object) -> bool:
    """Return whether a policy compares token counts reported by the provider with its threshold."""
    return bool(_list_measures(policy) & REPORTED_MEASURES)


def _list_measures(policy: object) -> set[object]:
    pipeline = getattr(policy, "pipeline", None)
    if not isinstance(pipeline, Pipeline):
        return set()
    return {getattr(part, "measure", None) for rule in pipeline.rules for part in walk_parts(rule.trigger)}


def walk_parts(value: object) -> Iterator[object]:
    """Yield a value and, recursively, the field values of dataclasses and the elements of tuples inside it."""
    yield value
    for part in list_parts(value):
        yield from walk_parts(part)


def list_parts(value: object) -> tuple[object, ...]:
    """Return the elements of a tuple or the field values of a dataclass; empty for any other value."""
    if isinstance(value, tuple):
        return value
    return tuple(getattr(value, name) for name in _list_field_names(type(value)))  # type: ignore[arg-type]


@cache
def _list_field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def describe_stages(policy: object) -> tuple[str, ...]:
    """Return lines of text that describe what a policy does: one on cut tool outputs, then one for each rule.

    The line of a rule states at which point of the session the rule is checked, under which condition it acts, and how it
    shortens the conversation. Settings with their default value are left out.
    """
    pipeline = getattr(policy, "pipeline", None)
    truncation_line = (f"output: {format_stage(policy.truncation)}",) if isinstance(policy, TruncatingPolicy) else ()
    if not isinstance(pipeline, Pipeline):
        return (*truncation_line, "unknown: the policy is not a pipeline of stages")
    conditions = policy.when if isinstance(policy, Preset) else ()
    return (
        *truncation_line,
        *(f"when: {format_stage(condition)}" for condition in conditions),
        *(f"{rule.hook}: {format_stage(rule.trigger)} → {format_stage(rule.reducer)}" for rule in pipeline.rules),
    )


def format_stage(value: object) -> str:
    """Return a value as a text such as `Full(above=True)`, without fields that have their default value."""
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
    """Return the default value of a dataclass field, or `MISSING` if the field is required."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def list_config_fields(policy_class: type[Any]) -> "list[Field[Any]]":
    """Return the fields that configure a policy.

    The threshold comes first, and the fields that many policies share come last.
    """
    shared_bases = [base for base in policy_class.__mro__ if base.__module__ == Preset.__module__]
    ranks = {name: rank for rank, base in enumerate(shared_bases, start=1) for name in inspect.get_annotations(base)}
    config_fields = [field for field in fields(policy_class) if field.init and field.name not in NON_CONFIG_FIELDS]
    return sorted(config_fields, key=lambda field: -1 if field.name == "threshold" else ranks.get(field.name, 0))


def list_defaults(policy_class: type[Any]) -> dict[str, object]:
    """Return the default values of a policy's configurable fields, by field name."""
    return {field.name: resolve_default(field) for field in list_config_fields(policy_class)}


def extract_description(policy_class: type[Any]) -> str:
    """Return the first paragraph of a policy's docstring, without its `Source:`; empty if there is no docstring."""
    first = (inspect.getdoc(policy_class) or "").split("\n\n", 1)[0]
    return " ".join(first.partition("Source:")[0].split())


def extract_source(policy_class: type[Any]) -> str:
    """Return the system or paper that a policy's docstring gives behind `Source:`; empty if it gives none."""
    match = re.search(r"Source:\s+(.+?)(?:\.(?=\s+[A-Z]|\n\n)|\.?\Z)", inspect.getdoc(policy_class) or "", re.DOTALL)
    return " ".join(match[1].split()) if match else ""
