"""Importer of moatless-tools: every value of the made-up fixture, and each pitfall of the format."""

import pytest

from tests.recordings.outline import fixture, outline, squeezes


def test_the_deepest_path_is_read_results_as_the_next_request_shows_them():
    recording = fixture("moatless.json")
    assert outline(recording) == [
        "0 system: You heal trees.",
        "0 user: The tree is ill.",
        "1 assistant 10+0+6>4:",
        "  I look.",
        '  n1 look {"at": "leaf"}',
        "1 tool: n1 look -> shown: brown leaf",
        "2 assistant 20+6+0>5:",
        "  I water.",
        '  n2 water {"how": "rain"}',
        "2 tool: n2 water -> it drinks",
        '3 assistant: node-4 Finish {"note": "wait"}',
        "3 tool made up: node-4 Finish interrupted -> (no result was recorded)",
    ]
    assert (recording.session_id, recording.models) == ("tree-1", ("branch-1",))
    assert recording.cost_usd == pytest.approx(0.56)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 of 5 nodes are not on the deepest path and were left out",
        "call 'node-4' has no result; one was made up",
    ]
