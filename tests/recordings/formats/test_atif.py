"""Importer of ATIF: every value of the made-up fixture, and each pitfall of the format."""

import pytest

from tests.recordings.outline import fixture, outline, squeezes


def test_observations_without_a_call_id_go_to_the_calls_in_order():
    recording = fixture("atif.json")
    assert outline(recording) == [
        "0 system: You fly kites.",
        "0 user: Fly it high.",
        "1 assistant 60+30+0>11:",
        "  ~Wind from the west.",
        "  I run.",
        '  f1 run {"steps": 9}',
        "  f2 pull {}",
        "1 tool: f1 run -> fast",
        "1 tool: f2 pull -> taut",
        "2 assistant 120+0+0>4:",
        "  I look up.",
        "  f3 look {}",
        "2 tool: f3 look -> high",
        "3 assistant: It flies.",
        "3 user: Handed over.",
    ]
    assert (recording.session_id, recording.models) == ("session-kite", ("wind-1", "wind-2"))
    assert recording.cost_usd == pytest.approx(0.02)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × session of a sub-agent or summarizer in another file",
    ]
