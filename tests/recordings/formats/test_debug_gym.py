"""Importer of debug-gym: every value of the made-up fixture, and each pitfall of the format."""

import json

from harness.recordings.reading import read_recording
from tests.recordings.outline import FIXTURES, fixture, join_caveats, outline, squeezes


def test_steps_become_calls_and_results():
    recording = fixture("debug-gym.jsonl")
    assert outline(recording) == [
        "0 system: You find bugs.",
        "0 user: 1 test fails",
        "1 assistant 40+0+0>6:",
        "  I count legs.",
        '  d1 view {"path": "ant.py"}',
        "1 tool: d1 view -> legs = 5",
        '2 assistant: call-2 action {"text": "```rewrite legs = 6```"}',
        "2 tool: call-2 action -> rewritten",
        "3 assistant 70+0+0>2: d1-2 eval {}",
        "3 tool: d1-2 eval -> all pass",
    ]
    assert (recording.session_id, recording.models) == ("ant-1", ("lens-1",))
    assert recording.cost_usd is None
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "the agent saw only its last 2 steps: the recorded usage is that of this window",
        "call id 'd1' is used again; read as 'd1-2'",
    ]


def test_a_system_prompt_in_the_role_of_a_user_is_still_one(tmp_path):
    log = json.loads((FIXTURES["debug-gym.jsonl"]).read_text())
    log["log"][1]["prompt_response_pairs"][0]["prompt"][0]["role"] = "user"
    (tmp_path / "log.jsonl").write_text(json.dumps(log))
    recording = read_recording(tmp_path / "log.jsonl")
    assert outline(recording) == outline(fixture("debug-gym.jsonl"))
    assert "the system prompt was sent in the role 'user'" in join_caveats(recording)
