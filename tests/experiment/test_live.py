"""A live session: turns, queue, stop, resume, rollback, fork, reopening. The sandbox, the journal and the thread are real."""

import threading
import time

import pytest

from harness.errors import UsageError
from harness.events import (
    Entry,
    MessageAdded,
    MessageQueued,
    SessionEnded,
    SessionForked,
    SessionResumed,
    SessionStarted,
    StateChanged,
    StepFinished,
    TurnEnded,
)
from harness.experiment.live import LiveSession
from harness.store.journal import Journal
from harness.view import fold_all
from tests.experiment.test_interactive import session

SECONDS = 60


class Living:
    """Makes live sessions and closes them."""

    def __init__(self, folder):
        self.folder = folder
        self.made = []

    def __call__(self, listen=lambda _: None, *, start=True, **changes):
        changes.setdefault("journal", self.folder / "j.sqlite")
        one = self.too(LiveSession(session(**changes), listen=listen))
        return one.start() if start else one

    def too(self, one):
        self.made.append(one)
        return one


@pytest.fixture
def living(tmp_path):
    made = Living(tmp_path)
    yield made
    for one in made.made:
        one.close()


def user_texts(live):
    said = [entry.event.message for entry in live.entries if isinstance(entry.event, MessageAdded)]
    return [one.text for one in said if one.role == "user" and one.text != "Take your time."]


def test_a_message_that_is_sent_while_it_works_waits_for_its_turn_and_is_told_its_position(living):
    live = living()
    assert [live.send("first"), live.send("second")] == [1, 2]
    assert live.queued == ("first", "second")
    assert live.wait(SECONDS) == "idle", live.failure
    assert live.queued == ()
    assert user_texts(live)[-2:] == ["first", "second"]
    turns = [entry.event for entry in live.entries if isinstance(entry.event, TurnEnded)]
    assert [(one.turn, one.status, one.reason) for one in turns] == [(number, "completed", "replied") for number in (1, 2, 3)]


def test_what_is_told_is_what_is_logged_in_order_and_in_one_thread(living, tmp_path):
    heard, threads = [], set()

    def listen(one):
        heard.append(one)
        threads.add(threading.current_thread().name)

    live = living(listen)
    live.send("more")
    live.wait(SECONDS)
    live.close()
    told = [one for one in heard if isinstance(one, Entry)]
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        assert list(journal.entries(live.session_id)) == told == list(live.entries)
    assert threads == {f"harness-session-{live.session_id}"}
    states = [one.state for one in heard if isinstance(one, StateChanged)]
    assert states[-1] == "closed"


def test_the_view_is_that_of_the_log_at_every_rest(living):
    live = living()
    live.wait(SECONDS)
    assert live.view == fold_all(live.entries)
    live.send("go on")
    live.wait(SECONDS)
    assert live.view == fold_all(live.entries)


def stopped_after(living, steps, **changes):
    """A session that was stopped in its first turn when that many steps were done."""
    reached = threading.Event()

    def listen(one):
        if isinstance(one, Entry) and isinstance(one.event, StepFinished) and one.event.step == steps:
            live.stop()
            reached.set()

    live = living(listen, start=False, **changes)
    live.start()
    assert reached.wait(SECONDS), live.failure
    assert live.wait(SECONDS) == "idle", live.failure
    return live


def test_a_stopped_turn_is_gone_on_with(living):
    live = stopped_after(living, 2)
    assert live.entries[-1].event.reason == "cancelled"
    live.resume()
    assert live.wait(SECONDS) == "idle"
    ended = live.close()
    assert (ended.outcome.status, [check.passed for check in ended.checks]) == ("completed", [True, True])
    assert [e.event.turn for e in live.entries if isinstance(e.event, TurnEnded)] == [1, 1]
    assert isinstance(live.entries[-1].event, SessionEnded)


def test_what_waits_when_a_turn_is_stopped_stays_until_somebody_wishes_otherwise(living):
    live = living(start=False)
    live.send("later")
    live.start()
    live.stop()
    live.wait(SECONDS)
    assert live.queued == ("later",)
    live.send("now")
    live.wait(SECONDS)
    assert live.queued == ()
    assert user_texts(live)[-2:] == ["later", "now"]


def test_a_waiting_message_can_be_withdrawn(living):
    live = living()
    live.send("one")
    live.send("two")
    try:
        assert live.withdraw(2) == "two"
    finally:
        live.wait(SECONDS)
    assert "two" not in user_texts(live)
    with pytest.raises(UsageError, match="no message waits at position 1; 0 wait"):
        live.withdraw(1)


