import pytest

from harness.agent.cancellation import Cancellation
from harness.compaction.presets import policy_from_plain
from harness.errors import StoreError, UsageError
from harness.events import Entry, MessageAdded, SessionEnded, SessionStarted, Signal, StepFinished
from harness.experiment.interactive import Interactive, converse, keep_files
from harness.experiment.trial import SandboxChoice
from harness.protocols import FileState, Snapshot
from harness.store.journal import Journal
from tests.experiment.tiny_task import tiny


def session(**changes):
    task = tiny(0)
    plain = {
        "request": task.prompt,
        "task": task,
        "policy": policy_from_plain({"kind": "none"}),
        "sandbox": SandboxChoice(backend="local"),
        "unsafe_local": True,
    }
    return Interactive(**{**plain, **changes})


def test_what_is_told_is_what_is_logged(tmp_path):
    heard: list[Entry | Signal] = []
    ended = converse(session(journal=tmp_path / "j.sqlite"), "s1", listen=heard.append)
    told = [one for one in heard if isinstance(one, Entry)]
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        assert list(journal.entries("s1")) == told
    assert isinstance(told[0].event, SessionStarted)
    assert isinstance(told[-1].event, SessionEnded)
    assert (ended.outcome.status, ended.outcome.reason) == ("completed", "replied")
    assert [check.passed for check in ended.checks] == [True, True]


def test_later_messages_of_a_task_arrive():
    heard: list[Entry | Signal] = []
    converse(session(), "s1", listen=heard.append)
    events = [one.event for one in heard if isinstance(one, Entry)]
    [late] = [one.step for one in events if isinstance(one, MessageAdded) and one.message.text == "Take your time."]
    assert late == 3


def test_a_stopped_session_keeps_its_files_and_is_not_judged(tmp_path):
    cancellation = Cancellation()

    def listen(heard):
        if isinstance(heard, Entry) and isinstance(heard.event, StepFinished) and heard.event.step == 2:
            cancellation.request()

    ended = converse(session(keep=tmp_path / "kept"), "s1", listen=listen, cancellation=cancellation)
    assert ended.outcome.reason == "cancelled"
    assert ended.checks == ()
    assert (tmp_path / "kept" / "note.txt").read_text() == "a note\n"


def test_a_full_folder_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "mine").write_text("precious")
    heard: list[Entry | Signal] = []
    with pytest.raises(UsageError, match="not empty"):
        converse(session(keep=tmp_path, journal=tmp_path / "j.sqlite"), "s1", listen=heard.append)
    assert heard == []
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


class Hostile:
    """A workspace whose names lead everywhere."""

    def __init__(self, *names):
        self.names = names

    def snapshot(self):
        state = FileState(sha256="", mode=0o100644, size_bytes=1)
        return Snapshot(tree_id="", files=dict.fromkeys(self.names, state))

    def read(self, path):
        return b"x"


def test_no_name_leads_out_of_the_folder(tmp_path):
    folder = tmp_path / "kept"
    names = ("../out", "/tmp/harness-out", "a/../../out", "fine/file.txt", "..hidden")
    assert keep_files(Hostile(*names), folder) == 2  # type: ignore[arg-type]
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "kept/..hidden",
        "kept/fine/file.txt",
    ]


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        keep_files(Hostile("a"), tmp_path / "file" / "below")  # type: ignore[arg-type]
