"""Importer of Claude Agent SDK: every value of the made-up fixture, and each pitfall of the format."""

import pytest

from tests.recordings.outline import fixture, outline, squeezes


def test_a_log_without_its_first_prompt_is_read_its_summary_is_known_by_its_first_words():
    recording = fixture("claude-sdk.jsonl")
    assert outline(recording) == [
        "1 assistant 10+0+50>9:",
        "  I boil water.",
        '  b1 Bash {"command": "boil"}',
        "1 tool: b1 Bash -> boiling",
        "2 assistant 10+100+50>6: Tea is ready.",
    ]
    assert (recording.session_id, recording.models) == ("session-kettle", ("claude-kettle-1",))
    assert recording.cost_usd == pytest.approx(0.25)
    assert squeezes(recording) == [
        ("compaction", 2, "manual", 777, "This session is being continued from a previous conversation. Water was boiled."),
    ]
    assert [caveat.text for caveat in recording.caveats] == [
        "The first user prompt is not in this log.",
        "1 × row of a sub-agent",
        "1 × row of type 'stream_event'",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]
