"""Owners that are alive are told from owners that have ended."""

import subprocess
import sys

import pytest

from harness.sandboxes.docker import EXPIRES_LABEL, OWNER_LABEL, is_leftover
from harness.sandboxes.leftovers import format_owner, is_owner_alive, is_owner_dead

_TELL = "from harness.sandboxes.leftovers import format_owner; print(format_owner())"


def dead_owner() -> str:
    return subprocess.run([sys.executable, "-c", _TELL], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_this_process_lives_and_one_that_ended_does_not():
    for owner, lives in ((format_owner(), True), (dead_owner(), False)):
        assert (is_owner_alive(owner), is_owner_dead(owner)) == (lives, not lives)


def test_a_reused_pid_is_not_the_owner():
    boot, namespace, pid, start = format_owner().split(":")
    assert is_owner_dead(f"{boot}:{namespace}:{pid}:{int(start) - 1}")


def test_an_owner_of_an_earlier_boot_is_dead():
    _, namespace, pid, start = format_owner().split(":")
    assert is_owner_dead(f"another:{namespace}:{pid}:{start}")


def test_an_owner_of_another_namespace_or_with_a_malformed_name_is_unknown():
    boot, _, pid, _ = format_owner().split(":")
    for unknown in (f"{boot}:1:{pid}:1", "", "x", ":::", f"{boot}:1:pid:x"):
        assert not is_owner_dead(unknown)
        assert not is_owner_alive(unknown)


@pytest.mark.slow
def test_a_container_expires_only_if_nothing_is_known_of_its_owner():
    boot, _, pid, _ = format_owner().split(":")
    for owner, expires, expected in (
        (format_owner(), 1, False),
        (dead_owner(), 99_999_999_999, True),
        (f"{boot}:1:{pid}:1", 1, True),
        (f"{boot}:1:{pid}:1", 99_999_999_999, False),
    ):
        assert is_leftover({OWNER_LABEL: owner, EXPIRES_LABEL: str(expires)}) is expected
