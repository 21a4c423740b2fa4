"""Which fields of a policy a person can turn, and how far: read off its class, so that every preset has its controls.

A field is turned by a slider, a switch or a choice by its type and unit; what is none of these (texts, tuples) stays as it is.
What may be set together is for the policy to say: a control only offers.
"""

import types
from dataclasses import fields
from typing import Any, Literal, TypeAlias, TypedDict, Union, get_args, get_origin, get_type_hints

from harness.compaction.description import NOT_A_CONSTANT, default_of

Kind: TypeAlias = Literal["share", "count", "amount", "switch", "choice"]
WITHOUT_EFFECT = frozenset({"clip_characters", "summarizer", "summarizer_input_tokens", "context_window", "seed"}) | {
    "truncate",
    "truncate_lines",
    "truncate_bytes",
    "truncate_keep",
}
"""Fields that change nothing where outputs are cut already, summaries are stand-ins and the window has a control of its own."""
STANDING_OUT = 3
"""Sliders that are seen at once; the rest are folded."""
MANY_TOKENS, MANY = 200_000, 200
TOKENS_A_NOTCH = 500


class Control(TypedDict):
    """How a page offers one field."""

    name: str
    kind: Kind
    value: Any
    """The default; None = the policy does without."""
    least: float
    most: float
    notch: float
    choices: list[str]
    optional: bool
    """Whether None can be set."""
    first: bool
    """Whether it is seen at once."""


def controls(kind: type[Any]) -> list[Control]:
    """The controls of a policy's class, in the order of its fields."""
    hints = get_type_hints(kind)
    made = [
        control
        for field in fields(kind)
        if field.init and field.name not in NOT_A_CONSTANT | WITHOUT_EFFECT
        if (control := _control(field.name, hints[field.name], default_of(field))) is not None
    ]
    sliders = [one["name"] for one in made if one["kind"] in {"share", "count", "amount"} and not one["optional"]]
    for one in made:
        one["first"] = one["name"] in sliders[:STANDING_OUT]
    return made


def _control(name: str, hint: Any, default: object) -> Control | None:
    options = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    optional = types.NoneType in options
    inner = next((one for one in options if one is not types.NoneType), None)
    made = Control(name=name, kind="switch", value=default, least=0, most=1, notch=1, choices=[], optional=optional, first=False)
    if inner is bool:
        return made
    if inner is float:
        return {**made, "kind": "share", "notch": 0.01}
    if inner is int:
        amount = name.endswith(("_tokens", "_characters", "_bytes"))
        usual, least = (MANY_TOKENS, TOKENS_A_NOTCH) if amount else (MANY, 1)
        most = max(usual, 2 * default) if isinstance(default, int) else usual
        return {**made, "kind": "amount" if amount else "count", "most": most, "notch": least}
    if get_origin(inner) is Literal:
        return {**made, "kind": "choice", "choices": [str(one) for one in get_args(inner)]}
    return None
