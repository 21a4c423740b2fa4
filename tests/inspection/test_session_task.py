"""Tests of the task of a stored session: of a trial, of a live session, and where it is not known."""

import json
from dataclasses import replace

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import SessionStarted
from harness.inspection.session_task import build_stored_autopsy, find_session_task
from harness.session.spec import SessionSpec, encode_setup
from harness.store.journal import Journal
from harness.store.records import CheckRecord
from harness.store.sessions.lookup import SessionLocation
from harness.tasks import make_task
from tests.cli.command import TINY
from tests.inspection.test_autopsy import SteppedSession
from tests.store.samples import begun, trial

CONFIGURATION = json.dumps({"task": TINY, "seed": 3, "world": {"difficulty": "standard"}, "reader": "exact"})
CHECK = CheckRecord(trial_id="the-trial", check="port", title="The port is written down", passed=False, detail="got ''")


def store(path, *, config_json=CONFIGURATION, request=None, setup_json="", **changes):
    """Store a trial of the tiny task whose request was removed before a wrong value was written; return its location."""
    task = make_task(TINY, 3)
    session = SteppedSession(task=task.prompt if request is None else request)
    session.reply("I begin.")
    session.compact(3)
    session.write("conf.txt", "port=8080\n")
    events = [entry.event for entry in session.entries]
    assert isinstance(events[0], SessionStarted)
    events[0] = replace(events[0], session_id="first", setup_json=setup_json)
    with Journal.open(path) as journal:
        begun(journal, "first").append(events)
        if config_json:
            journal.record_trial(trial("the-trial", "first", config_json=config_json, **changes), [CHECK])
    return SessionLocation(path, "first", "")


def test_a_trial_has_the_facts_of_its_task_and_its_checks(tmp_path):
    autopsy = build_stored_autopsy(store(tmp_path / "journal.sqlite"))
    (fate,) = autopsy.find_compaction(1).fates
    assert (autopsy.notice, fate.name, fate.value, fate.outcome) == ("", "port", "4003", "wrong")
    assert fate.failed_checks == (CHECK.title,)
    (check,) = autopsy.failed_checks or ()
    assert (check.title, check.detail, check.causes[0].round) == (CHECK.title, CHECK.detail, 1)


def test_a_session_outside_of_trials_has_the_task_in_its_log_and_no_checks(tmp_path):
    task = make_task(TINY, 3)
    setup_json = encode_setup(SessionSpec(request=task.prompt, task=task, policy=KeepLast(), reader="tolerant"))
    location = store(tmp_path / "journal.sqlite", config_json="", setup_json=setup_json)
    known = find_session_task(location.read_entries())
    assert (known.task, known.reader, known.checks, known.notice) == (task, "tolerant", None, "")
    autopsy = build_stored_autopsy(location)
    assert (autopsy.find_compaction(1).fates[0].outcome, autopsy.failed_checks) == ("wrong", None)


@pytest.mark.parametrize(
    ("changes", "notice"),
    [
        ({"request": "Something else."}, "The task has changed since the trial"),
        ({"config_json": json.dumps({"task": "gone.py:gone", "seed": 3})}, "cannot be made again"),
        ({"config_json": json.dumps({"seed": 3})}, "cannot be made again"),
        ({"config_json": "{"}, "cannot be made again"),
    ],
)
def test_without_the_task_of_the_trial_the_view_says_what_is_missing(tmp_path, changes, notice):
    autopsy = build_stored_autopsy(store(tmp_path / "journal.sqlite", **changes))
    assert notice in autopsy.notice
    assert autopsy.find_compaction(1).fates == ()
    assert [(check.title, check.causes) for check in autopsy.failed_checks or ()] == [(CHECK.title, ())]


def test_a_setup_of_another_program_leaves_the_task_unknown(tmp_path):
    location = store(tmp_path / "journal.sqlite", config_json="", setup_json='{"task": 1}')
    assert find_session_task(location.read_entries()).task is None
