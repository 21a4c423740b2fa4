"""Tests of live sessions with a real sandbox, journal and thread: turns, queue, stop, resume, rollback, fork and reopening."""

import gc
import io
import json
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import warnings
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from harness.cli.event_printer import EventPrinter
from harness.compaction.presets.none import NoCompaction
from harness.conversation.codec import to_canonical_json
from harness.conversation.events import (
    CallRepeated,
    CallStarted,
    Compaction,
    Entry,
    MessageAdded,
    MessageQueued,
    Notice,
    SessionEnded,
    SessionForked,
    SessionResumed,
    SessionStarted,
    StateChanged,
    StepFinished,
    TextDelta,
    ToolStarted,
    TurnEnded,
    Waiting,
    WorkspaceSaved,
)
from harness.conversation.messages import File, ToolCall, assistant, user
from harness.conversation.view import compute_tool_states, fold_all
from harness.errors import SandboxError, StoreError, UsageError
from harness.inspection.timeline import inspect_session
from harness.policies import policy_from_plain
from harness.sandboxes.backends import SandboxChoice
from harness.session import history
from harness.session.execution import execute_session
from harness.session.live_session import LiveSession
from harness.store.journal import Journal
from harness.store.sessions.queries import list_messages, list_parts
from harness.widgets.compaction_history import CompactionHistory
from harness.widgets.feed import build_feed
from tests.experiment.exploring_task import hidden
from tests.experiment.run_grid import POLICY
from tests.models.openai_stub import Refuse, Say, serving
from tests.prepared import PreparedProcess, run
from tests.session.test_execution import session
from tests.store.samples import plain

SECONDS = 300


class Living:
    """Factory of live sessions that closes them at the end of a test."""

    def __init__(self, folder):
        self.folder = folder
        self.sessions = []

    def __call__(self, listen=lambda _: None, *, start=True, **changes):
        changes.setdefault("journal", self.folder / "j.sqlite")
        one = self.too(LiveSession(session(**changes), on_event=listen))
        return one.start() if start else one

    def too(self, one):
        self.sessions.append(one)
        return one

    def close(self):
        for one in self.sessions:
            one.close()


@pytest.fixture
def living(tmp_path):
    factory = Living(tmp_path)
    yield factory
    factory.close()


def user_texts(live):
    messages = [entry.event.message for entry in live.entries if isinstance(entry.event, MessageAdded)]
    return [one.text for one in messages if one.role == "user" and one.text != "Take your time."]


def test_a_window_too_narrow_for_its_policy_is_warned_of_and_shown_in_the_panel(living):
    tight = policy_from_plain({"kind": "keep-last", "trigger_tokens": 900, "summarizer": "scripted/oracle"})
    feed, warned = build_feed(CompactionHistory(None, tight.counter), ()), threading.Event()

    def listen(heard):
        feed.receive(heard)
        if isinstance(heard, Notice):
            warned.set()

    living(listen, policy=tight, window_tokens=16_000)
    assert warned.wait(SECONDS)
    [note] = [row["text"] for row in feed.rows if row["kind"] == "notice"]
    assert "and compacts again and again" in note


def test_a_message_sent_during_a_turn_is_queued_and_its_position_is_returned(living):
    """S1.4."""
    live = living()
    assert [live.send("first"), live.send("second")] == [1, 2]
    assert live.queued_messages == ("first", "second")
    assert live.wait(SECONDS) == "idle", live.failure
    assert live.queued_messages == ()
    assert user_texts(live)[-2:] == ["first", "second"]
    turns = [entry.event for entry in live.entries if isinstance(entry.event, TurnEnded)]
    assert [(turn.turn, turn.status, turn.reason) for turn in turns] == [(number, "completed", "replied") for number in (1, 2, 3)]


def test_listeners_receive_every_logged_entry_in_order_and_in_one_thread(living, tmp_path):
    heard, threads = [], set()

    def listen(one):
        heard.append(one)
        threads.add(threading.current_thread().name)

    live = living(listen)
    live.send("more")
    live.wait(SECONDS)
    live.close()
    entries = [one for one in heard if isinstance(one, Entry)]
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        assert list(journal.read_entries(live.session_id)) == entries == list(live.entries)
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
    """Return a session that was stopped in its first turn after a number of steps."""
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


def test_a_stopped_turn_can_be_continued(living):
    """S1.5."""
    live = stopped_after(living, 2)
    assert live.entries[-1].event.reason == "cancelled"
    live.resume()
    assert live.wait(SECONDS) == "idle"
    ended = live.close()
    assert (ended.outcome.status, [check.passed for check in ended.checks]) == ("completed", [True, True])
    assert [e.event.turn for e in live.entries if isinstance(e.event, TurnEnded)] == [1, 1]
    assert isinstance(live.entries[-1].event, SessionEnded)


def test_a_resumed_turn_keeps_its_count_of_steps(living, tmp_path):
    live = stopped_after(living, 3, max_steps=7)
    live.close()
    live = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=live.spec)).start()
    assert live.wait(SECONDS) == "idle", live.failure
    live.resume()
    assert live.wait(SECONDS) == "idle", live.failure
    ends = [entry.event for entry in live.entries if isinstance(entry.event, TurnEnded)]
    assert [one.reason for one in ends] == ["cancelled", "max_steps"]
    assert live.view.steps == 7
    live.resume()  # who wants more than the limit gets a turn of it
    assert live.wait(SECONDS) == "idle", live.failure
    assert 7 < live.view.steps <= 14
    before = live.view.steps
    live.send("and now?")
    assert live.wait(SECONDS) == "idle", live.failure
    assert before < live.view.steps <= before + 7


def test_a_session_says_why_its_last_turn_failed_until_it_works_again(living, tmp_path):
    live = living(policy=policy_from_plain({"kind": "none"}), window_tokens=6_000)
    assert live.wait(SECONDS) == "idle"
    assert "prompt too long" in live.failure
    assert "compaction is off with policy 'none': switch it on" in live.failure
    live.close()
    assert "prompt too long" in live.failure
    wider = replace(live.spec, window_tokens=60_000)
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=wider))
    assert "prompt too long" in again.failure
    again.start()
    again.wait(SECONDS)
    again.resume()
    assert again.wait(SECONDS) == "idle"
    assert again.failure == ""


def test_the_step_limit_is_a_failure_of_the_turn_and_a_stop_by_the_user_is_none(living, tmp_path):
    live = living(max_steps=2)
    assert live.wait(SECONDS) == "idle"
    assert live.failure == "stopped after 2 steps"
    live.roll_back(1)
    assert live.failure == ""
    stopped = living(journal=tmp_path / "stopped.sqlite", start=False)
    stopped.start()
    stopped.stop()
    stopped.wait(SECONDS)
    assert stopped.failure == ""


def test_queued_messages_stay_queued_after_a_stop_until_the_next_message(living):
    live = living(start=False)
    live.send("later")
    live.start()
    live.stop()
    live.wait(SECONDS)
    assert live.queued_messages == ("later",)
    live.send("now")
    live.wait(SECONDS)
    assert live.queued_messages == ()
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
    with pytest.raises(UsageError, match="no message is queued at position 1; 0 in the queue"):
        live.withdraw(1)


def test_a_session_without_a_request_begins_with_the_first_message(living):
    live = living(request="")
    assert live.wait(SECONDS) == "idle"
    assert live.entries == ()
    live.send("Write `port=N` into conf.txt. The port is 4000.")
    assert live.wait(SECONDS) == "idle", live.failure
    assert isinstance(live.entries[0].event, SessionStarted)
    assert live.entries[0].event.task.endswith("The port is 4000.")
    assert not [entry for entry in live.entries if isinstance(entry.event, MessageQueued)]


