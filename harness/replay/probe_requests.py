"""Requests of a boundary probe, made from recorded messages, and the action in an answer.

Recordings seldom hold the descriptions of the tools. Those of a recorded session are then derived from its calls: each tool has
the arguments with which the agent called it. Keys in the texts are masked.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple, cast

from harness.conversation.messages import Message, Part, Reasoning, ToolCall
from harness.conversation.tokens import QuarterOfCharacters
from harness.protocols import Request, Sandbox, ToolSpec
from harness.replay.excerpts import mask_secrets
from harness.session.assembly import EXPLORE_SPEC
from harness.session.preflight import list_output_tool_specs
from harness.tools import make_standard_tools

SAYS_SOMETHING = "says something"
"""Name of the action of an answer without a tool call."""
FEWEST_CHARACTERS_PER_TOKEN = 2.5
"""Characters of a token for costs and for what fits a window, which must not be estimated too low.

Prose has about four. In a view of a recorded session, a token of Qwen2.5 had at most 2.6 characters on average.
"""
MAX_NAME_CHARACTERS = 64
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")
_UNREAD_FIELDS = frozenset({"kind", "status", "drawing"})
_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


class Action(NamedTuple):
    """Next action of a model: the first tool call of its answer.

    Args:
        tool: Name of the tool; empty for an answer without a call.
        arguments: Arguments as canonical JSON, or as they were written if they are not JSON; empty without a call.
    """

    tool: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTools:
    """Tools that a session's agent had, as far as they are known."""

    specs: tuple[ToolSpec, ...]
    are_known: bool
    """Whether the tools of this package were used, whose descriptions are known; otherwise they are derived from the calls."""


def list_tools(messages: Iterable[Message], *, is_own: bool) -> SessionTools:
    """Return the tools of a session, sorted by name.

    Args:
        messages: All messages of the session.
        is_own: Whether an agent of this package recorded the session.
    """
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for message in messages:
        for call in message.calls:
            seen.setdefault(clean_name(call.name), []).append(_read_arguments(call.arguments_json))
    known = _list_known_tools() if is_own else {}
    standard = {name: spec for name, spec in known.items() if name in _list_standard_names()}
    derived = {name: known.get(name) or _derive_spec(name, calls) for name, calls in seen.items()}
    specs = {**standard, **derived}
    return SessionTools(specs=tuple([specs[name] for name in sorted(specs)]), are_known=is_own and seen.keys() <= known.keys())


@cache
def _list_known_tools() -> dict[str, ToolSpec]:
    unopened = cast("Sandbox", None)  # only the descriptions of the tools are read
    specs = (*(tool.spec for tool in make_standard_tools(unopened)), *list_output_tool_specs(), EXPLORE_SPEC)
    return {spec.name: spec for spec in specs}


@cache
def _list_standard_names() -> frozenset[str]:
    return frozenset(tool.spec.name for tool in make_standard_tools(cast("Sandbox", None)))


def _read_arguments(text: str) -> Mapping[str, Any]:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _derive_spec(name: str, calls: Sequence[Mapping[str, Any]]) -> ToolSpec:
    """Return the description of a tool with the arguments that its calls had; all calls had the required ones."""
    names = dict.fromkeys(argument for call in calls for argument in call)
    properties = {argument: _derive_schema([call[argument] for call in calls if argument in call]) for argument in names}
    required = [argument for argument in names if all(argument in call for call in calls)]
    return ToolSpec(
        name=name,
        description="",
        parameters_json=json.dumps({"type": "object", "properties": properties, "required": required}),
    )


def _derive_schema(values: Sequence[object]) -> dict[str, object]:
    kinds = {_JSON_TYPES.get(type(value), "string") for value in values}
    kind = kinds.pop() if len(kinds) == 1 else "string"  # providers refuse an argument without a type
    if kind != "array":
        return {"type": kind}
    return {"type": kind, "items": _derive_schema([item for value in values if isinstance(value, list) for item in value])}


def clean_name(name: str) -> str:
    """Return a tool name or a call id with the characters that all providers accept."""
    return _OTHER_CHARACTERS.sub("_", name)[:MAX_NAME_CHARACTERS] or "_"


def clean_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return messages as they are sent: keys masked, without reasoning, and with names that all providers accept."""
    return tuple([message for message in map(_clean_message, messages) if message.parts])


def _clean_message(message: Message) -> Message:
    return replace(message, parts=tuple([_clean_part(part) for part in message.parts if not isinstance(part, Reasoning)]))


def _clean_part(part: Part) -> Part:
    values = {field.name: getattr(part, field.name) for field in fields(part) if field.name not in _UNREAD_FIELDS}
    names = {"name", "call_id"}
    changes: Any = {
        name: clean_name(value) if name in names else mask_secrets(value)
        for name, value in values.items()
        if isinstance(value, str)
    }
    return replace(part, **changes)


def make_request(messages: Sequence[Message], tools: Sequence[ToolSpec], max_output_tokens: int) -> Request:
    """Return the request for the next action after some messages."""
    return Request(messages=clean_messages(messages), tools=tuple(tools), max_output_tokens=max_output_tokens)


def estimate_tokens(messages: Iterable[Message], tools: Iterable[ToolSpec]) -> int:
    """Return the estimated tokens of a prompt, four characters each."""
    counter = QuarterOfCharacters()
    described = sum(len(tool.name) + len(tool.description) + len(tool.parameters_json) for tool in tools)
    return sum(counter.count(message) for message in messages) + described // 4


def bound_tokens(messages: Iterable[Message], tools: Iterable[ToolSpec]) -> int:
    """Return a number of tokens that a prompt hardly exceeds, for costs and for what fits a window."""
    return round(estimate_tokens(messages, tools) * 4 / FEWEST_CHARACTERS_PER_TOKEN)


def read_action(answer: Message) -> Action:
    """Return the next action in an answer: its first tool call, or that it has none."""
    if not answer.calls:
        return Action("", "")
    call: ToolCall = answer.calls[0]
    try:
        arguments = json.dumps(json.loads(call.arguments_json), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        arguments = call.arguments_json.strip()
    return Action(clean_name(call.name), arguments)
