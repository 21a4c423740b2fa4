"""Importer of Claude Agent SDK: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.recordings.reading import read_recording, read_recordings
from tests.recordings.outline import FIXTURES, fixture, join_caveats, outline, squeezes


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
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]


def test_messages_of_a_sub_agent_are_a_session_of_its_own():
    main, child = read_recordings(FIXTURES["claude-sdk.jsonl"])
    assert outline(child) == ["1 assistant 10+100+50>3: aside"]
    assert (child.session_id, child.parent_id) == ("session-kettle.b1", "session-kettle")
    assert [(link.session_id, link.call_id) for link in main.sub_agents] == [("session-kettle.b1", "b1")]


def test_costs_of_several_runs_are_added_up_and_a_repeated_result_counts_once(tmp_path):
    def result(name, cost):
        return {"type": "result", "subtype": "success", "uuid": name, "num_turns": 1, "total_cost_usd": cost, "result": "Done."}

    answer = {"type": "assistant", "message": {"id": "k", "role": "assistant", "content": [{"type": "text", "text": "Done."}]}}
    rows = [answer, result("one", 8.25), answer, result("two", 4.5), result("two", 4.5)]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recording = read_recording(tmp_path / "log.jsonl")
    assert recording.cost_usd == 12.75
    assert "the cost is the sum over 2 runs" in join_caveats(recording)
