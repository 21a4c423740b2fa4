"""A memory limit for a whole process tree, where the kernel lets us make control groups: as root, version 1 or 2.

Elsewhere there is none and memory is limited for each process only. A group is named after its owner, so that those of
killed runs are found and removed.
"""

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness.protocols import SandboxLimits
from harness.sandboxes.leftovers import owner_is_dead, owner_text

ROOT = Path("/sys/fs/cgroup")
PREFIX = "harness-"
JOIN = ("/bin/sh", "-c", 'echo 0 && exec "$@" >&0', "join")
"""Prefix of a command that joins the group whose open `cgroup.procs` is its stdout, then goes on with its stdin as stdout."""
_REMOVE_SECONDS = 1.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A control group that limits memory."""

    path: Path
    version: int

    @classmethod
    def make(cls, limits: SandboxLimits) -> Self | None:
        """A new group, or None where none can be made."""
        if os.geteuid() != 0:
            return None
        version = 2 if (ROOT / "cgroup.controllers").exists() else 1
        base = ROOT if version == 2 else ROOT / "memory"
        group = cls(path=base / f"{PREFIX}{owner_text().replace(':', '_')}_{next(_numbers)}", version=version)
        try:
            if version == 2 and "memory" not in (base / "cgroup.subtree_control").read_text().split():
                (base / "cgroup.subtree_control").write_text("+memory")
            group.path.mkdir()
            group._limit(limits.memory_bytes)
        except OSError:
            group.remove()
            return None
        return group

    @property
    def seen_at(self) -> str:
        """Where the tool server looks for the group's counters."""
        return str(ROOT if self.version == 2 else ROOT / "memory")

    def open_door(self) -> int:
        """A descriptor for `JOIN`: whoever holds it may join, whatever user it has become since; the caller closes it."""
        return os.open(self.path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def remove(self) -> None:
        """Remove it, waiting a little for its last process to go; idempotent."""
        give_up = time.monotonic() + _REMOVE_SECONDS
        while self.path.exists() and time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.002)

    def _limit(self, memory_bytes: int) -> None:
        names = (
            ("memory.max", "memory.swap.max") if self.version == 2 else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        )
        (self.path / names[0]).write_text(str(memory_bytes))
        with contextlib.suppress(OSError):  # where swap is not accounted for
            (self.path / names[1]).write_text("0" if self.version == 2 else str(memory_bytes))


def reap_groups() -> tuple[str, ...]:
    """Remove groups whose owners are dead; the names of those removed."""
    reaped = []
    for base in (ROOT, ROOT / "memory"):
        for path in base.glob(f"{PREFIX}*_*"):
            owner = path.name.removeprefix(PREFIX).rpartition("_")[0].replace("_", ":")
            if owner_is_dead(owner):
                with contextlib.suppress(OSError):
                    path.rmdir()
                    reaped.append(path.name)
    return tuple(reaped)
