"""Tests of sessions that can or cannot be continued, and of the explanations that users get."""

import shlex
import time
from functools import partial
from typing import Any

import pytest

from harness.compaction.presets.gemini import GeminiMasking
from harness.conversation.events import CallTiming, Compaction, Entry, StepFinished, WorkspaceSaved
from harness.conversation.messages import ToolResult
from harness.conversation.truncation import name_output
from harness.errors import ToolError, UsageError
from harness.inspection.import_export import export_session, import_session
from harness.protocols import Snapshot
from harness.sandboxes import open_sandbox
from harness.session import control
from harness.session.execution import execute_session
from harness.session.history import find_last_step, find_left_out, find_tree, list_trees
from harness.session.live_session import LiveSession
from harness.session.storage import ProgressSaver
from harness.store.journal import Journal
from harness.store.sessions.lookup import SessionLocation
from harness.store.workspaces import MemoryWorkspaces
from harness.widgets.agent import AgentWidget
from tests.cli.command import within
from tests.models.openai_stub import Say
from tests.session.test_execution import session
from tests.session.test_live_session import REAL, SECONDS, asks, living, provider, stopped_after
from tests.store.samples import begun

__all__ = ["living", "provider"]


HOUR = 60 * 60.0
START = 1_000 * 24 * HOUR
WEEK = 7 * 24 * HOUR


def save_outputs(journal, count):
    """Save outputs of another session: output n is a week old n hours and a quarter after the start."""
    with Journal.open(journal) as opened:
        begun(opened, "other")
        for number in range(count):
            outputs = opened.open_outputs("other", partial(float, START - WEEK + (number + 0.25) * HOUR))
            outputs.save(f"output {number}")


