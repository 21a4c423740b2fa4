"""Only one process at a time runs a session, and the lock of a dead process blocks nobody."""

import subprocess
import sys
import threading

import pytest

from harness.errors import UsageError
from harness.store.sessions.locks import has_running_session, lock_session

OWNER = """
import pathlib, sys
from harness.store.sessions.locks import lock_session

with lock_session(pathlib.Path(sys.argv[1]), "one"):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_session_is_owned_by_one_process_until_that_ends_or_dies(tmp_path, checkout):
    journal = tmp_path / "new" / "j.sqlite"
    command = [sys.executable, "-c", OWNER, str(journal)]
    with subprocess.Popen(command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with (
            pytest.raises(UsageError, match=r"'one' of journal .* is already running, here or in another process"),
            lock_session(journal, "one"),
        ):
            pass
        with lock_session(journal, "another"), lock_session(None, "one"), lock_session(None, "one"):
            pass
        other.kill()
    with lock_session(journal, "one"), pytest.raises(UsageError), lock_session(journal, "one"):
        pass
    assert list(journal.parent.iterdir()) == []


def test_a_link_to_a_journal_has_the_locks_of_the_journal(tmp_path):
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "journal.sqlite")
    with lock_session(tmp_path / "journal.sqlite", "s"):
        assert has_running_session(link)
        with pytest.raises(UsageError, match="already running"), lock_session(link, "s"):
            pass


@pytest.mark.slow
def test_threads_that_lock_one_session_hold_the_lock_one_after_the_other(tmp_path):
    inside, most, lock = 0, list[int](), threading.Lock()

    def want():
        nonlocal inside
        for _ in range(200):
            try:
                with lock_session(tmp_path / "j.sqlite", "one"):
                    with lock:
                        inside += 1
                        most.append(inside)
                    with lock:
                        inside -= 1
            except UsageError:
                pass

    threads = [threading.Thread(target=want) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(most) == {1}
