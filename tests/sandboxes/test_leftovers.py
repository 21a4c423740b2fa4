"""Owners that are alive are told from owners that have ended."""

import subprocess
import sys

from harness.sandboxes.leftovers import format_owner, is_owner_dead

_TELL = "from harness.sandboxes.leftovers import format_owner; print(format_owner())"


def dead_owner() -> str:
    return subprocess.run([sys.executable, "-c", _TELL], capture_output=True, text=True, check=True).stdout.strip()


def test_this_process_lives_and_one_that_ended_does_not():
    assert not is_owner_dead(format_owner())
    assert is_owner_dead(dead_owner())


def test_a_reused_pid_is_not_the_owner():
    boot, namespace, pid, start = format_owner().split(":")
    assert is_owner_dead(f"{boot}:{namespace}:{pid}:{int(start) - 1}")


def test_an_owner_of_an_earlier_boot_is_dead():
    _, namespace, pid, start = format_owner().split(":")
    assert is_owner_dead(f"another:{namespace}:{pid}:{start}")


def test_of_another_namespace_or_a_strange_name_nothing_is_known():
    boot, _, pid, _ = format_owner().split(":")
    assert not is_owner_dead(f"{boot}:1:{pid}:1")
    for strange in ("", "x", ":::", f"{boot}:1:pid:x"):
        assert not is_owner_dead(strange)
