"""Tests of what a log says about turns, steps, workspaces and facts that a compaction removed."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import (
    CallTiming,
    Compaction,
    Entry,
    Insert,
    ItemId,
    MessageAdded,
    Patch,
    Replace,
    RolledBack,
    SessionForked,
    SessionStarted,
    WorkspaceSaved,
)
from harness.conversation.messages import ToolCall, ToolResult, assistant, tool, user
from harness.conversation.tokens import Estimated
from harness.conversation.truncation import name_output
from harness.conversation.view import drop_rolled_back, fold_all
from harness.errors import UsageError
from harness.metrics.session_metrics import measure_session
from harness.session import history
from harness.session.history import find_compaction, list_dropped_facts
from harness.store.records import UnfinishedStep
from harness.task import LaterMessage
from harness.task_checks.simulation import WINDOW_TOKENS, simulate
from harness.tasks import make_task
from harness.testing.strategies import make_step_finished, multi_turn_logs
from tests.store.samples import started


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(multi_turn_logs(), st.data())
def test_a_session_that_is_rolled_back_to_a_step_is_as_it_was_there(log, data):
    step = data.draw(st.integers(0, history.find_last_step(log)))
    end = history.find_step_end(log, step)
    rolled = (*log, Entry(len(log) + 1, RolledBack(step=step, to_event=end)))
    assert fold_all(rolled) == fold_all(log[:end])
    assert history.find_last_step(rolled) == step
    assert history.find_tree(rolled) == history.find_tree(log, end)
    assert history.find_turn_number(rolled) == history.find_turn_number(log[:end])
    assert history.find_queued_messages(rolled) == history.find_queued_messages(log)
    assert history.has_unfinished_turn(rolled)
    assert history.find_last_stop(rolled) is None


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(multi_turn_logs(), st.data())
def test_a_fork_is_its_original_up_to_the_event_and_nothing_waits_in_it(log, data):
    step = data.draw(st.integers(0, history.find_last_step(log)))
    end = history.find_step_end(log, step)
    events = history.build_fork_events(log, "new", end)
    fork = tuple(Entry(seq, event) for seq, event in enumerate(events, 1))
    assert getattr(events[0], "session_id", None) == "new"
    assert fork[1:end] == log[1:end]
    assert fork[end].event == SessionForked(session_id="s", step=step)
    assert fold_all(fork) == fold_all(log[:end])
    assert history.find_queued_messages(fork) == {}
    assert history.find_tree(fork) == history.find_tree(log, end)
    assert history.find_last_step(fork) == step


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(multi_turn_logs())
def test_the_turns_share_out_the_workspaces_between_them(log):
    spans = [history.find_turn_trees(log, number) for number in range(1, history.find_turn_number(log) + 1)]
    assert spans[0] is not None
    assert spans[0][0] == "t0"
    assert spans[-1] is not None
    assert spans[-1][1] == history.find_tree(log)
    for before, after in itertools.pairwise(spans):
        assert before is not None
        assert after is not None
        assert before[1] == after[0]


def test_a_missing_step_or_turn_is_refused_with_the_existing_ones():
    log = (Entry(1, started("s")), Entry(2, MessageAdded(message=user("x"), step=0)), Entry(3, make_step_finished(1)))
    with pytest.raises(UsageError, match="no step 2; it has steps 0 to 1"):
        history.find_step_end(log, 2)
    with pytest.raises(UsageError, match="no turn 2; it has turns 1 to 1"):
        history.find_turn_trees(log, 2)
    with pytest.raises(UsageError, match="has not begun"):
        history.build_fork_events((), "new", 0)
    assert isinstance(log[0].event, SessionStarted)
    assert len(drop_rolled_back(log)) == 3


def test_the_saved_results_of_a_killed_process_keep_their_times():
    calls = [ToolCall(call_id=name, name="run", arguments_json="{}") for name in ("a", "b", "c")]
    log = (Entry(1, started()), Entry(2, MessageAdded(message=assistant("", *calls), step=1)))
    results = tuple(ToolResult(call_id=name, name="run", output=name) for name in ("b", "a"))
    timings = tuple(CallTiming(started_at_ms=at_ms, seconds=0.5) for at_ms in (2_000, 1_000))
    entries = history.build_interrupted_entries(log, UnfinishedStep(1, "", results=results, timings=timings))
    added = [entry.event for entry in entries if isinstance(entry.event, MessageAdded)]
    assert [event.timing for event in added] == [timings[1], timings[0], None]
    older = history.build_interrupted_entries(log, UnfinishedStep(1, "", results=results))
    assert [entry.event.timing for entry in older if isinstance(entry.event, MessageAdded)] == [None] * 3


def test_a_later_message_of_a_task_is_due_until_it_was_sent_and_again_after_a_rollback():
    later = (LaterMessage(step=1, text="first"), LaterMessage(step=2, text="second"))
    addition = MessageAdded(message=user("second"), step=2)
    log = [Entry(1, started("s")), Entry(2, make_step_finished(1)), Entry(3, addition)]
    assert history.select_due_messages(later, log[:2]) == later[1:]
    assert history.select_due_messages(later, log) == ()
    assert history.select_due_messages(later, [*log, Entry(4, RolledBack(step=1, to_event=2))]) == later[1:]


def logged(*events):
    return tuple(Entry(seq, event) for seq, event in enumerate(events, 1))


def result(output):
    return MessageAdded(message=tool(ToolResult(call_id="c", name="t", output=output)), step=1)


def compaction(patch, *offloaded):
    return Compaction(
        round=1,
        step=2,
        moment="step",
        status="applied",
        reason="",
        patch=patch,
        tokens_before=Estimated(2),
        tokens_after=Estimated(1),
        messages_before=2,
        messages_after=2,
        offloaded=tuple(map(name_output, offloaded)),
    )


def test_texts_offloaded_from_a_session_are_listed_from_its_log():
    edit = Patch(replace=(Replace(item=ItemId(2), message=result("edited").message),))
    log = logged(result("one"), result("two"), result("three"), compaction(edit), compaction(Patch(), "one", "edited"))
    assert history.list_offloaded_texts(log) == ("one", "edited")
    assert history.list_offloaded_texts(log[:4]) == ()
    edit_of_text = replace(edit, replace=(), insert=(Insert(message=user("one"), after=ItemId(1)),))
    assert history.list_offloaded_texts(logged(result("two"), compaction(edit_of_text, "one"))) == (), (
        "what is no result was never moved"
    )


POLICY = KeepLast(threshold=0.5, keep_last=4, summarizer="scripted/empty")


@pytest.fixture(scope="module")
def task():
    return make_task("spec-api", 0)


@pytest.fixture(scope="module")
def entries(task):
    return simulate(task, POLICY, window_tokens=WINDOW_TOKENS).entries


@pytest.mark.bubblewrap
@pytest.mark.slow
def test_what_a_compaction_dropped_are_the_facts_that_the_probes_saw_before_it_only(task, entries):
    probes = measure_session(entries, task, POLICY.counter).probes
    names = {fact.number: fact.name for fact in probes.facts}
    rounds = [entry for entry in entries if isinstance(entry.event, Compaction) and entry.event.status == "applied"]
    losses = 0
    for seq, event in rounds:
        lost = list_dropped_facts(entries, task, find_compaction(entries, event.round), POLICY.counter)
        rows = [row for row in probes.rows if row.event == seq]
        assert set(lost) == {names[row.fact] for row in rows if row.seen_before and not row.seen_after}
        losses += len(lost)
    assert losses > 3
    with pytest.raises(UsageError, match="no compaction of round 999"):
        find_compaction(entries, 999)


def _texts(view):
    return [
        part.text if hasattr(part, "text") else getattr(part, "output", "") for message in view.messages for part in message.parts
    ]


def test_the_changed_files_of_a_session_are_the_union_of_those_of_its_steps():
    """S3.11: also a file that was changed back counts, but none of a step that was rolled back."""
    saved = [
        WorkspaceSaved(step=0, tree_id="t0"),
        WorkspaceSaved(step=1, tree_id="t1", changed_files=("a", "scratch"), patch_hash="p1"),
        WorkspaceSaved(step=2, tree_id="t2", changed_files=("b", "scratch"), patch_hash="p2"),
    ]
    entries = [Entry(seq, event) for seq, event in enumerate(saved, 1)]
    assert history.list_changed_files(entries) == ("a", "b", "scratch")
    assert history.list_changed_files([*entries, Entry(4, RolledBack(step=1, to_event=2))]) == ("a", "scratch")
