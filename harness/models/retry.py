"""When a failed call is worth another try, and how long to wait before it (S3.12).

Apart from any provider, so that clock and chance can be passed in and a test of two minutes of waiting takes none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from time import sleep
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from harness.errors import ProviderFailed, RateLimited
from harness.events import Waiting
from harness.protocols import ignore

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Try again after rate limits and faults of the provider; what would only fail again is raised at once.

    Source: S3.12.
    """

    retries: int = 3
    """Tries after the first; 0 = none."""
    first_seconds: float = 2.0
    """Wait before the first retry; doubles each time."""
    longest_seconds: float = 60.0
    jitter_seconds: float = 1.0
    """At most this much is added to a wait, so that many trials do not come back at once."""
    patience_seconds: float = 600.0
    """A provider that asks to wait longer than this is not waited for."""
    sleep: Callable[[float], None] = sleep
    draw: Callable[[], float] = SystemRandom().random
    """Uniform in [0, 1)."""

    def run(self, attempt: Callable[[], T], on_wait: Callable[[Waiting], None] = ignore) -> T:
        """The first result of `attempt`, telling the listener before each wait.

        Raises:
            ModelError: that of the last try.
        """

        def report_wait(state: RetryCallState) -> None:
            what = f"retry {state.attempt_number} of {self.retries}: {_find_error(state)}"
            on_wait(Waiting(what=what, seconds=state.upcoming_sleep))

        return Retrying(
            stop=stop_after_attempt(self.retries + 1),
            retry=retry_if_exception(self.should_retry),
            wait=lambda state: self.compute_wait_seconds(state.attempt_number, _find_error(state)),
            before_sleep=report_wait,
            sleep=self.sleep,
            reraise=True,
        )(attempt)

    def should_retry(self, error: BaseException) -> bool:
        """Whether another try may succeed."""
        if isinstance(error, RateLimited):
            return (error.retry_after_seconds or 0.0) <= self.patience_seconds
        return isinstance(error, ProviderFailed)

    def compute_wait_seconds(self, failed_tries: int, error: BaseException | None) -> float:
        """How long to wait after so many failed tries: what the provider asked for, else a doubling wait; plus jitter."""
        asked = error.retry_after_seconds if isinstance(error, RateLimited) else None
        doubled = min(self.longest_seconds, self.first_seconds * 2.0 ** (failed_tries - 1))
        return (doubled if asked is None else asked) + self.jitter_seconds * self.draw()


def _find_error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
