"""Importer of goose: every value of the made-up fixtures, and each pitfall of the format."""

import json

from harness.conversation.messages import assistant, user
from harness.recordings.reading import read_recording
from tests.recordings.outline import FIXTURES, SMALL_RECORDINGS, fixture, join_caveats, needs_small_recordings, outline, squeezes

TOTALS = (
    "totals of tokens: input_tokens 80, output_tokens 10, accumulated_input_tokens 450, accumulated_output_tokens 50;"
    " no call has its own usage"
)


def test_the_context_after_a_compaction_and_hidden_parts_are_read():
    recording = fixture("goose-export.json")
    assert outline(recording) == [
        "0 user: Bake bread.",
        "1 assistant:",
        "  ~Rye, perhaps.",
        "  I knead.",
        '  b1 knead {"minutes": 9}',
        '  b2 heat {"degrees": 220}',
        "1 tool: b1 knead -> elastic",
        "1 tool: b2 heat error -> no gas",
        "2 user: Use the other oven.",
        "2 assistant: It bakes.",
    ]
    assert (recording.session_id, recording.models) == ("session-bakery", ("model-bakery",))
    assert squeezes(recording) == [("compaction", 5, "unknown", None, "Summary: the dough is ready.")]
    summary = user("Summary: the dough is ready.")
    assert recording.compactions[0].view == (summary, assistant("Your context was compacted."), user("Use the other oven."))
    assert [caveat.text for caveat in recording.caveats] == [
        TOTALS,
        "1 × message that only the user saw",
        "1 × part of a result that only the user saw",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]


def test_a_file_of_an_early_version_has_plain_lists_as_results_and_invalid_calls():
    assert outline(fixture("goose.jsonl")) == [
        "0 user: Bake rolls.",
        "1 assistant: r1 roll {}",
        "1 tool: r1 roll -> twelve rolls",
        "2 assistant:",
        "  Twelve rolls.",
        '  r2 (invalid call) {"error": "unknown tool"}',
        "2 tool made up: r2 (invalid call) interrupted -> (no result was recorded)",
    ]


def test_a_message_that_a_compaction_does_not_repeat_is_a_new_one(tmp_path):
    whole = json.loads(FIXTURES["goose-export.json"].read_text())
    whole["conversation"][6]["content"][0]["text"] = "Something else."
    (tmp_path / "export.json").write_text(json.dumps(whole))
    recording = read_recording(tmp_path / "export.json")
    assert [item.message.text for item in recording.messages if item.message.role == "user"][1:] == [
        "Use the other oven.",
        "Something else.",
    ]
    assert recording.compactions[0].view is not None
    assert len(recording.compactions[0].view) == 2


@needs_small_recordings
def test_the_small_recording_has_its_right_values():
    recording = read_recording(SMALL_RECORDINGS / "goose.jsonl")
    assert outline(recording)[:2] == ["0 user: hi", "1 assistant: t x {}"]
    assert "call 't' has no result; one was made up" in join_caveats(recording)
