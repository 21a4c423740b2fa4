"""A policy that was made for one window, at work in another of the same geometry.

A policy's constants in tokens, characters, lines and bytes belong to a window of some size. In a smaller one the same numbers
are another policy: reserves that left nine tenths of a window leave nothing. Scaled by window / nominal they keep their
proportion to it. Counts of messages and shares stay, and so do the two fields that are windows themselves: `context_window`,
which is the window that the policy is scaled to, and `summarizer_input_tokens`, which is that of another model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from harness.errors import UsageError
from harness.protocols import Policy
from harness.tokens import Window

SCALED_SUFFIXES = ("_tokens", "_characters", "_lines", "_bytes")
"""A field whose name ends so, and which holds a whole number, is a constant of the window."""
WINDOW_FIELDS = frozenset({"context_window", "summarizer_input_tokens"})
"""Fields that are windows themselves."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPolicy:
    """A policy as it works in one window."""

    policy: Policy
    scale: float = 1.0
    """By which its constants were multiplied; 1 = they stand as configured."""
    nominal_window_tokens: int | None = None
    """The window that they were made for; None = whatever window there is."""

    def describe_rule(self, rule: str) -> str:
        """The rule of a budget, with how its numbers came to be."""
        if self.nominal_window_tokens is None:
            return rule
        return f"{rule}; constants scaled by {self.scale:g}, from a nominal window of {self.nominal_window_tokens}"


def fit_policy(policy: Policy, window: Window, nominal_window_tokens: int | None) -> FittedPolicy:
    """A policy in a window.

    Args:
        policy: as configured.
        window: of the agent's model; a policy's own `context_window` goes before it.
        nominal_window_tokens: the window that the policy's constants were made for; None = they are not scaled.

    Raises:
        UsageError: the window is not known, or the nominal one is no window.
    """
    if nominal_window_tokens is None:
        return FittedPolicy(policy=policy)
    if nominal_window_tokens < 1:
        raise UsageError(f"nominal_window_tokens: must be at least 1 (got {nominal_window_tokens!r})")
    tokens = getattr(policy, "context_window", None) or window.tokens
    if tokens == 0:
        raise UsageError(
            f"nominal_window_tokens={nominal_window_tokens}: the model's window is not known, so nothing can be scaled to it; "
            "set window_tokens"
        )
    scale = tokens / nominal_window_tokens
    return FittedPolicy(policy=scale_policy(policy, scale), scale=scale, nominal_window_tokens=nominal_window_tokens)


def scale_policy(policy: P, factor: float) -> P:
    """A policy whose constants of the window are multiplied by a factor, to the nearest whole number and at least 1.

    What is 0, None or negative stays: it is a switch and no amount. Fields that are dataclasses are scaled likewise.
    """
    if not is_dataclass(policy) or isinstance(policy, type):
        return policy
    changes: Mapping[str, Any] = {
        field.name: changed
        for field in fields(policy)
        if field.init and (changed := _scale_value(field.name, held := getattr(policy, field.name), factor)) != held
    }
    return cast(P, replace(policy, **changes)) if changes else policy


def _scale_value(name: str, value: Any, factor: float) -> Any:
    if type(value) is int and value > 0 and name.endswith(SCALED_SUFFIXES) and name not in WINDOW_FIELDS:
        return max(1, round(value * factor))
    return scale_policy(value, factor)
