from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from harness.agent.cancellation import Cancellation
from harness.conversation.events import Entry, MessageAdded, Notice, SessionEnded, SessionStarted, StepFinished, TransientEvent
from harness.conversation.view import fold_all
from harness.errors import StoreError, UsageError, WindowTooSmall
from harness.experiment.preflight import collect_warnings
from harness.experiment.trial import Trial
from harness.policies import policy_from_plain
from harness.protocols import FileState, SandboxLimits, Snapshot
from harness.sandboxes import open_sandbox
from harness.sandboxes.backends import SandboxChoice
from harness.session.execution import copy_files, execute_session
from harness.session.live_session import LiveSession
from harness.session.spec import SessionSpec
from harness.store.journal import Journal
from harness.task import Evidence
from tests.experiment.run_grid import TINY
from tests.experiment.tiny_task import make_tiny_task, step, tiny
from tests.store.samples import plain
from tests.store.sessions.test_failures import refuse_writes


def session(**changes):
    task = tiny(0)
    plain = {
        "request": task.prompt,
        "task": task,
        "policy": policy_from_plain({"kind": "none"}),
        "sandbox": SandboxChoice(backend="local"),
        "unsafe_local": True,
    }
    return SessionSpec(**{**plain, **changes})


def test_listeners_receive_every_logged_entry(tmp_path):
    heard: list[Entry | TransientEvent] = []
    ended = execute_session(session(journal=tmp_path / "j.sqlite"), "s1", on_event=heard.append)
    entries = [one for one in heard if isinstance(one, Entry)]
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        assert list(journal.read_entries("s1")) == entries
    assert isinstance(entries[0].event, SessionStarted)
    assert isinstance(entries[-1].event, SessionEnded)
    assert (ended.outcome.status, ended.outcome.reason) == ("completed", "replied")
    assert [check.passed for check in ended.checks] == [True, True]


def test_a_session_whose_journal_could_not_be_written_is_marked_as_failed_when_it_is_reopened_and_goes_on(tmp_path):
    """S0.9."""
    path = tmp_path / "j.sqlite"
    with ExitStack() as stack:

        def fill(item):
            if isinstance(item, Entry) and isinstance(item.event, StepFinished):
                stack.enter_context(refuse_writes(path))

        with pytest.raises(StoreError, match="free some space"):
            execute_session(session(journal=path), "s1", on_event=fill)
        assert plain(path, "SELECT status, reason FROM sessions") == [("active", None)]
    live = LiveSession.reopen(path, "s1", spec=session())
    assert plain(path, "SELECT status, reason FROM sessions") == [("failed", "store_error")]
    assert [entry.event.reason for entry in live.entries if isinstance(entry.event, SessionEnded)] == ["store_error"]
    with closing(live.start()):
        live.resume()
        assert live.wait(300) == "idle", live.failure
        assert [check.passed for check in live.close().checks] == [True, True]
    assert plain(path, "SELECT status, reason FROM sessions") == [("completed", "replied")]


def test_a_fork_that_could_not_be_written_is_marked_as_failed(tmp_path):
    path, fork_path = tmp_path / "j.sqlite", tmp_path / "fork.sqlite"
    with closing(LiveSession(session(journal=path)).start()) as live:
        assert live.wait(300) == "idle", live.failure
        Journal.open(fork_path).close()
        with refuse_writes(fork_path), pytest.raises(StoreError, match="free some space"):
            live.fork(1, fork_path)
    assert plain(fork_path, "SELECT status, reason FROM sessions") == [("failed", "store_error")]


@pytest.mark.parametrize("kind", ["none", "message-window"])
def test_the_result_has_the_number_of_messages_in_view_and_their_tokens(kind, tmp_path):
    """S4.4."""
    plain = {"kind": kind} | ({"max_messages": 8, "preserve_last_n": 4} if kind == "message-window" else {})
    policy = policy_from_plain(plain)
    heard: list[Entry | TransientEvent] = []
    ended = execute_session(session(policy=policy), "s1", on_event=heard.append)
    view = fold_all([one for one in heard if isinstance(one, Entry)], policy.counter)
    assert (ended.outcome.view_messages, ended.outcome.view_tokens) == (len(view.items), view.tokens)
    assert (len(view.items) < 15) == (kind == "message-window")


