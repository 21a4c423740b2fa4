"""An API key in the environment appears in nothing that a session stores or displays, whether the session succeeds or fails.

The provider in these tests repeats the key in its error messages, as real providers do.
"""

import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import nbformat
import pytest
from click.testing import CliRunner
from nbclient import NotebookClient

from harness.cli import main
from harness.compaction.presets.none import NoCompaction
from harness.conversation import codec
from harness.conversation.events import Entry, TransientEvent, Waiting
from harness.experiment.experiment import Experiment
from harness.experiment.plan import Settings
from harness.experiment.trial import Trial
from harness.models.cassette import Cassette
from harness.sandboxes.backends import SandboxChoice
from harness.session.live_session import LiveSession
from harness.store.journal import Journal
from harness.widgets.agent import AgentWidget
from harness.widgets.message_channel import SHARED_SENDER
from tests.cli.command import LOCAL, TINY
from tests.models.openai_stub import Refuse, Say, serving
from tests.session.test_execution import session

pytestmark = pytest.mark.slow

KEY = "planted-Zq81-not-a-shape-that-is-known-7731"
ECHO = Refuse(status=401, error={"message": f"Incorrect API key provided: {KEY}. You can find yours at our site."})
DOWN = Refuse(status=500, error={"message": f"The backend refused {KEY}, try again"})
WORK = (
    Say(pieces=("I write.",), calls=(("c1", "write_file", '{"path": "a.txt", "content": "hi"}'),), finish="tool_calls"),
    Say(pieces=("It is written.",)),
)
CELL = """
from harness.session.execution import execute_session
from harness.session.spec import SessionSpec
from harness.sandboxes.backends import SandboxChoice
from harness import open_model
from harness.compaction.presets.none import NoCompaction
from harness.conversation.messages import user
from harness.protocols import Request
place = SandboxChoice(backend="local")
session = SessionSpec(
    request="x", policy=NoCompaction(), model="hosted_vllm/stub", window_tokens=50_000, sandbox=place, unsafe_local=True
)
display(session, execute_session(session, "s", on_event=print))
model = open_model("hosted_vllm/stub", task=None, seed=0, window_tokens=None)
display(model)
model.reply(Request(messages=(user("x"),)))
"""


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    for name in [name for name in os.environ if "API_" in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", KEY)


def left_in(folder: Path) -> str:
    """Return the content of all files of a folder; texts in journals are decompressed."""
    texts = []
    for path in folder.rglob("*"):
        if path.is_file():
            texts.append(path.read_bytes().decode(errors="replace"))
        if path.suffix == ".sqlite":
            with Journal.open(path, read_only=True) as journal:
                entries = (entry for name in journal.list_session_ids() for entry in journal.read_entries(name))
                texts.extend(codec.to_canonical_json(entry.event) for entry in entries)
    return "\n".join(texts)


@pytest.mark.parametrize(("answers", "code"), [(WORK, 0), ((ECHO,), 1)], ids=["works", "fails"])
def test_a_session_leaves_and_shows_no_key(answers, code, tmp_path, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with serving(*answers) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        kept = ("--journal", tmp_path / "j.sqlite", "--record", tmp_path / "tape.jsonl", "--keep", tmp_path / "kept")
        arguments = ("--debug", "agent", "--model", "hosted_vllm/stub", "--window", "50000", *kept, *LOCAL)
        done = CliRunner().invoke(main, [*map(str, arguments)], "write hi")
        assert stub.headers_seen[0]["Authorization"] == f"Bearer {KEY}"
    assert done.exit_code == code, done.output
    captured = capfd.readouterr()
    shown = "\n".join((done.stdout, done.stderr, str(done.exc_info), caplog.text, captured.out, captured.err))
    left = left_in(tmp_path)
    assert ("***" in left) == ("***" in shown) == (code == 1)
    assert "session-started" in left
    assert KEY not in shown + left


class Watched(AgentWidget):
    """Agent widget that records all messages to its pages."""

    sent: ClassVar[list[object]] = []

    def send(self, content, buffers=None):
        self.sent.append(content)
        super().send(content, buffers)


@pytest.mark.parametrize(("answers", "fails"), [(WORK, False), ((DOWN, ECHO), True)], ids=["works", "fails"])
def test_a_live_session_and_its_panel_leave_and_show_no_key(answers, fails, tmp_path, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    Watched.sent.clear()
    heard: list[Entry | TransientEvent] = []
    given = session(
        model="hosted_vllm/stub",
        task=None,
        request="write hi",
        window_tokens=50_000,
        explore=True,
        cassette=Cassette(path=tmp_path / "tape.jsonl", mode="record"),
        journal=tmp_path / "j.sqlite",
        keep=tmp_path / "kept",
    )
    with serving(*answers, *answers) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        live = LiveSession(given, on_event=heard.append).start()
        panel = Watched.from_session(replace(given, journal=tmp_path / "panel.sqlite", cassette=None, keep=None))
        assert live.wait(120) == "idle", live.failure
        panel.session.start()
        assert panel.session.wait(120) == "idle", panel.session.failure
        ended = (live.close(), panel.close())
        assert {one["Authorization"] for one in stub.headers_seen} == {f"Bearer {KEY}"}
    assert [one.outcome.status for one in ended] == ["failed" if fails else "completed"] * 2
    again = Watched.reopen(tmp_path / "panel.sqlite", panel.session.session_id)
    pages = [
        json.dumps([one.get_state(), one.render_text(), one.render_html(), repr(one)], default=repr) for one in (panel, again)
    ]
    again.close()
    assert SHARED_SENDER.drain(60)
    captured = capfd.readouterr()
    texts = "\n".join((repr(ended), repr(heard), repr(live.entries), live.failure, *pages, repr(Watched.sent)))
    logged = f"{caplog.text}\n{captured.out}\n{captured.err}"
    left = left_in(tmp_path)
    assert ("***" in texts) == ("***" in left) == ("***" in pages[0]) == ("***" in pages[1]) == fails
    assert any(isinstance(one, Waiting) for one in heard) == fails, "the failure that is tried again was told"
    assert Watched.sent, "the pages were told something"
    assert ("***" in repr(Watched.sent)) == fails
    assert (tmp_path / "tape.jsonl").exists()
    assert "setup_json" in left
    assert KEY not in texts + logged + left


def test_a_trial_leaves_no_key(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    base = Trial(
        task=TINY,
        policy=NoCompaction(),
        model="hosted_vllm/stub",
        window_tokens=50_000,
        sandbox=SandboxChoice(backend="local"),
    )
    experiment = Experiment(name="keys", base=base, settings=Settings(executor="threads"))
    with serving(ECHO) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        taped = experiment.with_cassette(tmp_path / "tape.jsonl", "record")
        results = taped.run(tmp_path / "output", progress="off", unsafe_local=True)
    [error] = results.trials["error"]
    assert "check the provider's key" in error
    assert "***" in error
    everything = left_in(tmp_path) + results.trials.to_csv() + results.messages.to_csv() + caplog.text
    assert KEY not in everything


def test_a_notebook_that_fails_shows_no_key(tmp_path, monkeypatch):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    with serving(ECHO, ECHO) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        NotebookClient(notebook, timeout=300, allow_errors=True).execute()
    shown = nbformat.writes(notebook)
    assert "RequestRefused" in shown
    assert "Traceback" in shown
    assert "***" in shown
    assert KEY not in shown