def test_a_session_is_compacted_on_request(living):
    live = living(policy=policy_from_plain({"kind": "keep-last", "keep_last": 2, "summarizer": "scripted/extractive"}))
    with pytest.raises(UsageError, match="stop it and wait"):
        live.compact()
    live.wait(SECONDS)
    before = live.view
    event = live.compact()
    assert (event.status, event.moment, event.reason) == ("applied", "manual", "asked for")
    assert event.summary
    assert live.view.tokens == event.tokens_after < before.tokens
    assert live.state == "idle"
    again = live.compact()
    assert (again.status, live.view.tokens) == ("no-op", event.tokens_after)
    live.send("Is it done?")
    assert live.wait(SECONDS) == "idle", live.failure
    assert [check.passed for check in live.close().checks] == [True, True]


def list_patches(live):
    """Return step, hash and files of all patches in the journal of a session."""
    with Journal.open(live.spec.journal, read_only=True) as journal:
        rows = journal.query(
            "SELECT step, data_json FROM parts WHERE session_id = ? AND type = 'patch' ORDER BY id", live.session_id
        )
    return [(row["step"], *json.loads(row["data_json"]).values()) for row in rows]


def test_the_steps_of_a_session_have_their_snapshots_and_patches_as_parts_also_after_a_rollback(living):
    """S3.6, S3.11."""
    live = living()
    live.wait(SECONDS)
    [(number, digest, files)] = list_patches(live)
    assert (files, len(digest)) == (["conf.txt"], 64)
    with Journal.open(live.spec.journal, read_only=True) as journal:
        rows = journal.query("SELECT step, type, data_json FROM parts WHERE type IN ('step-start', 'step-finish') ORDER BY id")
    snapshots = [(row["step"], json.loads(row["data_json"])["snapshot"]) for row in rows]
    before, after = history.list_trees(live.entries)
    steps = range(1, live.view.steps + 1)
    assert snapshots == [(step, before if step < number + starts else after) for step in steps for starts in (1, 0)]
    live.roll_back(number - 1)
    live.resume()
    live.wait(SECONDS)
    assert [(again, patch) for again, patch, _ in list_patches(live)] == [(number, digest)] * 2, (
        "compared with the restored workspace"
    )


def test_a_file_that_the_user_attaches_is_a_part_of_the_message_also_after_the_session_was_reopened(living, tmp_path):
    """S3.6."""
    live, file = living(), tmp_path / "a.py"
    live.wait(SECONDS)
    file.write_text("x = 'é'\n", encoding="utf-8")
    live.stop()
    live.close()
    again = living.too(LiveSession.reopen(live.spec.journal, live.session_id, spec=session()))
    again.start()
    again.wait(SECONDS)
    again.send("Use this.", files=[file])
    file.unlink()
    assert again.wait(SECONDS) == "idle", again.failure
    [message] = [message for message in again.view.messages if message.role == "user" and message.text == "Use this."]
    attached = File(path=str(file), content="x = 'é'\n")
    assert message == user("Use this.", attached)
    [queued] = [entry.event for entry in again.entries if isinstance(entry.event, MessageQueued)]
    assert queued.files == (attached,)
    [(kind, text)] = plain(live.spec.journal, "SELECT type, text FROM parts WHERE type = 'file'")
    assert (kind, text) == ("file", f"{file}\nx = 'é'\n")


@pytest.mark.parametrize(
    ("content", "explanation"),
    [(None, "No such file"), (b"\xff\xfe", "not UTF-8 text"), (b"x" * 1_000_001, "more than the 1,000,000")],
)
def test_an_invalid_attachment_is_refused_and_no_message_is_sent(living, tmp_path, content, explanation):
    live, file = living(start=False), tmp_path / "a"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=explanation):
        live.send("Use this.", files=[file])
    assert live.queued_messages == ()


def test_the_request_of_a_session_has_no_files_but_the_next_message_may(living, tmp_path):
    live = living(start=False, task=None, request="")
    (tmp_path / "a").write_text("x")
    with pytest.raises(UsageError, match="send them with the next"):
        live.send("Do it.", files=[tmp_path / "a"])
    assert live.send("Do it.") == 1
    assert live.send("Use this.", files=[tmp_path / "a"]) == 2


def test_a_message_with_files_does_not_become_the_request_when_another_is_withdrawn(living, tmp_path):
    live = living(start=False, task=None, request="")
    (tmp_path / "a").write_text("x")
    live.send("Do it.")
    live.send("Use this.", files=[tmp_path / "a"])
    with pytest.raises(UsageError, match="would become the request of the session and cannot have files"):
        live.withdraw(1)
    assert live.queued_messages == ("Do it.", "Use this.")
    assert live.withdraw(2) == "Use this."
    live.send("Then this.")
    assert live.withdraw(1) == "Do it."
    assert live.queued_messages == ("Then this.",)


def test_a_message_may_have_files_once_the_request_was_taken(living, silent_engine, tmp_path):
    live = living(request="", sandbox=silent_engine)
    (tmp_path / "a").write_text("x")
    live.send("Do it.")
    end = time.monotonic() + SECONDS
    while live.queued_messages and time.monotonic() < end:
        time.sleep(0.01)
    assert [live.send("Now."), live.send("Use this.", files=[tmp_path / "a"])] == [1, 2]
    assert live.withdraw(1) == "Now."
    assert live.withdraw(1) == "Use this."
    assert live.send("Use this.", files=[tmp_path / "a"]) == 1


def test_a_policy_without_rules_does_not_compact_on_request(living):
    live = living()
    live.wait(SECONDS)
    assert live.compact() is None
    assert not [entry for entry in live.entries if isinstance(entry.event, Compaction)]


def test_rolling_back_brings_back_view_and_workspace(living):
    """S3.11."""
    live = living()
    live.wait(SECONDS)
    end = next(e.seq for e in live.entries if isinstance(e.event, StepFinished) and e.event.step == 4)
    assert live.summarize_changes().files == 1
    live.roll_back(4)
    assert live.view == fold_all(live.entries[:end])
    assert live.summarize_changes().files == 0
    assert live.state == "idle"
    live.resume()
    live.wait(SECONDS)
    assert [check.passed for check in live.close().checks] == [True, True]


@pytest.mark.slow
def test_a_fork_equals_its_original_up_to_the_step_and_then_goes_its_own_way(living):
    live = living()
    live.wait(SECONDS)
    before = live.entries
    fork = live.fork(3)
    living.too(fork)
    names = [fork.session_id, *(living.too(live.fork(3)).session_id for _ in range(4))]
    assert names == sorted(set(names), reverse=True), "S3.13: the newest session sorts first"
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


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["in memory", "in another journal"])
def test_a_fork_has_the_workspace_of_its_step_wherever_it_is_kept(living, tmp_path, kept):
    live = living(journal=None if kept == "in memory" else tmp_path / "j.sqlite")
    live.wait(SECONDS)
    fork = live.fork(9, None if kept == "in memory" else tmp_path / "other.sqlite")
    living.too(fork)
    live.close()
    fork.start()
    assert fork.wait(SECONDS) == "idle", fork.failure
    assert [(change.path, change.kind) for change in fork.summarize_changes().changes] == [("conf.txt", "added")]
    fork.resume()
    fork.wait(SECONDS)
    assert all(check.passed for check in fork.close().checks)


def test_a_fork_has_the_workspace_of_its_step_when_the_working_folder_changes(living, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    live = living(journal="j.sqlite")
    live.wait(SECONDS)
    monkeypatch.chdir(tmp_path / "elsewhere")
    fork = living.too(live.fork(9)).start()
    assert fork.wait(SECONDS) == "idle", fork.failure
    assert [(one.path, one.kind) for one in fork.summarize_changes().changes] == [("conf.txt", "added")]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_changes_of_a_turn_are_listed_by_path(living):
    """S3.11."""
    live = living()
    live.send("thanks")
    live.wait(SECONDS)
    assert [(change.path, change.kind, change.added_lines) for change in live.list_changes(1)] == [("conf.txt", "added", 1)]
    assert live.list_changes(2) == live.list_changes() == live.list_patches(2) == ()
    [patch] = live.list_patches(1)
    assert patch.text == "--- /dev/null\n+++ b/conf.txt\n@@ -0,0 +1 @@\n+port=4000\n"
    assert live.list_patches(whole_session=True) == live.list_patches(1)
    with pytest.raises(UsageError, match="no turn 3; it has turns 1 to 2"):
        live.list_changes(3)


def test_a_closed_session_is_taken_up_again_with_log_and_workspace(living, tmp_path):
    live = stopped_after(living, 9)
    live.close()
    again = LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=live.spec)
    living.too(again)
    assert again.entries == live.entries
    again.start()
    assert again.wait(SECONDS) == "idle", again.failure
    again.resume()
    again.wait(SECONDS)
    assert all(check.passed for check in again.close().checks)
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        [row] = journal.query("SELECT status, reason FROM sessions")
        assert tuple(row) == ("completed", "replied")


