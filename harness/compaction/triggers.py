"""When a policy acts: a share of what the reserves leave of the window."""

from dataclasses import dataclass

from harness.errors import UsageError
from harness.tokens import Budget, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserves:
    """Tokens kept free of messages. Source and defaults: S0.4."""

    system_tokens: int = 2_000
    output_tokens: int = 4_000
    safety_tokens: int = 5_000

    @property
    def total_tokens(self) -> int:
        """All three together."""
        return self.system_tokens + self.output_tokens + self.safety_tokens


def share_of_available(window: Window, reserves: Reserves, share: float) -> Budget:
    """Compact at or above `share` of the window less its reserves (S0.4: 128,000 -> 117,000 -> 93,600 at 0.8).

    An unknown window (0 tokens) turns compaction off (S2.8).

    Raises:
        UsageError: the reserves are as large as the window.
    """
    if window.tokens == 0:
        return Budget(window_tokens=0, reserved_tokens=0, threshold_tokens=None, rule="window unknown: compaction is off")
    available = window.tokens - reserves.total_tokens
    if available <= 0:
        raise UsageError(
            f"the reserves of {reserves.total_tokens} tokens leave nothing of the window of {window.tokens} "
            f"({window.source}); raise window_tokens above {reserves.total_tokens} or lower the reserves"
        )
    threshold = int(available * share)
    rule = f"{share:g} × ({window.tokens} − {reserves.total_tokens} reserved) = {threshold} tokens; window from {window.source}"
    return Budget(window_tokens=window.tokens, reserved_tokens=reserves.total_tokens, threshold_tokens=threshold, rule=rule)
