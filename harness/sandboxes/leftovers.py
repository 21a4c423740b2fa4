"""Identifiers of the processes that create sandboxes (owners), which tell leftovers of killed runs from sandboxes in use.

A process is identified by boot id, pid namespace, process id and start time. So neither a process with a reused id, nor a process
on another machine that shares the Docker engine, is ever mistaken for the owner.
"""

import functools
import os
from pathlib import Path


def format_owner() -> str:
    """Return an identifier of this process that no other process ever has, to be stored with its sandboxes."""
    return f"{_read_boot_id()}:{_read_pid_namespace()}:{os.getpid()}:{_read_start_time(os.getpid())}"


def is_owner_dead(owner: str) -> bool:
    """Return whether the process that created a sandbox has certainly ended.

    The result is False if this cannot be known, as for a process in another pid namespace.
    """
    return _has_ended(owner) is True


def is_owner_alive(owner: str) -> bool:
    """Return whether the process that created a sandbox certainly still runs.

    The result is False if this cannot be known, as for a process in another pid namespace.
    """
    return _has_ended(owner) is False


def _has_ended(owner: str) -> bool | None:
    """Return whether the process that created a sandbox has ended; None if this cannot be known."""
    fields = owner.split(":")
    if len(fields) != 4 or not (fields[2].isdigit() and fields[3].isdigit()):
        return None
    boot, namespace, pid, start_time = fields
    if boot != _read_boot_id():
        return True
    return _read_start_time(int(pid)) != int(start_time) if namespace == _read_pid_namespace() else None


@functools.cache
def _read_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _read_pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")


def _read_start_time(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot; -1 if it does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])
