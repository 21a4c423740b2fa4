"""Simulated times between the steps of a session, for policies that read the time, such as those with the condition `idle-cold`.

A scripted agent calls its tools at once, and nobody answers it, so its steps would follow one another in milliseconds. With
simulated gaps, each step begins later than the previous answer by a time that is drawn from measured times. The draw depends on
the seed of the session and the number of the step alone, so sessions that differ in their policy wait equally long before equal
steps. Nothing really waits.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.conversation.view import View

Gaps: TypeAlias = Literal["none", "claude-code"]
"""Name of a distribution of the times between an answer of the model and the next call; `none` simulates no times."""

QUANTILES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "claude-code": (
        (0.0, 0.0),
        (0.1, 4.0),
        (0.2, 5.0),
        (0.3, 6.0),
        (0.4, 8.0),
        (0.5, 10.0),
        (0.6, 14.0),
        (0.7, 23.0),
        (0.8, 52.0),
        (0.9, 160.0),
        (0.925, 243.9),
        (0.95, 429.0),
        (0.975, 1_078.8),
        (0.99, 3_083.7),
        (0.995, 3_520.2),
        (0.999, 9_417.9),
        (1.0, 72_013.0),
    )
}
"""Quantiles of measured gaps: pairs of a share of the gaps and the seconds that this share does not exceed.

`claude-code`: 25,322 gaps in 398 of 400 traces of Claude Code sessions, a random choice from `callanjfox/kv-cache-tester`,
folder `traces/`, commit 94f6046d (2026-07-12, Apache License 2.0). A gap is the field `think_time`: the seconds from the end of
an answer to the next call, with the time of tools and of the user. Calls of sub-agents are left out, and so are calls that share
less than half of the previous prompt. 6.7 % of the gaps exceed 5 minutes, and 0.46 % exceed an hour; the mean is 136 seconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualClock:
    """Clock that begins at 0 and advances by the duration of each model call and by the simulated gap before each step."""

    gaps: Gaps
    """Name of the distribution from which gaps are drawn."""
    seed: int
    """Seed of the draws."""

    def read_seconds(self, view: View, step: int) -> float:
        """Return the time right before a step, in seconds since the start of the session.

        The time never goes back: it is at least that of the view. The first step begins at 0.
        """
        due_seconds = 0.0 if view.answered_seconds is None else view.answered_seconds + draw_gap(self.gaps, self.seed, step)
        return max(due_seconds, view.now_seconds or 0.0)


def draw_gap(gaps: Gaps, seed: int, step: int) -> float:
    """Return the simulated seconds between the answer of the previous step and the call of a step; 0 for `none`.

    Args:
        gaps: Name of the distribution.
        seed: Seed of the session.
        step: Number of the step that begins after the gap.

    Example:
        >>> from harness.session.gaps import draw_gap
        >>> draw_gap("claude-code", 3, 7) == draw_gap("claude-code", 3, 7), draw_gap("none", 3, 7)
        (True, 0.0)
    """
    if gaps == "none":
        return 0.0
    digest = hashlib.sha256(f"gap/{seed}/{step}".encode()).digest()
    return interpolate_gap(gaps, int.from_bytes(digest[:8], "big") / 2**64)


def interpolate_gap(gaps: Gaps, share: float) -> float:
    """Return the seconds that a share of the gaps of a distribution does not exceed, interpolated between the quantiles.

    Args:
        gaps: Name of the distribution, other than `none`.
        share: Share of the gaps, at least 0 and at most 1.
    """
    table = QUANTILES[gaps]
    index = min(bisect_right([known for known, _ in table], share), len(table) - 1)
    (low, low_seconds), (high, high_seconds) = table[index - 1], table[index]
    return low_seconds + (high_seconds - low_seconds) * (share - low) / (high - low)
