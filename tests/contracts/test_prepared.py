"""Forks of the prepared process of tests behave as new processes of Python."""

import os
import signal
import subprocess
import sys

import pytest

from tests.prepared import PreparedProcess, run

PROGRAMS = {
    "arguments and folder": "import os, sys; print(sys.argv, os.getcwd(), __name__)",
    "environment": "import os; print(sorted(os.environ.items()))",
    "standard input": "import sys; print(sys.stdin.read()[::-1])",
    "exit code": "raise SystemExit(7)",
    "exit with a text": "raise SystemExit('no')",
    "exit with nothing": "raise SystemExit",
    "exception": "1 / 0",
    "work at the end": "import atexit; atexit.register(print, 'last'); print('first')",
    "a thread that goes on": "import threading, time; threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "folders of imports": "import sys; print(sys.path[:2])",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_fork_ends_and_prints_as_a_new_process(program, tmp_path):
    environment = {"PYTHONPATH": str(tmp_path / "x"), "PATH": os.environ["PATH"], "LC_CTYPE": "C.UTF-8", "A": "b"}
    options = {"cwd": tmp_path, "env": environment}
    new = subprocess.run(
        [sys.executable, "-c", program, "a", "b c"], input="abc", capture_output=True, text=True, check=False, **options
    )
    fork = run(program, "a", "b c", given="abc", **options)
    assert (fork.returncode, fork.stdout) == (new.returncode, new.stdout)
    assert fork.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:]


def test_a_fork_has_its_own_session_and_can_be_killed(tmp_path):
    with PreparedProcess(
        "import os, time; print(os.getsid(0), flush=True); time.sleep(60)", stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid}\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
