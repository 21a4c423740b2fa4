"""Importer of OpenHands: every value of the made-up fixture, and each pitfall of the format."""

import pytest

from harness.errors import UsageError
from harness.recordings.reading import read_recording, read_recordings
from tests.recordings.outline import FIXTURES, fixture, outline, squeezes


def test_actions_that_share_a_response_are_one_answer():
    recording = fixture("openhands.json")
    assert outline(recording) == [
        "0 system: You lift boxes.",
        "0 user: Lift the boxes.",
        "1 assistant 150+50+0>30:",
        "  I lift both.",
        '  o1 bash {"command": "lift left"}',
        '  o2 bash {"command": "lift right"}',
        "1 tool: o1 bash -> left lifted",
        "1 tool: o2 bash error -> too heavy",
        "2 assistant:",
        "  A lever.",
        '  event-10 run_ipython {"code": "lever()"}',
        "2 tool: event-10 run_ipython -> lifted",
        "3 user: Say something.",
        "3 assistant: Both are up.",
        '4 assistant 300+0+0>9: o3 bash {"command": "finish"}',
        "4 tool made up: o3 bash interrupted -> (no result was recorded)",
    ]
    assert (recording.session_id, recording.models) == ("", ("hand-1",))
    assert recording.cost_usd is None
    assert squeezes(recording) == [
        ("compaction", 5, "auto", None, "The left box is up."),
    ]
    assert [caveat.text for caveat in recording.caveats] == [
        "the file, a bare list, names no agent; it was read as openhands by its shape",
        "1 × action 'recall', whose text is not read",
        "call 'o3' has no result; one was made up",
    ]


def test_each_row_of_an_output_file_is_a_session_also_with_pairs_of_action_and_observation():
    first, second = read_recordings(FIXTURES["openhands-output.jsonl"])
    assert outline(first) == outline(fixture("openhands.json"))
    assert first.session_id == "box-1"
    assert first.cost_usd == pytest.approx(0.4)
    assert outline(second) == [
        "0 user: Carry.",
        "1 assistant:",
        "  On my way.",
        '  event-2 run {"command": "carry"}',
        "1 tool: event-2 run -> carried",
    ]


def test_a_file_of_several_sessions_is_refused_where_one_is_asked_for():
    with pytest.raises(UsageError, match="2 sessions in one file; use read_recordings"):
        read_recording(FIXTURES["openhands-output.jsonl"])
