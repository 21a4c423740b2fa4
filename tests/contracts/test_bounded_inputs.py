"""Files that are pipes, devices, huge, deeply nested or compressed bombs: each is refused with a message, in little memory."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from harness.analysis.outcomes import load_outcomes
from harness.conversation import codec
from harness.conversation.events import Entry, SessionStarted
from harness.conversation.messages import assistant
from harness.conversation.tokens import Measured, Usage
from harness.errors import UsageError
from harness.models.cassette import HEADER
from harness.protocols import Reply
from harness.recordings.session_file import TimedEntry, encode_lines
from harness.store.journal import Journal
from harness.store.sessions.archive import SUFFIX, locate_archive
from tests.contracts.forking import Cost, Forking

pytestmark = pytest.mark.slow
MAX_EXTRA_BYTES = 300 * 10**6
MAX_CPU_SECONDS = 4.0
"""Twice the time that a refusal may take on an idle machine."""


def write_pipe(file: Path) -> None:
    os.mkfifo(file)


def link_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def write_hole(file: Path) -> None:
    with file.open("wb") as opened:
        opened.write(b"{")
        opened.truncate(1 << 40)


ODD_FILES = (write_pipe, link_device, write_hole)
NO_FILES = {write_pipe.__name__, link_device.__name__}
"""Inputs that have no end or never begin; a program that reads them nevertheless may see an empty or a damaged file instead."""


def write_text(text: str) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_text(text)

    return write


STARTED = SessionStarted(
    session_id="one",
    task="t",
    policy_json="{}",
    model="scripted",
    window_tokens=1_000,
    threshold_tokens=None,
    budget_rule="",
    sandbox="docker",
)
FIRST_ROW = json.loads(next(encode_lines([TimedEntry(Entry(1, STARTED), 0)])))
MESSAGE = {"type": "message", "timestamp": "2026-01-01T00:00:00+00:00", "role": "user", "step": 0}
MESSAGE |= {"parts": [{"kind": "text", "text": "x"}]}
ROLLED_BACK = {"type": "rolled-back", "timestamp": "2026-01-01T00:00:00+00:00", "step": 0, "to_event": 2}
COMPACTION = {"type": "compaction", "timestamp": "2026-01-01T00:00:00+00:00", "summary": "x", "first_kept_entry_id": None}
FINISHED = {"type": "step-finished", "timestamp": "2026-01-01T00:00:00+00:00", "step": 1, "view_tokens": 1, "view_messages": 1}
FINISHED |= {"cost_usd": None, "request_digest": "", "kept_prefix_messages": 0, "usage": {"input_tokens": 1, "output_tokens": 1}}


def write_rows(*rows: Any, **first: object) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        with file.open("w") as opened:
            for row in (FIRST_ROW | first, *rows):
                opened.write(json.dumps(row) + "\n")

    return write


def nest(depth: int) -> str:
    return "[" * depth + "]" * depth


RECORDINGS: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in ODD_FILES},
    "events": write_rows(*[MESSAGE] * 100_001),
    "claude events": write_text('{"type":"user","message":{"role":"user","content":"x"},"uuid":"u","sessionId":"s"}\n' * 100_001),
    "deep": write_text('{"a":' + nest(5_000_000) + "}"),
    "deep line": write_text(json.dumps(FIRST_ROW) + "\n" + nest(100_000) + "\n"),
    "deep unclosed": write_text("[" * 10_000_000),
    "wide": write_text("[" + "{}," * 10_000_000 + "{}]"),
    "wide line": write_text(json.dumps(FIRST_ROW) + "\n[" + "[]," * 10_000_000 + "[]]\n"),
    "values on a line": write_text(json.dumps(FIRST_ROW) + "\n" + "{}" * 10_000_000),
    "long name": write_rows(id="n" * 10**6),
    "long type": write_rows({**MESSAGE, "type": "t" * 10**6}),
    "long digits": write_text('{"type":"session","format":"harness","version":1,"id":' + "9" * 10**6 + "}\n"),
    "window of 400 digits": write_rows(window_tokens=int("9" * 400)),
    "usage of 10^30": write_rows(
        {**MESSAGE, "role": "assistant", "step": 1}, {**FINISHED, "usage": {"input_tokens": 10**30, "output_tokens": 1}}
    ),
    "compactions after rollbacks": write_rows(MESSAGE, MESSAGE, *(40_000 * [ROLLED_BACK, COMPACTION])),
    "step of 1e30": write_rows(MESSAGE | {"step": 1e30}),
    "step of 10^30": write_rows({**MESSAGE, "step": 10**30}),
    "time of 10^30": write_rows({**MESSAGE, "timestamp": "9" * 30}),
}
TRIAL = '[trial]\ntask = "flashcards"\npolicy = "keep-last"\n'
PLANS: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in ODD_FILES},
    "deep list": write_text(f"x = {nest(100_000)}"),
    "deep axis": write_text(f"{TRIAL}[axes]\nseed = {nest(400)}"),
    "deep key": write_text("a" + ".a" * 50_000 + " = 1"),
    "deep table": write_text(f"[axes{'.a' * 900}]\nb = [1]\n{TRIAL}"),
    "deep quoted table": write_text(f"[axes{'.`a`'.replace('`', chr(34)) * 50_000}]\nb = [1]\n"),
    "deep inline table": write_text(f"x = {'{a=' * 100_000}1{'}' * 100_000}"),
    "long name": write_text(TRIAL.replace("flashcards", "f" * 10**6)),
    "long policy": write_text(TRIAL.replace("keep-last", "f" * 10**6)),
    "window of 400 digits": write_text(f"{TRIAL}window_tokens = {'9' * 400}"),
    "nominal window of 400 digits": write_text(f"{TRIAL}window_tokens = 9000\nnominal_window_tokens = {'9' * 400}"),
    "seed of 400 digits": write_text(f"{TRIAL}seed = {'9' * 400}"),
    "steps of 400 digits": write_text(f"{TRIAL}max_steps = {'9' * 400}"),
    "axis of 400 digits": write_text(f"{TRIAL}[axes]\nseed = [{'9' * 400}]"),
    "threshold of 400 digits": write_text(TRIAL.replace('"keep-last"', "{kind = 'keep-last', keep_last = " + "9" * 400 + "}")),
    "trials": write_text(
        f"{TRIAL}[axes]\n" + "".join(f"{name} = {list(range(1, 1001))}\n" for name in ("seed", "replicate", "max_steps"))
    ),
}
REPLY = Reply(message=assistant("x"), usage=Usage(input_tokens=Measured(1), output_tokens=Measured(1)), seconds=1.0)
HUGE_REPLY = replace(REPLY, usage=Usage(input_tokens=Measured(10**30), output_tokens=Measured(1)))
CASSETTES: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in ODD_FILES},
    "deep": write_text(HEADER.decode() + nest(100_000) + "\n"),
    "long line": write_text(HEADER.decode() + "[" * (65 << 20)),
    "usage of 10^30": write_text(HEADER.decode() + json.dumps({"key": "k", "reply": codec.to_plain(HUGE_REPLY)}) + "\n"),
}
TABLES: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in ODD_FILES},
    "deep": write_text('{"a":' + nest(100_000) + "}"),
}


@pytest.fixture(scope="module")
def measure() -> Iterator[Callable[..., Cost]]:
    with Forking(
        "harness.cli.run", "harness.cli.sessions", "harness.experiment.experiment", "harness.recordings.reading"
    ) as forking:
        yield forking.measure


def refuse(used: Cost) -> None:
    assert used.exit_code in (1, 2), used.output[-2000:]
    assert "Traceback" not in used.output
    assert used.output.startswith(("error: ", "Usage: ")), used.output[:500]
    assert len(used.output) < 2_000, used.output[:300]
    assert used.memory_bytes < MAX_EXTRA_BYTES
    assert used.cpu_seconds < MAX_CPU_SECONDS


def refuse_unread(used: Cost, name: str) -> None:
    refuse(used)
    assert ("it is a pipe, a device or a folder" in used.output) == (name in NO_FILES), used.output


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording(tmp_path, measure, name):
    RECORDINGS[name](tmp_path / "file")
    refuse_unread(measure(tmp_path, "import", "file", "--journal", "journal.sqlite"), name)
    if (tmp_path / "journal.sqlite").exists():
        with Journal.open(tmp_path / "journal.sqlite") as journal:
            assert journal.list_session_ids() == ()


def test_a_long_session_with_many_rollbacks_is_imported_in_linear_time(tmp_path, measure):
    write_rows(*[MESSAGE] * 10_000, *[ROLLED_BACK] * 9_000)(tmp_path / "file")
    used = measure(tmp_path, "import", "file", "--journal", "journal.sqlite")
    assert (used.exit_code, used.output) == (0, "imported session one (19,001 events, format harness)\n")


@pytest.mark.parametrize("name", PLANS)
def test_a_plan(tmp_path, measure, name):
    PLANS[name](tmp_path / "plan.toml")
    refuse_unread(measure(tmp_path, "run", tmp_path, "--dry-run"), name)


@pytest.mark.parametrize("name", CASSETTES)
def test_a_cassette(tmp_path, measure, name):
    CASSETTES[name](tmp_path / "cassette")
    (tmp_path / "plan.toml").write_text(TRIAL + 'model = "openai/gpt-4o"\nwindow_tokens = 9000\n')
    refuse(measure(tmp_path, "run", tmp_path, "--replay", "cassette", OPENAI_API_KEY="k"))


@pytest.fixture(scope="module")
def measure_with_litellm() -> Iterator[Callable[..., Cost]]:
    with Forking("harness.experiment.experiment", "litellm") as forking:
        yield forking.measure


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_models(tmp_path, measure_with_litellm, name):
    TABLES[name](tmp_path / "table")
    (tmp_path / "plan.toml").write_text(TRIAL + 'model = "openai/gpt-4o"\nwindow_tokens = 9000\n')
    refuse_unread(measure_with_litellm(tmp_path, "run", tmp_path, "--dry-run", HARNESS_MODEL_TABLE="table"), name)


def write_bomb(size_bytes: int, *, states_size: bool) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        compressor = zstandard.ZstdCompressor().compressobj(size=size_bytes if states_size else -1)
        with file.open("wb") as opened:
            for _ in range(size_bytes >> 20):
                opened.write(compressor.compress(bytes(1 << 20)))
            opened.write(compressor.flush())

    return write


def write_false_size(file: Path) -> None:
    """Write a frame that states a content of 100 bytes and has 64 MiB."""
    write_bomb(64 << 20, states_size=True)(file)
    data = bytearray(file.read_bytes())
    parameters = zstandard.get_frame_parameters(bytes(data[:18]))
    assert parameters.content_size == 64 << 20
    place = bytes(data).index((64 << 20).to_bytes(4, "little"))
    data[place : place + 4] = (100).to_bytes(4, "little")
    file.write_bytes(bytes(data))


ARCHIVES: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in ODD_FILES},
    "bomb": write_bomb(3 << 30, states_size=True),
    "bomb of unknown size": write_bomb(3 << 30, states_size=False),
    "bomb of false size": write_false_size,
    "text": write_text("no archive"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archived_session(tmp_path, measure, name):
    journal = tmp_path / "journal.sqlite"
    with Journal.open(journal):
        pass
    archive = locate_archive(journal)
    archive.mkdir(parents=True)
    ARCHIVES[name](archive / f"one{SUFFIX}")
    refuse_unread(measure(tmp_path, "sessions", "restore", "one", "--in", journal), name)
    assert (archive / f"one{SUFFIX}").exists()


def test_a_compressed_bomb_in_a_journal(tmp_path, measure):
    write_bomb(3 << 30, states_size=True)(tmp_path / "bomb")
    write_rows(MESSAGE | {"parts": [{"kind": "text", "text": "x" * 20_000}]})(tmp_path / "file")
    assert measure(tmp_path, "import", "file", "--journal", "journal.sqlite").exit_code == 0
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection, connection:
        assert connection.execute("UPDATE text SET data = ?", ((tmp_path / "bomb").read_bytes(),)).rowcount > 0
    refuse(measure(tmp_path, "inspect", "one", "--in", "journal.sqlite"))


@pytest.mark.parametrize("name", [one.__name__ for one in ODD_FILES])
@pytest.mark.parametrize("command", ["list", "messages"])
def test_a_journal(tmp_path, measure, name, command):
    RECORDINGS[name](tmp_path / "journal.sqlite")
    names = [] if command == "list" else ["one"]
    refuse(measure(tmp_path, "sessions", command, *names, "--in", "journal.sqlite"))


@pytest.mark.parametrize("name", [one.__name__ for one in ODD_FILES])
def test_a_journal_to_import_into(tmp_path, measure, name):
    RECORDINGS[name](tmp_path / "journal.sqlite")
    write_rows(MESSAGE)(tmp_path / "file")
    refuse(measure(tmp_path, "import", "file", "--journal", "journal.sqlite"))


@pytest.fixture(scope="module")
def measure_agent() -> Iterator[Callable[..., Cost]]:
    with Forking("harness.cli.agent") as forking:
        yield forking.measure


AGENT = ("agent", "--task", "flashcards", "--backend", "local", "--unsafe-local")


@pytest.mark.parametrize("name", [one.__name__ for one in ODD_FILES])
def test_instructions(tmp_path, measure_agent, name):
    RECORDINGS[name](tmp_path / "file")
    used = measure_agent(tmp_path, *AGENT, "--journal", "journal.sqlite", "--instructions", "file")
    refuse_unread(used, name)
    assert used.output.startswith("error: cannot read the file of --instructions 'file': it ")
    assert not (tmp_path / "journal.sqlite").exists()


@pytest.mark.parametrize("given", ["/dev/zero", "hole"])
def test_standard_input(tmp_path, measure_agent, given):
    write_hole(tmp_path / "hole")
    used = measure_agent(tmp_path, *AGENT, "--journal", "journal.sqlite", given=given)
    refuse(used)
    assert used.output == "error: cannot read standard input: it has more than the 8,388,608 bytes that are read; shorten it\n"


@pytest.mark.parametrize("place", ["/dev/null", "/dev/zero", "pipe"])
def test_a_journal_that_is_a_device_or_a_pipe(tmp_path, measure_agent, place):
    write_pipe(tmp_path / "pipe")
    before = {*Path("/dev").iterdir(), *tmp_path.iterdir()}
    used = measure_agent(tmp_path, *AGENT, "--journal", place)
    refuse_unread(used, write_pipe.__name__)
    assert {*Path("/dev").iterdir(), *tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", [write_pipe.__name__, link_device.__name__])
def test_a_file_to_record_answers_in(tmp_path, measure_agent, name):
    RECORDINGS[name](tmp_path / "cassette")
    used = measure_agent(tmp_path, *AGENT, "--no-journal", "--model", "openai/gpt-4o", "--record", "cassette", OPENAI_API_KEY="k")
    refuse_unread(used, name)


@pytest.mark.parametrize("name", [write_pipe.__name__, link_device.__name__])
def test_a_file_to_export_to(tmp_path, measure, name):
    write_rows(MESSAGE)(tmp_path / "file")
    assert measure(tmp_path, "import", "file", "--journal", "journal.sqlite").exit_code == 0
    RECORDINGS[name](tmp_path / "export")
    before = (tmp_path / "export").lstat()
    refuse(measure(tmp_path, "export", "one", "export", "--in", "journal.sqlite"))
    after = (tmp_path / "export").lstat()
    assert (after[:7], after.st_mtime_ns) == (before[:7], before.st_mtime_ns)  # the time of access changes when a link is read


@pytest.mark.parametrize("name", [one.__name__ for one in ODD_FILES])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_of_outcomes(tmp_path, name, suffix):
    RECORDINGS[name](tmp_path / f"outcomes.{suffix}")
    with pytest.raises(UsageError, match=r"it is a pipe, a device or a folder|more than the 67,108,864 that are read"):
        load_outcomes(tmp_path / f"outcomes.{suffix}", task="task", arm="arm", success="success", level="L3")


def test_a_window_of_400_digits_on_the_command_line(tmp_path, measure):
    refuse(measure(tmp_path, "policies", "show", "keep-last", "--window", "9" * 400))


def test_deeply_nested_values_on_the_command_line(tmp_path, measure):
    used = measure(tmp_path, "policies", "show", "keep-last", "--window", "9000", "--set", "keep_last=" + nest(30_000))
    refuse(used)
