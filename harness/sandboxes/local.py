"""No sandbox at all: a tool server as a plain child process. Only by name, with a flag that says unsafe.

Commands can read and change whatever the user of the harness can. It exists for machines where nothing better runs and
for debugging. It may be used by any user, root included (continuous integration often is root): the flag says it all.
"""

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from harness.errors import SandboxUnavailable
from harness.protocols import SandboxInfo
from harness.sandboxes.bubblewrap import find_python, read_version
from harness.sandboxes.client import LaunchedServer
from harness.sandboxes.leftovers import format_owner, is_owner_dead
from harness.sandboxes.server_process import ProcessLauncher, ServerProcess, build_python_command, build_rlimits

BACKEND: Final = "local"
DIRECTORY_PREFIX, OWNER_FILE = "harness-local-", "owner"


class LocalLauncher(ProcessLauncher):
    """Launches a tool server without any isolation."""

    _directory: Path | None = None

    def launch(self) -> LaunchedServer:
        """Start it in a new temporary directory and warn."""
        sys.stderr.write("warning: sandbox 'local' is NO sandbox; commands run with the rights of this user\n")
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
            raise SandboxUnavailable(BACKEND, str(error), "a python3 is needed") from error
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
            # without a namespace the process limit would count everything else of this user
            rlimits=tuple((name, value) for name, value in build_rlimits(self._limits) if name != "NPROC"),
        )

    def remove(self) -> None:
        """End its processes, delete its directory."""
        super().remove()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def reap_directories() -> tuple[str, ...]:
    """Delete temporary directories whose owners are dead; the names of those deleted."""
    reaped = []
    for directory in Path(tempfile.gettempdir()).glob(DIRECTORY_PREFIX + "*"):
        with contextlib.suppress(OSError):
            if is_owner_dead((directory / OWNER_FILE).read_text()):
                shutil.rmtree(directory, ignore_errors=True)
                reaped.append(directory.name)
    return tuple(reaped)
