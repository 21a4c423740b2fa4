"""Importer of Cline: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.recordings.reading import read_recording
from tests.recordings.outline import fixture, outline, squeezes


def test_cache_reads_are_subtracted_from_the_input():
    recording = fixture("cline.json")
    assert outline(recording) == [
        "0 system: You sail boats.",
        "0 user:",
        "  Sail to the island.",
        "  file map.txt\nisland: east",
        "1 assistant 100+200+0>20:",
        "  East.",
        '  x1 steer {"to": "east"}',
        '  x2 look {"at": "sea"}',
        "1 tool: x1 steer -> steered",
        '1 tool: x2 look -> {"query": "sea", "result": "calm", "success": true}',
        "2 assistant 350+0+0>5: We arrived.",
    ]
    assert (recording.session_id, recording.models) == ("session-boat", ("boat/one",))
    assert recording.cost_usd == pytest.approx(1.2)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == []


def test_a_bare_list_of_messages_is_read(tmp_path):
    messages = [{"role": "user", "content": "Sail."}, {"role": "assistant", "content": [{"type": "text", "text": "East."}]}]
    (tmp_path / "bare.json").write_text(json.dumps(messages))
    assert outline(read_recording(tmp_path / "bare.json")) == ["0 user: Sail.", "1 assistant: East."]
