"""Scaling of a policy's constants, such as reserves in tokens, from the context window they were chosen for to another one.

Constants in tokens, characters, lines and bytes belong to a window of a certain size. In a smaller window the same numbers make a
different policy: reserves that left nine tenths of a large window may leave nothing. Scaling multiplies the constants by window /
nominal window.

Counts of messages and shares stay as they are, and so do two fields that are windows themselves: `context_window`, to which the
policy is scaled, and `summarizer_input_tokens`, the window of another model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from harness.errors import UsageError
from harness.protocols import Policy
from harness.tokens import Window

SCALED_SUFFIXES = ("_tokens", "_characters", "_lines", "_bytes")
"""Endings of the names of policy fields whose whole numbers are scaled to the window, e.g. of `reserve_tokens`."""
WINDOW_FIELDS = frozenset({"context_window", "summarizer_input_tokens"})
"""Names of policy fields that give the size of a context window and are therefore not scaled."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPolicy:
    """Compaction policy whose constants, such as reserves in tokens, were scaled to a context window."""

    policy: Policy
    """Compaction policy with scaled constants."""
    scale: float = 1.0
    """Factor by which the policy's constants were multiplied; 1 leaves them as configured."""
    nominal_window_tokens: int | None = None
    """Context window in tokens for which the policy's constants were chosen; None means that they were not scaled."""

    def describe_rule(self, rule: str) -> str:
        """Add a note to `rule`, which explains a token budget, if the policy's constants were scaled."""
        if self.nominal_window_tokens is None:
            return rule
        return f"{rule}; constants scaled by {self.scale:g}, from a nominal window of {self.nominal_window_tokens}"


def fit_policy(policy: Policy, window: Window, nominal_window_tokens: int | None) -> FittedPolicy:
    """Scale a policy's constants, such as reserves in tokens, to a context window.

    Args:
        policy: Compaction policy as configured.
        window: Window of the agent's model; the policy's own `context_window` takes precedence.
        nominal_window_tokens: Window in tokens for which the policy's constants were chosen; None does not scale them.

    Raises:
        UsageError: The window is unknown, or the nominal window is below 1 token.
    """
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


def scale_policy(policy: P, factor: float) -> P:
    """Multiply a policy's constants, such as numbers of tokens, by a factor, and round them to at least 1.

    Values of None, 0 or less switch something off and stay as they are. Dataclasses in fields are scaled in the same way.
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
