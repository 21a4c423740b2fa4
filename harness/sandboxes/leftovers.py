"""Who made a sandbox, and whether that process still lives: how leftovers of killed runs are told from those in use.

A process is named by boot, pid namespace, pid and start time, so a reused pid or another machine's engine is never mistaken.
"""

import functools
import os
from pathlib import Path


def format_owner() -> str:
    """The name of this process among all processes ever."""
    return f"{_read_boot_id()}:{_read_pid_namespace()}:{os.getpid()}:{_read_start_time(os.getpid())}"


def is_owner_dead(owner: str) -> bool:
    """Whether that owner certainly lives no more; of one in another pid namespace nothing is known."""
    fields = owner.split(":")
    if len(fields) != 4 or not (fields[2].isdigit() and fields[3].isdigit()):
        return False
    boot, namespace, pid, start_time = fields
    if boot != _read_boot_id():
        return True
    return namespace == _read_pid_namespace() and _read_start_time(int(pid)) != int(start_time)


@functools.cache
def _read_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _read_pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")


def _read_start_time(pid: int) -> int:
    """In clock ticks since boot; -1 of a process that is not there or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])
