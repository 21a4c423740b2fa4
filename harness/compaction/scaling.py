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

UNITS = ("_tokens", "_characters", "_lines", "_bytes")
"""A field whose name ends so, and which holds a whole number, is a constant of the window."""
WINDOWS = frozenset({"context_window", "summarizer_input_tokens"})
"""Fields that are windows themselves."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A policy as it works in one window."""

    policy: Policy
    scale: float = 1.0
    """By which its constants were multiplied; 1 = they stand as configured."""
    nominal_window_tokens: int | None = None
    """The window that they were made for; None = whatever window there is."""

    def told(self, rule: str) -> str:
        """The rule of a budget, with how its numbers came to be."""
        if self.nominal_window_tokens is None:
            return rule
        return f"{rule}; constants scaled by {self.scale:g}, from a nominal window of {self.nominal_window_tokens}"


def fitted(policy: Policy, window: Window, nominal_window_tokens: int | None) -> Fitted:
    """A policy in a window.

    Args:
        policy: as configured.
        window: of the agent's model; a policy's own `context_window` goes before it.
        nominal_window_tokens: the window that the policy's constants were made for; None = they are not scaled.

    Raises:
        UsageError: the window is not known, or the nominal one is no window.
    """
    if nominal_window_tokens is None:
        return Fitted(policy=policy)
    if nominal_window_tokens < 1:
        raise UsageError(f"nominal_window_tokens: must be at least 1 (got {nominal_window_tokens!r})")
    tokens = getattr(policy, "context_window", None) or window.tokens
    if tokens == 0:
        raise UsageError(
            f"nominal_window_tokens={nominal_window_tokens}: the model's window is not known, so nothing can be scaled to it; "
            "set window_tokens"
        )
    scale = tokens / nominal_window_tokens
    return Fitted(policy=scaled(policy, scale), scale=scale, nominal_window_tokens=nominal_window_tokens)


def scaled(policy: P, factor: float) -> P:
    """A policy whose constants of the window are multiplied by a factor, to the nearest whole number and at least 1.

    What is 0, None or negative stays: it is a switch and no amount. Fields that are dataclasses are scaled likewise.
    """
    if not is_dataclass(policy) or isinstance(policy, type):
        return policy
    changes: Mapping[str, Any] = {
        field.name: changed
        for field in fields(policy)
        if field.init and (changed := _scaled(field.name, held := getattr(policy, field.name), factor)) != held
    }
    return cast(P, replace(policy, **changes)) if changes else policy


def _scaled(name: str, value: Any, factor: float) -> Any:
    if type(value) is int and value > 0 and name.endswith(UNITS) and name not in WINDOWS:
        return max(1, round(value * factor))
    return scaled(value, factor)