def test_a_summary_that_was_put_off_is_written_in_the_reopened_session_before_the_next_message(living, tmp_path):
    """S3.15: lazily, where nobody attends; the log alone says that the summary is due."""
    lazy = policy_from_plain(
        {
            "kind": "three-tiers",
            "lazy": True,
            "max_output_tokens": 17_000,
            "summarizer": "scripted/oracle",
            "auto_continue": False,
        }
    )
    live = living(policy=lazy, window_tokens=20_000, repeated="continue", journal=tmp_path / "lazy.sqlite")
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    [*_, last] = [entry.event for entry in live.entries if isinstance(entry.event, StepFinished)]
    assert last.usage.prompt_tokens > 3_000, "it was due"
    assert not any(isinstance(entry.event, Compaction) for entry in live.entries), "and put off"
    again = living.too(LiveSession.reopen(tmp_path / "lazy.sqlite", live.session_id, spec=live.spec)).start()
    again.send("and a README")
    assert again.wait(SECONDS) == "idle", again.failure
    new = [entry.event for entry in again.entries[len(live.entries) :]]
    compacted = next(at for at, one in enumerate(new) if isinstance(one, Compaction))
    asked = next(at for at, one in enumerate(new) if isinstance(one, MessageAdded) and one.message.text == "and a README")
    assert compacted < asked
    assert (new[compacted].status, new[compacted].moment) == ("applied", "turn")
    assert [message.role for message in again.view.messages[:3]] == ["system", "user", "assistant"]
    assert "and a README" in [message.text for message in again.view.messages[3:]]


@pytest.mark.slow
def test_messages_to_a_reopened_session_are_kept_if_its_sandbox_does_not_start(living, tmp_path):
    """S1.4."""
    live = stopped_after(living, 2)
    live.close()
    file = tmp_path / "j.sqlite"
    again = living.too(LiveSession.reopen(file, live.session_id))
    assert [again.send("first"), again.send("second")] == [1, 2]
    assert again.start().wait(SECONDS) == "failed"
    assert "unsafe_local=True" in again.failure
    assert LiveSession.reopen(file, live.session_id).queued_messages == again.queued_messages == ("first", "second")
    once_more = living.too(LiveSession.reopen(file, live.session_id, spec=live.spec))
    once_more.start().send("third")
    assert once_more.wait(SECONDS) == "idle", once_more.failure
    assert user_texts(once_more)[-3:] == ["first", "second", "third"]


@pytest.mark.slow
def test_a_session_that_runs_is_not_run_a_second_time_and_goes_on(living, tmp_path):
    live = living()
    assert live.wait(SECONDS) == "idle", live.failure
    second = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=live.spec))
    with pytest.raises(UsageError, match="close it there first, or fork it"):
        second.start()
    assert second.state == "new"
    live.send("still mine")
    assert live.wait(SECONDS) == "idle", live.failure
    assert user_texts(live)[-1] == "still mine"
    assert not [entry for entry in live.entries if isinstance(entry.event, SessionResumed)]
    live.close()
    assert second.start().wait(SECONDS) == "failed", "it was opened before the other one went on"
    assert "was continued elsewhere since it was opened here; reopen it" in second.failure
    third = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=live.spec)).start()
    assert third.wait(SECONDS) == "idle", third.failure
    assert third.entries[: len(live.entries)] == live.entries


def test_closing_is_idempotent_and_nothing_is_wished_of_a_closed_session(living):
    live = living()
    live.wait(SECONDS)
    assert live.close() == live.close()
    assert live.state == "closed"
    for wish in (lambda: live.send("more"), live.resume, lambda: live.roll_back(1)):
        with pytest.raises(UsageError, match="closed"):
            wish()


def test_a_session_that_never_started_is_closed_at_once(living):
    live = living(start=False)
    assert live.close().outcome.detail == "the session never began"
    assert live.state == "closed"


def test_only_an_idle_session_is_rolled_back_and_only_to_a_step_that_it_has(living):
    live = living()
    with pytest.raises(UsageError, match="stop it and wait"):
        live.roll_back(1)
    live.wait(SECONDS)
    with pytest.raises(UsageError, match="no step 99; it has steps 0 to 10"):
        live.roll_back(99)
    with pytest.raises(UsageError, match="no step 99"):
        live.fork(99)
    assert live.state == "idle"


def test_a_session_that_cannot_run_is_refused_before_a_thread_starts(living):
    live = living(start=False, window_tokens=50)
    with pytest.raises(UsageError, match="more than the window of 50"):
        live.start()
    assert live.state == "new"
    assert live.entries == ()


@pytest.fixture
def engine(living, tmp_path, monkeypatch):
    """Provide the socket of a Docker Engine that accepts connections and never answers."""
    earlier_threads = {*threading.enumerate()}
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "d.sock"))
        engine.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'd.sock'}")
        yield engine
        living.close()
    with warnings.catch_warnings():  # the Docker library leaves its socket open if the engine ends before it is connected
        warnings.simplefilter("ignore", ResourceWarning)
        for thread in {*threading.enumerate()} - earlier_threads:  # one may still start the sandbox of a closed session
            thread.join(SECONDS)
        gc.collect()


@pytest.fixture
def silent_engine(engine):
    """Provide a sandbox in an engine that never answers."""
    return SandboxChoice(backend="docker")


@pytest.fixture
def dead_engine(engine):
    """Provide a sandbox in an engine that closes connections without an answer."""

    def hang_up():
        with suppress(OSError):
            while True:
                engine.accept()[0].close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    yield SandboxChoice(backend="docker")
    engine.shutdown(socket.SHUT_RDWR)
    thread.join()


def read_status(file):
    with Journal.open(file, read_only=True) as journal:
        [row] = journal.query("SELECT status, reason, detail, ended_at FROM sessions")
        return tuple(row)


def test_a_session_whose_sandbox_cannot_start_is_marked_as_failed_with_its_reason(living, dead_engine, tmp_path):
    live = living(sandbox=dead_engine, unsafe_local=False)
    assert live.wait(SECONDS) == "failed"
    status, reason, detail, ended_at = read_status(tmp_path / "j.sqlite")
    assert (status, reason, detail) == ("failed", "sandbox_error", live.failure)
    assert ended_at is not None
    other = session(sandbox=dead_engine, unsafe_local=False, journal=tmp_path / "k.sqlite")
    with pytest.raises(SandboxError) as caught:
        execute_session(other, "s")
    assert read_status(tmp_path / "k.sqlite")[:3] == ("failed", "sandbox_error", str(caught.value))


def test_a_reopened_session_whose_sandbox_cannot_start_keeps_the_end_of_its_last_turn(living, tmp_path):
    live = living()
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    ended = read_status(tmp_path / "j.sqlite")
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id)).start()
    assert again.wait(SECONDS) == "failed"
    assert "unsafe_local=True" in again.failure
    assert read_status(tmp_path / "j.sqlite") == ended
    assert ended[:2] == ("completed", "replied")


def test_a_reopened_session_that_is_closed_at_once_keeps_the_reason_that_stopped_its_last_turn(living, tmp_path):
    live = living(max_steps=2)
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=live.spec)).start()
    assert again.wait(SECONDS) == "idle", again.failure
    again.close()
    ends = [entry.event for entry in again.entries if isinstance(entry.event, TurnEnded | SessionEnded)]
    assert [(one.status, one.reason) for one in ends] == [("failed", "max_steps")] * 3
    assert read_status(tmp_path / "j.sqlite")[:2] == ("failed", "max_steps")


