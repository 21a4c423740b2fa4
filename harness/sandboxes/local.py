"""A sandbox backend without isolation, for debugging: the tool server is a child process with the rights of the user.

Commands can read and change everything that the user of the harness can, so this backend is used only if the user chooses it and
explicitly allows it as unsafe. It is meant for debugging and for machines on which no other backend works. Any user may use it,
also root, as continuous integration often does.
"""

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Final

from harness.errors import SandboxUnavailable
from harness.files.bounded_input import read_input
from harness.protocols import SandboxInfo
from harness.sandboxes.bubblewrap import find_python, read_version
from harness.sandboxes.client import LaunchedServer
from harness.sandboxes.leftovers import format_owner, is_owner_dead
from harness.sandboxes.server_process import ProcessLauncher, ServerProcess, build_python_command, build_rlimits
from harness.sandboxes.toolserver.server import empty_directory

BACKEND: Final = "local"
DIRECTORY_PREFIX, OWNER_FILE = "harness-local-", "owner"
MAX_OWNER_BYTES = 1_000


class LocalLauncher(ProcessLauncher):
    """Launcher that starts and removes one sandbox without isolation, an ordinary child process."""

    _directory: Path | None = None

    def launch(self) -> LaunchedServer:
        """Start the tool server in a new temporary directory.

        A warning on stderr says that commands are not isolated.
        """
        sys.stderr.write("warning: sandbox 'local' isolates nothing; commands run with all rights of this user\n")
        reap_directories()
        self._directory = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX))
        (self._directory / OWNER_FILE).write_text(format_owner())
        for name in ("workspace", "tmp"):
            (self._directory / name).mkdir()
        python = find_python()
        try:
            self._server = ServerProcess(build_python_command(python))
        except OSError as error:
            self.remove()
            raise SandboxUnavailable(BACKEND, str(error), "install python3") from error
        return LaunchedServer(
            stream=self._server.stream,
            info=SandboxInfo(
                backend=BACKEND,
                image=None,
                isolation=(),
                limits=self._limits,
                enforced=("output_bytes", "file_bytes"),
                versions=(("python", read_version(python)),),
            ),
            workspace=str(self._directory / "workspace"),
            scratch=str(self._directory / "tmp"),
            # without a namespace the limit would count all processes of this user
            rlimits=tuple((name, value) for name, value in build_rlimits(self._limits) if name != "NPROC"),
        )

    def remove(self) -> None:
        """End the processes of the sandbox and delete its temporary directory."""
        super().remove()
        if self._directory is not None:
            _delete_directory(self._directory)


def reap_directories() -> tuple[str, ...]:
    """Delete the sandbox directories of harness processes that have ended, and return their names."""
    reaped = []
    for directory in Path(tempfile.gettempdir()).glob(DIRECTORY_PREFIX + "*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # any user may create such a directory
            if is_owner_dead(read_input(directory / OWNER_FILE, MAX_OWNER_BYTES).decode()):
                _delete_directory(directory)
                reaped.append(directory.name)
    return tuple(reaped)


def _delete_directory(directory: Path) -> None:
    with contextlib.suppress(OSError):
        empty_directory(str(directory))
        directory.rmdir()
