"""Retries (S3.12): errors that are retried, the waits before retries, and the calls of the listener."""

import pytest

from harness.conversation.events import Waiting
from harness.errors import ContextOverflow, ProviderFailed, RateLimited, RequestRefused
from harness.models.retry import Retry

FAILED = ProviderFailed("m", 500, "oops")


def run(*outcomes, **fields):
    """Run a retry over these outcomes; return its result, the waits and the calls of the listener."""
    slept: list[float] = []
    heard: list[Waiting] = []
    left = list(outcomes)

    def attempt():
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    retry = Retry(sleep=slept.append, **{"draw": lambda: 0.0, **fields})
    try:
        result = retry.run(attempt, heard.append)
    except (ProviderFailed, RateLimited, RequestRefused, ContextOverflow) as error:
        result = error
    return result, slept, heard, len(left)


def test_waits_double_until_the_retries_are_used_up_and_the_last_error_comes_out():
    result, slept, _, left = run(FAILED, FAILED, FAILED, FAILED, "never reached")
    assert result is FAILED
    assert slept == [2, 4, 8]
    assert left == 1


def test_waits_stop_growing_at_a_minute():
    _, slept, _, _ = run(*[FAILED] * 8, retries=7)
    assert slept == [2, 4, 8, 16, 32, 60, 60]


def test_jitter_adds_up_to_a_second():
    _, slept, _, _ = run(FAILED, "ok", draw=lambda: 0.75)
    assert slept == [2.75]


def test_the_wait_that_the_provider_asks_for_is_taken_in_place_of_ours():
    result, slept, _, _ = run(RateLimited("m", 17.0), RateLimited("m"), "ok")
    assert result == "ok"
    assert slept == [17.0, 4.0]


def test_a_provider_that_asks_for_an_hour_is_not_waited_for():
    result, slept, _, left = run(RateLimited("m", 3600.0), "never reached")
    assert isinstance(result, RateLimited)
    assert (slept, left) == ([], 1)


@pytest.mark.parametrize("error", [RequestRefused("m", 401, "key"), ContextOverflow("m", 10, 5)])
def test_errors_that_would_occur_again_are_not_retried(error):
    result, slept, heard, left = run(error, "never reached")
    assert result is error
    assert (slept, heard, left) == ([], [], 1)


def test_the_listener_hears_of_each_wait_with_its_reason_and_length():
    _, _, heard, _ = run(FAILED, RateLimited("m", 5.0), "ok")
    assert [round(signal.seconds) for signal in heard] == [2, 5]
    assert heard[0].what.startswith("retry 1 of 3: the provider of 'm' failed (500)")
    assert "rate limited" in heard[1].what


def test_no_retries_means_one_try():
    result, slept, _, left = run(FAILED, "never reached", retries=0)
    assert result is FAILED
    assert (slept, left) == ([], 1)


def test_an_error_of_the_caller_passes_at_once():
    with pytest.raises(KeyError):
        run(KeyError("a bug"), "never reached")