def test_advisories_about_a_policy_come_first_in_the_words_of_a_grid():
    tight = policy_from_plain({"kind": "keep-last", "trigger_tokens": 900, "summarizer": "scripted/oracle"})
    grid = collect_warnings([Trial(task=TINY, policy=tight, window_tokens=16_000)])
    assert [text.partition(" is due at ")[0] for text in grid] == ["policy 'keep-last'"]
    heard: list[Entry | TransientEvent] = []
    execute_session(session(policy=tight, window_tokens=16_000, max_steps=1), "s1", on_event=heard.append)
    assert [one.text for one in heard if isinstance(one, Notice)] == [text.replace(TINY, "tiny") for text in grid]
    assert isinstance(heard[0], Notice)


def test_the_instructions_of_a_session_count_as_its_first_request():
    tight = policy_from_plain({"kind": "keep-last", "trigger_tokens": 2_500, "summarizer": "scripted/oracle"})
    notices = {}
    for instructions in ("", "Mind the gap. " * 500):
        heard: list[Entry | TransientEvent] = []
        given = session(policy=tight, window_tokens=16_000, instructions=instructions, max_steps=1)
        execute_session(given, "s1", on_event=heard.append)
        notices[bool(instructions)] = [one.text for one in heard if isinstance(one, Notice)]
    assert notices[False] == []
    [warning] = notices[True]
    assert "tokens for a summary of up to 800 tokens" in warning


def test_later_messages_of_a_task_arrive():
    heard: list[Entry | TransientEvent] = []
    execute_session(session(), "s1", on_event=heard.append)
    events = [one.event for one in heard if isinstance(one, Entry)]
    [late] = [event.step for event in events if isinstance(event, MessageAdded) and event.message.text == "Take your time."]
    assert late == 3


def test_a_stopped_session_keeps_its_files_and_is_not_judged(tmp_path):
    cancellation = Cancellation()

    def listen(heard):
        if isinstance(heard, Entry) and isinstance(heard.event, StepFinished) and heard.event.step == 2:
            cancellation.request()

    ended = execute_session(session(keep=tmp_path / "kept"), "s1", on_event=listen, cancellation=cancellation)
    assert ended.outcome.reason == "cancelled"
    assert ended.checks == ()
    assert (tmp_path / "kept" / "note.txt").read_text() == "a note\n"


def test_a_full_folder_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "mine").write_text("precious")
    heard: list[Entry | TransientEvent] = []
    with pytest.raises(UsageError, match="not empty"):
        execute_session(session(keep=tmp_path, journal=tmp_path / "j.sqlite"), "s1", on_event=heard.append)
    assert heard == []
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


FLOOD = "yes out | head -c 5242880; yes err | head -c 5242880 >&2; echo; echo No such port. >&2; sh -c 'exit 3'"
HEADING = "[first 524288 and last 524288 of 5242881 bytes]"


@pytest.mark.slow
@pytest.mark.parametrize(
    "plain",
    [
        *({"kind": "three-tiers", "truncate_keep": keep} for keep in ("head", "tail")),
        *({"kind": kind} for kind in ("none", "keep-last", "ratio", "reserve-recent", "message-window")),
    ],
    ids=lambda plain: plain.get("truncate_keep", plain["kind"]),
)
def test_the_exit_code_and_the_end_of_standard_error_are_kept_of_5_mib_of_output(plain, tmp_path):
    """S3.1: in a whole session, whichever end of the output its policy keeps."""
    task = make_tiny_task(0, "true")
    flood = step("flood", "execute_command", command=FLOOD)
    script = replace(task.script, steps=(replace(flood, done=Evidence(receipts=(("execute_command", "No such port"),))),))
    journal = tmp_path / "j.sqlite"
    given = session(task=replace(task, script=script), policy=policy_from_plain(plain), journal=journal)
    ended = execute_session(given, "s1")
    assert ended.outcome.reason == "replied"
    with Journal.open(journal, read_only=True) as opened:
        results = [
            result
            for entry in opened.read_entries("s1")
            if isinstance(entry.event, MessageAdded)
            for result in entry.event.message.results
        ]
    outputs = [result.output for result in results if result.name == "execute_command"]
    assert outputs
    for output in outputs:
        lines = output.splitlines()
        assert lines[0] == "exit code 3"
        assert "No such port." in lines
        assert len(output) < 54_000
        assert lines[1] == HEADING
        assert ("Full output saved to: output-" in output) == (plain["kind"] == "three-tiers")


