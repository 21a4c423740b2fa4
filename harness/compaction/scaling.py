"""Scaling of a policy's constants, such as reserves in tokens, from the context window they were chosen for to another one.

Constants in tokens, characters, lines and bytes belong to a window of a certain size. In a smaller window the same numbers make a
different policy: reserves that left nine tenths of a large window may leave nothing. Scaling multiplies the constants by window /
nominal window.

Limits on the length of tool outputs decide what the agent reads, with or without a compaction. They are a treatment of their own:
they have a factor of their own and do not change with the window. The names of such fields begin with `clip_` or `truncate_`.

Counts of messages and shares stay as they are, and so do two fields that are windows themselves: `context_window`, to which the
policy is scaled, and `summarizer_input_tokens`, the window of another model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import isfinite
from typing import Any, TypeVar, cast

from harness.compaction.description import Abilities, describe_measures, inspect_abilities, name_policy
from harness.conversation.tokens import Window
from harness.errors import UsageError
from harness.protocols import Policy

SCALED_SUFFIXES = ("_tokens", "_characters", "_lines", "_bytes")
"""Endings of the names of policy fields whose whole numbers are scaled to the window, e.g. of `reserve_tokens`."""
OUTPUT_LIMIT_PREFIXES = ("clip_", "truncate_")
"""Beginnings of the names of policy fields that limit the length of tool outputs, e.g. of `clip_characters`."""
WINDOW_FIELDS = frozenset({"context_window", "summarizer_input_tokens"})
"""Names of policy fields that give the size of a context window and are therefore not scaled."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPolicy:
    """Compaction policy whose constants, such as reserves in tokens, were scaled to a context window."""

    policy: Policy
    """Compaction policy with scaled constants."""
    scale: float = 1.0
    """Factor by which the policy's constants were multiplied, limits on tool outputs excepted; 1 leaves them as configured."""
    nominal_window_tokens: int | None = None
    """Context window in tokens for which the policy's constants were chosen; None means that they were not scaled."""
    abilities: Abilities = field(init=False)
    """Abilities of the policy with scaled constants, found once, since its rules have to be searched for them."""
    acts_on: str = field(init=False)
    """Token counts that the policy compares with its threshold, in words; empty for its own estimate."""
    scale_note: str = field(init=False)
    """Clause that ends the rule of the policy's budget if the constants were scaled; else empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "abilities", inspect_abilities(self.policy))
        object.__setattr__(self, "acts_on", describe_measures(self.policy))
        nominal = self.nominal_window_tokens
        note = f"; constants scaled by {self.scale:g}, from a nominal window of {nominal}" if nominal is not None else ""
        object.__setattr__(self, "scale_note", note)


def fit_policy(
    policy: Policy, window: Window, nominal_window_tokens: int | None, output_limit_scale: float = 1.0
) -> FittedPolicy:
    """Scale a policy's constants, such as reserves in tokens, to a context window, and its limits on tool outputs by a factor.

    Args:
        policy: Compaction policy as configured.
        window: Window of the agent's model; the policy's own `context_window` takes precedence.
        nominal_window_tokens: Window in tokens for which the policy's constants were chosen; None does not scale them.
        output_limit_scale: Factor on the policy's limits on the length of tool outputs, which no window changes.

    Raises:
        UsageError: The window is unknown, the nominal window is below 1 token, or the factor is not a number above 0 or changes
            no limit of the policy.
    """
    policy = _fit_output_limits(policy, output_limit_scale)
    if nominal_window_tokens is None:
        return FittedPolicy(policy=policy)
    if nominal_window_tokens < 1:
        raise UsageError(f"nominal_window_tokens: must be at least 1 (got {nominal_window_tokens!r})")
    tokens = getattr(policy, "context_window", None) or window.tokens
    if tokens == 0:
        raise UsageError(
            f"nominal_window_tokens={nominal_window_tokens}: the model's window is unknown, so constants cannot be scaled to it; "
            "set window_tokens"
        )
    scale = tokens / nominal_window_tokens
    return FittedPolicy(policy=scale_policy(policy, scale), scale=scale, nominal_window_tokens=nominal_window_tokens)


def _fit_output_limits(policy: Policy, factor: float) -> Policy:
    """Return the policy with scaled limits on tool outputs; refuse a factor without effect, which would label a false arm."""
    if factor == 1:
        return policy
    check_output_limit_scale(factor)
    scaled = scale_output_limits(policy, factor)
    if scaled is policy:
        raise UsageError(
            f"output_limit_scale={factor!r}: changes no limit on tool outputs of policy {name_policy(policy)!r}; the names of "
            f"fields with such limits begin with {' or '.join(OUTPUT_LIMIT_PREFIXES)} and end with "
            f"{', '.join(SCALED_SUFFIXES[:-1])} or {SCALED_SUFFIXES[-1]}"
        )
    return scaled


def check_output_limit_scale(factor: float) -> None:
    """Raise `UsageError` unless a factor on the limits on tool outputs is a finite number above 0."""
    if not (factor > 0 and isfinite(factor)):
        raise UsageError(f"output_limit_scale: must be a number above 0 (got {factor!r})")


def scale_policy(policy: P, factor: float) -> P:
    """Multiply a policy's constants, such as numbers of tokens, by a factor, and round them to at least 1.

    Values of None, 0 or less switch something off and stay as they are, as do limits on the length of tool outputs. Dataclasses
    in fields are scaled in the same way.
    """
    return _scale_fields(policy, factor, lambda name: not limits_outputs(name))


def scale_output_limits(policy: P, factor: float) -> P:
    """Multiply a policy's limits on the length of tool outputs by a factor, and round them to at least 1.

    All other fields stay as they are.
    """
    return _scale_fields(policy, factor, limits_outputs)


def limits_outputs(name: str) -> bool:
    """Return whether a policy field of this name limits the length of tool outputs, in whatever unit."""
    return name.startswith(OUTPUT_LIMIT_PREFIXES)


def _scale_fields(policy: P, factor: float, is_scaled: Callable[[str], bool]) -> P:
    if not is_dataclass(policy) or isinstance(policy, type):
        return policy

    def scale(name: str, value: Any) -> Any:
        # not isinstance, because True is no constant
        if type(value) is int and value > 0 and name.endswith(SCALED_SUFFIXES) and name not in WINDOW_FIELDS:
            return max(1, round(value * factor)) if is_scaled(name) else value
        return _scale_fields(value, factor, is_scaled)

    changes: Mapping[str, Any] = {
        field.name: scaled_value
        for field in fields(policy)
        if field.init and (scaled_value := scale(field.name, old_value := getattr(policy, field.name))) != old_value
    }
    return cast(P, replace(policy, **changes)) if changes else policy
