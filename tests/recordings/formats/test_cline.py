"""Importer of Cline: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.conversation.view import fold_all
from harness.recordings.reading import read_recording
from harness.recordings.session_log import build_entries
from tests.recordings.outline import FIXTURES, fixture, join_caveats, outline, squeezes


def test_cache_reads_are_subtracted_from_the_input():
    recording = fixture("cline.json")
    assert outline(recording) == [
        "0 system: You sail boats.",
        "0 user:",
        "  Sail to the island.",
        "  file map.txt\nisland: east",
        "1 assistant 100+200+0>20:",
        "  East.",
        '  x1 steer {"to": "east"}',
        '  x2 look {"at": "sea"}',
        "1 tool: x1 steer -> steered",
        '1 tool: x2 look -> {"query": "sea", "result": "calm", "success": true}',
        "2 assistant 350+0+0>5: We arrived.",
    ]
    assert (recording.session_id, recording.models) == ("session-boat", ("boat/one",))
    assert recording.cost_usd == pytest.approx(1.2)
    assert squeezes(recording) == []
    assert [caveat.text for caveat in recording.caveats] == []


def test_a_bare_list_of_messages_is_read(tmp_path):
    messages = [{"role": "user", "content": "Sail."}, {"role": "assistant", "content": [{"type": "text", "text": "East."}]}]
    (tmp_path / "bare.json").write_text(json.dumps(messages))
    assert outline(read_recording(tmp_path / "bare.json")) == ["0 user: Sail.", "1 assistant: East."]


CALLS = [{"type": "tool_use", "id": f"x{number}", "name": "look", "input": {}} for number in (1, 2)]
METRICS = {"tokens": {"prompt": 300, "completion": 20, "cached": 200}, "cost": 0.5}
ANSWER = {
    "role": "assistant",
    "content": CALLS,
    "metrics": METRICS,
    "modelInfo": {"modelId": "boat/two", "providerId": "cline", "mode": "act"},
    "ts": 1_783_376_868_634,
}


@pytest.mark.parametrize(
    "texts",
    [
        ["[look for 'sea'] Result:\ncalm", "[look for 'sky'] Result:\nblue", "<details>Noon.</details>"],
        ["[look for 'sea'] Result:", "calm", "[look for 'sky'] Result:", "blue", "<details>Noon.</details>"],
    ],
    ids=["one block", "two blocks"],
)
def test_results_in_texts_of_the_user_belong_to_their_calls(texts, tmp_path):
    results = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}
    (tmp_path / "list.json").write_text(json.dumps([{"role": "user", "content": "Sail."}, ANSWER, results]))
    recording = read_recording(tmp_path / "list.json")
    assert outline(recording) == [
        "0 user: Sail.",
        "1 assistant 100+200+0>20:",
        "  x1 look {}",
        "  x2 look {}",
        "1 tool: x1 look -> calm",
        "1 tool: x2 look -> blue",
        "1 user: <details>Noon.</details>",
    ]
    assert (recording.models, recording.cost_usd) == (("boat/two",), 0.5)
    assert recording.messages[1].at_ms == 1_783_376_868_634


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_summary_of_roo_is_a_compaction_and_its_reasoning_is_read(role, tmp_path):
    rows = [
        {"role": "user", "content": "Sail.", "condenseParent": "c"},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "Wind?"}, {"type": "text", "text": "East."}]},
        {"role": role, "content": [{"type": "text", "text": "We sailed east."}], "isSummary": True, "condenseId": "c"},
        {"role": "user", "content": "And now?"},
    ]
    (tmp_path / "list.json").write_text(json.dumps(rows))
    recording = read_recording(tmp_path / "list.json")
    assert outline(recording) == ["0 user: Sail.", "1 assistant:", "  ~Wind?", "  East.", "1 user: And now?"]
    (event,) = recording.compactions
    assert (event.position, event.summary, event.kept_from) == (2, "We sailed east.", None)
    shown = [message.text for message in fold_all(build_entries(recording, reading="recorded")).messages]
    assert shown[1:] == (["Sail."] if role == "assistant" else []) + ["We sailed east.", "And now?"]


def test_a_text_that_only_looks_like_a_result_stays_a_message(tmp_path):
    claim = {"role": "user", "content": "[look for 'sea'] Result:\ncalm"}
    (tmp_path / "list.json").write_text(json.dumps([{"role": "user", "content": "Sail."}, claim]))
    assert outline(read_recording(tmp_path / "list.json"))[1] == "0 user: [look for 'sea'] Result:\ncalm"


def test_an_unknown_layout_version_is_a_note(tmp_path):
    whole = json.loads(FIXTURES["cline.json"].read_text())
    (tmp_path / "new.json").write_text(json.dumps(whole | {"version": 7}))
    assert "layout version 7 is not known" in join_caveats(read_recording(tmp_path / "new.json"))