def list_outputs(journal):
    """Return the numbers of the outputs that are still stored."""
    with Journal.open(journal, read_only=True) as opened:
        rows = opened.query("SELECT created_at_ms FROM saved_output ORDER BY created_at_ms")
    return [int((row[0] / 1_000 - START + WEEK) // HOUR) for row in rows]


@pytest.mark.parametrize("kind", ["live", "piped"])
def test_a_long_session_removes_old_outputs_every_hour(kind, living, tmp_path):
    """S3.14: each step of the scripted session takes half an hour."""
    journal, now, seen = tmp_path / "j.sqlite", [START], {}

    def listen(heard):
        if isinstance(heard, Entry) and isinstance(heard.event, StepFinished):
            seen[heard.event.step] = list_outputs(journal)
            now[0] += HOUR / 2

    save_outputs(journal, 6)
    spec = session(journal=journal)
    if kind == "piped":
        execute_session(spec, "s", on_event=listen, clock=lambda: now[0])
    else:
        live = living.too(LiveSession(spec, on_event=listen, clock=lambda: now[0])).start()
        assert live.wait(SECONDS) == "idle", live.failure
    assert seen == {step: list(range((step - 1) // 2, 6)) for step in range(1, 11)}


def test_a_session_that_waits_for_its_user_removes_old_outputs_too(living, tmp_path, monkeypatch):
    """S3.14."""
    monkeypatch.setattr(control, "IDLE_CHECK_SECONDS", 0.02)
    journal, now = tmp_path / "j.sqlite", [START]
    save_outputs(journal, 3)
    live = living.too(LiveSession(session(journal=journal), clock=lambda: now[0])).start()
    assert live.wait(SECONDS) == "idle", live.failure
    assert list_outputs(journal) == [0, 1, 2]
    now[0] += 2 * HOUR
    end = time.monotonic() + SECONDS
    while list_outputs(journal) != [2]:
        assert time.monotonic() < end, list_outputs(journal)
        time.sleep(0.02)
    assert live.state == "idle"


@pytest.mark.slow
def test_reopening_an_imported_session_is_refused_with_commands_that_work(living, tmp_path):
    live = living()
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    there = tmp_path / "the other.sqlite"
    export_session(SessionLocation(tmp_path / "j.sqlite", live.session_id, ""), tmp_path / "s.jsonl")
    import_session(tmp_path / "s.jsonl", there)
    match = "imported session has a log only; continue it in the journal"
    with pytest.raises(UsageError, match=match):
        AgentWidget.reopen(there, live.session_id)
    with pytest.raises(UsageError, match=match) as refused:
        LiveSession.reopen(there, live.session_id)
    message = str(refused.value)
    inspect = shlex.split(message[message.index("(harness inspect") + 9 :].partition("),")[0])
    export = shlex.split(message[message.index("(harness export") + 9 :].rpartition(")")[0])
    assert within(*inspect).exit_code == 0
    again = tmp_path / "again.jsonl"
    assert within(*(str(again) if word == "FILE" else word for word in export)).exit_code == 0
    assert again.read_bytes() == (tmp_path / "s.jsonl").read_bytes()
    resumed = within("agent", "--journal", there, "--resume", live.session_id, "--unsafe-local", given="more")
    assert (resumed.exit_code, "harness inspect" in resumed.stderr) == (2, True)
    with Journal.open(there, read_only=True) as journal:
        assert journal.query("SELECT count(*) FROM event WHERE kind = 'session-resumed'")[0][0] == 0
    assert LiveSession.reopen(tmp_path / "j.sqlite", live.session_id).state == "new"


def test_a_session_without_saved_workspaces_is_not_continued_in_an_empty_one(living, tmp_path):
    live = living(snapshots=False)
    assert live.wait(SECONDS) == "idle", live.failure
    live.close()
    with pytest.raises(UsageError, match=r"cannot be continued.*workspaces of trials"):
        LiveSession.reopen(tmp_path / "j.sqlite", live.session_id)


def test_a_step_whose_workspace_was_not_saved_is_not_continued_from_an_older_one(living, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.sandboxes.client.MAX_SNAPSHOT_FILES", 3)
    live = stopped_after(living, 2)
    for number in range(4):
        live._worker._opened.sandbox.write(f"file-{number}", b"")
    live.resume()
    assert live.wait(SECONDS) == "idle", live.failure
    last = find_last_step(live.entries)
    for call in (live.roll_back, live.fork):
        with pytest.raises(UsageError, match="it could not be saved when it last changed"):
            call(last)
    assert living.too(live.fork(2)).start().wait(SECONDS) == "idle"
    assert [change.path for change in live.list_changes(1)] == [change.path for change in live.list_changes()]
    live.close()
    with pytest.raises(UsageError, match=r"cannot be continued.*it could not be saved when it last changed"):
        LiveSession.reopen(tmp_path / "j.sqlite", live.session_id)


def test_an_unchanged_workspace_is_logged_again_after_a_failed_save():
    sandbox: Any = Trees("old", ToolError("too many files"), "old", "old")
    saver = ProgressSaver(sandbox, MemoryWorkspaces(), print, listen=print, saves_after_each_call=True)
    saved = [event for step in range(4) for event in saver.save_workspace(step)]
    assert saved == [
        WorkspaceSaved(step=0, tree_id="old"),
        WorkspaceSaved(step=1, tree_id="", patch_hash=""),
        WorkspaceSaved(step=2, tree_id="old", patch_hash=""),
    ]
    log = tuple(Entry(seq, event) for seq, event in enumerate(saved, 1))
    assert [find_tree(log, seq) for seq in (1, 2, 3)] == ["old", "", "old"]
    assert list_trees(log) == ("old", "old")


@pytest.mark.bubblewrap
def test_files_missing_from_a_saved_workspace_are_logged_and_reported_once_and_at_each_restore():
    heard = list[Any]()
    with open_sandbox("bubblewrap", session_id="lacks") as sandbox:
        saver = ProgressSaver(sandbox, MemoryWorkspaces(), print, listen=heard.append, saves_after_each_call=True)
        sandbox.run("mkfifo pipe; echo a > a")
        first: Any = saver.save_workspace(1)[0]
        assert saver.save_workspace(2) == ()
        sandbox.run("mkfifo other")
        second: Any = saver.save_workspace(3)[0]
        log = tuple(Entry(seq, event) for seq, event in enumerate((first, second), 1))
        saver.restore_workspace(sandbox.snapshot(), find_left_out(log))
    pipes = ["pipe (a pipe (FIFO))", "other (a pipe (FIFO))"]
    assert [sorted(event.left_out) for event in (first, second)] == [pipes[:1], sorted(pipes)]
    assert find_left_out(log, 1) == (pipes[0],)
    assert [notice.text.split(" lacks ")[0] for notice in heard] == ["the saved workspace"] * 2 + ["the restored workspace"]
    assert all(pipes[0] in notice.text for notice in heard)


TIMING = CallTiming(started_at_ms=1_000, seconds=0.5)


def test_a_workspace_that_cannot_be_saved_after_a_call_is_not_the_one_before_the_call():
    drafts = list[Any]()
    sandbox: Any = Trees("old", "new", ToolError("too many files"), "old")
    saver = ProgressSaver(sandbox, MemoryWorkspaces(), drafts.append, listen=print, saves_after_each_call=True)
    saver.restore_workspace(Snapshot(tree_id="old"))
    sandbox.snapshots.pop(0)
    tree_ids = []
    for call in ("first", "second", "third"):
        saver.save_result(1, ToolResult(call_id=call, name="run", output=""), TIMING)
        tree_ids.append(drafts[-1].tree_id)
    assert tree_ids == ["new", "", "old"]


POLICY = GeminiMasking(protect_tokens=400, prune_minimum_tokens=1, preview_characters=20)
FIRST = "exit code 0\n" + "\n".join(map(str, range(1_000, 1_401)))
NAME = name_output(FIRST)
WORKING = [asks(1, arguments='{"command": "seq 1000 1400"}'), asks(2, arguments='{"command": "seq 2000 2100"}')]


def looks(number, text):
    return asks(number, "search_output", f'{{"output": "{NAME}", "text": "{text}"}}')


def newest_result(live):
    return next(message.results[0].output for message in reversed(live.view.messages) if message.role == "tool")


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.parametrize("kept", ["in a journal", "in memory"])
def test_the_agent_reads_back_what_was_offloaded_also_reopened_and_in_a_fork(living, provider, tmp_path, kept):
    journal = tmp_path / "j.sqlite" if kept == "in a journal" else None
    stub = provider(
        *(*WORKING, looks(3, "1333"), Say(pieces=("done",))),
        *(looks(4, "1334"), Say(pieces=("done",)), looks(5, "1335"), Say(pieces=("done",))),
    )
    live = living(policy=POLICY, journal=journal, **REAL)
    assert live.wait(SECONDS) == "idle", live.failure
    [event] = [entry.event for entry in live.entries if isinstance(entry.event, Compaction)]
    assert (event.status, event.step, event.offloaded) == ("applied", 3, (NAME,))
    sent = next(one["content"] for one in stub.asked[2]["messages"] if one["role"] == "tool")
    assert NAME in sent
    assert "1333" not in sent
    assert newest_result(live) == "335: 1333\n[1 of 1 lines that hold it]"
    fork = living.too(live.fork(3))
    live.close()
    again = fork
    if journal is not None:
        with Journal.open(journal) as opened:
            assert opened.remove_outputs(2**60) == 2, "of the session and its fork; they were kept long enough"
        again = living.too(LiveSession.reopen(journal, live.session_id, spec=live.spec))
    for one, line in ((again, "336: 1334"), (fork, "337: 1335"))[: 2 if journal else 1]:
        one.start()
        assert one.wait(SECONDS) == "idle", one.failure
        one.send("look again")
        assert one.wait(SECONDS) == "idle", one.failure
        assert newest_result(one) == f"{line}\n[1 of 1 lines that hold it]"


@pytest.mark.parametrize("kept", ["in memory", "in the same journal", "in another journal"])
def test_a_fork_has_the_saved_outputs_of_its_original(living, tmp_path, kept):
    path, other = tmp_path / "j.sqlite", tmp_path / "other.sqlite"
    live = living(journal=None if kept == "in memory" else path)
    assert live.wait(SECONDS) == "idle", live.failure
    texts = ["a long output", "another one"]
    if kept == "in memory":
        names = [live._memory.outputs.save(text) for text in texts]
        fork = living.too(live.fork(2))
        assert [fork._memory.outputs.load(name) for name in names] == texts
        return
    with Journal.open(path) as opened:
        names = [opened.open_outputs(live.session_id, lambda: START).save(text) for text in texts]
    fork = living.too(live.fork(2, other if kept == "in another journal" else None))
    with Journal.open(fork.spec.journal) as opened:
        assert [opened.open_outputs(fork.session_id, lambda: START).load(name) for name in names] == texts


class Trees:
    """Sandbox whose workspace has the given tree ids, one after the other; for an error, it cannot be saved."""

    def __init__(self, *tree_ids):
        self.snapshots = [tree_id if isinstance(tree_id, ToolError) else Snapshot(tree_id=tree_id) for tree_id in tree_ids]

    def restore(self, snapshot):
        assert snapshot in self.snapshots

    def snapshot(self):
        snapshot = self.snapshots.pop(0)
        if isinstance(snapshot, ToolError):
            raise snapshot
        return snapshot


def test_a_workspace_that_a_later_call_changed_back_is_saved_as_it_is():
    drafts = list[Any]()
    sandbox: Any = Trees("old", "new", "old")
    saver = ProgressSaver(sandbox, MemoryWorkspaces(), drafts.append, listen=drafts.append, saves_after_each_call=True)
    saver.restore_workspace(Snapshot(tree_id="old"))
    sandbox.snapshots.pop(0)
    for call in ("first", "second"):
        saver.save_result(1, ToolResult(call_id=call, name="run", output=""), TIMING)
    assert (drafts[-1].timings, drafts[-1].tree_id) == ((TIMING, TIMING), "old")
