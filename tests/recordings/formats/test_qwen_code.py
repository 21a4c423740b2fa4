"""Importer of Qwen Code: every value of the made-up fixture, and each pitfall of the format."""

import json

from harness.conversation.messages import assistant, user
from harness.recordings.document import parse_document
from harness.recordings.reading import FORMATS, read_recording, read_recordings
from tests.recordings.outline import FIXTURES, SMALL_RECORDINGS, join_caveats, needs_small_recordings, outline, squeezes


def test_rewound_rows_reasoning_and_the_context_after_a_compression_are_read():
    main, explorer = read_recordings(FIXTURES["qwen-code.jsonl"])
    assert outline(main) == [
        "0 user: Dig a well.",
        "1 assistant 50+40+0>30:",
        "  ~Soft soil first.",
        "  I dig.",
        '  c1 dig {"depth": 3}',
        "1 tool: c1 dig -> three metres",
        "2 assistant 40+100+0>13: Water at three metres.",
        "3 user: Cover it with a lid.",
        "3 assistant 70+0+0>5: Covered.",
    ]
    assert (main.session_id, main.models) == ("session-well", ("model-well",))
    assert squeezes(main) == [("compaction", 4, "unknown", 160, "Summary: the well is dug.")]
    assert main.compactions[0].view == (user("Summary: the well is dug."), assistant("Got it."))
    assert [(call.reason, call.usage and call.usage.output_tokens) for call in main.left_out_calls] == [("rewound", 7)]
    assert "2 × row of a branch that the user rewound" in join_caveats(main)
    assert outline(explorer) == ["0 user: Find a lid.", "1 assistant 20+0+0>8: A lid is in the shed."]
    assert (explorer.session_id, explorer.parent_id) == ("session-well.explore-7f3c", "session-well")
    assert [link.session_id for link in main.sub_agents] == [explorer.session_id]


def test_answers_that_a_branched_session_copied_have_the_key_of_the_first_session(tmp_path):
    rows = [json.loads(line) for line in FIXTURES["qwen-code.jsonl"].read_text().splitlines()[:2]]
    for row in rows:
        row |= {"sessionId": "branch", "forkedFrom": {"sessionId": "session-well", "messageUuid": row["uuid"]}}
    (tmp_path / "branch.jsonl").write_text("\n".join(map(json.dumps, rows)))
    branch, origin = read_recording(tmp_path / "branch.jsonl"), read_recording(FIXTURES["qwen-code.jsonl"])
    assert branch.forked_from == "session-well"
    assert (branch.messages[1].request_key, branch.messages[1].copied) == (origin.messages[1].request_key, True)
    assert not origin.messages[1].copied


def test_a_row_of_a_sub_agent_is_never_taken_for_claude_code():
    rows = [json.loads(line) for line in FIXTURES["qwen-code.jsonl"].read_text().splitlines()]
    for row in rows:
        document = parse_document(json.dumps({**row, "isSidechain": True}).encode(), "row")
        assert [name for name, known in FORMATS.items() if known.can_read(document)] == ["qwen-code"]


@needs_small_recordings
def test_the_small_recording_has_its_right_values():
    recording = read_recording(SMALL_RECORDINGS / "qwen.jsonl")
    assert outline(recording) == ["0 user: hi", "1 assistant 9+0+0>2: yo"]
