"""A compactor that says when it has a summary written, so that whoever watches knows why nothing else happens (S1.8)."""

from collections.abc import Callable

from harness.events import Compaction, Moment, Signal, Waiting
from harness.protocols import Compactor, Policy
from harness.tokens import Budget, Usage
from harness.view import View


class AnnouncedCompactor:
    """Another compactor, watched."""

    def __init__(self, inner: Compactor, announce: Callable[[bool], None]) -> None:
        """Call `announce` with True when a summary is asked for, and with False when that is over."""
        self._inner, self._announce = inner, announce

    @property
    def policy(self) -> Policy:
        """See `harness.protocols.Compactor`."""
        return self._inner.policy

    @property
    def budget(self) -> Budget:
        """See `harness.protocols.Compactor`."""
        return self._inner.budget

    def compact(
        self, view: View, usage: Usage | None, step: int, moment: Moment, signal: Callable[[Signal], None]
    ) -> Compaction | None:
        """See `harness.protocols.Compactor`."""
        announced = False

        def hear(heard: Signal) -> None:
            nonlocal announced
            if isinstance(heard, Waiting) and not announced:
                announced = True
                self._announce(True)
            signal(heard)

        try:
            return self._inner.compact(view, usage, step, moment, hear)
        finally:
            if announced:
                self._announce(False)
