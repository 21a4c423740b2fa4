"""Controls (sliders, switches, choices) for the fields of a compaction policy, derived from the policy's class.

The type and unit of a field decide whether it gets a slider, a switch or a choice. Fields of other types, such as texts and
tuples, get no control. A control does not check combinations of values: the policy rejects invalid ones.
"""

import types
from typing import Any, Literal, TypeAlias, TypedDict, Union, get_args, get_origin, get_type_hints

from harness.compaction.description import list_config_fields, resolve_default

ControlKind: TypeAlias = Literal["share", "count", "amount", "switch", "choice"]
IGNORED_FIELDS = {
    *("clip_characters", "summarizer", "summarizer_input_tokens", "context_window", "seed"),
    *("truncate", "truncate_lines", "truncate_bytes", "truncate_keep"),
}
"""Names of policy fields that get no control in the compaction explorer because they have no effect there.

The recorded tool outputs are already shortened, summaries are placeholders, and the context window has its own control.
"""
MAX_PROMINENT_SLIDERS = 3
"""Maximum number of sliders of a compaction policy that the page shows at once; further sliders are folded away."""
SUMMARIZERS = ("same", "scripted/oracle", "scripted/extractive", "scripted/lossy-0.5", "scripted/empty")
"""Models that widgets offer for writing summaries, besides the one that is set; `same` is the agent's model."""
DEFAULT_MAX_TOKENS, DEFAULT_MAX_COUNT = 200_000, 200
TOKENS_PER_NOTCH = 500


class Control(TypedDict):
    """Control (slider, switch or choice) for one field of a policy, as sent to a widget's page."""

    name: str
    kind: ControlKind
    value: Any
    """Initial value of the control, equal to the default of the policy field; None means that the field sets no limit."""
    least: float
    most: float
    notch: float
    choices: list[str]
    optional: bool
    """Whether the policy field may be None; its control then has a switch that turns the field off."""
    first: bool
    """Whether the page shows the control at once; other controls are folded away."""


def build_controls(policy_class: type[Any]) -> list[Control]:
    """Return the controls (sliders, switches, choices) for the fields of a policy class, in their order."""
    hints = get_type_hints(policy_class)
    control_list = [
        control
        for field in list_config_fields(policy_class)
        if field.name not in IGNORED_FIELDS
        if (control := _build_control(field.name, hints[field.name], resolve_default(field))) is not None
    ]
    sliders = [
        control["name"] for control in control_list if control["kind"] in {"share", "count", "amount"} and not control["optional"]
    ]
    for control in control_list:
        control["first"] = control["name"] in sliders[:MAX_PROMINENT_SLIDERS]
    return control_list


def _build_control(name: str, hint: Any, default: object) -> Control | None:
    options = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    optional = types.NoneType in options
    inner = next((option for option in options if option is not types.NoneType), None)
    control = Control(
        name=name, kind="switch", value=default, least=0, most=1, notch=1, choices=[], optional=optional, first=False
    )
    if inner is bool:
        return control
    if inner is float:
        return {**control, "kind": "share", "notch": 0.01}
    if inner is int:
        amount = name.endswith(("_tokens", "_characters", "_bytes"))
        usual, minimum = (DEFAULT_MAX_TOKENS, TOKENS_PER_NOTCH) if amount else (DEFAULT_MAX_COUNT, 1)
        maximum = max(usual, 2 * default) if isinstance(default, int) else usual
        return {**control, "kind": "amount" if amount else "count", "most": maximum, "notch": minimum}
    if get_origin(inner) is Literal:
        return {**control, "kind": "choice", "choices": [str(choice) for choice in get_args(inner)]}
    return None
