"""Importer of pi: every value of the made-up fixture, and each pitfall of the format."""

import json
from typing import Any

import pytest

from harness.errors import UsageError
from harness.recordings.reading import read_recording
from tests.recordings.outline import fixture, join_caveats, outline, squeezes


def test_aborted_calls_results_out_of_order_and_two_rows_on_a_line_are_read():
    recording = fixture("pi.jsonl")
    assert outline(recording) == [
        "0 user: Plant two beds.",
        "1 assistant 3+0+60>30:",
        "  ~North first.",
        "  Two at once.",
        '  p1 plant {"bed": "north"}',
        '  p2 plant {"bed": "south"}',
        "1 tool: p1 plant -> north planted",
        "1 tool: p2 plant error -> south is stone",
        "2 user: Ran `ls beds`\nnorth south\n(exit code 2)",
        "2 assistant 4+60+30>12:",
        '  p3 dig {"bed": "south"}',
        '  p4 dig {"bed": "east"}',
        "2 tool made up: p3 dig interrupted -> (no result was recorded)",
        "2 tool made up: p4 dig interrupted -> (no result was recorded)",
        "3 user: And now?",
        "3 assistant 2+90+10>8: All planted.",
    ]
    assert (recording.session_id, recording.models) == ("session-garden", ("model-a", "model-b"))
    assert recording.cost_usd == pytest.approx(0.09)
    assert squeezes(recording) == [
        ("compaction", 8, "unknown", 500, "North is planted."),
    ]
    assert [caveat.text for caveat in recording.caveats] == [
        "2 rows on one line were read separately",
        "an empty answer that used no tokens was dropped",
        "call 'p3' has no result; one was made up",
        "call 'p4' has no result; one was made up",
        "The system prompt, tool schemas and hidden reminders are not in this file.",
    ]


def test_the_beginning_of_the_kept_tail_is_the_number_of_a_message():
    (event,) = fixture("pi.jsonl").compactions
    assert event.kept_from == 4


def test_calls_of_other_branches_cost_and_their_summary_is_a_message(tmp_path):
    usage = {"input": 10, "output": 5, "cost": {"total": 0.01}}
    rows: list[dict[str, Any]] = [
        {"type": "session", "id": "s", "cwd": "/x"},
        {"id": "a", "parentId": None, "message": {"role": "user", "content": "Dig."}},
        {"id": "b", "parentId": "a", "message": {"role": "assistant", "content": "North.", "usage": usage}},
        {"type": "branch_summary", "id": "c", "parentId": "a", "fromId": "b", "summary": "North is stone."},
        {"id": "d", "parentId": "c", "message": {"role": "assistant", "content": "South.", "usage": usage}},
    ]
    rows = [{"type": "message", "timestamp": "2026-01-01T00:00:00Z", **row} for row in rows]
    (tmp_path / "tree.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recording = read_recording(tmp_path / "tree.jsonl")
    assert outline(recording) == ["0 user: Dig.", "0 user: North is stone.", "1 assistant 10+0+0>5: South."]
    assert recording.cost_usd == pytest.approx(0.02)
    assert "1 × row of an abandoned branch, whose cost counts" in join_caveats(recording)
    assert recording.messages[-1].request_key == "d 2026-01-01T00:00:00Z"


def test_a_tree_is_read_along_its_last_branch(tmp_path):
    def row(name, parent, role, text):
        return {"type": "message", "id": name, "parentId": parent, "message": {"role": role, "content": text}}

    rows = [
        {"type": "session", "id": "s", "cwd": "/x"},
        row("a", None, "user", "Dig."),
        row("b", "a", "assistant", "North."),
        row("c", "a", "assistant", "South."),
    ]
    (tmp_path / "tree.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recording = read_recording(tmp_path / "tree.jsonl")
    assert outline(recording) == ["0 user: Dig.", "1 assistant: South."]
    assert "1 × row of an abandoned branch" in join_caveats(recording)


@pytest.mark.parametrize("role", ["referee", ["user"], None])
def test_a_message_of_a_role_that_pi_has_not_is_none_of_its_rows(tmp_path, role):
    file = tmp_path / "other.jsonl"
    file.write_text(json.dumps({"type": "message", "message": {"role": role, "content": "hello"}}) + "\n")
    with pytest.raises(UsageError):
        read_recording(file)
