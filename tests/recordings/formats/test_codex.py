"""Importer of Codex CLI: every value of the made-up fixture, and each pitfall of the format."""

import json

from harness.conversation.messages import user
from harness.recordings.reading import read_recording
from tests.recordings.outline import SMALL_RECORDINGS, fixture, join_caveats, needs_small_recordings, outline, squeezes


def test_items_are_grouped_into_answers_and_token_counts_count_once():
    recording = fixture("codex.jsonl")
    assert outline(recording) == [
        "0 system: You mend clocks.",
        "0 user: Work in /clock only.",
        "0 user: The clock is slow.",
        "1 assistant 100+20+0>30:",
        "  ~Look inside.",
        '  c1 shell {"command": ["open", "clock"]}',
        '  c2 apply_patch {"input": "*** turn the screw"}',
        "1 tool: c1 shell error -> a spring",
        "1 tool: c2 apply_patch -> turned",
        "2 assistant 80+0+0>7: It runs.",
    ]
    assert (recording.session_id, recording.models) == ("session-clock", ("codex-hand-1",))
    assert recording.cost_usd is None
    assert squeezes(recording) == [
        ("compaction", 6, "unknown", 150, "The screw is turned."),
    ]
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × item of type 'web_search_call'",
        "1 × reasoning without text (encrypted)",
        "1 × session data of a parent (the session is a fork)",
    ]


def test_the_old_form_is_read():
    recording = fixture("codex-old.jsonl")
    assert outline(recording) == [
        "0 user: What time is it?",
        '1 assistant: s1 shell {"command":["sun"]}',
        "1 tool: s1 shell -> noon",
        "2 assistant: Noon.",
    ]
    assert (recording.session_id, recording.models) == ("session-sundial", ())
    assert recording.cost_usd is None
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "1 × reasoning without text (encrypted)",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]


def row(kind, payload, second=0):
    return {"timestamp": f"2026-05-01T00:00:{second:02}Z", "type": kind, "payload": payload}


def item(kind, text="", second=0, **rest):
    """Return the row of a message, given a role, or of another item, given its type."""
    if kind in {"user", "assistant"}:
        block = "output_text" if kind == "assistant" else "input_text"
        rest = {"type": "message", "role": kind, "content": [{"type": block, "text": text}]}
        return row("response_item", rest, second)
    return row("response_item", {"type": kind, **rest}, second)


def count(tokens, output, total, second=0):
    usage = {"input_tokens": tokens, "cached_input_tokens": 20, "output_tokens": output}
    info = {"last_token_usage": usage, "total_token_usage": {"total_tokens": total}}
    return row("event_msg", {"type": "token_count", "info": info}, second)


def record(response, tokens, output):
    usage = {"input_tokens": tokens, "cached_input_tokens": 20, "cache_write_input_tokens": 30, "output_tokens": output}
    return row("token_usage_record", {"response_id": response, "usage": usage})


META = row("session_meta", {"id": "clock", "base_instructions": {"text": "You mend clocks."}})
CALL = item("function_call", call_id="c1", name="shell", arguments="{}")
OUTPUT = item("function_call_output", call_id="c1", output="ok")


