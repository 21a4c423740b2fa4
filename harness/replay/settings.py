"""Settings that a replay compares: a compaction policy with the number of tokens above which it compacts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from harness.compaction.description import list_parts
from harness.compaction.feasibility import compute_feasible_budget
from harness.conversation.tokens import Window
from harness.errors import UnknownName, UsageError
from harness.policies import resolve_policy
from harness.protocols import Policy

AS_IT_WAS = "as it was"
"""Name of what was really run: the stretches of the sessions without any further compaction."""
BY_HAND = "compact by hand before pauses"
"""Name of what it would have cost to compact by hand before each pause of more than five minutes."""
DEFAULT_POLICIES = ("claude-code", "codex", "keep-last", "anthropic-clear-tool-uses")
DEFAULT_THRESHOLDS = (50_000, 80_000, 100_000, 150_000, 200_000)
DEFAULT_PROBE_BOUNDARIES = 10
"""Largest number of boundaries for each policy at which a boundary probe asks."""
DEFAULT_PROBE_LIMIT_USD = 1.0
"""Cost in dollars above which a boundary probe asks nothing."""
MAX_WINDOW_TOKENS = 2**24
UNKNOWN_WINDOW_TOKENS = 200_000
"""Window in tokens for a policy without a threshold in tokens, if the window of the session's model is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySetting:
    """Compaction policy with a threshold, as a replay tries it."""

    policy: str
    """Name of the policy, such as `claude-code`."""
    threshold_tokens: int | None
    """Size of the conversation in tokens above which the policy compacts; None for a policy that has no such size, or one that
    the window does not change."""
    window_tokens: int | None
    """Context window in which the policy has this threshold; None for the window of each session's model."""
    changes: tuple[tuple[str, int], ...] = ()
    """Fields of the policy that differ from their defaults, with their values."""

    @property
    def name(self) -> str:
        """Name of the setting in tables, such as `claude-code at 80K` or `codex at 80K, keep_user_tokens 32000`."""
        at = "" if self.threshold_tokens is None else f" at {format_thousands(self.threshold_tokens)}"
        return ", ".join([f"{self.policy}{at}", *(f"{field} {value}" for field, value in self.changes)])

    def build_policy(self) -> Policy:
        """Return the policy with these fields.

        Raises:
            UsageError: The policy has no such field, or the value is out of range.
        """
        return with_fields(self.policy, self.changes)


def with_fields(policy: str, changes: Iterable[tuple[str, int]]) -> Policy:
    """Return a policy with other values of some fields.

    Raises:
        UnknownName: The policy has no such field.
        UsageError: A value is out of range.
    """
    default: Any = resolve_policy(policy)
    known = [field.name for field in fields(default)]
    for name, _ in changes:
        if name not in known:
            raise UnknownName(f"field of the policy {policy}", name, known)
    changed: Policy = replace(default, **dict(changes))
    return changed


def format_thousands(tokens: float) -> str:
    """Return a number of tokens in thousands, such as `80K` or `2.5K`."""
    return f"{tokens / 1000:g}K" if tokens else "0"


def list_settings(
    policies: Iterable[str], thresholds: Sequence[int], variations: Mapping[str, Sequence[int]] | None = None
) -> tuple[tuple[ReplaySetting, ...], tuple[str, ...]]:
    """Return the settings of some policies with some thresholds, and a note on each pair that is not possible.

    A policy whose threshold follows from the window gets the smallest window in which it is at least as large. A policy without
    a threshold in tokens, or with one that does not depend on the window, is one setting.

    Args:
        policies: Names of policies.
        thresholds: Numbers of tokens above which they compact.
        variations: Values of fields of the policies; each combination is tried. Default: the policies' own values.

    Raises:
        UsageError: A policy, a field or a threshold is unknown or impossible, or none of the pairs is possible.
    """
    settings: list[ReplaySetting] = []
    notes: list[str] = []
    names, values = list(variations or {}), list((variations or {}).values())
    changes = [tuple(zip(names, chosen, strict=True)) for chosen in product(*values)]
    for name, changed in product(dict.fromkeys(policies), changes):
        policy = with_fields(name, changed)
        if _compute_threshold(policy, MAX_WINDOW_TOKENS) == _compute_threshold(policy, MAX_WINDOW_TOKENS // 2):
            settings.append(ReplaySetting(policy=name, threshold_tokens=None, window_tokens=None, changes=changed))
            continue
        for threshold in sorted(set(thresholds)):
            try:
                window = _find_window(policy, threshold)
                compute_feasible_budget(policy, Window(tokens=window, source="configuration"))
            except UsageError as error:
                notes.append(f"{name} at {format_thousands(threshold)} is not possible: {error}")
            else:
                settings.append(ReplaySetting(policy=name, threshold_tokens=threshold, window_tokens=window, changes=changed))
    if not settings:
        raise UsageError(f"none of these settings is possible: {'; '.join(notes) or 'no policy is named'}")
    return tuple(settings), tuple(notes)


def parse_thresholds(text: str, least: int = 1_000) -> tuple[int, ...]:
    """Return numbers of tokens from a text such as `80K,100000`.

    Args:
        text: Numbers with commas between them.
        least: Smallest number that is allowed.

    Raises:
        UsageError: A part is no such number of tokens.
    """
    return tuple(_parse_tokens(part.strip(), least) for part in text.split(","))


def _parse_tokens(text: str, least: int) -> int:
    number, factor = (text[:-1], 1000) if text[-1:] in {"k", "K"} else (text, 1)
    try:
        tokens = round(float(number.replace("_", "")) * factor)
    except (ValueError, OverflowError):
        tokens = -1
    if not least <= tokens <= MAX_WINDOW_TOKENS:
        raise UsageError(f"{text!r} is no number of tokens between {least:,} and {MAX_WINDOW_TOKENS:,}, such as 80K")
    return tokens


def _find_window(policy: Policy, threshold_tokens: int) -> int:
    """Return the smallest window in which a policy has a threshold of at least a number of tokens."""
    low, high = 1, MAX_WINDOW_TOKENS
    while low < high:
        middle = (low + high) // 2
        if _compute_threshold(policy, middle) >= threshold_tokens:
            high = middle
        else:
            low = middle + 1
    reached = _compute_threshold(policy, low)
    if not threshold_tokens <= reached <= 1.05 * threshold_tokens + 1:
        raise UsageError(f"the threshold of the policy cannot be {threshold_tokens:,} tokens; the nearest is {reached:,}")
    return low


def _compute_threshold(policy: Policy, window_tokens: int) -> int:
    try:
        return policy.budget(Window(tokens=window_tokens, source="configuration")).threshold_tokens or 0
    except UsageError:
        return 0  # the reserves leave nothing of so small a window


def shares_prefix(policy: Policy) -> bool:
    """Return whether the summarizer of a policy reads the session itself, so that its prompt begins as the agent's does."""
    return any(getattr(part, "layout", "") == "session" for part in _iter_parts(getattr(policy, "pipeline", None)))


def _iter_parts(part: object) -> Iterator[object]:
    yield part
    for inner in list_parts(part):
        yield from _iter_parts(inner)