def test_a_session_that_is_closed_while_it_starts_does_not_seem_to_be_running(living, silent_engine, tmp_path):
    live = living(sandbox=silent_engine, unsafe_local=False)
    live.close()
    end = time.monotonic() + SECONDS
    while read_status(tmp_path / "j.sqlite")[0] == "active" and time.monotonic() < end:
        time.sleep(0.01)
    assert read_status(tmp_path / "j.sqlite")[:2] == ("failed", "cancelled")


@pytest.mark.slow
def test_a_session_can_be_stopped_resumed_and_closed_while_its_sandbox_never_starts(living, silent_engine):
    """S1.5."""
    live = living(sandbox=silent_engine)
    assert live.state == "starting"
    assert live.wait(0.3) == "starting"
    assert live.stop() is None
    assert live.wait(SECONDS) == "idle"
    assert live.send("now") == 1
    assert live.state == "starting"
    live.stop()
    live.resume()
    assert live.wait(0.3) == "starting"
    ended = live.close()
    assert ended.outcome.reason == "cancelled"
    assert (live.state, live.entries) == ("closed", ())


class Slow(NoCompaction):
    """Policy whose check takes long."""

    checking, goes_on = threading.Event(), threading.Event()

    def budget(self, window):
        self.checking.set()
        assert self.goes_on.wait(SECONDS)
        return NoCompaction().budget(window)


def test_callers_do_not_wait_while_a_session_is_checked_before_its_start(living):
    live = living(start=False, policy=Slow())
    starting = threading.Thread(target=live.start)
    starting.start()
    assert Slow.checking.wait(SECONDS)
    assert live.send("first") == 1
    live.stop()
    with pytest.raises(UsageError, match="was already started"):
        live.start()
    assert live.close().outcome.detail == "the session never began"
    Slow.goes_on.set()
    starting.join(SECONDS)
    assert (live.state, live.entries) == ("closed", ())


def test_a_session_stopped_during_its_start_works_after_a_resume(living):
    live = living()
    live.stop()
    assert live.wait(SECONDS) == "idle"
    assert not [entry for entry in live.entries if isinstance(entry.event, StepFinished)]
    live.resume()
    assert live.wait(SECONDS) == "idle", live.failure
    assert [check.passed for check in live.close().checks] == [True, True]


def test_stopping_twice_and_stopping_an_idle_session_changes_nothing(living):
    live = living()
    live.wait(SECONDS)
    before = live.entries
    live.stop()
    live.stop()
    time.sleep(0.1)
    assert live.wait(SECONDS) == "idle"
    assert live.entries == before


# --- failures ------------------------------------------------------------------------------------------------------

VICTIM = """
import pathlib, sys, time
from harness.conversation.events import Entry, StepFinished
from harness.session.live_session import LiveSession
from tests.session.test_execution import session

def listen(one):
    if isinstance(one, Entry) and isinstance(one.event, StepFinished) and one.event.step == 9:
        live.send("first")
        live.send("second")
        print("told", flush=True)
        time.sleep(60)

live = LiveSession(session(journal=pathlib.Path(sys.argv[1])), session_id="victim", on_event=listen)
live.start()
time.sleep(120)
"""


