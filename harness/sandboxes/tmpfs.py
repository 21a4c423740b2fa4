"""Memory file systems (tmpfs) with a maximum number of files, for sandboxes of bubblewrap, which can limit only the bytes.

The file systems are mounted in a user namespace, where every user may do so. Bubblewrap starts inside this namespace and binds
them into the sandbox. They end with the last process of the sandbox.
"""

import functools
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final, NamedTuple

_PLACE: Final = "/dev/shm"  # noqa: S108  hidden from other processes by a mount in a namespace of its own
"""Directory of this machine over which the file systems are mounted; it contains no program that a sandbox needs."""
_TABLE: Final = f"{_PLACE}/table"
_MOUNT_SCRIPT: Final = f"""
"$1" -t tmpfs -o nosuid,nodev,mode=755 tmpfs {_PLACE} && printf %s "$2" > {_TABLE} && "$1" -a -T {_TABLE} && shift 2 && exec "$@"
"""
"""Shell script that hides a directory under an empty file system, mounts everything in a table there, and runs a command.

Its arguments are the path of the program `mount`, the table, and the words of the command. The table has to be a file, because
`mount` cannot read it from a pipe.
"""
_TRIAL_SECONDS: Final = 10


class MemoryMount(NamedTuple):
    """A memory file system of a sandbox, with the path at which commands see it."""

    path: str
    mode: int
    """Permissions of the directory at `path`, as bits such as 0o755."""
    size_bytes: int
    """Maximum size of all files together, in bytes."""
    max_files: int
    """Maximum number of files and directories."""


def build_mount_command(mounts: Sequence[MemoryMount], user: int | None) -> tuple[str, ...]:
    """Return the beginning of a command line that mounts memory file systems and then runs its rest.

    The result is empty if `user` cannot mount them, because the programs `unshare` and `mount` are missing or the system forbids
    it.
    """
    prefix = _find_working_prefix(user)
    return (*prefix, _format_table(mounts)) if prefix else ()


def get_source(index: int) -> str:
    """Return the path at which the memory file system with this index is mounted, before bubblewrap binds it."""
    return f"{_PLACE}/{index}"


@functools.cache
def _find_working_prefix(user: int | None) -> tuple[str, ...]:
    """Return the mount command without its table of mounts; empty if a test mount fails."""
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if unshare is None or mount is None:
        return ()
    prefix = (unshare, "-U", "-r", "-m", "/bin/sh", "-c", _MOUNT_SCRIPT, "mount", mount)
    table = _format_table([MemoryMount("", 0o755, 4096, 2)])
    try:
        process = subprocess.run(
            [*prefix, table, "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_SECONDS,
            check=False,
            cwd="/",
            env={},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return prefix if process.returncode == 0 else ()


def _format_table(mounts: Sequence[MemoryMount]) -> str:
    """Return the mounts as a table in the format of /etc/fstab."""
    lines = []
    for index, mount in enumerate(mounts):
        limits = f"mode={mount.mode:o},size={mount.size_bytes},nr_inodes={mount.max_files}"
        lines.append(f"tmpfs {get_source(index)} tmpfs nosuid,nodev,X-mount.mkdir,{limits} 0 0\n")
    return "".join(lines)