@pytest.mark.bubblewrap
def test_directories_links_and_large_files_of_a_workspace_do_not_keep_the_others_from_being_kept(tmp_path):
    sandbox = open_sandbox("bubblewrap", session_id="keeping", limits=SandboxLimits(file_bytes=1000))
    with closing(sandbox):
        sandbox.start()
        command = "mkdir -p a/b empty; echo deep > a/b/c; echo x > x; chmod 000 x; ln -s nowhere dangling; ln -s a/b/c link"
        sandbox.run(f"{command}; ln -s /etc up; head -c 1001 /dev/zero > large; head -c 1000 /dev/zero > small; mkfifo pipe")
        kept = copy_files(sandbox, tmp_path / "kept")
    paths = {str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*") if not path.is_dir()}
    skipped = dict(kept.skipped)
    assert {"a/b/c", "small"} <= paths
    assert len(paths) == kept.files
    assert {"dangling", "link", "up", "large"} <= set(skipped)
    assert "larger than 1000 bytes" in skipped["large"]
    assert "link" in skipped["dangling"]
    assert paths.isdisjoint(skipped)
    assert {"a", "a/b", "empty"}.isdisjoint(skipped)


@pytest.mark.bubblewrap
def test_a_path_too_long_for_the_folder_does_not_keep_the_others_from_being_kept(tmp_path):
    dig = "import os\nfor _ in range(25):\n os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('deep', 'w').close()"
    with closing(open_sandbox("bubblewrap", session_id="deep")) as sandbox:
        sandbox.start()
        sandbox.run(f'python3 -c "{dig}"; echo x > other')
        kept = copy_files(sandbox, tmp_path / "kept")
    assert kept.files == 1
    assert [(len(path), reason) for path, reason in kept.skipped] == [
        (25 * 201 + 4, "its name cannot exist in the folder: File name too long")
    ]


@pytest.mark.bubblewrap
def test_a_session_whose_workspace_has_a_directory_is_kept_and_judged(tmp_path):
    task = replace(tiny(0), workspace=(("note.txt", "a note\n"), ("src/deep/main.py", "pass\n"), ("large", "x" * 2000)))
    small = SandboxChoice(backend="bubblewrap", limits=SandboxLimits(file_bytes=10_000))
    ended = execute_session(session(task=task, sandbox=small, unsafe_local=False, keep=tmp_path / "kept"), "s1")
    assert (tmp_path / "kept" / "src" / "deep" / "main.py").read_text() == "pass\n"
    assert ended.copied_files.files == 4
    assert [check.passed for check in ended.checks] == [True, True]


@pytest.mark.parametrize("task", [pytest.param(None, marks=pytest.mark.slow), tiny(0)])
def test_a_window_too_small_for_the_request_is_refused_before_anything_starts(task, tmp_path, monkeypatch):
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
    heard: list[Entry | TransientEvent] = []
    asked = session(task=task, model="scripted" if task else "hosted_vllm/stub", window_tokens=50, journal=tmp_path / "j.sqlite")
    with pytest.raises(WindowTooSmall, match="more than the window of 50"):
        execute_session(asked, "s1", on_event=heard.append)
    assert heard == []
    assert list(tmp_path.iterdir()) == []


def test_a_first_request_that_does_not_fit_the_window_is_refused():
    with pytest.raises(WindowTooSmall):
        execute_session(session(request="word " * 5000, window_tokens=4000), "s1")


class Hostile:
    """Workspace whose file names lead out of any folder."""

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
    kept = copy_files(Hostile(*names), folder)  # type: ignore[arg-type]
    assert kept.files == 2
    assert sorted(path for path, _ in kept.skipped) == ["../out", "/tmp/harness-out", "a/../../out"]
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "kept/..hidden",
        "kept/fine/file.txt",
    ]


def test_a_folder_that_cannot_be_written_raises_a_store_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        copy_files(Hostile("a"), tmp_path / "file" / "below")  # type: ignore[arg-type]
