"""Importer of aider: every value of the made-up fixture, and each pitfall of the format."""

import pytest

from harness.recordings.reading import read_recording, read_recordings
from tests.recordings.outline import FIXTURES, SMALL_RECORDINGS, join_caveats, needs_small_recordings, outline


def test_each_chat_is_a_session_with_rounded_tokens_and_costs():
    scarf, unpicked = read_recordings(FIXTURES["aider.chat.history.md"])
    assert outline(scarf) == [
        "0 user: weave a scarf\ntwo metres long",
        "1 assistant 4100+200+1000>812: I weave a scarf.\n\n# Not a heading of a chat\n\nIt has two metres.",
        "2 assistant 12000+0+0>900: It needs a hem.",
        "3 user: thanks",
        "3 assistant: You are welcome.",
    ]
    assert (scarf.session_id, scarf.models) == ("aider-2026-05-17T01-06-02", ("model-loom",))
    assert [item.cost_usd for item in scarf.messages if item.message.role == "assistant"] == [0.02, 0.05, None]
    assert scarf.cost_usd == pytest.approx(0.07)
    assert scarf.messages[1].place == "line 14"
    caveats = join_caveats(scarf)
    assert "1 × command of the user, which is no message to the model" in caveats
    assert "4 × line of the program" in caveats
    assert "1 × answer with tokens read from the cache, which its sent tokens may include" in caveats
    assert outline(unpicked) == ["0 user: unpick it", "1 assistant: Done."]
    assert unpicked.messages[0].place == "line 36"


@pytest.mark.parametrize("number", ["1.2.3k", "..", "9" * 400])
def test_a_number_that_is_none_is_read_without_a_crash(number, tmp_path):
    file = tmp_path / "history.md"
    file.write_text(f"# aider chat started at 2026-05-17 01:06:02\n\n#### hi\n\nyo\n\n> Tokens: {number} sent, 2 received.\n")
    assert [item.message.text for item in read_recording(file).messages] == ["hi", "yo"]


@needs_small_recordings
def test_the_small_recording_has_its_right_values():
    recording = read_recording(SMALL_RECORDINGS / "aider.md")
    assert outline(recording) == ["0 user: fix it", "1 assistant 5100+0+0>200: I fixed it."]
    assert recording.cost_usd == pytest.approx(0.02)
