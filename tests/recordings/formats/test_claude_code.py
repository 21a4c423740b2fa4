"""Importer of Claude Code: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.recordings.reading import read_recording, read_recordings
from tests.recordings.outline import (
    FIXTURES,
    SMALL_RECORDINGS,
    fixture,
    join_caveats,
    needs_small_recordings,
    outline,
    squeezes,
)


def test_rows_of_one_answer_are_one_message_and_repeated_rows_are_left_out():
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


USAGE = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 100}


def make_row(uuid, parent, kind, content, second=0, **rest):
    """Return a row of a session file with a message; the row's uuid is also the id of an answer."""
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"message-{uuid}", "model": "claude-lamp-1", "usage": USAGE}
    time = f"2026-01-05T10:00:{second:02}Z"
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "timestamp": time, "message": message, **rest}


def read_rows(folder, rows):
    (folder / "session.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return read_recordings(folder / "session.jsonl")


ASK = make_row("a", None, "user", "Count the boats.")
CALL = make_row("b", "a", "assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}], 2)
RESULT = make_row("c", "b", "user", [{"type": "tool_result", "tool_use_id": "t", "content": "four"}], 5)
REPLY = make_row("d", "c", "assistant", "Four boats.", 9)


def list_user_texts(recording):
    return [item.message.text for item in recording.messages if item.message.role == "user"]


def queue(operation, **rest):
    return {"type": "queue-operation", "operation": operation, "sessionId": "s", **rest}


@pytest.mark.parametrize(
    ("rows", "typed"),
    [
        ([ASK, CALL, queue("enqueue", content="And ships?"), RESULT, queue("remove"), REPLY], ["And ships?"]),
        ([ASK, CALL, queue("enqueue", content="One"), queue("enqueue", content="Two"), RESULT,
          queue("remove", content="Two"), queue("remove"), REPLY], ["Two", "One"]),
        ([ASK, CALL, queue("enqueue", content="And ships?"), RESULT, REPLY, queue("dequeue"),
          make_row("e", "d", "user", "And ships?")], ["And ships?"]),
        ([ASK, CALL, queue("enqueue", content="And ships?"), RESULT, queue("remove"),
          {"type": "attachment", "uuid": "x", "parentUuid": "c",
           "attachment": {"type": "queued_command", "prompt": "And ships?"}},
          make_row("d", "x", "assistant", "Two ships.")], ["And ships?"]),
    ],
    ids=["removed", "removed by name", "a turn of its own", "attached"],
)  # fmt: skip
def test_a_text_typed_while_the_agent_works_is_one_message(rows, typed, tmp_path):
    (recording,) = read_rows(tmp_path, rows)
    assert list_user_texts(recording) == ["Count the boats.", *typed]


def test_a_typed_text_that_was_taken_back_or_never_sent_is_named(tmp_path):
    rows = [ASK, queue("enqueue", content="One more"), queue("popAll"), CALL, RESULT, REPLY, queue("enqueue", content="Too late")]
    (recording,) = read_rows(tmp_path, rows)
    assert list_user_texts(recording) == ["Count the boats."]
    caveats = join_caveats(recording)
    assert "1 × queued text that the user took back" in caveats
    assert "line 7: text that the user typed while the agent worked was never sent" in caveats


def test_results_of_parallel_calls_are_no_abandoned_branches(tmp_path):
    calls = [make_row("b1", "a", "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}])]
    calls += [make_row("b2", "b1", "assistant", [{"type": "tool_use", "id": "t2", "name": "Bash", "input": {}}])]
    results = [
        make_row(f"c{number}", f"b{number}", "user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}])
        for number in (1, 2)
    ]
    (recording,) = read_rows(tmp_path, [ASK, *calls, *results, make_row("d", "c2", "assistant", "Done.")])
    assert [item.synthetic for item in recording.messages if item.message.role == "tool"] == [False, False]
    assert recording.left_out_calls == ()


def test_a_rewound_branch_is_left_out_and_its_calls_still_cost(tmp_path):
    again = make_row("e", "a", "user", "Count the ships.", 12)
    (recording,) = read_rows(tmp_path, [ASK, CALL, RESULT, REPLY, again, make_row("f", "e", "assistant", "Two.", 15)])
    assert [item.message.text for item in recording.messages] == ["Count the boats.", "Count the ships.", "Two."]
    assert [(call.reason, call.usage.output_tokens, call.request_key) for call in recording.left_out_calls] == [
        ("rewound", 20, "message-b"),
        ("rewound", 20, "message-d"),
    ]
    assert "line 2: 3 rows of branches that the user rewound: no messages, but the cost counts" in join_caveats(recording)


def test_a_sub_agent_is_a_session_of_its_own_that_names_its_call(tmp_path):
    def report(uuid, kind, content):
        row = make_row(uuid, None, kind, content)
        data = {"type": "agent_progress", "agentId": "a7", "message": row}
        return {"type": "progress", "uuid": f"p-{uuid}", "parentUuid": "b", "parentToolUseID": "t", "data": data}

    rows = [ASK, CALL, report("s1", "user", "Look at the pier."), report("s2", "assistant", "Four."), RESULT, REPLY]
    main, child = read_rows(tmp_path, rows)
    assert [item.message.text for item in child.messages] == ["Look at the pier.", "Four."]
    assert (child.session_id, child.parent_id) == ("s.a7", "s")
    assert [(link.session_id, link.call_id) for link in main.sub_agents] == [("s.a7", "t")]
    assert read_recording(tmp_path / "session.jsonl") == main


def test_a_compaction_says_what_it_kept_and_how_long_it_took(tmp_path):
    about = {"trigger": "manual", "preTokens": 900, "postTokens": 80, "durationMs": 71_500, "preservedSegment": {"headUuid": "d"}}
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "x", "logicalParentUuid": "d", "compactMetadata": about}
    (recording,) = read_rows(tmp_path, [ASK, CALL, RESULT, REPLY, {**boundary, "timestamp": "2026-01-05T10:01:00Z"}])
    (compaction,) = recording.compactions
    assert (compaction.tokens_before, compaction.tokens_after, compaction.seconds) == (900, 80, 71.5)
    assert (compaction.trigger, compaction.position, compaction.kept_from, compaction.at_ms) == ("manual", 4, 3, 1767607260000)


def test_times_requests_and_hour_long_cache_writes_are_kept(tmp_path):
    write = {**USAGE, "cache_creation": {"ephemeral_1h_input_tokens": 70, "ephemeral_5m_input_tokens": 30}}
    row = make_row("b", "a", "assistant", "Four.", 3, requestId="request-1")
    row["message"]["usage"] = write
    (recording,) = read_rows(tmp_path, [ASK, row])
    ask, reply = recording.messages
    assert (reply.at_ms - ask.at_ms, reply.request_key, reply.hour_write_tokens) == (3_000, "message-b request-1", 70)


def test_a_queued_text_may_be_a_list_of_blocks(tmp_path):
    blocks = [{"type": "text", "text": "And the lamp."}, {"type": "image", "source": {}}]
    queued = [
        {"type": "queue-operation", "operation": name, "sessionId": "s", "content": blocks} for name in ("enqueue", "remove")
    ]
    (recording,) = read_rows(tmp_path, [ASK, *queued, make_row("b", "a", "assistant", "Four.", 3)])
    assert [part.text for part in recording.messages[1].message.parts] == ["And the lamp.", "(image)"]


@needs_small_recordings
def test_the_small_recordings_have_their_right_values():
    typed, attached, rewound, served = (
        read_recording(SMALL_RECORDINGS / f"{name}.jsonl") for name in ("queue", "attachment", "rewind", "server_tool")
    )
    assert outline(typed) == [
        "0 user: Q1",
        "1 assistant 10+1000+100>20: t1 Bash {}",
        "1 tool: t1 Bash -> ok",
        "2 user: ALSO FIX THE TESTS",
        "2 assistant 10+1000+100>20: also fixing tests",
    ]
    assert list_user_texts(attached) == ["Q1", "ALSO FIX THE TESTS"]
    assert [item.message.text for item in rewound.messages] == ["Q1", "A1", "RIGHT QUESTION", "RIGHT ANSWER"]
    assert [call.usage and call.usage.output_tokens for call in rewound.left_out_calls] == [20]
    assert "branches that the user rewound" in join_caveats(rewound)
    _, answer, result = served.messages
    assert [call.call_id for call in answer.message.calls] == [result.message.results[0].call_id] == ["srvtoolu_1"]
    assert "1 × result of a server tool, whose text is encrypted" in join_caveats(served)
