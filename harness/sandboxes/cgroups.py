"""Limits of a whole process tree, where the kernel lets us make control groups: as root, version 1 or 2.

Elsewhere there are none and memory is limited for each process only. A group is named after its owner, so that those of
killed runs are found and removed.
"""

import contextlib
import itertools
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from harness.protocols import SandboxLimits
from harness.sandboxes.leftovers import format_owner, is_owner_dead

CGROUP_ROOT = Path("/sys/fs/cgroup")
GROUP_PREFIX = "harness-"
_JOIN_COMMAND = ("/bin/sh", "-c", 'echo 0 && echo 0 >"$1" && shift && exec "$@" >&0', "join")
"""Joins the group whose open `cgroup.procs` is stdout and the one whose path comes first, then goes on with stdin as stdout."""
_REMOVE_SECONDS = 1.0
_group_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """A control group that limits memory and, if it was asked to and can, the number of processes."""

    path: Path
    version: int
    pids_path: Path | None = None
    """The directory that counts processes, in version 1 one of its own; None = none does."""

    @classmethod
    def make(cls, limits: SandboxLimits, *, pids: bool = False) -> Self | None:
        """A new group, or None where none can be made.

        Args:
            limits: what its processes may use together.
            pids: count processes too. Only root may join then; the kernel exempts root from the limits of a user.
        """
        if os.geteuid() != 0:
            return None
        version = 2 if (CGROUP_ROOT / "cgroup.controllers").exists() else 1
        base = CGROUP_ROOT if version == 2 else CGROUP_ROOT / "memory"
        group = cls(path=base / f"{GROUP_PREFIX}{format_owner().replace(':', '_')}_{next(_group_numbers)}", version=version)
        try:
            group._enable_controller("memory")
            group.path.mkdir()
            group._limit_memory(limits.memory_bytes)
        except OSError:
            group.remove()
            return None
        return replace(group, pids_path=group._limit_processes(limits.pids)) if pids else group

    @property
    def join_command(self) -> tuple[str, ...]:
        """Prefix of a command that joins it, with the open door as stdout, and goes on with its stdin as stdout."""
        apart = self.pids_path if self.pids_path != self.path else None
        return (*_JOIN_COMMAND, str(apart / "cgroup.procs") if apart else os.devnull)

    @property
    def sandbox_path(self) -> str:
        """Where the tool server looks for the group's counters."""
        return str(CGROUP_ROOT if self.version == 2 else CGROUP_ROOT / "memory")

    def open_join_fd(self) -> int:
        """A descriptor for `join_command`: whoever holds it may join, whatever user it has become since; the caller closes it."""
        return os.open(self.path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def remove(self) -> None:
        """Remove it, waiting a little for its last process to go; idempotent."""
        give_up = time.monotonic() + _REMOVE_SECONDS
        for path in {self.path, self.pids_path or self.path}:
            while path.exists() and time.monotonic() < give_up:
                with contextlib.suppress(OSError):
                    path.rmdir()
                    break
                time.sleep(0.002)

    def _enable_controller(self, controller: str) -> None:
        """Let groups have a controller; in version 1 each one has a tree of its own."""
        control = CGROUP_ROOT / "cgroup.subtree_control"
        if self.version == 2 and controller not in control.read_text().split():
            control.write_text(f"+{controller}")

    def _limit_processes(self, max_processes: int) -> Path | None:
        """Limit the number of processes; where it is done, None where it cannot be."""
        path = self.path if self.version == 2 else CGROUP_ROOT / "pids" / self.path.name
        try:
            self._enable_controller("pids")
            path.mkdir(exist_ok=True)
            (path / "pids.max").write_text(str(max_processes))
        except OSError:
            return None
        return path

    def _limit_memory(self, memory_bytes: int) -> None:
        names = (
            ("memory.max", "memory.swap.max") if self.version == 2 else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        )
        (self.path / names[0]).write_text(str(memory_bytes))
        with contextlib.suppress(OSError):  # where swap is not accounted for
            (self.path / names[1]).write_text("0" if self.version == 2 else str(memory_bytes))


def reap_groups() -> tuple[str, ...]:
    """Remove groups whose owners are dead; the names of those removed."""
    reaped = []
    for base in (CGROUP_ROOT, CGROUP_ROOT / "memory", CGROUP_ROOT / "pids"):
        for path in base.glob(f"{GROUP_PREFIX}*_*"):
            owner = path.name.removeprefix(GROUP_PREFIX).rpartition("_")[0].replace("_", ":")
            if is_owner_dead(owner):
                with contextlib.suppress(OSError):
                    path.rmdir()
                    reaped.append(path.name)
    return tuple(reaped)
