"""Importer of OpenCode: every value of the made-up fixture, and each pitfall of the format."""

import json

import pytest

from harness.errors import MalformedRecording
from harness.recordings.reading import read_recording
from tests.recordings.outline import FIXTURES, SMALL_RECORDINGS, fixture, join_caveats, needs_small_recordings, outline, squeezes

EXPORT = FIXTURES["opencode-export.json"]


def write_export(folder, change):
    whole = json.loads(EXPORT.read_text())
    change(whole)
    (folder / "export.json").write_text(json.dumps(whole))
    return read_recording(folder / "export.json")


def test_calls_compactions_clearings_and_reverted_messages_are_read():
    recording = fixture("opencode-export.json")
    assert outline(recording) == [
        "0 user:",
        "  Prune the trees.",
        "  (image/png)",
        "1 assistant 50+10+40>25:",
        "  ~Apples first.",
        '  c1 prune {"tree": "apple"}',
        '  c2 prune {"tree": "oak"}',
        "1 tool: c1 prune -> pruned",
        "1 tool: c2 prune error -> too tall",
        "2 assistant 10+90+0>8: The apple is pruned.",
        "3 user: Now the pears.",
        '3 assistant: c3 prune {"tree": "pear"}',
        "3 tool made up: c3 prune interrupted -> (no result was recorded)",
    ]
    assert (recording.session_id, recording.models) == ("ses_orchard", ("model-orchard",))
    assert recording.messages[1].usage is not None
    assert recording.messages[1].usage.reasoning_tokens == 5
    assert squeezes(recording) == [
        ("compaction", 5, "auto", None, "Summary: the apple is pruned, the oak is too tall."),
        ("microcompaction", 6, "auto", None, ""),
    ]
    assert recording.compactions[0].kept_from == 4
    assert recording.compactions[1].cleared == ("c1",)
    assert [(call.reason, call.cost_usd) for call in recording.left_out_calls] == [("compaction", 0.005), ("rewound", 0.003)]
    assert recording.cost_usd == pytest.approx(0.038)
    caveats = join_caveats(recording)
    assert "the user took back 2 messages, whose cost counts" in caveats
    assert "1 × text that the agent did not send" in caveats


def test_a_session_is_read_from_the_files_of_the_storage(tmp_path):
    whole = json.loads(EXPORT.read_text())
    session = tmp_path / "session" / "orchard" / "ses_orchard.json"
    files = {session: whole["info"]}
    for message in whole["messages"]:
        name = message["info"]["id"]
        files[tmp_path / "message" / "ses_orchard" / f"{name}.json"] = message["info"]
        files |= {tmp_path / "part" / name / f"{part['id']}.json": part for part in message["parts"]}
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    stored, exported = read_recording(session), read_recording(EXPORT)
    assert outline(stored) == outline(exported)
    assert squeezes(stored) == squeezes(exported)
    assert stored.messages[1].place == "message msg_2"
    damaged = tmp_path / "part" / "msg_2" / "prt_msg_2_1.json"
    damaged.write_text('{"type": "reas')
    with pytest.raises(MalformedRecording, match=r"prt_msg_2_1\.json: expected a JSON object"):
        read_recording(session)
    for path in (tmp_path / "message" / "ses_orchard").iterdir():
        path.unlink()
    with pytest.raises(MalformedRecording, match="expected the messages of the session in the folder"):
        read_recording(session)


def test_a_message_of_an_early_version_has_several_calls_and_the_system_prompt(tmp_path):
    def change(whole):
        first = whole["messages"][1]
        first["info"]["system"] = ["You are a gardener.", "Be gentle."]
        first["parts"] += whole["messages"].pop(2)["parts"]

    recording = write_export(tmp_path, change)
    assert outline(recording)[0] == "0 system: You are a gardener.\nBe gentle."
    assert outline(recording)[10] == "2 assistant 10+90+0>8: The apple is pruned."
    assert recording.compactions[0].kept_from is None, "the message from which it kept is gone"


def test_a_compaction_that_failed_is_none(tmp_path):
    recording = write_export(tmp_path, lambda whole: whole["messages"][4]["info"].update(error={"name": "APIError"}))
    assert [event.kind for event in recording.compactions] == ["microcompaction"]
    assert "a compaction failed; the context stayed as it was" in join_caveats(recording)
    assert recording.left_out_calls[0].reason == "compaction", "its call still cost"


def test_a_sub_agent_names_its_parent(tmp_path):
    assert write_export(tmp_path, lambda whole: whole["info"].update(parentID="ses_farm")).parent_id == "ses_farm"


def test_copies_of_calls_in_a_fork_have_other_ids_and_the_same_request(tmp_path):
    text = EXPORT.read_text()
    for message in json.loads(text)["messages"]:
        text = text.replace(f'"{message["info"]["id"]}"', f'"copy {message["info"]["id"]}"')
    (tmp_path / "fork.json").write_text(text)
    keys = [
        [item.request_key for item in read_recording(path).messages if item.usage is not None and item.at_ms is not None]
        for path in (EXPORT, tmp_path / "fork.json")
    ]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == len(keys[0])


@needs_small_recordings
def test_the_small_recording_has_its_right_values():
    recording = read_recording(SMALL_RECORDINGS / "opencode_export.json")
    assert outline(recording) == ["0 user: hi", "1 assistant 5+1+2>6: yo"]
    assert recording.cost_usd == pytest.approx(0.1)