@pytest.mark.slow
def test_queued_messages_and_finished_steps_survive_the_death_of_the_process(living, tmp_path, checkout):
    """S1.4."""
    with PreparedProcess(VICTIM, tmp_path / "j.sqlite", cwd=checkout, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "told\n"
        victim.kill()
    live = living.too(LiveSession.reopen(tmp_path / "j.sqlite", "victim", spec=session(journal=None)))
    assert live.queued_messages == ("first", "second")
    live.start()
    assert live.wait(SECONDS) == "idle", live.failure
    assert live.queued_messages == ("first", "second"), "nobody wished to go on yet"
    assert live.view.steps == 9
    assert [change.path for change in live.summarize_changes().changes] == ["conf.txt"], "the workspace of the last step is back"
    live.resume()
    assert live.wait(SECONDS) == "idle"
    assert user_texts(live)[-2:] == ["first", "second"]
    assert all(check.passed for check in live.close().checks)


@pytest.fixture
def provider(monkeypatch):
    """Provide a factory of endpoints of a real model with given answers."""
    with ExitStack() as stack:

        def answering(*answers):
            stub = stack.enter_context(serving(*answers))
            monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
            monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
            return stub

        yield answering


SPEAKER = """
import pathlib, sys, time
from harness.session.live_session import LiveSession
from tests.session.test_execution import session
from tests.session.test_live_session import REAL

live = LiveSession(session(journal=pathlib.Path(sys.argv[1]), **REAL), session_id="victim").start()
time.sleep(600)
"""


@pytest.mark.slow  # litellm takes seconds to import
def test_a_partial_answer_survives_the_death_of_the_process_and_is_marked_as_partial(living, tmp_path, checkout, provider):
    provider(Say(pieces=("I was about", " to say"), stall_after=3), Say(pieces=("Now I say it.",)))
    file = tmp_path / "j.sqlite"
    with PreparedProcess(SPEAKER, file, cwd=checkout, modules=("litellm",)) as victim:
        try:
            end = time.monotonic() + SECONDS  # importing litellm takes most of it on a busy machine
            while drafted(file) != "I was about to say" and victim.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            victim.kill()
    assert drafted(file) == "I was about to say"
    live = living.too(LiveSession.reopen(file, "victim", spec=session(journal=None, **REAL)))
    answer, ended = (entry.event for entry in live.entries[-2:])
    assert (answer.message.role, answer.message.text, answer.step) == ("assistant", "I was about to say", 1)
    assert (ended.turn, ended.status, ended.reason) == (1, "failed", "broken_off")
    before = live.entries
    live.start()
    assert live.wait(SECONDS) == "idle", live.failure
    live.resume()
    assert live.wait(SECONDS) == "idle"
    assert [message.text for message in live.view.messages[-3:]] == ["I was about to say", "Go on.", "Now I say it."]
    live.close()
    with Journal.open(file, read_only=True) as journal:
        logged = tuple(journal.read_entries("victim"))
        assert journal.read_draft("victim") is None
    assert logged == live.entries
    assert logged[: len(before)] == before


def logged(file, role):
    """Return the logged messages of a role."""
    try:
        with Journal.open(file, read_only=True) as journal:
            events = [entry.event for entry in journal.read_entries("victim")]
    except StoreError:  # the session has not begun
        return []
    return [event for event in events if isinstance(event, MessageAdded) and event.message.role == role]


def call_states(file):
    """Return the states of all tool calls in a journal, as any SQLite program sees them."""
    try:
        return [state for (state,) in plain(file, "SELECT state FROM parts WHERE type = 'tool' ORDER BY id")]
    except sqlite3.OperationalError:  # the journal has no tables yet
        return []


def drafted(file, part="text"):
    try:
        with Journal.open(file, read_only=True) as journal:
            draft = journal.read_draft("victim")
    except StoreError:  # the session has not begun
        return None
    return draft and getattr(draft, part)


@pytest.mark.slow  # litellm takes seconds to import
def test_a_call_that_ran_when_the_process_died_has_no_result_and_its_answer_is_whole(living, tmp_path, checkout, provider):
    call = ("c1", "execute_command", json.dumps({"command": "touch made; sleep 600"}))
    reply = Say(reasoning="hm", pieces=("I run it.",), calls=(call,), finish="tool_calls")
    stub = provider(reply, Say(pieces=("Now I say it.",)))
    file = tmp_path / "j.sqlite"
    with PreparedProcess(SPEAKER, file, cwd=checkout, modules=("litellm",)) as victim:
        try:
            end = time.monotonic() + SECONDS  # importing litellm takes most of it on a busy machine
            while call_states(file) != ["running"] and victim.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            victim.kill()
    live = living.too(LiveSession.reopen(file, "victim", spec=session(journal=None, **REAL)))
    answer, result, ended = (entry.event for entry in live.entries[-4:] if not isinstance(entry.event, CallStarted))
    asked = ToolCall(call_id="c1", name="execute_command", arguments_json=call[2])
    assert answer.message == assistant("I run it.", asked, reasoning="hm")
    assert [(one.call_id, one.status) for one in result.message.results] == [("c1", "interrupted")]
    assert (ended.status, ended.reason) == ("failed", "broken_off")
    assert "during tool calls (execute_command)" in ended.detail
    live.start()
    assert live.wait(SECONDS) == "idle", live.failure
    live.resume()
    assert live.wait(SECONDS) == "idle"
    assert live.view.messages[-1].text == "Now I say it."
    assert [one["role"] for one in stub.asked[-1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert live.summarize_changes().changes == ()


@pytest.mark.slow  # litellm takes seconds to import
def test_a_call_that_runs_when_the_process_is_killed_is_running_in_the_journal(living, tmp_path, checkout, provider):
    """S3.7."""
    commands = ("echo done", "touch begun; sleep 600", "echo never")
    calls = tuple((f"c{number}", "execute_command", json.dumps({"command": command})) for number, command in enumerate(commands))
    provider(Say(calls=calls, finish="tool_calls"), Say(pieces=("Now I say it.",)))
    file = tmp_path / "j.sqlite"
    states = ["completed", "running", "pending"]
    with PreparedProcess(SPEAKER, file, cwd=checkout, modules=("litellm",)) as victim:
        try:
            end = time.monotonic() + 4 * SECONDS  # importing litellm takes most of it on a busy machine
            while call_states(file) != states and victim.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            victim.kill()
    assert victim.returncode == -signal.SIGKILL
    assert call_states(file) == states
    assert [one.call_id for one in drafted(file, "results")] == ["c0"], "the start of the second call keeps the first result"
    with Journal.open(file, read_only=True) as journal:
        logged_states = compute_tool_states(journal.read_entries("victim"))
        parts = [part for row in list_messages(journal, "victim") for part in list_parts(journal, row.message_id)]
    assert list(logged_states.values()) == ["running", "running", "pending"], "results are logged with the end of the step"
    assert [part.state for part in parts if part.state] == states
    live = living.too(LiveSession.reopen(file, "victim", spec=session(journal=None, **REAL)))
    live.start()
    assert live.wait(SECONDS) == "idle", live.failure
    assert call_states(file) == ["completed", "error", "error"]


@pytest.mark.slow  # litellm takes seconds to import
def test_results_that_were_there_when_the_process_died_are_kept_with_their_changes(living, tmp_path, checkout, provider):
    """S1.1."""
    commands = ("echo done; touch made", "sleep 600")
    calls = tuple((f"c{number}", "execute_command", json.dumps({"command": command})) for number, command in enumerate(commands))
    stub = provider(Say(pieces=("I run them.",), calls=calls, finish="tool_calls"), Say(pieces=("Now I say it.",)))
    file = tmp_path / "j.sqlite"
    with PreparedProcess(SPEAKER, file, cwd=checkout, modules=("litellm",)) as victim:
        try:
            end = time.monotonic() + 4 * SECONDS  # importing litellm takes most of it on a busy machine
            while not drafted(file, "tree_id") and victim.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            victim.kill()
    live = living.too(LiveSession.reopen(file, "victim", spec=session(journal=None, **REAL)))
    results = [entry.event.message.results for entry in live.entries if isinstance(entry.event, MessageAdded)]
    statuses = [(one.call_id, one.status) for group in results for one in group]
    assert statuses == [("c0", "completed"), ("c1", "interrupted")]
    ended = live.entries[-1].event
    assert (ended.status, ended.reason) == ("failed", "broken_off")
    assert "1 result of 2 kept" in ended.detail
    live.start()
    assert live.wait(SECONDS) == "idle", live.failure
    assert [change.path for change in live.summarize_changes().changes] == ["made"]
    live.resume()
    assert live.wait(SECONDS) == "idle"
    assert live.view.messages[-1].text == "Now I say it."
    sent = stub.asked[-1]["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert [one["tool_call_id"] for one in sent[-2:] if "done" in one["content"]] == ["c0"]


@pytest.mark.slow  # litellm takes seconds to import
def test_parallel_tools_of_a_live_session_overlap_and_the_workspace_is_saved_once_after_them(living, provider):
    """S1.3: each command waits for the other."""
    waiting = "touch {0}; until [ -e {1} ]; do sleep 0.01; done; echo {0}"
    commands = (waiting.format("first", "second"), waiting.format("second", "first"))
    calls = tuple((f"c{number}", "execute_command", json.dumps({"command": command})) for number, command in enumerate(commands))
    provider(Say(pieces=("I run them.",), calls=calls, finish="tool_calls"), Say(pieces=("Done.",)))
    live = living(**REAL, max_steps=5, parallel_tools=True, command_timeout_seconds=SECONDS)
    assert live.wait(2 * SECONDS) == "idle", live.failure
    results = [entry.event.message.results for entry in live.entries if isinstance(entry.event, MessageAdded)]
    assert [one.output for group in results for one in group] == ["exit code 0\nfirst", "exit code 0\nsecond"]
    assert [entry.event.step for entry in live.entries if isinstance(entry.event, WorkspaceSaved)] == [0, 1]
    assert [change.path for change in live.summarize_changes().changes] == ["first", "second"]


REAL = {"model": "hosted_vllm/stub", "window_tokens": 50_000, "task": None, "request": "do something"}


def fills(text):
    """Return an answer whose report says that the window is full, whatever the messages of the request are."""
    return Say(pieces=(text,), usage={"prompt_tokens": 49_000, "completion_tokens": 900})


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.parametrize(
    "plain",
    [
        {"kind": "three-tiers", "max_output_tokens": 4_000, "measure": "reported"},
        {"kind": "three-tiers", "max_output_tokens": 4_000, "measure": "reported", "lazy": True},
        {"kind": "opencode@v1", "max_output_tokens": 4_000, "tail_least_tokens": 1, "tail_most_tokens": 1},
        {"kind": "roo-code"},
        {"kind": "inspect-summary"},
    ],
    ids=lambda plain: "-".join(map(str, plain.values())),
)
def test_a_message_after_a_turn_that_filled_the_window_reaches_the_model(plain, living, provider):
    """The last report of the first turn makes a summary due before the user's next message has been in a request."""
    stub = provider(asks(1), fills("All is built. " * 200), Say(pieces=("The thing was built.",)), Say(pieces=("I deleted it.",)))
    live = living(**REAL, policy=policy_from_plain(plain))
    assert live.wait(SECONDS) == "idle", live.failure
    live.send("Now delete the file old.py.")
    assert live.wait(SECONDS) == "idle", live.failure
    summarized, sent = ([str(message.get("content")) for message in asked["messages"]] for asked in stub.asked[2:])
    assert "Now delete the file old.py." not in "".join(summarized)
    assert [text for text in sent if "Now delete" in text] == ["Now delete the file old.py."]
    assert not any("All is built." in text for text in sent), "the first turn was summarized"
    [compaction] = [entry.event for entry in live.entries if isinstance(entry.event, Compaction)]
    assert (compaction.status, compaction.summary != "") == ("applied", True)


def asks(number, tool="execute_command", arguments='{"command": "true"}'):
    return Say(calls=((f"c{number}", tool, arguments),), finish="tool_calls")


@pytest.mark.slow  # litellm takes seconds to import
def test_a_summary_of_changes_counts_the_files_of_every_step_and_the_lines_that_remain(living, provider):
    """S3.11: the files are the union of the patches, the lines those of the whole difference."""
    commands = ("echo one > kept; echo two > scratch", "rm scratch; printf 'a\\nb\\n' > late")
    calls = (asks(number, arguments=json.dumps({"command": command})) for number, command in enumerate(commands))
    provider(*calls, Say(pieces=("done",)))
    live = living(**REAL)
    assert live.wait(SECONDS) == "idle", live.failure
    summary = live.summarize_changes()
    assert (summary.files, summary.additions, summary.deletions) == (3, 3, 0)
    assert [change.path for change in summary.changes] == ["kept", "late"]


def reaches(live, *states):
    end = time.monotonic() + SECONDS
    while live.state not in states:
        assert time.monotonic() < end, (live.state, live.failure)
        time.sleep(0.01)


@pytest.mark.slow  # litellm takes seconds to import
def test_a_stalled_provider_is_abandoned_and_its_partial_answer_is_kept(living, provider):
    """S1.5."""
    provider(Say(pieces=("I was about", " to say"), stall_after=3), Say(pieces=("Now I say it.",)))
    spoken = threading.Event()
    live = living(lambda one: spoken.set() if isinstance(one, TextDelta) and "to say" in one.text else None, **REAL)
    assert spoken.wait(SECONDS), live.failure
    assert live.stop() == "partial-answer"
    assert live.wait(SECONDS) == "idle"
    assert live.view.messages[-1].text == "I was about to say"
    assert live.stop() is None
    live.send("go on")
    assert live.wait(SECONDS) == "idle"
    assert live.view.messages[-1].text == "Now I say it."


LONG = "word " * 400
COMMAND = json.dumps({"command": "echo " + LONG})


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.parametrize(
    ("streamed", "kept"),
    [
        (Say(reasoning=LONG, pieces=("Now.",), pace_seconds=0.05), "reasoning"),
        (Say(pieces=("I run it.",), calls=(("c1", "execute_command", COMMAND),), argument_pieces=400, pace_seconds=0.05), "text"),
        (Say(pieces=("I write.\n<call_tool>\n", *LONG.split()), pace_seconds=0.05), "text"),
    ],
    ids=["reasoning", "arguments", "text-protocol"],
)
def test_stopping_a_streamed_answer_closes_the_connection_and_keeps_the_received_part(living, provider, streamed, kept):
    """S1.5, S3.9."""
    stub = provider(streamed, Say(pieces=("Now I say it.",)))
    spoken = threading.Event()
    protocol = {} if streamed.calls or streamed.reasoning else {"tool_calls": "text"}
    live = living(lambda one: spoken.set() if isinstance(one, TextDelta) else None, **REAL, **protocol)
    assert spoken.wait(SECONDS), live.failure
    time.sleep(0.5)  # by now the answer is half complete
    assert not stub.left.is_set()
    live.stop()
    assert stub.left.wait(SECONDS)
    assert live.wait(SECONDS) == "idle"
    answer = live.view.messages[-1]
    assert answer.role == "assistant"
    assert getattr(answer, kept)
    assert LONG.startswith(answer.reasoning)
    live.send("go on")
    assert live.wait(SECONDS) == "idle"
    assert live.view.messages[-1].text == "Now I say it."
    assert all(one.get("content") or one.get("tool_calls") for one in stub.asked[-1]["messages"])


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.parametrize(
    ("answer", "reason", "completed"), [("continue", "replied", 5), ("always", "replied", 5), ("stop", "doom_loop", 2)]
)
def test_the_third_equal_call_in_a_row_asks_what_to_do(living, provider, answer, reason, completed):
    """S3.10; a refusal is the only permission that is denied, and ends the turn (S3.9: "blocked")."""
    provider(*(asks(number) for number in range(5)), Say(pieces=("done",)))
    heard = list[object]()
    live = living(heard.append, **REAL)
    assert live.wait(SECONDS) == "asking", live.failure
    with pytest.raises(UsageError, match="stop it"):
        live.roll_back(1)
    live.decide_repeated_call(answer)
    assert live.wait(SECONDS) == "idle"
    [asked] = [one for one in heard if isinstance(one, CallRepeated)]
    assert (asked.call.name, asked.times) == ("execute_command", 3)
    assert next(entry.event.reason for entry in reversed(live.entries) if isinstance(entry.event, TurnEnded)) == reason
    results = [part for message in live.view.messages for part in message.results]
    assert sum(result.status == "completed" for result in results) == completed
    with pytest.raises(UsageError, match="waits for no decision"):
        live.decide_repeated_call("stop")


@pytest.mark.slow  # litellm takes seconds to import
def test_stopping_a_session_that_asks_ends_its_turn(living, provider):
    provider(*(asks(number) for number in range(3)))
    live = living(**REAL)
    assert live.wait(SECONDS) == "asking", live.failure
    live.stop()
    assert live.wait(SECONDS) == "idle"
    assert live.entries[-1].event.reason == "cancelled"


@pytest.mark.slow  # litellm takes seconds to import
def test_a_running_tool_finishes_when_the_turn_is_stopped_and_no_other_starts(living, provider):
    """S1.5."""
    calls = (
        ("c1", "execute_command", '{"command": "sleep 1; touch one"}'),
        ("c2", "write_file", '{"path": "two", "content": ""}'),
    )
    provider(Say(calls=calls, finish="tool_calls"))
    running = threading.Event()
    live = living(lambda one: running.set() if isinstance(one, ToolStarted) else None, **REAL)
    assert running.wait(SECONDS), live.failure
    assert live.stop() == "running-tools"
    assert live.wait(SECONDS) == "idle"
    assert live.stop() is None
    assert [message.results[0].status for message in live.view.messages if message.role == "tool"] == ["completed", "interrupted"]
    assert [change.path for change in live.summarize_changes().changes] == ["one"]


@pytest.mark.slow  # litellm takes seconds to import
def test_a_provider_that_refuses_costs_the_turn_and_not_the_session(living, provider):
    provider(Refuse(status=400, error={"message": "no such thing"}), Say(pieces=("fine",)))
    live = living(**REAL)
    assert live.wait(SECONDS) == "idle", live.failure
    assert live.entries[-1].event.reason == "model_error"
    live.resume()
    assert live.wait(SECONDS) == "idle"
    assert live.entries[-1].event.reason == "replied"


@pytest.mark.slow  # litellm takes seconds to import
def test_a_summary_that_takes_its_time_leaves_the_queue_open_and_can_be_stopped(living, provider):
    """S1.8."""
    long = "word " * 9_000
    provider(
        asks(1, "write_file", json.dumps({"path": "a", "content": long})),
        asks(2, "write_file", json.dumps({"path": "b", "content": long})),
        Say(pieces=("a summary that", " never ends"), stall_after=2),
    )
    policy = policy_from_plain({"kind": "keep-last", "measure": "estimate", "threshold": 0.5, "keep_last": 1})
    live = living(policy=policy, **REAL)
    reaches(live, "compacting", "failed", "idle")
    assert live.state == "compacting", live.failure
    assert live.send("hurry up") == 1
    assert live.stop() is None, "an unfinished summary is not kept"
    assert live.wait(SECONDS) == "idle"
    assert live.queued_messages == ("hurry up",)


@pytest.mark.slow  # litellm takes seconds to import
def test_a_summarizer_of_its_own_tells_of_its_waits_and_is_not_asked_again_once_it_was_given_up(living, provider):
    """S3.12."""
    long = "word " * 9_000
    stub = provider(
        asks(1, "write_file", json.dumps({"path": "a", "content": long})),
        asks(2, "write_file", json.dumps({"path": "b", "content": long})),
        Refuse(status=429, error={"message": "slow down"}, headers=(("Retry-After", "1"),)),
        Say(pieces=("a summary",)),
    )
    policy = policy_from_plain(
        {"kind": "keep-last", "measure": "estimate", "summarizer": "hosted_vllm/other", "threshold": 0.5, "keep_last": 1}
    )
    waits, first_wait = list[float](), threading.Event()

    def listen(one):
        if isinstance(one, Waiting) and one.seconds is not None:
            waits.append(one.seconds)
            first_wait.set()

    live = living(listen, policy=policy, **REAL)
    assert first_wait.wait(SECONDS), (live.state, live.failure)
    assert live.state == "compacting"
    live.stop()
    assert live.wait(SECONDS) == "idle"
    time.sleep(waits[0] + 0.5)
    assert waits[0] >= 1.0
    assert [one["model"] for one in stub.asked] == ["stub", "stub", "other"], "no call is paid for that nobody waits for"


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.parametrize("summarizer", ["same", "hosted_vllm/other"])
def test_a_summary_that_was_given_up_is_not_read_to_its_end(living, provider, summarizer):
    long = "word " * 9_000
    stub = provider(
        asks(1, "write_file", json.dumps({"path": "a", "content": long})),
        asks(2, "write_file", json.dumps({"path": "b", "content": long})),
        Say(pieces=tuple(f"and {number} " for number in range(1_000)), pace_seconds=0.05),
    )
    live = living(
        policy=policy_from_plain(
            {"kind": "keep-last", "measure": "estimate", "summarizer": summarizer, "threshold": 0.5, "keep_last": 1}
        ),
        **REAL,
    )
    reaches(live, "compacting", "failed", "idle")
    while len(stub.asked) < 3:
        time.sleep(0.01)
    live.stop()
    assert live.wait(SECONDS) == "idle"
    assert stub.left.wait(SECONDS)


def test_a_sandbox_that_is_gone_fails_the_session_with_advice_and_the_log_goes_on_elsewhere(living, tmp_path):
    def listen(one):
        if isinstance(one, Entry) and isinstance(one.event, StepFinished) and one.event.step == 8:
            live._worker._opened.sandbox.close()

    live = living(listen, start=False)
    live.start()
    live.send("still there?")
    assert live.wait(SECONDS) == "failed"
    with pytest.raises(UsageError, match="reopen"):
        live.send("more")
    assert "reopen the session to continue with its log and its last workspace" in live.failure
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=live.spec)).start()
    assert again.wait(SECONDS) == "idle", again.failure
    assert again.queued_messages == ("still there?",)
    again.resume()
    assert again.wait(SECONDS) == "idle"
    assert [change.path for change in again.summarize_changes().changes] == ["conf.txt"]
    assert all(check.passed for check in again.close().checks)


FULL = """
import pathlib, resource, signal, sys, time
from harness.errors import HarnessError
from harness.session.live_session import LiveSession
from harness.store.journal import Journal
from tests.session.test_execution import session

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = pathlib.Path(sys.argv[1])
live = LiveSession(session(journal=path), session_id="full")
limits = []

def listen(one):
    if len(live.entries) >= 12 and not limits:
        limits.append(path.with_name(path.name + "-wal").stat().st_size)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[0], resource.RLIM_INFINITY))
    if live.state == "failed" and sys.argv[2] == "raises":
        raise ValueError("the listener fails as well")

live._control._on_event = listen
live.start()
live.wait(300)
print(live.state)
print(live.failure)
time.sleep(3)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
status = "active"
while status == "active":
    time.sleep(0.1)
    with Journal.open(path, read_only=True) as journal:
        [(status, reason)] = journal.query("SELECT status, reason FROM sessions")
print(status, reason)
try:
    live.send("more")
except HarnessError as error:
    print("refused")
"""


@pytest.mark.slow
@pytest.mark.parametrize("listener", ["returns", "raises"])
def test_a_disk_that_is_full_fails_the_session_with_advice_and_keeps_what_was_logged(living, tmp_path, checkout, listener):
    path = tmp_path / "j.sqlite"
    done = run(FULL, path, listener, cwd=checkout, timeout_seconds=SECONDS)
    state, failure, marked, refused = done.stdout.splitlines()
    assert (state, refused) == ("failed", "refused"), done.stderr
    assert marked == "failed store_error"
    assert "free some space" in failure
    live = living.too(LiveSession.reopen(path, "full", spec=session(journal=None)))
    assert len(live.entries) >= 12
    assert live.start().wait(SECONDS) == "idle", live.failure
    live.resume()
    assert live.wait(SECONDS) == "idle"
    assert all(check.passed for check in live.close().checks)


@pytest.mark.slow  # litellm takes seconds to import
def test_a_sub_agent_explores_with_a_context_of_its_own(living, provider, tmp_path):
    """S3.20."""
    stub = provider(
        asks(1, "explore", '{"question": "Which port is in note.txt?"}'),
        asks(2, "execute_command", '{"command": "seq 1 2000; echo port 4711"}'),
        Say(pieces=("It is port 4711.",)),
        Say(pieces=("The port is 4711.",)),
    )
    live = living(explore=True, **REAL)
    assert live.wait(SECONDS) == "idle", live.failure
    [answer] = [message.results[0].output for message in live.view.messages if message.role == "tool"]
    assert answer.startswith("It is port 4711.\n[2 steps, session ")
    assert live.view.tokens < 1_500
    tools = [{one["function"]["name"] for one in request["tools"]} for request in stub.asked]
    assert "explore" in tools[0]
    assert not {"explore", "write_file"} & tools[1]
    assert "do something" not in json.dumps(stub.asked[1]["messages"])
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        [child] = [name for name in journal.list_session_ids() if name != live.session_id]
        own, explored = (inspect_session(journal.read_entries(name)) for name in (live.session_id, child))
        assert child.startswith(f"{live.session_id}.")
        assert [entry.event.kind for entry in journal.read_entries(child)][-1] == "session-ended"
    [took] = own.totals.sub_agents
    assert (took.step, took.session_id, took.steps) == (1, child, 2)
    totals, its = own.totals, explored.totals
    assert (took.prompt_tokens, took.output_tokens, took.cost_usd) == (its.prompt_tokens, its.output_tokens, its.total_cost_usd)
    assert (
        totals.all_prompt_tokens == sum(point.prompt_tokens for point in own.timeline) + its.prompt_tokens > its.prompt_tokens > 0
    )
    assert totals.all_output_tokens == sum(point.output_tokens for point in own.timeline) + its.output_tokens
    assert totals.total_cost_usd is None, "the price of this model is not known"
    narrator = EventPrinter(text_stream=io.StringIO(), log_stream=io.StringIO())
    for entry in live.entries:
        narrator(entry)
    assert narrator.totals == totals
    assert f"including 1 sub-agent: 2 steps, {its.prompt_tokens:,} tokens in" in narrator.format_total(simulated=False)
    figures = build_feed(CompactionHistory(None, live.spec.policy.counter), live.entries).state["figures"]
    assert figures["prompt_tokens"] == totals.all_prompt_tokens
    assert figures["sub_agent_tokens"] == its.prompt_tokens + its.output_tokens


@pytest.mark.slow  # litellm takes seconds to import
def test_a_sub_agent_with_a_model_of_its_own_is_counted_apart_and_keeps_it_when_reopened(living, provider, tmp_path):
    """S3.20."""
    stub = provider(
        asks(1, "explore", '{"question": "Which port is in note.txt?"}'),
        Say(pieces=("It is port 4711.",)),
        Say(pieces=("The port is 4711.",)),
        asks(2, "explore", '{"question": "And now?"}'),
        Say(pieces=("It is port 4712.",)),
        Say(pieces=("The port is 4712.",)),
    )
    live = living(explore=True, explore_model="hosted_vllm/cheap", **REAL)
    assert live.wait(SECONDS) == "idle", live.failure
    assert [request["model"] for request in stub.asked] == ["stub", "cheap", "stub"]
    live.close()
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id))
    again.spec = replace(again.spec, unsafe_local=True)
    again.start()
    assert again.wait(SECONDS) == "idle", again.failure
    again.send("Look again.")
    assert again.wait(SECONDS) == "idle", again.failure
    assert [request["model"] for request in stub.asked[3:]] == ["stub", "cheap", "stub"]
    totals = inspect_session(again.entries).totals
    assert (totals.explorations, totals.sub_agent_steps, totals.steps) == (2, 2, 4)
    assert (totals.prompt_tokens, totals.sub_agent_prompt_tokens, totals.all_prompt_tokens) == (44, 22, 66)
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        models = {row["model"] for row in journal.query("SELECT model FROM sessions WHERE id LIKE ?", f"{live.session_id}.%")}
    assert models == {"hosted_vllm/cheap"}


