"""Cost of a recorded session: as its file gives it, or at the list prices of its models."""

from collections.abc import Iterable
from functools import cache

from harness.inspection.recorded_figures import (
    CallFigures,
    SessionFigures,
    UsageTotals,
    count_message_characters,
    list_calls,
    total_usage,
)
from harness.models.prices import compute_cost_usd
from harness.models.registry import look_up_window
from harness.recordings.recording import RecordedCost, Recording


def measure_cost(recording: Recording) -> RecordedCost:
    """Return the cost of a recorded session, without its sub-agents."""
    calls = list_calls(recording, count_message_characters(recording))
    totals = _total_calls(calls, recording.cost_usd, is_in_parent=recording.cost_in_parent)
    return RecordedCost(totals.cost_usd, totals.cost_source)


def total_session(session: SessionFigures) -> UsageTotals:
    """Return the totals over the own calls of a recorded session."""
    return _total_calls(session.calls, session.recorded_cost_usd, is_in_parent=session.cost_in_parent)


def _total_calls(calls: Iterable[CallFigures], recorded_cost_usd: float | None, *, is_in_parent: bool) -> UsageTotals:
    return total_usage(
        calls,
        recorded_cost_usd,
        is_in_parent=is_in_parent,
        find_window_tokens=_find_window_tokens,
        price_call=compute_cost_usd,
    )


@cache
def _find_window_tokens(model: str) -> int | None:
    return look_up_window(model).tokens or None
