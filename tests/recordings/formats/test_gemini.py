"""Importer of Gemini CLI: every value of the made-up fixture, and each pitfall of the format."""

import json

from harness.recordings.reading import read_recording
from tests.recordings.outline import SMALL_RECORDINGS, fixture, join_caveats, needs_small_recordings, outline, squeezes


def test_contents_get_generated_ids_and_an_orphan_is_dropped():
    recording = fixture("gemini-contents.json")
    assert outline(recording) == [
        "0 user: Context: a kitchen.",
        "0 user: <state_snapshot>\nThe oven is hot.\n</state_snapshot>",
        "1 assistant: Understood.",
        "2 user: Bake.",
        "2 assistant:",
        "  ~Bread first.",
        '  g1 bake {"what": "bread"}',
        '  g2 bake {"what": "cake"}',
        "2 tool: g1 bake -> <tool_output_masked>\nbread",
        "2 tool: g2 bake error -> burnt",
        "3 assistant:",
        "  call-8-0 taste {}",
        "  call-8-1 taste {}",
        "3 tool: call-8-0 taste -> salty",
        '3 tool: call-8-1 taste -> {"crumbs": 3}',
        "4 assistant: Good bread.",
    ]
    assert (recording.session_id, recording.models) == ("", ())
    assert recording.cost_usd is None
    assert squeezes(recording) == [
        ("compaction", 1, "unknown", None, "<state_snapshot>\nThe oven is hot.\n</state_snapshot>"),
    ]
    assert [caveat.text for caveat in recording.caveats] == [
        "the file, a bare list, names no agent; it was read as gemini by its shape",
        "1 × part with inlineData, left out",
        "1 × result that the agent had masked before the file was written",
        "result of 'g9' dropped: its call is not in the file",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]


def test_a_session_file_whose_calls_contain_their_results_is_read():
    recording = fixture("gemini-session.json")
    assert outline(recording) == [
        "0 user: Light the oven.",
        "1 assistant 40+60+0>14:",
        "  ~Gas: turn it on",
        "  I light it.",
        '  v1 light {"knob": 1}',
        "  v2 fan {}",
        "1 tool: v1 light -> warm",
        "1 tool made up: v2 fan interrupted -> (no result was recorded)",
        "2 assistant: Lit.",
    ]
    assert (recording.session_id, recording.models) == ("session-oven", ("oven-1",))
    assert recording.cost_usd is None
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × message of type 'info'",
        "call 'v2' has no result; one was made up",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]


def test_a_snapshot_replaces_messages_that_the_file_lacks():
    (event,) = fixture("gemini-contents.json").compactions
    assert event.in_place


def test_a_session_of_one_message_a_row_is_read(tmp_path):
    rows = [
        {"sessionId": "s", "projectHash": "h"},
        {"id": "1", "type": "user", "content": [{"text": "Light it."}]},
        {"id": "2", "type": "gemini", "content": "draft"},
        {"id": "2", "type": "gemini", "content": "Lit."},
        {"id": "3", "type": "user", "content": "Put it out."},
        {"$rewindTo": "3"},
        {"id": "4", "type": "user", "content": "Leave it on."},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert outline(read_recording(tmp_path / "rows.jsonl")) == ["0 user: Light it.", "1 assistant: Lit.", "1 user: Leave it on."]


def test_a_message_that_was_rewound_still_costs(tmp_path):
    answer = {"id": "2", "type": "gemini", "content": "Lit.", "tokens": {"input": 9, "output": 3}, "model": "oven-1"}
    rows = [
        {"sessionId": "s", "projectHash": "h"},
        {"id": "1", "type": "user", "content": "Light it.", "timestamp": "2026-05-17T01:06:02Z"},
        answer,
        {**answer, "content": "Lit again.", "tokens": {"input": 9, "output": 5}},
        {"$set": {"lastUpdated": "2026-05-17T01:06:03Z"}},
        {"$rewindTo": "2"},
        {"id": "3", "type": "user", "content": "Again."},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recording = read_recording(tmp_path / "rows.jsonl")
    assert outline(recording) == ["0 user: Light it.", "0 user: Again."]
    assert recording.messages[0].at_ms == 1_778_979_962_000
    assert [(call.reason, call.usage and call.usage.output_tokens) for call in recording.left_out_calls] == [("rewound", 5)]


def test_messages_that_the_agent_replaced_leave_the_session(tmp_path):
    rows = [
        {"sessionId": "s", "projectHash": "h"},
        {"id": "1", "type": "user", "content": "Light it."},
        {"id": "2", "type": "gemini", "content": "Lit."},
        {"$set": {"messages": [{"id": "9", "type": "user", "content": "The oven is hot."}]}},
        {"id": "3", "type": "gemini", "content": "Good."},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recording = read_recording(tmp_path / "rows.jsonl")
    assert outline(recording) == ["0 user: The oven is hot.", "1 assistant: Good."]
    assert "2 messages left the context" in join_caveats(recording)


@needs_small_recordings
def test_the_small_recording_counts_each_answer_once():
    recording = read_recording(SMALL_RECORDINGS / "gemini2026.jsonl")
    assert [item.message.text for item in recording.messages] == ["hi", "again"]
    (call,) = recording.left_out_calls
    assert call.usage is not None
    assert (call.usage.prompt_tokens, call.usage.output_tokens, call.usage.reasoning_tokens) == (9, 5, 1)