def test_a_scripted_sub_agent_answers_in_a_live_session(living):
    """S3.20."""
    task = hidden(7)
    live = living(task=task, request=task.prompt, explore=True, explore_model="scripted:typical")
    assert live.wait(SECONDS) == "idle", live.failure
    answers = [
        message.results[0].output
        for message in live.view.messages
        if message.role == "tool" and message.results[0].name == "explore"
    ]
    assert [answer.splitlines()[0] for answer in answers] == ["The port is 4007."]
    figures = build_feed(CompactionHistory(None, live.spec.policy.counter), live.entries).state["figures"]
    totals = inspect_session(live.entries).totals
    assert (totals.explorations, totals.sub_agent_steps) == (1, 2)
    assert figures["sub_agent_tokens"] == totals.sub_agent_prompt_tokens + totals.sub_agent_output_tokens > 0
    assert figures["cost_usd"] == pytest.approx((totals.cost_usd or 0) + (totals.sub_agent_cost_usd or 0))
    assert all(check.passed for check in live.close().checks)


@pytest.mark.slow
def test_a_fork_has_the_facts_that_a_compaction_dropped_and_its_own_configuration(living):
    policy = policy_from_plain({"kind": "keep-last", "summarizer": "scripted/empty", "threshold": 0.5, "keep_last": 2})
    live = living(policy=policy, window_tokens=16_000)
    assert live.wait(SECONDS) == "idle", live.failure
    assert not live.close().checks[0].passed, "the port was forgotten"
    calm = replace(live.spec, policy=policy_from_plain({"kind": "none"}))
    restored, plain = (living.too(live.fork_at_compaction(1, arm, spec=calm)) for arm in ("facts put back", "as it was"))
    assert len(restored.entries) == len(plain.entries)
    assert restored.spec.policy == plain.spec.policy == calm.policy
    for fork, passes in ((restored, True), (plain, False)):
        assert any("The port is 4000." in message.text for message in fork.view.messages) is passes
        fork.start()
        fork.wait(SECONDS)
        fork.resume()
        assert fork.wait(SECONDS) == "idle", fork.failure
        assert fork.close().checks[0].passed is passes
    with pytest.raises(UsageError, match="no compaction of round 999"):
        live.fork_at_compaction(999, "as it was")


