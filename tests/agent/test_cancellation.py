"""Abandoned work: the waiting thread returns at once, and the work ends at its next report of progress."""

import signal
import threading
import time

import pytest

from harness.agent.cancellation import Cancellation, WorkAbandoned, raise_if_abandoned, run_interruptibly, run_to_completion
from harness.process import install_signal_handler


def slow():
    time.sleep(0.3)
    raise_if_abandoned()
    return "done"


def test_abandoned_work_ends_at_its_next_report_which_is_ignored():
    cancellation, going, ended, heard = Cancellation(), threading.Event(), threading.Event(), list[str]()

    def work():
        try:
            while True:
                raise_if_abandoned()
                heard.append("news")
                going.set()
                time.sleep(0.01)
        except WorkAbandoned:
            ended.set()
            raise

    def stop():
        going.wait(60)
        cancellation.request()

    threading.Thread(target=stop).start()
    assert run_interruptibly(work, cancellation) is None
    assert ended.wait(60)
    assert heard


def test_a_result_that_arrives_after_the_cancellation_is_undone():
    cancellation, going, goes_on, undone = Cancellation(), threading.Event(), threading.Event(), list[str]()

    def work():
        going.set()
        goes_on.wait(60)
        return "a sandbox"

    def stop():
        going.wait(60)
        cancellation.request()

    threading.Thread(target=stop).start()
    assert run_interruptibly(work, cancellation, undone.append) is None
    assert undone == []
    goes_on.set()
    end = time.monotonic() + 60
    while not undone and time.monotonic() < end:
        time.sleep(0.01)
    assert undone == ["a sandbox"]
    assert run_interruptibly(slow, Cancellation(), undone.append) == "done"
    assert undone == ["a sandbox"]


class Full(Exception):
    """Raised by the function that is polled while waiting."""


def fails_while(going):
    def meanwhile():
        if going.is_set():
            raise Full

    return meanwhile


def test_work_is_given_up_too_when_waiting_for_it_fails():
    going, ended = threading.Event(), threading.Event()

    def work():
        going.set()
        try:
            while True:
                raise_if_abandoned()
                time.sleep(0.01)
        except WorkAbandoned:
            ended.set()
            raise

    with pytest.raises(Full):
        run_interruptibly(work, Cancellation(fails_while(going)))
    assert ended.wait(60)


def test_tools_and_sub_agents_end_too_when_waiting_for_them_fails():
    going, ended = threading.Event(), threading.Event()
    cancellation = Cancellation(fails_while(going))

    def sub_agent():
        going.set()
        while not cancellation.is_requested:
            time.sleep(0.01)
        ended.set()

    with pytest.raises(Full):
        run_to_completion(sub_agent, cancellation)
    assert ended.wait(60)


def test_work_that_is_waited_for_is_never_given_up():
    raise_if_abandoned()
    cancellation = Cancellation()
    cancellation.request()
    assert run_to_completion(slow, cancellation) == "done"


def test_the_polled_function_runs_in_the_waiting_thread():
    threads = set[int]()
    cancellation = Cancellation(lambda: threads.add(threading.get_ident()))
    assert run_interruptibly(slow, cancellation) == "done"
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("cancellation", [None, Cancellation()])
@pytest.mark.parametrize("wait", [run_interruptibly, run_to_completion])
def test_an_error_of_the_work_is_raised_where_it_is_waited_for(wait, cancellation):
    with pytest.raises(ZeroDivisionError):
        wait(lambda: 1 / 0, cancellation)


def test_signals_are_handled_while_open_and_by_the_handler_before_afterwards():
    before, seen = signal.getsignal(signal.SIGTERM), []
    with install_signal_handler(lambda number, _frame: seen.append(number)):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert seen == [signal.SIGTERM, signal.SIGINT]
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_leaves_the_handlers_as_they_are():
    before, handlers = signal.getsignal(signal.SIGINT), []

    def watch():
        with install_signal_handler(lambda *_: None):
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert handlers == [before]
