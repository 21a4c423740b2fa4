import http.client
import signal
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tests.cli.command import started, within
from tests.reporting.page.experiments import write_experiment


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_until_a_signal_ends_it(tmp_path, number):
    write_experiment(tmp_path)
    process = started("view", tmp_path, "--no-browser")
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline().strip())
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
    with closing(connection):
        connection.request("GET", f"{address.path}progress")
        assert connection.getresponse().status == 200
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == ""
    assert errors == "Ctrl-C stops the server\n"


def test_an_experiment_without_results_and_an_unknown_arm_are_refused(tmp_path):
    refused = within("view", tmp_path, "--no-browser")
    assert refused.exit_code == 1
    assert "harness run" in refused.stderr
    write_experiment(tmp_path)
    refused = within("view", tmp_path, "--no-browser", "--against", "nothing")
    assert refused.exit_code == 2
    assert "arm" in refused.stderr
