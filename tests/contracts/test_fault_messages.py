"""The notebook widget and the command line report faults around a session together with advice.

The faults are a missing key, an unknown model, a dead endpoint, a dying sandbox and a full disk. Input that the command line
refuses before anything starts is tested in tests/cli/test_agent.py.
"""

import os
import resource
import socket
import sqlite3
import subprocess
import time
from contextlib import closing, suppress

import psutil
import pytest

from harness.widgets.agent import AgentWidget
from harness.widgets.message_channel import SHARED_SENDER
from tests.cli.command import LOCAL, harness, started, within
from tests.cli.test_agent import SLOW, Person
from tests.cli.test_dialog import FULL
from tests.session.test_execution import session
from tests.session.test_live_session import REAL
from tests.widgets.linked import PageComm

SECONDS = 300
NOBODY = "no server answers at this address: check the address, and that the server runs"
GONE = "the sandbox died"
FREE = "free some space"


class Panel:
    """Agent widget with the state of a page that displays it."""

    def __init__(self, widget):
        self.widget, self.state, self.rows = widget, {}, {}
        self._comm = PageComm()
        widget.comm = self._comm
        self.press("sync")

    def press(self, kind, **more):
        self._comm.hear({"kind": kind, **more})

    def until(self, true):
        end = time.monotonic() + SECONDS
        while not true(self):
            assert time.monotonic() < end, (self.state, self.rows)
            assert SHARED_SENDER.drain()
            while not self._comm.sent.empty():
                message = self._comm.sent.get()
                if message["kind"] == "batch":
                    self.state |= message["state"]
                    self.rows |= {item["n"]: item for item in message["items"] if item["kind"] != "grown"}
            time.sleep(0.02)
        return self.state

    def in_phase(self, phase):
        return self.until(lambda one: one.state.get("phase") == phase)

    def worked(self):
        return self.until(lambda one: any(row["kind"] == "tool" and row["size"] for row in one.rows.values()))


@pytest.fixture
def panel(tmp_path):
    widgets = []

    def make(**changes):
        widgets.append(AgentWidget.from_session(session(journal=tmp_path / "j.sqlite", **changes), pace_seconds=0.3))
        return Panel(widgets[-1])

    yield make
    for widget in widgets:
        widget.close()


