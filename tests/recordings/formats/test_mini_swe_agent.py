"""Importer of mini-swe-agent: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.recordings.reading import read_recording
from tests.recordings.outline import fixture, outline, squeezes


def test_commands_in_text_become_calls():
    recording = fixture("mini-swe-agent-1.traj.json")
    assert outline(recording) == [
        "0 system: You mend shoes.",
        "0 user: The sole is loose.",
        "1 assistant 50+0+0>10:",
        "  THOUGHT: glue it.",
        '  call-2 bash {"command": "glue sole"}',
        "1 tool: call-2 bash -> <returncode>0</returncode>\n<output>sticky</output>",
        "2 assistant 70+0+0>5: Done, I think.",
        "3 user: Give exactly one command.",
        '3 assistant 90+0+0>6: call-6 bash {"command": "submit"}',
        "3 tool made up: call-6 bash interrupted -> (no result was recorded)",
    ]
    assert (recording.session_id, recording.models) == ("", ("mini-1",))
    assert recording.cost_usd == pytest.approx(0.1)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × message of role 'exit' (how the run ended)",
        "call 'call-6' has no result; one was made up",
    ]


def test_tool_calls_are_read_the_exit_message_is_none():
    recording = fixture("mini-swe-agent-2.traj.json")
    assert outline(recording) == [
        "0 system: You mend hats.",
        "0 user: The brim is bent.",
        "1 assistant 60+40+0>20:",
        '  h1 bash {"command": "steam"}',
        '  h2 bash {"command": "press"}',
        "1 tool: h1 bash -> hot",
        "1 tool: h2 bash error -> flat no",
        "2 assistant 150+0+0>8:",
        "  I submit.",
        '  h3 bash {"command": "submit"}',
        "2 tool made up: h3 bash interrupted -> (no result was recorded)",
    ]
    assert (recording.session_id, recording.models) == ("hat-1", ("shop/mini-2",))
    assert recording.cost_usd == pytest.approx(0.2)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × message of role 'exit' (how the run ended)",
        "call 'h3' has no result; one was made up",
    ]


def test_a_bare_list_that_begins_with_a_system_message_is_a_first_version(tmp_path):
    messages = [
        {"role": "system", "content": "You mend bags."},
        {"role": "user", "content": "A hole."},
        {"role": "assistant", "content": "I sew.\n```bash\nsew\n```"},
        {"role": "user", "content": "sewn"},
    ]
    (tmp_path / "bare.json").write_text(json.dumps(messages))
    recording = read_recording(tmp_path / "bare.json")
    assert recording.source == "mini-swe-agent"
    assert outline(recording)[-1] == "1 tool: call-2 bash -> sewn"
