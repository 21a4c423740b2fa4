"""Tests of tests/conftest.py: network access is refused, and a missing requirement fails the test if it is set as required."""

import os
import socket
import subprocess
import sys

import pytest

ELSEWHERE = ("192.0.2.1", 9)  # an address reserved for documentation


def test_a_connection_to_another_machine_is_refused(network_attempts):
    with socket.socket() as sock, pytest.raises(RuntimeError, match="must not use the network"):
        sock.connect(ELSEWHERE)
    assert len(network_attempts) == 1
    network_attempts.clear()


def test_a_name_is_not_looked_up(network_attempts):
    with pytest.raises(RuntimeError, match="must not use the network"):
        socket.create_connection(("harness.example", 80), timeout=1)
    network_attempts.clear()


def test_loopback_and_unix_sockets_work(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))


def run_marked(checkout, folder, **environment):
    """Run pytest in a separate process on a test that needs a browser, without a browser on the PATH."""
    (folder / "test_it.py").write_text("import pytest\n\n@pytest.mark.browser\ndef test_it(): ...\n")
    (folder / "conftest.py").write_text((checkout / "tests" / "conftest.py").read_text())
    clean = {name: value for name, value in os.environ.items() if name not in ("CHROMIUM", "REQUIRE_BROWSER")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-W", "ignore", str(folder)],
        env={**clean, "PATH": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_missing_need_is_a_skip_with_its_reason(checkout, tmp_path):
    run = run_marked(checkout, tmp_path)
    assert run.returncode == 0
    assert "no Chromium" in run.stdout


def test_a_missing_need_fails_where_it_is_required(checkout, tmp_path):
    run = run_marked(checkout, tmp_path, REQUIRE_BROWSER="1")
    assert run.returncode == 1
    assert "REQUIRE_BROWSER=1, but no Chromium" in run.stdout


def test_a_module_of_slow_tests_is_not_imported_when_slow_tests_are_deselected(checkout, tmp_path):
    (tmp_path / "test_slow.py").write_text("import pytest\n\npytestmark = pytest.mark.slow\nraise AssertionError\n")
    run = run_marked(checkout, tmp_path, PYTEST_ADDOPTS="-m 'not slow'")
    assert run.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "1 deselected" in run.stdout


def test_modules_that_share_something_costly_run_in_one_process_of_make_quick(checkout, pytestconfig):
    (conftest,) = (
        plugin
        for name, plugin in pytestconfig.pluginmanager.list_name_plugin()
        if str(name) == str(checkout / "tests/conftest.py")
    )
    scheduler = object.__new__(conftest._SharingScheduler)
    for group in conftest._TOGETHER:
        assert all((checkout / beginning).exists() for beginning in group)
        assert len({scheduler._split_scope(f"{beginning}::test_it") for beginning in group}) == 1
    assert scheduler._split_scope("tests/store/test_log.py::test_it") == "tests/store/test_log.py"
