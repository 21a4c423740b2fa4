"""Attribution of the death of a sandbox to its commands or to the machine, in real sandboxes that really die."""

import dataclasses
import os
import threading
import time
import uuid

import psutil
import pytest

from harness.errors import SandboxDied, SandboxKilled
from harness.protocols import SandboxLimits
from harness.sandboxes import open_sandbox
from harness.sandboxes.backends import run_probe
from harness.sandboxes.bubblewrap import BubblewrapLauncher
from harness.sandboxes.cgroups import ControlGroup
from harness.sandboxes.client import ServedSandbox
from harness.testing.sandbox_contract import SMALL_LIMITS

IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
SMALL_HOGS = """
import os, time
open("/proc/self/oom_score_adj", "w").write("0")
for name in "abcd":
    os.system("head -c 15000000 /dev/zero > /dev/shm/" + name)
for _ in range(45):
    if os.fork() == 0:
        x = b"x" * (3 << 20); time.sleep(60); os._exit(0)
time.sleep(60)
"""
"""Many processes that are smaller than the tool server, so that the kernel kills the tool server for lack of memory."""
HOG = "python3 -c 'import time; x = bytearray(120 << 20); x[::4096] = bytes(120 << 8); time.sleep(0.5)'"
TWO_HOGS = f"{HOG} & {HOG}; wait"
KILL_SERVER = "kill -9 $PPID"
"""Command that kills the tool server, which is possible in the sandbox `local` only."""


@pytest.fixture(
    params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), pytest.param("docker", marks=pytest.mark.docker)]
)
def sandbox(request):
    if request.param == "bubblewrap":
        group = ControlGroup.make(SMALL_LIMITS)
        if group is None:
            pytest.skip("control groups cannot be made here")
        group.remove()
    image = IMAGE if request.param == "docker" else None
    with open_sandbox(request.param, session_id=f"death-{uuid.uuid4().hex[:12]}", image=image, limits=SMALL_LIMITS) as sandbox:
        yield sandbox


@pytest.fixture
def local():
    with open_sandbox("local", session_id="x", unsafe_local=True) as sandbox:
        yield sandbox


def kill_from_outside(sandbox):
    """Kill the first process of a sandbox as another user of the machine could."""
    launcher = sandbox._launcher
    if isinstance(launcher, BubblewrapLauncher) or hasattr(launcher, "_server"):
        launcher._server._process.kill()
        launcher._server._process.wait()  # after that, the processes of the sandbox have been killed too
    else:
        launcher._api.kill(launcher._container)


def test_commands_that_use_up_the_memory_of_their_sandbox_have_ended_it(sandbox):
    sandbox.write("hogs.py", SMALL_HOGS.encode())
    with pytest.raises(SandboxKilled, match="its processes had used up its memory"):
        sandbox.run("python3 hogs.py", timeout_seconds=50)
    with pytest.raises(SandboxKilled, match="gone"):
        sandbox.run("true")


def test_a_sandbox_killed_from_outside_is_not_the_fault_of_its_commands(sandbox):
    sandbox.write("f", b"x")
    sandbox.run("cat f")
    kill_from_outside(sandbox)
    with pytest.raises(SandboxDied) as caught:
        sandbox.run("cat f; sleep 0.1")
    assert type(caught.value) is SandboxDied


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_an_earlier_lack_of_memory_is_not_the_cause_of_a_later_death():
    with open_sandbox("bubblewrap", session_id="x", limits=SMALL_LIMITS) as sandbox:
        if not sandbox.run(TWO_HOGS).oom_killed:
            pytest.skip("control groups cannot be made here")
        kill_from_outside(sandbox)
        with pytest.raises(SandboxDied) as caught:
            sandbox.run("true")
    assert type(caught.value) is SandboxDied


def test_commands_that_end_a_new_sandbox_too_have_ended_it(local):
    with pytest.raises(SandboxKilled, match="closed the connection"):
        local.run(KILL_SERVER)


def test_commands_are_repeated_from_the_last_snapshot(local):
    local.write("a/armed", b"yes")
    local.run("echo once >> log")
    local.snapshot()
    assert not local._history.requests
    with pytest.raises(SandboxKilled):
        local.run(f"test $(cat a/armed) = yes && test $(wc -l < log) = 1 && {KILL_SERVER}")


def test_processes_that_a_snapshot_does_not_hold_are_repeated_too(local):
    local.run("sleep 30 > /dev/null 2>&1 & echo $! > pid")
    local.snapshot()
    with pytest.raises(SandboxKilled):
        local.run(f"kill -0 $(cat pid) && {KILL_SERVER}")