def read_rows(folder, *rows):
    (folder / "rollout.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return read_recording(folder / "rollout.jsonl")


def list_outputs(recording):
    return [item.usage and item.usage.output_tokens for item in recording.messages if item.message.role == "assistant"]


def test_token_counts_belong_to_the_answer_before_or_behind_them_as_the_file_begins(tmp_path):
    asked = (META, item("user", "The clock is slow."))
    late = read_rows(tmp_path, *asked, CALL, count(100, 5, 105), OUTPUT, item("assistant", "Done."), count(150, 7, 262))
    early = read_rows(tmp_path, *asked, count(100, 5, 105), CALL, OUTPUT, count(150, 7, 262), item("assistant", "Done."))
    assert list_outputs(late) == list_outputs(early) == [5, 7]
    assert late.left_out_calls == early.left_out_calls == ()


def test_a_count_without_an_answer_is_a_call_that_was_left_out(tmp_path):
    recording = read_rows(tmp_path, META, count(100, 5, 105), count(120, 6, 231), CALL, OUTPUT)
    assert list_outputs(recording) == [6]
    assert [(call.reason, call.usage and call.usage.output_tokens) for call in recording.left_out_calls] == [("side call", 5)]


def test_usage_records_replace_token_counts_and_have_cache_writes(tmp_path):
    rows = (META, CALL, record("r1", 100, 5), count(100, 5, 105), OUTPUT, item("assistant", "Done."), record("r2", 150, 7))
    recording = read_rows(tmp_path, *rows, record("r2", 150, 7))
    assert outline(recording)[1::2] == ["1 assistant 50+20+30>5: c1 shell {}", "2 assistant 100+20+30>7: Done."]
    assert [item.request_key for item in recording.messages if item.message.role == "assistant"] == ["r1", "r2"]


def test_the_call_of_a_compaction_is_no_answer_and_its_view_is_exact(tmp_path):
    history = [item("user", "The clock is slow.")["payload"], {"type": "compaction", "encrypted_content": "zzz"}]
    compacted = row("compacted", {"message": "", "replacement_history": history})
    rows = (META, item("user", "The clock is slow."), CALL, record("r1", 100, 5), OUTPUT, record("r2", 90, 50), compacted)
    recording = read_rows(tmp_path, *rows, item("assistant", "Done."), record("r3", 60, 7))
    assert list_outputs(recording) == [5, 7]
    assert [(call.request_key, call.usage and call.usage.output_tokens) for call in recording.left_out_calls] == [("r2", 50)]
    (compaction,) = recording.compactions
    assert compaction.view == (user("The clock is slow."),)
    assert "1 × item of a compaction whose text is encrypted" in join_caveats(recording)


def test_turns_that_were_rolled_back_leave_the_session_when_it_goes_on(tmp_path):
    rollback = row("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    rows = [META, item("user", "One."), item("assistant", "First."), count(50, 3, 53)]
    rows += [item("user", "Two."), item("assistant", "Second."), count(80, 4, 137), rollback]
    ended = read_rows(tmp_path, *rows)
    assert [item.message.text for item in ended.messages[1:]] == ["One.", "First.", "Two.", "Second."]
    assert "1 turn of the user rolled back at the end; no message follows" in join_caveats(ended)
    went_on = read_rows(tmp_path, *rows, item("user", "Three."), item("assistant", "Third."), count(70, 6, 213))
    assert [item.message.text for item in went_on.messages[1:]] == ["One.", "First.", "Three.", "Third."]
    assert [(call.reason, call.usage and call.usage.output_tokens) for call in went_on.left_out_calls] == [("rolled back", 4)]
    assert "rollback: 1 turn of the user removed, whose cost counts" in join_caveats(went_on)


def test_answers_that_a_fork_copied_are_marked(tmp_path):
    meta = row("session_meta", {"id": "fork", "forked_from_id": "clock"})
    rows = (meta, META, item("user", "One."), item("assistant", "First."), count(50, 3, 53))
    recording = read_rows(tmp_path, *rows, item("user", "Two.", 30), item("assistant", "Second.", 31), count(80, 4, 137, 31))
    assert recording.forked_from == "clock"
    assert [item.copied for item in recording.messages if item.message.role == "assistant"] == [True, False]
    assert "their usage is not its own" in join_caveats(recording)


@needs_small_recordings
def test_the_small_recording_has_its_right_values():
    recording = read_recording(SMALL_RECORDINGS / "codex_compacted.jsonl")
    assert outline(recording)[2] == "1 assistant 100+0+0>5: c1 exec_command {}"
    (compaction,) = recording.compactions
    assert compaction.view == (user("do it"),)
    caveats = join_caveats(recording)
    assert "1 × item of a compaction whose text is encrypted" in caveats
    assert "1 turn of the user rolled back" in caveats
