"""Tests of typed lines, slash commands and Ctrl-C in a dialog."""

import os
import pty
import signal
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from io import StringIO

import pytest

from harness.cli.dialog import Dialog, read_lines
from harness.cli.event_printer import EventPrinter
from harness.conversation.events import SessionEnded
from harness.session.live_session import LiveSession
from tests.models.openai_stub import Say, serving
from tests.session.test_execution import session
from tests.session.test_live_session import REAL, SECONDS, asks


@pytest.fixture
def terminal():
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as keyboard, os.fdopen(theirs, encoding="utf-8") as source:
        yield keyboard, source


def test_typed_text_is_read_line_by_line_and_an_unfinished_line_last(terminal):
    keyboard, source = terminal
    came = read_lines(source)
    keyboard.write("schön\n\nand more\n".encode())
    assert [next(came), next(came), next(came)] == ["schön", "", "and more"]
    keyboard.write(b"cut\x04\x04")
    assert list(came) == ["cut"]


class Interrupted(Exception):
    pass


@contextmanager
def taken_elsewhere():
    """Send a signal that another thread receives, so that it interrupts no system call of the main thread."""

    def handler(_number, _frame):
        raise Interrupted

    def take():
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    taker = threading.Thread(target=take)
    taker.start()
    try:
        yield
    finally:
        taker.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.timeout(60)
def test_a_signal_that_another_thread_took_is_heard_while_nobody_types(terminal):
    _, source = terminal
    with pytest.raises(Interrupted), taken_elsewhere():
        next(read_lines(source))


@pytest.mark.timeout(60)
def test_an_interrupt_is_noticed_while_the_dialog_waits_for_a_session():
    let_on = threading.Event()

    def hold_up(_):
        let_on.wait()

    live = LiveSession(session(), on_event=hold_up)
    try:
        live.start()
        with pytest.raises(Interrupted), taken_elsewhere():
            live.wait()
    finally:
        let_on.set()
        live.close()


MESSAGES = ("add a test for the parser", "can you look at b.txt instead?", "show me first")


@pytest.mark.bubblewrap
@pytest.mark.slow  # the library of real models is slow to import
@pytest.mark.parametrize("answer", ["c", "Continue"])
def test_only_a_valid_answer_answers_a_question_and_other_text_is_a_message(tmp_path, monkeypatch, answer):
    replies = [*(asks(number) for number in range(3)), *[Say(pieces=("done",))] * (1 + len(MESSAGES))]
    with serving(*replies) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
        live = LiveSession(session(journal=tmp_path / "j.sqlite", **REAL)).start()
        try:
            log = StringIO()
            terminal = Dialog(live=live, printer=EventPrinter(text_stream=StringIO(), log_stream=log))
            assert live.wait(SECONDS) == "asking", live.failure
            for message in MESSAGES:
                terminal.handle_line(message)
            assert (live.state, live.queued_messages) == ("asking", MESSAGES)
            terminal.handle_line(answer)
            assert live.wait(SECONDS) == "idle"
            assert live.view.messages[-1].text == "done"
        finally:
            live.close()
    assert "error" not in log.getvalue()


FULL = "BEFORE INSERT ON {0} BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"


def test_a_failing_command_of_the_user_is_reported_and_the_session_continues(tmp_path):
    log, journal = StringIO(), tmp_path / "j.sqlite"
    with closing(LiveSession(session(journal=journal)).start()) as live:
        assert live.wait(SECONDS) == "idle", live.failure
        with closing(sqlite3.connect(journal, isolation_level=None)) as other:
            other.execute("UPDATE blob SET sha256 = upper(sha256)")
            for table in ("session", "event"):
                other.execute(f"CREATE TRIGGER full_{table} {FULL.format(table)}")
            terminal = Dialog(live=live, printer=EventPrinter(text_stream=StringIO(), log_stream=log))
            for line in ("/diff", "/patch", "/summary", "/fork 1", "is it there?"):
                terminal.handle_line(line)
            other.execute("DROP TRIGGER full_event")
        lines = log.getvalue().splitlines()
        assert [line.partition(": ")[0] for line in lines] == ["error"] * 5, lines
        assert ["no file content" in line for line in lines] == [True] * 3 + [False] * 2
        assert ["free some space" in line for line in lines] == [False] * 3 + [True] * 2
        terminal.handle_line("go on")
        assert live.wait(SECONDS) == "idle", live.failure
        assert live.view.messages[-2].text == "go on"
        assert [check.passed for check in live.close().checks] == [True, True]
    assert isinstance(live.entries[-1].event, SessionEnded)
