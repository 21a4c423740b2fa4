import os
import pty
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from harness.cli.dialog.conversation import read_lines
from harness.session.live_session import LiveSession
from tests.session.test_execution import session


@pytest.fixture
def terminal():
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as keyboard, os.fdopen(theirs, encoding="utf-8") as source:
        yield keyboard, source


def test_what_is_typed_comes_line_by_line_and_what_has_no_end_last(terminal):
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
    """Within it a signal comes that another thread takes, so that it breaks no call of the main thread."""

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
def test_it_is_heard_while_a_session_is_waited_for():
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
