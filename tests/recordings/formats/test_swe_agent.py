"""Importer of SWE-agent: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.recordings.reading import read_recording
from tests.recordings.outline import fixture, outline, squeezes


def test_actions_in_text_become_calls_a_demonstration_is_no_step():
    recording = fixture("swe-agent-text.traj")
    assert outline(recording) == [
        "0 system: You mend doors.",
        "- user: A demonstration follows.",
        "- assistant: I knock.\n```\nknock\n```",
        "- user: come in",
        "0 user: The door squeaks.",
        "1 assistant:",
        "  I look.",
        '  call-5 bash {"command": "ls\\n"}',
        "1 tool: call-5 bash -> door",
        "2 assistant: No idea.",
        "3 user: Give exactly one command.",
        "3 assistant:",
        "  Done.",
        '  call-9 bash {"command": "submit"}',
        "3 tool made up: call-9 bash interrupted -> (no result was recorded)",
    ]
    assert (recording.session_id, recording.models) == ("", ())
    assert recording.cost_usd == pytest.approx(0.5)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "requests may have been shorter: history processors shorten the history for each query",
        "call 'call-9' has no result; one was made up",
    ]


def test_repeated_call_ids_are_distinguished():
    recording = fixture("swe-agent-calls.traj")
    assert outline(recording) == [
        "0 system: You mend windows.",
        "0 user: The window is stuck.",
        "1 assistant:",
        "  I push.",
        '  w1 bash {"command": "push"}',
        "1 tool: w1 bash -> stuck",
        "2 assistant:",
        "  I push again.",
        '  w1-2 bash {"command": "push -f"}',
        "2 tool: w1-2 bash -> open",
    ]
    assert (recording.session_id, recording.models) == ("", ())
    assert recording.cost_usd is None
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "requests may have been shorter: history processors shorten the history for each query",
        "call id 'w1' is used again; read as 'w1-2'",
    ]


def test_a_demonstration_file_has_nothing_but_its_history(tmp_path):
    history = [{"role": "system", "content": "You mend."}, {"role": "user", "content": "Mend it."}]
    (tmp_path / "demo.traj").write_text(json.dumps({"history": history}))
    recording = read_recording(tmp_path / "demo.traj")
    assert (recording.source, len(recording.messages)) == ("swe-agent", 2)


def test_thinking_beside_an_answer_is_its_reasoning(tmp_path):
    thought = [{"type": "thinking", "thinking": "Where is it torn?", "signature": "x"}]
    answer = {"role": "assistant", "content": "I look.", "thinking_blocks": thought}
    (tmp_path / "a.traj").write_text(json.dumps({"history": [{"role": "user", "content": "Mend it."}, answer]}))
    assert read_recording(tmp_path / "a.traj").messages[1].message.reasoning == "Where is it torn?"
