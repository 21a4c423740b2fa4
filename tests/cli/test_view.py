import http.client
import signal
import subprocess
import sys
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tests.cli.command import started, within
from tests.prepared import end_watched, watch
from tests.reporting.page.experiments import write_experiment


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_until_a_signal_ends_it(tmp_path, number):
    write_experiment(tmp_path)
    process = started("view", tmp_path, "--no-browser")
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline().strip())
    assert process.stderr is not None
    progress_lines = [process.stderr.readline() for _ in range(5)]
    assert progress_lines == [
        "Ctrl-C stops the server\n",
        "reading the tables of 18 trials ...\n",
        "comparing the arms ...\n",
        "collecting the values of the page ...\n",
        "the page is ready\n",
    ]
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
    with closing(connection):
        connection.request("GET", f"{address.path}progress")
        assert connection.getresponse().status == 200
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == ""
    assert errors == ""


def test_an_experiment_without_results_and_an_unknown_arm_are_refused(tmp_path):
    refused = within("view", tmp_path, "--no-browser")
    assert refused.exit_code == 1
    assert "harness run" in refused.stderr
    write_experiment(tmp_path)
    refused = within("view", tmp_path, "--no-browser", "--against", "nothing")
    assert refused.exit_code == 2
    assert "arm" in refused.stderr


@pytest.mark.slow
def test_the_address_is_printed_and_a_signal_obeyed_before_the_tables_are_read(tmp_path):
    write_experiment(tmp_path)
    process = started("view", tmp_path, "--no-browser")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert errors.startswith("Ctrl-C stops the server\n")


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
