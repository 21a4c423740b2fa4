"""How published agents divide a window where that is more than one share or one reserve. See `harness.compaction.triggers`."""

from dataclasses import dataclass
from functools import lru_cache

from harness.compaction.triggers import UNKNOWN, Division, Full, Measure, left
from harness.errors import UsageError
from harness.tokens import Budget, Usage, Window
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Smallest:
    """The division with the smallest threshold."""

    divisions: tuple[Division, ...]

    def budget(self, window: Window) -> Budget:
        """See `Division`."""
        budgets = [division.budget(window) for division in self.divisions]
        return min(budgets, key=lambda budget: budget.threshold_tokens or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMoreThan:
    """Divides no more of a window than a cap, and the cap where the window is not known."""

    tokens: int
    division: Division

    def budget(self, window: Window) -> Budget:
        """See `Division`."""
        within = 0 < window.tokens <= self.tokens
        return self.division.budget(window if within else Window(tokens=self.tokens, source="policy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLess:
    """Act beyond a share of the window less a reserve."""

    share: float
    reserve_tokens: int

    def budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN
        usable = int(self.share * window.tokens - self.reserve_tokens)
        if usable <= 0:
            raise UsageError(
                f"the reserve of {self.reserve_tokens} tokens leaves nothing of {self.share:g} × the window of {window.tokens} "
                f"({window.source}); raise window_tokens or lower the reserve"
            )
        threshold = usable + 1
        rule = f"more than {self.share:g} × {window.tokens} − {self.reserve_tokens}, that is {threshold} tokens"
        return _budget(window, threshold, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastLeft:
    """Act when no more is left than a share of the window, or than a fixed number of tokens in a large one."""

    share: float
    large_tokens: int
    large_window_tokens: int
    """A window above this is a large one."""

    def budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN
        reserved = self.large_tokens if window.tokens > self.large_window_tokens else int(self.share * window.tokens)
        threshold = left(window, reserved)
        return _budget(window, threshold, f"{window.tokens} − {reserved} = {threshold} tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByWindow:
    """Act at what a table allows for a window; where it has no row, at the larger of a share and of the window less a reserve."""

    allowed: tuple[tuple[int, int], ...]
    """Pairs of window and threshold, both in tokens."""
    share: float
    reserve_tokens: int

    def budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN
        other = max(window.tokens - self.reserve_tokens, int(self.share * window.tokens))
        threshold = dict(self.allowed).get(window.tokens, other)
        return _budget(window, threshold, f"{threshold} tokens are allowed in a window of {window.tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FullBy:
    """The view has reached a threshold other than that of the budget. See `harness.compaction.triggers.Trigger`."""

    division: Division
    measure: Measure

    def due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        return Full(measure=self.measure).due(view, _divided(self.division, budget.window_tokens), usage)


@lru_cache(maxsize=1_000)
def _divided(division: Division, window_tokens: int) -> Budget:
    """Remembered, since it is asked for before every step and writes its arithmetic down each time."""
    return division.budget(Window(tokens=window_tokens, source="configuration"))


def _budget(window: Window, threshold_tokens: int, rule: str) -> Budget:
    told = f"{rule}; window from {window.source}"
    return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=threshold_tokens, rule=told)
