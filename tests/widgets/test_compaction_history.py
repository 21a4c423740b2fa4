"""Compactions for display: computed from the views before and after them, and from the facts of a scripted task."""

from dataclasses import replace
from itertools import accumulate

import pytest

from harness.conversation.events import Compaction, Entry, RolledBack, TransientEvent
from harness.conversation.view import fold
from harness.inspection.autopsy import build_autopsy
from harness.inspection.autopsy_page import encode_compaction
from harness.inspection.session_steps import MAX_LABEL_CHARACTERS, format_message_line
from harness.sandboxes.backends import SandboxChoice
from harness.session.execution import execute_session
from harness.session.spec import SessionSpec
from harness.widgets.compaction_history import MAX_LISTED_MESSAGES, CompactionHistory
from tests.experiment.run_grid import POLICY
from tests.experiment.tiny_task import tiny

pytestmark = pytest.mark.bubblewrap


@pytest.fixture(scope="module", params=["scripted/empty", "scripted/oracle"])
def session(request):
    """Return the task and the log of a session with compactions."""
    task, heard = tiny(7), list[Entry | TransientEvent]()
    policy = replace(POLICY, summarizer=request.param)
    described = SessionSpec(
        request=task.prompt,
        task=task,
        policy=policy,
        window_tokens=7_000,
        max_steps=40,
        sandbox=SandboxChoice(backend="bubblewrap"),
    )
    execute_session(described, "s", on_event=heard.append)
    return request.param, task, [one for one in heard if isinstance(one, Entry)]


def heard(task, log):
    rounds = CompactionHistory(task, POLICY.counter)
    return rounds, [change for entry in log if (change := rounds.receive(entry))]


def test_each_compaction_is_shown_with_the_views_before_and_after(session):
    _, task, log = session
    rounds, changes = heard(task, log)
    events = [entry.event for entry in log if isinstance(entry.event, Compaction)]
    assert [one.change.event for one in changes] == events
    assert list(rounds.rounds_by_seq.values()) == changes
    assert any(event.status == "applied" for event in events)
    for one in changes:
        assert one.change.before.tokens == one.change.event.tokens_before
        assert one.change.after.tokens == one.change.event.tokens_after
        details = one.build_details()
        assert sum(details["counts"].values()) == len(details["messages"]) + details["left_out"]
        kept = [line for line in details["messages"] if line["disposition"] in ("kept", "masked", "summary")]
        assert len(kept) == one.change.event.messages_after
        assert sum(line["after"] for line in details["messages"]) == one.change.event.tokens_after


def test_facts_are_lost_where_the_summary_does_not_tell_them(session):
    summarizer, task, log = session
    first = next(one for one in heard(task, log)[1] if one.change.event.status == "applied")
    names = [fact["name"] for fact in first.build_details()["facts"]["lost"]]
    assert names == ([] if summarizer == "scripted/oracle" else ["port"])
    assert first.build_timeline_point()["lost"] == len(names)


def test_lost_facts_are_unknown_in_a_session_without_a_task(session):
    _, _, log = session
    assert {one.build_timeline_point()["lost"] for one in heard(None, log)[1]} == {None}


def test_only_compactions_before_the_target_of_a_rollback_remain(session):
    _, task, log = session
    at = next(index for index, entry in enumerate(log) if isinstance(entry.event, Compaction))
    back = Entry(log[-1].seq + 1, RolledBack(step=1, to_event=log[at - 1].seq))
    rounds, _ = heard(task, [*log, back])
    *_, view = accumulate(log[:at], lambda view, entry: fold(view, entry, POLICY.counter), initial=CompactionHistory().view)
    assert rounds.rounds_by_seq == {}
    assert rounds.view == view
    again = [change for entry in log[at:] if (change := rounds.receive(entry))]
    assert [one.build_timeline_point() for one in again] == [one.build_timeline_point() for one in heard(task, log)[1]]


def test_a_message_is_summed_up_in_a_short_line(session):
    _, _, log = session
    lines = [format_message_line(entry.event.message) for entry in log if hasattr(entry.event, "message")]
    assert 0 < len(lines) < MAX_LISTED_MESSAGES
    assert all(len(line) <= MAX_LABEL_CHARACTERS and "\n" not in line for line in lines)


def test_the_autopsy_of_a_compaction_is_that_of_the_whole_log(session):
    _, task, log = session
    rounds, changes = heard(task, log)
    whole = build_autopsy(log, task, POLICY.counter)
    for one in changes:
        shown = rounds.build_autopsy(one.seq)
        if one.change.event.status != "applied":
            assert shown is None
            continue
        number = one.change.event.round
        assert shown["compaction"] == encode_compaction(whole, whole.find_compaction(number))
        assert [round_["number"] for round_ in shown["session"]["rounds"]] == [other.round for other in whole.compactions]
        lost = [row["name"] for row in shown["compaction"]["rows"] if not row["kept"]]
        assert lost == [fact["name"] for fact in one.build_details()["facts"]["lost"]]
    without_task = heard(None, log)[0]
    assert [without_task.build_autopsy(seq) for seq in without_task.rounds_by_seq] == [None] * len(changes)


def test_an_autopsy_that_was_shown_is_made_anew_after_further_entries(session):
    _, task, log = session
    looked = CompactionHistory(task, POLICY.counter)
    for entry in log:
        if change := looked.receive(entry):
            looked.build_autopsy(change.seq)
    whole, changes = heard(task, log)
    assert len(changes) > 1
    assert all(looked.build_autopsy(one.seq) == whole.build_autopsy(one.seq) for one in changes)
