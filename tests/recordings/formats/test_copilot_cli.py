"""Importer of Copilot CLI: every value of the made-up fixture, and each pitfall of the format."""

import json

from harness.recordings.reading import read_recording, read_recordings
from tests.recordings.outline import FIXTURES, SMALL_RECORDINGS, join_caveats, needs_small_recordings, outline, squeezes

EVENTS = [json.loads(line) for line in FIXTURES["copilot-cli.jsonl"].read_text().splitlines()]


def read_events(folder, *events):
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    return read_recording(folder / "events.jsonl")


def test_sub_agents_rewinds_and_compactions_are_read():
    main, explorer = read_recordings(FIXTURES["copilot-cli.jsonl"])
    assert outline(main) == [
        "0 system: You steer a ferry.",
        "0 user: <now>dawn</now> Cross the river.",
        "1 assistant:",
        "  ~Fog ahead.",
        "  I ask a scout.",
        '  t1 scout {"bank": "north"}',
        "  t2 horn {}",
        "1 tool: t1 scout -> clear",
        "1 tool: t2 horn error -> no steam",
        "2 assistant: We cross.",
        "3 user: Slower.",
        "3 assistant: Half steam.",
    ]
    assert (main.session_id, main.models, main.cost_usd) == ("session-ferry", ("model-ferry",), None)
    assert squeezes(main) == [("compaction", 6, "auto", 900, "Summary: the ferry crosses.")]
    assert (main.compactions[0].tokens_after, main.compactions[0].seconds) == (200, 2.5)
    [call] = main.left_out_calls
    assert call.usage is not None
    assert (call.reason, call.usage.input_tokens, call.usage.cache_read_tokens) == ("compaction", 100, 800)
    caveats = join_caveats(main)
    assert "a rewind removed 2 messages, whose cost counts" in caveats
    assert "input 3,000, output 90, cacheRead 1,200, cacheWrite 0; no call has its own usage" in caveats
    assert outline(explorer) == ["0 user: Look at the north bank.", "1 assistant: Clear water."]
    assert (explorer.session_id, explorer.parent_id) == ("session-ferry.agent-1", "session-ferry")
    assert [(link.session_id, link.call_id) for link in main.sub_agents] == [("session-ferry.agent-1", "t1")]


def test_a_system_prompt_that_is_repeated_stands_once(tmp_path):
    recording = read_events(tmp_path, *EVENTS[:3], EVENTS[1], EVENTS[11])
    assert [item.message.role for item in recording.messages] == ["system", "user", "assistant"]


def test_a_compaction_that_failed_is_none(tmp_path):
    failed = {**EVENTS[13], "data": {"success": False, "error": "overloaded"}}
    recording = read_events(tmp_path, *EVENTS[:12], failed)
    assert recording.compactions == ()
    assert "a compaction failed; the context stayed as it was" in join_caveats(recording)


def test_a_context_that_was_cleared_begins_anew(tmp_path):
    cleared = {**EVENTS[13], "type": "session.context_cleared", "data": {"messagesCleared": 6, "initialMessage": "Go on."}}
    recording = read_events(tmp_path, *EVENTS[:12], cleared, EVENTS[17])
    assert squeezes(recording) == [("compaction", 6, "manual", None, "Go on.")]


def test_the_pieces_of_one_answer_are_one_message(tmp_path):
    pieces = [{**EVENTS[11], "data": {"content": text, "apiCallId": "call-1", "chunkCount": 2}} for text in ("We", "cross.")]
    assert outline(read_events(tmp_path, *EVENTS[:3], *pieces))[2:] == ["1 assistant:", "  We", "  cross."]


@needs_small_recordings
def test_the_small_recording_has_its_right_values():
    assert outline(read_recording(SMALL_RECORDINGS / "copilot_events.jsonl")) == ["0 user: hi", "1 assistant: yo"]
