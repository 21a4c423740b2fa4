"""Rule for repeating failed model calls. Waiting and random numbers are functions passed in, so that tests need not wait."""

from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from harness.conversation.events import Waiting
from harness.errors import ProviderFailed, RateLimited
from harness.protocols import ignore

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Rule for how often and after which waits a model call is repeated after rate limits and provider faults.

    Errors that a retry cannot cure are raised at once.
    """

    retries: int = 3
    """Maximum number of times that a call is repeated after its first attempt; 0 means that it is not repeated."""
    first_seconds: float = 2.0
    """Time in seconds to wait before the first retry; each further wait is twice as long."""
    longest_seconds: float = 60.0
    """Maximum time in seconds to wait before a retry, unless the provider asks for a longer wait."""
    jitter_seconds: float = 1.0
    """Maximum random time in seconds added to a wait, which prevents many trials from retrying at the same time."""
    patience_seconds: float = 600.0
    """Longest wait in seconds that is accepted from a provider; if a provider asks for a longer wait, the call fails."""
    sleep: Callable[[float], None] = sleep
    """Function that waits for a number of seconds before a retry."""
    draw: Callable[[], float] = SystemRandom().random
    """Function that returns a random number, at least 0 and below 1, for the random part of a wait."""

    def run(self, attempt: Callable[[], T], on_wait: Callable[[Waiting], None] = ignore) -> T:
        """Call `attempt` until it succeeds or no retry is left, and return its result.

        The function `on_wait` is called before each wait.

        Raises:
            ModelError: The error of the last attempt.
        """
        from tenacity import Retrying, retry_if_exception, stop_after_attempt  # noqa: PLC0415  (takes a tenth of a second)

        def report_wait(state: "RetryCallState") -> None:
            text = f"retry {state.attempt_number} of {self.retries}: {_find_error(state)}"
            on_wait(Waiting(what=text, seconds=state.upcoming_sleep))

        return Retrying(
            stop=stop_after_attempt(self.retries + 1),
            retry=retry_if_exception(self.should_retry),
            wait=lambda state: self.compute_wait_seconds(state.attempt_number, _find_error(state)),
            before_sleep=report_wait,
            sleep=self.sleep,
            reraise=True,
        )(attempt)

    def should_retry(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error."""
        if isinstance(error, RateLimited):
            return (error.retry_after_seconds or 0.0) <= self.patience_seconds
        return isinstance(error, ProviderFailed)

    def compute_wait_seconds(self, failed_tries: int, error: BaseException | None) -> float:
        """Return the time in seconds to wait after a number of failed attempts.

        A wait that the provider asks for has priority; otherwise the wait doubles with each attempt. Jitter is added to both.
        """
        requested = error.retry_after_seconds if isinstance(error, RateLimited) else None
        doubled = min(self.longest_seconds, self.first_seconds * 2.0 ** (failed_tries - 1))
        return (doubled if requested is None else requested) + self.jitter_seconds * self.draw()


def _find_error(state: "RetryCallState") -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
