"""Importer of Claude Code: every value of the made-up fixture, and each pitfall of the format."""

import json

from harness.recordings.reading import read_recording
from tests.recordings.outline import FIXTURES, fixture, join_caveats, outline, squeezes


def test_rows_of_one_answer_are_one_message_sub_agents_and_doubles_are_left_out():
    recording = fixture("claude-code.jsonl")
    assert outline(recording) == [
        "0 user: Switch the lamp on.",
        "1 assistant 10+100+50>40:",
        "  ~Where is the switch?",
        "  I look for the switch.",
        '  t1 Read {"path": "lamp.ini"}',
        '  t2 Read {"path": "fuse.ini"}',
        "1 tool: t1 Read -> lamp = off",
        "1 tool: t2 Read -> fuse = \nREDACTED",
        '2 assistant 5+150+50>20: t3 Bash {"command": "lampctl on"}',
        "2 tool: t3 Bash error -> no such lamp",
        "3 user: Try the other one.",
        '3 assistant 7+160+50>25: t4 Bash {"command": "lampctl --all on"}',
        "3 tool: t4 Bash interrupted -> stopped",
        "4 user: (document)",
        '4 assistant 3+20+60>12: t5 Bash {"command": "lampctl status"}',
        "4 tool made up: t5 Bash interrupted -> (no result was recorded)",
    ]
    assert (recording.session_id, recording.models) == ("session-lamp", ("claude-lamp-1",))
    assert recording.cost_usd is None
    assert squeezes(recording) == [
        ("microcompaction", 4, "auto", 900, ""),
        ("compaction", 10, "auto", 1200, "Summary: the lamp is stubborn."),
    ]
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × answer made up by the client (an API error)",
        "1 × document in a message, replaced by a mark",
        "2 × row of a sub-agent (side chain)",
        "1 × row with a repeated uuid",
        "call 't5' has no result; one was made up",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
        "1 message with REDACTED marks, whose text differs from what the model read",
    ]


def test_clearing_and_compacting_say_what_was_cleared_and_kept():
    cleared, compacted = fixture("claude-code.jsonl").compactions
    assert (cleared.cleared, cleared.tokens_saved) == (("t1",), 30)
    assert (compacted.kept_from, compacted.in_place) == (None, False)


def test_a_file_of_a_sub_agent_alone_is_read_as_its_session(tmp_path):
    rows = [json.loads(line) for line in (FIXTURES["claude-code.jsonl"]).read_text().splitlines()]
    (tmp_path / "agent.jsonl").write_text("\n".join(json.dumps(row) for row in rows if row.get("isSidechain")))
    assert outline(read_recording(tmp_path / "agent.jsonl")) == [
        "0 user: You are a sub-agent: count the lamps.",
        "1 assistant 10+100+50>9: Four.",
    ]


def test_a_file_that_begins_in_mid_session_says_so(tmp_path):
    usage = {"cache_read_input_tokens": 120_000, "output_tokens": 3}
    message = {"role": "assistant", "id": "m", "content": "Go on.", "usage": usage}
    row = {"type": "assistant", "sessionId": "s", "uuid": "u", "message": message}
    (tmp_path / "late.jsonl").write_text(json.dumps(row))
    assert "120000 tokens: the file begins in the middle of a session" in join_caveats(read_recording(tmp_path / "late.jsonl"))
