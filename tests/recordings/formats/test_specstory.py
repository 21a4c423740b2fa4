"""Importer of SpecStory: every value of the made-up fixture, and each pitfall of the format."""

from harness.recordings.reading import read_recording
from tests.recordings.outline import fixture, outline, squeezes


def test_blocks_are_split_into_calls_and_results():
    recording = fixture("specstory.md")
    assert outline(recording) == [
        "0 user: Paint the bridge.",
        "1 assistant:",
        "  ~Thought Process\nRed, I think.",
        "  I take red.",
        '  call-13-1 Bash {"text": "Tool use: **Bash**\\n`paint red`"}',
        "1 tool: call-13-1 Bash -> ```text\nthe bridge is red\n```",
        "2 assistant: It is painted. <tool-use is only a word here.",
    ]
    assert (recording.session_id, recording.models) == ("0000-bridge", ("claude-brush-1",))
    assert recording.cost_usd is None
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == [
        "Markdown is lossy: calls and results are separated by their fences, and no usage is recorded",
        "1 × turn of a sub-agent (side chain)",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]


def test_think_blocks_that_never_close_are_read_as_text(tmp_path):
    (tmp_path / "open.md").write_text("_**User**_\n\nGo.\n\n_**Assistant**_\n\n" + "<think>" * 20_000)
    assert outline(read_recording(tmp_path / "open.md"))[1] == "1 assistant: " + "<think>" * 20_000