@pytest.mark.slow
def test_a_fork_after_a_compaction_between_two_turns_has_the_message_of_the_turn(living):
    policy = policy_from_plain({"kind": "goose", "adapted": False, "summarizer": "scripted/empty", "threshold": 0.2})
    live = stopped_after(living, 6, policy=policy, window_tokens=16_000)
    live.send("Which port was it?")
    assert live.wait(SECONDS) == "idle", live.failure
    assert [entry.event.moment for entry in live.entries if isinstance(entry.event, Compaction)] == ["turn"]
    restored, plain = (living.too(live.fork_at_compaction(1, arm)) for arm in ("facts put back", "as it was"))
    assert user_texts(restored)[-1] == user_texts(plain)[-1] == "Which port was it?"
    stated = [any("The port is 4000." in message.text for message in fork.view.messages) for fork in (restored, plain)]
    assert stated == [True, False]
    assert plain.queued_messages == restored.queued_messages == ()
    plain.start()
    plain.wait(SECONDS)
    plain.resume()
    assert plain.wait(SECONDS) == "idle", plain.failure
    assert user_texts(plain)[-1] == "Which port was it?"


@pytest.mark.slow
def test_a_resumed_session_extends_its_last_request_as_if_nothing_had_been(living, tmp_path):
    live = stopped_after(living, 5)
    live.close()
    again = living.too(LiveSession.reopen(tmp_path / "j.sqlite", live.session_id, spec=live.spec)).start()
    again.resume()
    assert again.wait(SECONDS) == "idle", again.failure
    steps = [entry.event for entry in again.entries if isinstance(entry.event, StepFinished)]
    assert [step.step for step in steps] == list(range(1, 11))
    assert [step.kept_prefix_messages for step in steps] == [0, *(step.view_messages for step in steps[:-1])]
    uninterrupted = living(journal=None)
    assert uninterrupted.wait(SECONDS) == "idle"
    digests = [entry.event.request_digest for entry in uninterrupted.entries if isinstance(entry.event, StepFinished)]
    assert [step.request_digest for step in steps] == digests


