"""Agreement of actions less noise: shares by session, intervals over sessions, and what is said."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.view_agreement import HEADS, describe_asking, describe_probe, measure_view_agreement, tabulate_probe
from harness.replay.probe import ANSWER_COLUMNS, Probe

ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), min_size=1, max_size=30)


def make_probe(rows: list[tuple[int, bool, bool]], **changes: object) -> Probe:
    """Return a probe of one setting, given session, agreement and noise of each boundary."""
    values = {"file": "f", "setting": "s", "policy": "p", "used_fallback": False, "same_tool": True, "same_tool_again": True}
    answers = pd.DataFrame(
        [
            {
                **dict.fromkeys(ANSWER_COLUMNS, 0),
                **values,
                "session_id": f"{session}",
                "same_call": same,
                "same_call_again": again,
            }
            for session, same, again in rows
        ],
        columns=list(ANSWER_COLUMNS),
    )
    counts = {"setting": "s", "found": 9, "too_long": 0, "incomplete": 0, "asked": len(rows), "failed": 0, "unasked": 0}
    fields = {
        "answers": answers,
        "counts": pd.DataFrame([counts | {"policy": "p", "drawn": len(rows)}]),
        "model": "m",
        "summarizer": "",
        "hosts": (),
        "calls": 0,
        "known_calls": 0,
        "spent_usd": 0.0,
        "failures": (),
        "stopped": "",
        "sessions": 1,
        "known_tools": 1,
    }
    return Probe(**(fields | changes))


@given(ROWS)
def test_each_session_counts_alike_and_no_interval_has_width_zero(rows):
    (row,) = measure_view_agreement(make_probe(rows)).to_dict("records")
    by_session = [[(same, again) for one, same, again in rows if one == session] for session in {one for one, *_ in rows}]
    shares = np.array([np.mean(pairs, axis=0) for pairs in by_session])
    assert row["sessions"] == len(by_session)
    assert (row["same_call"], row["same_call_again"]) == (sum(same for _, same, _ in rows), sum(again for *_, again in rows))
    assert row["same_call_share"] == pytest.approx(shares[:, 0].mean())
    assert row["same_call_change"] == pytest.approx((shares[:, 0] - shares[:, 1]).mean())
    assert -1 <= row["same_call_low"] <= row["same_call_change"] <= row["same_call_high"] <= 1
    assert row["same_call_high"] - row["same_call_low"] > 0.05
    assert row["same_tool_change"] == 0


@given(ROWS)
def test_agreement_equal_to_the_noise_is_no_change(rows):
    (row,) = measure_view_agreement(make_probe([(session, same, same) for session, same, _ in rows])).to_dict("records")
    assert row["same_call_change"] == 0
    assert row["same_call_low"] < 0 < row["same_call_high"]


def test_more_boundaries_of_one_session_do_not_narrow_the_interval():
    few, many = (measure_view_agreement(make_probe([(0, False, True), (1, True, True)] * times)) for times in (1, 50))
    assert few["same_call_low"].equals(many["same_call_low"])


def test_a_setting_without_answers_has_no_share():
    probe = make_probe([])
    assert describe_probe(probe) == ["s: no boundary was asked."]
    assert tabulate_probe(probe) == [("s", "0", "0", *["–"] * 6)]
    assert len(HEADS) == 9


def test_everything_left_out_is_said():
    counts = {"setting": "s", "found": 9, "too_long": 2, "incomplete": 1, "asked": 1, "failed": 3, "unasked": 4}
    probe = make_probe(
        [(0, True, True)],
        counts=pd.DataFrame([counts]),
        failures=(("the provider failed", 3),),
        stopped="the next call could cost more than what is left of $1.00",
        known_tools=0,
        hosts=("the host api.openai.com",),
        calls=7,
        spent_usd=0.5,
    )
    sentences = " ".join(describe_asking(probe))
    assert "Asked m 7 times for $0.50. Texts of sessions went to the host api.openai.com for the probe." in sentences
    assert "in 1 of 1 session the recording has no descriptions" in sentences
    assert "2 whose full view does not fit the model's window, 1 with a tool call without its result" in sentences
    assert "3 failed (the provider failed: 3), 4 not asked." in sentences
    assert "The probe stopped: the next call could cost more than what is left of $1.00." in sentences