@pytest.fixture
def dead(monkeypatch):
    """Return environment variables of an endpoint that no longer runs."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    named = {"HOSTED_VLLM_API_BASE": f"http://127.0.0.1:{port}/v1", "HOSTED_VLLM_API_KEY": "planted-0123456789"}
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    return named


def children(number):
    """Return the child processes of a process."""
    return set(psutil.Process(number).children())


def kill(processes):
    assert processes
    for process in processes:
        process.kill()


# --- in a notebook -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "explanation"),
    [
        ("anthropic/claude-sonnet-4-5", "needs ANTHROPIC_API_KEY in the environment; set it and try again"),
        ("antropic", "unknown model 'antropic'; known: anthropic/claude"),
    ],
)
def test_a_panel_refuses_a_model_that_it_cannot_ask_and_can_still_be_started(model, explanation, panel, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    it = panel(model=model, task=None)
    it.press("start")
    state = it.until(lambda one: one.state.get("error"))
    assert explanation in state["error"]
    assert state["phase"] == "new"
    assert it.rows == {}


@pytest.mark.slow  # it is asked again three times
def test_a_panel_reports_an_endpoint_that_does_not_answer_and_the_turn_can_be_continued(panel, dead):
    it = panel(**REAL)
    it.press("start")
    it.until(lambda one: "retry 1 of 3" in one.state.get("waiting", ""))
    state = it.in_phase("idle")
    [ended] = [row["text"] for row in it.rows.values() if row["kind"] == "ended"]
    assert ended.startswith("turn ended: model error: ")
    assert NOBODY in ended
    assert dead["HOSTED_VLLM_API_KEY"] not in ended
    assert state["interrupted"] is True


@pytest.mark.slow
def test_a_panel_says_that_its_sandbox_is_gone_and_how_to_go_on(panel):
    before = children(os.getpid())
    it = panel()
    it.press("start")
    it.worked()
    kill(children(os.getpid()) - before)
    state = it.in_phase("failed")
    assert GONE in state["failure"]
    assert "reopen the session to continue with its log and its last workspace" in state["failure"]
    assert state["session"]["reopen"].startswith("import harness; harness.AgentWidget.reopen(")


def test_a_panel_says_that_the_disk_is_full_and_what_to_do(panel, tmp_path):
    it = panel()
    it.press("start")
    it.worked()
    with closing(sqlite3.connect(tmp_path / "j.sqlite", isolation_level=None)) as other:
        other.execute(f"CREATE TRIGGER full {FULL.format('event')}")
    assert FREE in it.in_phase("failed")["failure"]


# --- at the command line -----------------------------------------------------------------------------------------------


def at_work(process):
    for line in process.stderr:
        if line.startswith("step 1:"):
            return
    raise AssertionError("it never worked")


def fill(process, journal):
    """Prevent all files of a process from growing, as on a full disk."""
    most = journal.with_name(f"{journal.name}-wal").stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))


@pytest.mark.slow  # it is asked again three times
def test_the_command_line_says_that_nobody_answers_at_an_endpoint(dead):
    done = harness("agent", "--model", "hosted_vllm/stub", "--window", "50000", *LOCAL, "--no-journal", given="hello", **dead)
    assert done.returncode == 1
    assert "session ended: failed (model_error): the provider of 'hosted_vllm/stub' failed" in done.stderr
    assert any(NOBODY in line for line in done.stderr.splitlines() if line.startswith("session ended: "))
    assert dead["HOSTED_VLLM_API_KEY"] not in done.stderr


def test_the_command_line_says_that_its_sandbox_is_gone(tmp_path):
    process = started("agent", "--task", SLOW, *LOCAL, "--journal", tmp_path / "j.sqlite")
    at_work(process)
    kill(children(process.pid))
    _, rest = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "session ended: failed (sandbox_error)" in rest
    assert GONE in rest
    assert "the sandbox failed, and changes of files since the last step are lost; resume the session from its last step" in rest
    assert rest.splitlines()[-1].startswith("resume the session with: harness agent --journal ")
    assert "Traceback" not in rest


def test_the_command_line_says_that_the_disk_is_full(tmp_path):
    process = started("agent", "--task", SLOW, *LOCAL, "--journal", tmp_path / "j.sqlite")
    at_work(process)
    fill(process, tmp_path / "j.sqlite")
    _, rest = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert rest.splitlines()[-1].startswith("error: journal ")
    assert FREE in rest.splitlines()[-1]
    assert "failed (store_error)" in listed(tmp_path / "j.sqlite"), "the disk has room again"


def listed(journal):
    """Return what the command line lists of a journal with one session, and check what other programs then read there."""
    output = within("sessions", "list", "--in", journal).output
    with closing(sqlite3.connect(journal)) as connection:
        assert connection.execute("SELECT status, reason FROM sessions").fetchall() == [("failed", "store_error")]
    return output


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_session_on_a_disk_that_was_full_is_marked_when_the_disk_has_room_again(small_disk):
    journal, filling = small_disk / "j.sqlite", small_disk / "filling"
    process = started("agent", "--task", SLOW, *LOCAL, "--journal", journal)
    at_work(process)
    with suppress(OSError), filling.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    _, rest = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert FREE in rest.splitlines()[-1]
    filling.unlink()
    assert "failed (store_error)" in listed(journal)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "explanation"), [("sandbox", GONE), ("disk", FREE)])
def test_a_fault_is_reported_at_once_at_the_terminal_and_sets_the_exit_code(fault, explanation, tmp_path):
    with Person("--journal", tmp_path / "j.sqlite") as person:
        person.types("\n")
        person.reads_until("step 1:")
        if fault == "sandbox":
            kill(children(person.process.pid))
        else:
            fill(person.process, tmp_path / "j.sqlite")
        assert explanation in person.reads_until("the session failed: ")
        assert person.leaves() == 1
    if fault == "disk":
        assert "failed (store_error)" in listed(tmp_path / "j.sqlite")
    last = person.output.splitlines()[-1]
    assert last.startswith("error: session ")
    assert "; resume it with: harness agent --journal " in last
    assert "Traceback" not in person.output
