"""Sessions of this package as JSONL (S2.6): every exported event is read back, and the log folds to the same view."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.swe_agent import SweAgent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.presets.window import MessageWindow
from harness.conversation.codec import to_canonical_json
from harness.conversation.events import Compaction, Entry, MessageAdded, SubAgentEnded, WorkspaceSaved
from harness.conversation.messages import ToolCall, assistant
from harness.conversation.view import find_violation, fold_all
from harness.errors import MalformedRecording
from harness.recordings.document import parse_document
from harness.recordings.reading import detect_format, read_document
from harness.recordings.session_file import TimedEntry, encode_lines, read_log
from harness.testing.strategies import sessions, sessions_with_rollback
from tests.recordings.outline import FIXTURES, fixture, outline, squeezes
from tests.store.samples import ENDED, compaction, events, finished, flat, opening, step

PLAIN = (
    KeepLast(threshold=0.1, keep_last=2),
    KeepLast(threshold=0.05, keep_last=5),
    ReserveRecent(reserve_tokens=15_000, keep_recent_tokens=90),
)
"""Policies whose compactions a row can describe by `first_kept_entry_id` alone."""
OTHERS = (
    NoCompaction(),
    SweAgent(keep_results=1),
    MessageWindow(max_messages=8, preserve_last_n=4),
    ThreeTiers(max_output_tokens=15_000, prune_at="step", protect_tokens=60, prune_minimum_tokens=30),
)
TIMES = st.integers(0, 4_000_000_000_000)


def logged(log, start=1_700_000_000_123):
    return [TimedEntry(entry, start + 7 * number) for number, entry in enumerate(log)]


def document(log):
    return parse_document("".join(encode_lines(log)).encode(), "session.jsonl")


def rows(log):
    return [json.loads(line) for line in encode_lines(log)]


def numbered(*logged_events):
    return [Entry(seq, event) for seq, event in enumerate(logged_events, 1)]


def without_patches(given_rows):
    shown = [{k: v for k, v in row.items() if k != "patch" or row["type"] != "compaction"} for row in given_rows]
    return parse_document("\n".join(map(json.dumps, shown)).encode(), "f")


@pytest.mark.slow
@settings(max_examples=40)
@given(st.sampled_from(PLAIN).flatmap(sessions))
def test_the_first_kept_entry_says_all_of_a_compaction_that_keeps_the_last(log):
    written = rows(logged(log))
    assert not any("patch" in row for row in written)
    back = [entry for entry, _ in read_log(document(logged(log)))]
    assert back == list(log)
    assert fold_all(back) == fold_all(log)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(PLAIN).flatmap(sessions))
def test_a_reader_of_the_entries_alone_builds_the_next_request(log):
    """The view is the system message, the summary, and the messages from the first kept entry on."""
    written = rows(logged(log))
    squeezed = [number for number, row in enumerate(written) if row["type"] == "compaction"]
    for number in squeezed:
        row = written[number]
        names = [one["id"] for one in written[:number]]
        first = number if row["first_kept_entry_id"] is None else names.index(row["first_kept_entry_id"])
        kept = [one["parts"] for one in written[first:number] if one["type"] == "message"]
        view = fold_all(log[: number + 1])
        assert len(view.items) == 2 + len(kept)
        assert view.items[1].message.text == row["summary"]
        assert view.items[1].message.role == row.get("summary_role", "user")
        assert [item.message for item in view.items[2:]] == [
            entry.event.message for entry in log[first:number] if entry.event.kind == "message-added"
        ]


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(OTHERS).flatmap(sessions) | st.sampled_from((*PLAIN, *OTHERS)).flatmap(sessions_with_rollback))
def test_any_session_comes_back_event_for_event(log):
    back = read_log(document(logged(log)))
    assert list(back) == logged(log)
    assert [to_canonical_json(entry.event) for entry, _ in back] == [to_canonical_json(entry.event) for entry in log]


def test_the_rows_of_a_step_have_its_parts_which_are_not_read_back():
    """S3.6."""
    asked = ToolCall(call_id="call-1", name="explore", arguments_json='{"question": "Where is it?"}')
    ended = SubAgentEnded(step=1, session_id="s.1", steps=3, prompt_tokens=90, output_tokens=8, cost_usd=0.5, call_id="call-1")
    log = logged(
        numbered(
            *opening(),
            WorkspaceSaved(step=0, tree_id="t0"),
            MessageAdded(step=1, message=assistant("", asked)),
            *(step(1)[1], ended, replace(finished(1), finish_reason="tool-calls")),
            WorkspaceSaved(step=1, tree_id="t1", changed_files=("a.py",), patch_hash="f00d"),
        )
    )
    parts = [part for row in rows(log) if row["type"] != "message" for part in row.get("parts", ())]
    tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 90, "write": 3}}
    assert parts == [
        {"type": "subtask", "agent": "explore", "prompt": "Where is it?", "session": "s.1", "steps": 3,
         "tokens": {"input": 90, "output": 8}, "cost": 0.5},
        {"type": "step-start", "snapshot": "t0"},
        {"type": "step-finish", "reason": "tool-calls", "snapshot": "t1", "tokens": tokens, "cost": 0.25},
        {"type": "patch", "hash": "f00d", "files": ["a.py"]},
    ]  # fmt: skip
    assert list(read_log(document(log))) == log


@pytest.mark.slow
@settings(max_examples=40)
@given(events(), TIMES)
def test_whatever_the_types_allow_comes_back_with_its_time(batches, at_ms):
    log = [
        TimedEntry(entry, at_ms + entry.seq)
        for entry in numbered(opening()[0], *(one for one in flat(batches) if one.kind != "session-started"))
    ]
    assert list(read_log(document(log))) == log


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(OTHERS[1:]).flatmap(sessions))
def test_without_the_patches_a_reader_sees_at_least_what_was_in_view(log):
    """Masked messages are whole again, and messages evicted from the middle are present again."""
    written = rows(logged(log))
    if not all(row.get("summary") for row in written if row["type"] == "compaction"):
        return
    back = fold_all(entry for entry, _ in read_log(without_patches(written)))
    assert {item.item_id for item in fold_all(log).items if item.item_id.slot == 0} - {
        item.item_id for item in back.items
    } == set()


@pytest.mark.slow
@settings(max_examples=25)
@given(st.sampled_from((*PLAIN, *OTHERS)).flatmap(sessions))
def test_an_exported_session_is_a_recording_like_that_of_any_agent(log):
    recorded = document(logged(log))
    assert detect_format(recorded) == "harness"
    (recording,) = read_document(recorded, "harness")
    applied = [entry.event for entry in log if isinstance(entry.event, Compaction) and entry.event.status == "applied"]
    assert [compaction.summary for compaction in recording.compactions] == [compaction.summary for compaction in applied]
    assert find_violation([message.message for message in recording.messages]) is None
    assert recording.steps == fold_all(log).steps


@pytest.mark.slow
@settings(max_examples=25)
@given(st.sampled_from((*PLAIN, *OTHERS)).flatmap(sessions))
def test_a_compaction_says_how_many_messages_it_removed(log):
    """S2.7: those evicted from the view, whatever was inserted."""
    applied = [entry.event for entry in log if isinstance(entry.event, Compaction) and entry.event.status == "applied"]
    assert [event.messages_removed for event in applied] == [
        event.messages_before + len(event.patch.insert) - event.messages_after for event in applied
    ]
    exported = [row["messages_removed"] for row in rows(logged(log)) if row["type"] == "compaction"]
    assert exported == [event.messages_removed for event in applied]


def test_the_fixture_reads_value_by_value():
    recording = fixture("harness.jsonl")
    assert outline(recording) == [
        "0 system: Be brief.",
        "0 user: Plant two beds.",
        "1 assistant 90+10+0>8:",
        "  North first.",
        '  p1 plant {"bed": "north"}',
        "1 tool: p1 plant -> north planted",
        "2 assistant 60+0+0>4: Both are planted.",
    ]
    assert squeezes(recording) == [("compaction", 4, "auto", 120, "North is planted.")]
    assert (recording.session_id, recording.models) == ("garden", ("model-a",))


def test_the_fixture_folds_to_the_view_that_it_describes():
    entries = read_log(parse_document((FIXTURES["harness.jsonl"]).read_bytes(), "harness.jsonl"))
    view = fold_all(entry for entry, _ in entries)
    assert [item.message.text for item in view.items] == ["Be brief.", "North is planted.", "Both are planted."]
    assert [item.message.role for item in view.items] == ["system", "user", "assistant"]


GOOD = rows(logged(numbered(*opening(), *step(1), *step(2), compaction(forget=[3, 4, 5], before_step=3), *step(3), ENDED)))


@pytest.mark.parametrize(
    ("place", "change", "explanation"),
    [
        (0, {"version": 2}, "line 1: expected version 1, got 2"),
        (0, {"model": None}, "line 1: expected a row 'session' of a session, got model"),
        (1, {"type": "session"}, "line 2: expected a row of type 'session' first"),
        (1, {"role": "emperor"}, "line 2: expected a row 'message'"),
        (2, {"parts": "text"}, "line 3: expected a row 'message'"),
        (2, {"parts": [{"kind": "bomb"}]}, "line 3: expected a row 'message'"),
        (2, {"id": "2"}, "line 3: expected an id that no other row has"),
        (2, {"timestamp": "yesterday"}, "line 3: expected a timestamp in ISO 8601 format"),
        (2, {"timestamp": 12}, "line 3: expected a timestamp"),
        (5, {"type": "step-begun"}, "line 6: expected a type of row that this version knows, got 'step-begun'"),
        (5, {"calls": "many"}, "line 6: expected a row 'step-finished' of a session, got calls"),
        (5, {"type": 7}, "line 6: expected an object with a type"),
        (9, {"first_kept_entry_id": "77"}, "line 10: expected a first_kept_entry_id of a message in view, got '77'"),
        (9, {"first_kept_entry_id": "1"}, "line 10: expected a first_kept_entry_id of a message in view"),
        (9, {"summary": None}, "line 10: expected a summary"),
        (9, {"summary_role": "tool"}, "line 10: expected a summary and a valid summary_role"),
        (9, {"patch": {"forget": "all"}}, "line 10: expected a row 'compaction'"),
    ],
)
def test_a_row_that_is_not_right_is_refused_by_its_line(place, change, explanation):
    written = [dict(row) for row in GOOD]
    if "first_kept_entry_id" in change or "summary" in change or "summary_role" in change:
        written[place].pop("patch", None)
    written[place] |= change
    text = "\n".join(map(json.dumps, written)).encode()
    with pytest.raises(MalformedRecording) as caught:
        read_log(parse_document(text, "f.jsonl"))
    assert explanation in str(caught.value)


def test_a_compaction_that_does_not_say_what_it_kept_is_refused():
    written = [dict(row) for row in GOOD]
    del written[9]["first_kept_entry_id"]
    with pytest.raises(MalformedRecording, match="line 10: expected a first_kept_entry_id \\(null if no message was kept\\)"):
        read_log(parse_document("\n".join(map(json.dumps, written)).encode(), "f.jsonl"))


def test_ids_may_be_any_texts():
    names = {str(number): f"entry-{number}" for number in range(30)}
    log = numbered(*opening(), *step(1), replace(compaction(forget=[3]), patch=compaction(forget=[3]).patch))
    written = rows(logged(log))
    for row in written[1:]:
        row["id"] = names[row["id"]]
        if row.get("first_kept_entry_id"):
            row["first_kept_entry_id"] = names[row["first_kept_entry_id"]]
    entries = read_log(parse_document("\n".join(map(json.dumps, written)).encode(), "f"))
    assert fold_all(entry for entry, _ in entries) == fold_all(log)
