"""Import of folders into a journal: each session once, grown sessions replaced, copies without cost."""

import harness
from harness.inspection.import_folder import FolderImport, import_files
from harness.inspection.recording_folder import read_folder
from harness.store.journal import Journal
from tests.inspection.test_recording_folder import make_rows, write_session


def import_all(folder, tmp_path):
    return import_files(read_folder(folder, workers=1, cache_folder=tmp_path / "cache"), tmp_path / "journal.sqlite")


def test_sessions_are_added_once_and_replaced_when_their_file_has_grown(tmp_path):
    folder = tmp_path / "r"
    write_session(folder / "a.jsonl", make_rows("a", ["m1"]))
    write_session(folder / "b.jsonl", make_rows("b", ["m2"]))
    assert import_all(folder, tmp_path) == FolderImport(added=2)
    assert import_all(folder, tmp_path) == FolderImport(unchanged=2)
    write_session(folder / "b.jsonl", make_rows("b", ["m2", "m3"]))
    assert import_all(folder, tmp_path) == FolderImport(unchanged=1, replaced=1)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        assert sorted(journal.list_session_ids()) == ["a", "b"]


def test_copies_have_no_usage_and_of_two_files_with_a_session_the_longer_counts(tmp_path):
    folder = tmp_path / "r"
    write_session(folder / "a.jsonl", make_rows("first", ["m1", "m2"]))
    write_session(folder / "b.jsonl", make_rows("later", ["m1", "m2", "m3"], start=30))
    write_session(folder / "c.jsonl", make_rows("first", ["m1"]))
    assert import_all(folder, tmp_path) == FolderImport(added=2, duplicates=1)
    trials = harness.load(tmp_path / "journal.sqlite").trials.set_index("session_id")
    assert trials["steps"].to_dict() == {"first": 2, "later": 3}
    assert trials["prompt_tokens"].to_dict() == {"first": 200, "later": 100}


def test_sub_agents_with_files_of_their_own_are_in_the_log_of_their_session(tmp_path):
    place = tmp_path / "r"
    rows = make_rows("main", ["m1", "m2"])
    block = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Look."}}
    rows[1]["message"]["content"] = [block]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "Seen."}
    reply = {"uuid": "reply", "message": {"role": "user", "content": [result]}, "toolUseResult": {"agentId": "ab1"}}
    rows.insert(2, {**rows[0], **reply})
    write_session(place / "main.jsonl", rows)
    side = [{**row, "isSidechain": True, "agentId": "ab1"} for row in make_rows("main", ["m9"])]
    write_session(place / "main" / "subagents" / "agent-ab1.jsonl", [{**row, "uuid": f"side {row['uuid']}"} for row in side])
    assert import_all(place, tmp_path) == FolderImport(added=2)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        events = [entry.event for entry in journal.read_entries("main")]
    [ended] = [event for event in events if event.kind == "sub-agent-ended"]
    assert (ended.session_id, ended.call_id, ended.prompt_tokens, ended.output_tokens) == ("main.ab1", "t1", 100, 20)