def test_a_session_without_a_request_begins_with_the_first_message(living):
    live = living(request="")
    assert live.wait(SECONDS) == "idle"
    assert live.entries == ()
    live.send("Write `port=N` into conf.txt. The port is 4000.")
    assert live.wait(SECONDS) == "idle", live.failure
    assert isinstance(live.entries[0].event, SessionStarted)
    assert live.entries[0].event.task.endswith("The port is 4000.")
    assert not [one for one in live.entries if isinstance(one.event, MessageQueued)]


def test_rolling_back_brings_back_view_and_workspace(living):
    live = living()
    live.wait(SECONDS)
    end = next(e.seq for e in live.entries if isinstance(e.event, StepFinished) and e.event.step == 4)
    assert live.summary().files == 1
    live.rollback(4)
    assert live.view == fold_all(live.entries[:end])
    assert live.summary().files == 0
    assert live.state == "idle"
    live.resume()
    live.wait(SECONDS)
    assert [check.passed for check in live.close().checks] == [True, True]


def test_a_fork_equals_its_original_up_to_the_step_and_then_goes_its_own_way(living):
    live = living()
    live.wait(SECONDS)
    before = live.entries
    fork = live.fork(3)
    living.too(fork)
    end = next(e.seq for e in before if isinstance(e.event, StepFinished) and e.event.step == 3)
    assert fork.entries[1:end] == before[1:end]
    assert fork.entries[0].event.task == before[0].event.task
    assert isinstance(fork.entries[end].event, SessionForked)
    assert fork.view == fold_all(before[:end])
    fork.start()
    assert fork.wait(SECONDS) == "idle", fork.failure
    assert isinstance(fork.entries[end + 1].event, SessionResumed)
    fork.resume()
    fork.wait(SECONDS)
    assert [check.passed for check in fork.close().checks] == [True, True]
    assert live.entries == before


@pytest.mark.parametrize("kept", ["in memory", "in another journal"])
def test_a_fork_has_the_workspace_of_its_step_wherever_it_is_kept(living, tmp_path, kept):
    live = living(journal=None if kept == "in memory" else tmp_path / "j.sqlite")
    live.wait(SECONDS)
    fork = live.fork(9, None if kept == "in memory" else tmp_path / "other.sqlite")
    living.too(fork)
    live.close()
    fork.start()
    assert fork.wait(SECONDS) == "idle", fork.failure
    assert [(one.path, one.kind) for one in fork.summary().changes] == [("conf.txt", "added")]
    fork.resume()
    fork.wait(SECONDS)
    assert all(check.passed for check in fork.close().checks)


def test_the_changes_of_a_turn_are_told_by_path(living):
    live = living()
    live.send("thanks")
    live.wait(SECONDS)
    assert [(one.path, one.kind, one.added_lines) for one in live.diff(1)] == [("conf.txt", "added", 1)]
    assert live.diff(2) == live.diff() == ()
    with pytest.raises(UsageError, match="no turn 3; there are 1 to 2"):
        live.diff(3)


def test_a_closed_session_is_taken_up_again_with_log_and_workspace(living, tmp_path):
    live = stopped_after(living, 9)
    live.close()
    again = LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, session=live.session)
    living.too(again)
    assert again.entries == live.entries
    again.start()
    assert again.wait(SECONDS) == "idle", again.failure
    again.resume()
    again.wait(SECONDS)
    assert all(check.passed for check in again.close().checks)
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        [row] = journal.rows("SELECT status, reason FROM sessions")
        assert tuple(row) == ("completed", "replied")


def test_closing_is_idempotent_and_nothing_is_wished_of_a_closed_session(living):
    live = living()
    live.wait(SECONDS)
    assert live.close() == live.close()
    assert live.state == "closed"
    for wish in (lambda: live.send("more"), live.resume, lambda: live.rollback(1)):
        with pytest.raises(UsageError, match="closed"):
            wish()


def test_a_session_that_never_started_is_closed_at_once(living):
    live = living(start=False)
    assert live.close().outcome.detail == "it never began"
    assert live.state == "closed"


def test_only_an_idle_session_is_rolled_back_and_only_to_a_step_that_it_has(living):
    live = living()
    with pytest.raises(UsageError, match="stop it and wait"):
        live.rollback(1)
    live.wait(SECONDS)
    with pytest.raises(UsageError, match="no step 99; there are 0 to 10"):
        live.rollback(99)
    with pytest.raises(UsageError, match="no step 99"):
        live.fork(99)
    assert live.state == "idle"


def test_what_cannot_run_is_refused_before_a_thread_starts(living):
    live = living(start=False, window_tokens=50)
    with pytest.raises(UsageError, match="more than the window of 50"):
        live.start()
    assert live.state == "new"
    assert live.entries == ()


def test_stopping_twice_and_stopping_an_idle_session_changes_nothing(living):
    live = living()
    live.wait(SECONDS)
    before = live.entries
    live.stop()
    live.stop()
    time.sleep(0.1)
    assert live.wait(1) == "idle"
    assert live.entries == before
