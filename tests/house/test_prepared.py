"""Processes that a test starts are ended even if the test fails before it ends them itself."""

import signal
import subprocess
import sys

from tests.cli.command import started
from tests.prepared import end_watched, watch


def test_a_process_that_a_test_left_behind_is_killed_and_its_pipes_are_closed(tmp_path):
    waiting = "import time; print('ready', flush=True); time.sleep(600)"
    anew = watch(subprocess.Popen([sys.executable, "-c", waiting], text=True, stdout=subprocess.PIPE))
    prepared = started("serve-scripted", "--port", "0", "--task", "flashcards", cwd=tmp_path)
    assert anew.stdout is not None
    assert anew.stdout.readline() == "ready\n"
    end_watched()
    assert (anew.returncode, prepared.returncode) == (-signal.SIGKILL, -signal.SIGKILL)
    assert anew.stdout.closed
    end_watched()  # nothing is left to end