def test_commands_that_do_not_end_a_new_sandbox_have_not_ended_the_first(local, tmp_path):
    with pytest.raises(SandboxDied) as caught:
        local.run(f"mkdir {tmp_path}/once && {KILL_SERVER}")
    assert type(caught.value) is SandboxDied


def test_commands_with_a_network_are_not_repeated(tmp_path):
    limits = SandboxLimits(network=True)
    with open_sandbox("local", session_id="x", unsafe_local=True, limits=limits) as sandbox, pytest.raises(SandboxDied) as caught:
        sandbox.run(f"echo once >> {tmp_path}/log; {KILL_SERVER}")
    assert type(caught.value) is SandboxDied
    assert (tmp_path / "log").read_text() == "once\n"


@pytest.mark.bubblewrap
def test_a_workspace_that_cannot_be_restored_for_lack_of_space_was_filled_by_commands():
    with open_sandbox("local", session_id="x", unsafe_local=True) as large:
        for name in "abc":
            large.write(name, b"x" * 900_000)
        filled, blobs = large.snapshot(), large._blobs
    small = open_sandbox("bubblewrap", session_id="y", limits=SandboxLimits(disk_bytes=2**20)).use_blobs(blobs)
    with small, pytest.raises(SandboxKilled, match=r"could not be restored: .*No space left"):
        small.restore(filled)


def test_closing_a_sandbox_repeats_nothing(local, tmp_path):
    ran = threading.Event()

    def close():
        while not (tmp_path / "log").exists():
            ran.wait(0.01)
        local.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(SandboxDied) as caught:
        local.run(f"echo once >> {tmp_path}/log; sleep 30")
    closer.join()
    assert type(caught.value) is SandboxDied
    assert (tmp_path / "log").read_text() == "once\n"


def test_closing_ends_the_repetition(local, tmp_path):
    log = tmp_path / "log"

    def close():
        while not log.exists() or log.read_text() != "x\nx\n":
            threading.Event().wait(0.01)
        local.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(SandboxDied):
        local.run(f"echo x >> {log}; test $(wc -l < {log}) = 2 && sleep 300; {KILL_SERVER}", timeout_seconds=400)
    closer.join()


def kill_tree(process):
    """Kill a process and its descendants; a stopped process starts no others meanwhile."""
    process.suspend()
    while process.status() not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
        time.sleep(0.001)
    for child in process.children():
        kill_tree(child)
    process.kill()


class KilledLauncher(BubblewrapLauncher):
    """Launcher of a sandbox that is killed as soon as it has started."""

    def launch(self):
        launched = super().launch()
        server = self._server
        assert server is not None
        kill_tree(psutil.Process(server._process.pid))  # a sandbox whose first process is killed very early would stay
        return launched


@pytest.mark.bubblewrap
def test_a_sandbox_killed_while_it_starts_is_lost_and_not_unavailable():
    limits = SandboxLimits()
    with pytest.raises(SandboxDied, match="killed by signal 9 while it started; try again"):
        ServedSandbox(KilledLauncher(limits), limits).start()


@pytest.mark.bubblewrap
def test_a_probe_whose_sandbox_is_killed_blames_neither_image_nor_python(monkeypatch):
    limits = SandboxLimits()
    probe = run_probe("bubblewrap", lambda: ServedSandbox(KilledLauncher(limits), limits))
    assert (probe.ok, probe.is_lost) == (False, True)
    assert "killed by signal 9" in probe.reason
    assert "image" not in probe.reason + probe.advice
    assert "python3" not in probe.reason + probe.advice


@pytest.mark.docker
def test_a_container_killed_while_it_starts_does_not_blame_the_image():
    from harness.sandboxes.docker import DockerLauncher

    class Killed(DockerLauncher):
        def launch(self):
            launched = super().launch()
            self._api.kill(self._container)
            return launched

    limits = SandboxLimits()
    probe = run_probe("docker", lambda: ServedSandbox(Killed(f"probe-{uuid.uuid4().hex[:12]}", IMAGE, limits), limits))
    assert (probe.ok, probe.is_lost) == (False, True)
    assert "killed by signal 9" in probe.reason
    assert "image" not in probe.reason + probe.advice


@pytest.mark.bubblewrap
def test_a_probe_whose_sandbox_was_killed_is_repeated(monkeypatch):
    from harness.sandboxes import backends

    backend = backends.BACKENDS["bubblewrap"]
    killed = dataclasses.replace(backend, make_launcher=lambda _session_id, _image, limits: KilledLauncher(limits))
    monkeypatch.setattr(backends, "BACKENDS", {"bubblewrap": killed})
    backends.run_cached_probe.cache_clear()
    assert not backends.probe_backend("bubblewrap").ok
    monkeypatch.setattr(backends, "BACKENDS", {"bubblewrap": backend})
    assert backends.probe_backend("bubblewrap").ok
