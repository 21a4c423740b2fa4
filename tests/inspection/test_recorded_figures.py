"""Figures of recordings: each mark by its rule, totals apart by mark, and two bills calculated by hand."""

from dataclasses import replace
from typing import Any

import pytest

from harness.conversation.tokens import Measured, Usage
from harness.inspection.recorded_figures import CallFigures, SessionFigures, measure_recording, total_usage
from harness.models.prices import compute_cost_usd
from tests.recordings.outline import fixture

WINDOW_TOKENS = 200_000


def make_call(prompt=1_000, output=50, **rest):
    usage = Usage(input_tokens=Measured(prompt), output_tokens=Measured(output))
    call = CallFigures(model="claude-opus-4-5-20251101", usage=usage, is_reported=True, answer_characters=300)
    return replace(call, **rest)


def make_session(*calls, recorded_cost_usd=None):
    counts: dict[str, Any] = dict.fromkeys(
        [
            *("messages", "logged_messages", "characters", "tool_calls", "results"),
            *("compactions", "clearings", "inferred_compactions", "sub_agents"),
        ],
        0,
    )
    return SessionFigures(
        source="claude-code",
        session_id="s",
        parent_id="",
        started_at_ms=None,
        ended_at_ms=None,
        recorded_cost_usd=recorded_cost_usd,
        calls=calls,
        caveats=(),
        **counts,
    )


def total(*calls, **rest):
    session = make_session(*calls, **rest)
    return total_usage(
        session.calls,
        session.recorded_cost_usd,
        is_in_parent=session.cost_in_parent,
        find_window_tokens=lambda model: WINDOW_TOKENS,
        price_call=compute_cost_usd,
    )


@pytest.mark.parametrize(
    ("call", "mark"),
    [
        (make_call(), "measured"),
        (make_call(output=8), "placeholder"),
        (make_call(output=9), "measured"),
        (make_call(output=8, answer_characters=200), "measured"),
        (make_call(prompt=534_859), "implausible"),
        (make_call(prompt=200_000), "measured"),
        (make_call(is_reported=False), "estimated"),
    ],
)
def test_a_call_is_marked_by_its_rule(call, mark):
    assert call.mark(WINDOW_TOKENS) == mark


def test_totals_show_figures_of_each_mark_apart():
    totals = total(
        make_call(1_000, 50),
        make_call(2_000, 3),
        make_call(534_859, 70),
        make_call(400, 30, is_reported=False),
        make_call(copied=True),
    )
    assert (totals.calls, totals.prompt_tokens, totals.output_tokens) == (4, 3_000, 50)
    assert (totals.placeholder_calls, totals.placeholder_output_tokens) == (1, 3)
    assert (totals.implausible_calls, totals.implausible_prompt_tokens) == (1, 534_859)
    assert (totals.estimated_calls, totals.estimated_prompt_tokens, totals.estimated_output_tokens) == (1, 400, 30)
    assert totals.copied_calls == 1


def test_a_bill_with_writes_for_five_minutes_and_for_an_hour():
    usage = Usage(
        input_tokens=Measured(1_000),
        output_tokens=Measured(2_000),
        cache_read_tokens=Measured(100_000),
        cache_write_tokens=Measured(30_000),
    )
    minutes, hour = (make_call(usage=usage, hour_write_tokens=tokens) for tokens in (0, 30_000))
    # prices of the model in USD per million: 5 input, 25 output, .5 cache reads, 6.25 writes, 10 writes for an hour
    assert total(minutes).cost_usd == pytest.approx(0.005 + 0.05 + 0.05 + 0.1875)
    assert total(hour).cost_usd == pytest.approx(0.005 + 0.05 + 0.05 + 0.3)
    assert total(minutes).cost_source == "priced"


def test_a_bill_that_the_file_gives_is_kept():
    totals = total(make_call(), make_call(), recorded_cost_usd=12.49)
    assert (totals.cost_usd, totals.cost_source) == (12.49, "recorded")
    own = total(make_call(cost_usd=0.25), make_call(cost_usd=0.5), make_call(cost_usd=9.0, copied=True), recorded_cost_usd=9.75)
    assert (own.cost_usd, own.cost_source) == (0.75, "recorded")


def test_a_model_that_nobody_sells_has_no_cost_rather_than_none_at_all():
    totals = total(make_call(), make_call(model="claude-nobody-sells"))
    assert (totals.cost_usd, totals.cost_source, totals.unpriced_models) == (None, "unknown", ("claude-nobody-sells",))


def test_figures_of_a_recording_count_what_its_file_holds():
    figures = measure_recording(fixture("claude-code.jsonl"))
    assert (figures.messages, figures.logged_messages, figures.tool_calls, figures.results) == (12, 13, 5, 4)
    assert (figures.compactions, figures.clearings, figures.sub_agents, len(figures.calls)) == (1, 1, 1, 4)