def test_messages_sent_by_several_threads_are_neither_lost_nor_reordered(living):
    live = living(start=False)
    senders = [
        threading.Thread(target=lambda name=name: [live.send(f"{name} {number}") for number in range(8)]) for name in "abcd"
    ]
    live.start()
    for sender in senders:
        sender.start()
    for _ in range(5):
        live.stop()
        live.resume()
        time.sleep(0.02)
    for sender in senders:
        sender.join()
    live.resume()
    assert live.wait(SECONDS) == "idle", live.failure
    live.resume()
    assert live.wait(SECONDS) == "idle", live.failure
    texts = [text for text in user_texts(live)[1:] if text != "Go on."]
    assert live.queued_messages == ()
    queued = [entry.event.text for entry in live.entries if isinstance(entry.event, MessageQueued)]
    assert texts == queued
    assert sorted(texts) == sorted(f"{name} {number}" for name in "abcd" for number in range(8))
    for name in "abcd":
        assert [text for text in texts if text.startswith(name)] == [f"{name} {number}" for number in range(8)]
    assert live.view == fold_all(live.entries)


def test_a_listener_that_waits_for_its_own_session_is_refused(living):
    refused = list[object]()

    def listen(heard):
        if isinstance(heard, StateChanged) and heard.state == "idle":
            for wait in (live.compact, lambda: live.roll_back(1)):
                with pytest.raises(UsageError, match="cannot wait for itself") as caught:
                    wait()
                refused.append(caught)

    live = living.too(LiveSession(session(), on_event=listen))
    live.start()
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    assert len(refused) == 2


def test_a_policy_that_is_changed_between_turns_decides_from_then_on_and_the_change_is_logged(living):
    live = living(policy=replace(POLICY, measure="estimate"), window_tokens=7_000)
    assert live.wait(SECONDS) == "idle"
    before = live.spec.policy
    steps, rounds = live.view.steps, live.view.rounds
    assert rounds
    lazy = replace(before, threshold=0.95, keep_last=3)
    live.change_policy(lazy)
    assert (live.state, live.view.steps, live.spec.policy) == ("idle", steps, lazy)
    event = live.entries[-1].event
    assert isinstance(event, SessionResumed)
    assert json.loads(event.policy_json)["threshold"] == 0.95
    assert event.threshold_tokens == live.budget.threshold_tokens > find_first_threshold(live.entries)
    live.send("more")
    assert live.wait(SECONDS) == "idle"
    live.close()
    again = living.too(LiveSession.reopen(live.spec.journal, live.session_id))
    assert again.spec.policy == lazy
    feed = build_feed(CompactionHistory(live.spec.task, lazy.counter), again.entries)
    notes = [row["text"] for row in feed.rows if row["kind"] == "note"]
    (note,) = [note for note in notes if note.startswith("policy from here on: ")]
    assert f"threshold {before.threshold} → 0.95" in note
    assert f"keep_last {before.keep_last} → 3" in note
    assert "session resumed" not in note


def find_first_threshold(entries):
    """Return the threshold with which the session began."""
    return next(entry.event.threshold_tokens for entry in entries if isinstance(entry.event, SessionStarted))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"clip_characters": 17}, "shortens tool outputs in another way"), ({"threshold": 2.0}, "threshold")],
)
def test_a_policy_that_would_change_more_than_compactions_is_refused_and_the_old_one_stays(living, changes, reason):
    live = living()
    assert live.wait(SECONDS) == "idle"
    entries, policy = live.entries, live.spec.policy
    with pytest.raises(UsageError, match=reason):
        live.change_policy(policy_from_plain({**plain_policy(policy), **changes}))
    assert (live.entries, live.spec.policy, live.state) == (entries, policy, "idle")


def plain_policy(policy):
    return json.loads(to_canonical_json(policy))
