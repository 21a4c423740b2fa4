"""Limits for all processes of a sandbox together, enforced by control groups (version 1 or 2), which only root can create.

Without control groups, memory is limited for each process only. The name of a group identifies the process that created it, so
that groups of killed runs can be found and removed.
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
from harness.sandboxes.toolserver.server import count_oom_kills

CGROUP_ROOT = Path("/sys/fs/cgroup")
GROUP_PREFIX = "harness-"
_JOIN_COMMAND = ("/bin/sh", "-c", 'echo 0 && echo 0 >"$1" && shift && exec "$@" >&0', "join")
"""Beginning of a command line that makes a process join one or two control groups and then run the rest of the line.

The process joins the group whose file `cgroup.procs` is open as its stdout. The first argument is the file `cgroup.procs` of a
second group, or the null device. Then the command runs, with a copy of its stdin as stdout.
"""
_REMOVE_SECONDS = 1.0
_group_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """Control group of the kernel, which limits the memory of a sandbox.

    It also limits the number of processes, if that is requested and possible.
    """

    path: Path
    version: int
    pids_path: Path | None = None
    """Directory of the control group that limits the number of processes; None if the number is not limited."""

    @classmethod
    def make(cls, limits: SandboxLimits, *, pids: bool = False) -> Self | None:
        """Create a control group that limits a sandbox; return None if no group can be created.

        Args:
            limits: Limits of the sandbox; the group enforces those on memory and on processes.
            pids: Whether to limit the number of processes too. Then only root may join the group, because the kernel exempts root
                from limits per user.
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
        """Beginning of a command line that makes a process join this group and then run the rest of the line.

        The process must be started with the descriptor from `open_join_fd` as its stdout.
        """
        apart = self.pids_path if self.pids_path != self.path else None
        return (*_JOIN_COMMAND, str(apart / "cgroup.procs") if apart else os.devnull)

    @property
    def sandbox_path(self) -> str:
        """Path inside the sandbox at which the group's counters can be read, e.g. the number of killed processes."""
        return str(CGROUP_ROOT if self.version == 2 else CGROUP_ROOT / "memory")

    def count_oom_kills(self) -> int:
        """Return the number of processes of the group that the kernel has killed for lack of memory."""
        return count_oom_kills((str(self.path / ("memory.events" if self.version == 2 else "memory.oom_control")),))

    def open_join_fd(self) -> int:
        """Return the file descriptor through which a process joins the control group; the caller closes it.

        A process that holds the descriptor may join the group even after it has changed to another user.
        """
        return os.open(self.path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def remove(self) -> None:
        """Remove the control group after a short wait for its last process to end; may be called more than once."""
        give_up = time.monotonic() + _REMOVE_SECONDS
        for path in {self.path, self.pids_path or self.path}:
            while path.exists() and time.monotonic() < give_up:
                with contextlib.suppress(OSError):
                    path.rmdir()
                    break
                time.sleep(0.002)

    def _enable_controller(self, controller: str) -> None:
        """Let new groups use a kind of limit, such as `pids`; groups of version 1 need no such step."""
        control = CGROUP_ROOT / "cgroup.subtree_control"
        if self.version == 2 and controller not in control.read_text().split():
            control.write_text(f"+{controller}")

    def _limit_processes(self, max_processes: int) -> Path | None:
        """Limit the number of processes, and return the directory of the group that does so; None if this fails."""
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
        with contextlib.suppress(OSError):  # without accounting of swap
            (self.path / names[1]).write_text("0" if self.version == 2 else str(memory_bytes))


def reap_groups() -> tuple[str, ...]:
    """Remove the control groups of harness processes that have ended, and return the names of the groups."""
    reaped = []
    for base in (CGROUP_ROOT, CGROUP_ROOT / "memory", CGROUP_ROOT / "pids"):
        for path in base.glob(f"{GROUP_PREFIX}*_*"):
            owner = path.name.removeprefix(GROUP_PREFIX).rpartition("_")[0].replace("_", ":")
            if is_owner_dead(owner):
                with contextlib.suppress(OSError):
                    path.rmdir()
                    reaped.append(path.name)
    return tuple(reaped)
