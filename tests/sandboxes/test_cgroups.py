"""Control groups are created where the kernel allows it, and never left behind."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.protocols import SandboxLimits
from harness.sandboxes.cgroups import ControlGroup, reap_groups

_MAKE_AND_DIE = """
from harness.protocols import SandboxLimits
from harness.sandboxes.cgroups import ControlGroup
group = ControlGroup.make(SandboxLimits(), pids=True)
print(group.path, group.pids_path or group.path)
"""


@pytest.fixture
def group():
    group = ControlGroup.make(SandboxLimits(memory_bytes=64 * 2**20))
    if group is None:
        pytest.skip("control groups cannot be made here")
    yield group
    group.remove()
    assert not group.path.exists()


def test_a_tree_that_takes_more_than_its_group_has_is_killed(group):
    code = "x = bytearray(200 << 20)"
    door = group.open_join_fd()
    with Path(os.devnull).open("r+b", buffering=0) as null:
        result = subprocess.run([*group.join_command, sys.executable, "-c", code], stdin=null, stdout=door, check=False)
    os.close(door)
    assert result.returncode == -9


def test_a_process_that_changed_its_user_can_join_a_group(group):
    door = group.open_join_fd()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command: list[str] = [*group.join_command, "/bin/cat", "/proc/self/cgroup"]
        subprocess.run(command, stdin=theirs.fileno(), stdout=door, check=True, user=65534, group=65534)
        assert group.path.name.encode() in ours.recv(100_000)
    os.close(door)


@pytest.mark.slow
def test_groups_of_dead_owners_are_reaped_and_others_left_alone(group):
    output = subprocess.run([sys.executable, "-c", _MAKE_AND_DIE], capture_output=True, text=True, check=True).stdout
    paths = [Path(word) for word in output.split()]
    assert all(path.exists() for path in paths)
    reaped = reap_groups()
    assert {path.name for path in paths} <= set(reaped)
    assert not any(path.exists() for path in paths)
    assert group.path.exists()


def test_a_group_that_counts_lets_no_more_processes_start_and_leaves_nothing():
    group = ControlGroup.make(SandboxLimits(pids=8), pids=True)
    if group is None or group.pids_path is None:
        pytest.skip("processes cannot be counted here")
    door = group.open_join_fd()
    with Path(os.devnull).open("r+b", buffering=0) as null:
        command = [*group.join_command, "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2 & done; wait"]
        result = subprocess.run(command, stdin=null, stdout=door, stderr=subprocess.PIPE, check=False)
    os.close(door)
    assert b"fork" in result.stderr
    group.remove()
    assert not group.path.exists()
    assert not group.pids_path.exists()
