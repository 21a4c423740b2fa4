"""Folder that an external agent shares with the harness: the relay that runs the agent, its script, and the socket of the model.

The folder belongs to one sandbox. Commands in the sandbox can read it and connect to the socket; they cannot write to it.
"""

import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import SandboxError
from harness.sandboxes.bubblewrap import BoundFolder
from harness.sandboxes.toolserver import load_source

INSIDE = "/run/harness"
"""Path of the folder in the sandbox."""
PORT = 18_765
"""Port on the sandbox's own loopback at which the agent finds its model. It is fixed, so that equal commands stay equal."""
ADDRESS = f"http://127.0.0.1:{PORT}"
"""Address of the model in the sandbox, without the path of an API."""
COMMAND = f"exec python3 -I {INSIDE}/relay.py {INSIDE} {PORT}"
"""Shell command that runs the agent in the sandbox."""
_CONNECTIONS = 128


class AgentRelay:
    """Open folder of an external agent."""

    def __init__(self, folder: Path) -> None:
        """Write the relay into a folder, and listen on the socket there.

        Raises:
            SandboxError: The folder cannot hold a socket, e.g. because its path is too long.
        """
        self._folder = folder
        _write(folder / "relay.py", load_source("relay"))
        self.listening = socket.socket(socket.AF_UNIX)
        """Socket for the requests of the agent; whoever serves it closes it."""
        try:
            self.listening.bind(str(folder / "socket"))
            self.listening.listen(_CONNECTIONS)
        except OSError as error:
            self.listening.close()
            raise SandboxError(
                f"no socket in {str(folder)!r} for an external agent: {error}; set TMPDIR to another folder"
            ) from None
        (folder / "socket").chmod(0o666)

    @property
    def folder(self) -> BoundFolder:
        """Folder for the sandbox, which must be opened with it."""
        return BoundFolder(self._folder, INSIDE, is_private=True)

    def write_script(self, command: str, variables: Mapping[str, str]) -> None:
        """Write the script that runs the agent.

        Args:
            command: Shell command of the agent.
            variables: Environment variables of the agent, besides those of all commands.
        """
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        _write(self._folder / "agent.sh", f"{exports}{command}\n".encode())

    def stop(self) -> None:
        """Let the relay end the agent. May be called from any thread, and more than once."""
        (self._folder / "stop").touch()


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o644)  # the user of the sandbox may be another one; the folder is closed to all others


@contextmanager
def open_relay() -> Iterator[AgentRelay]:
    """Open the folder of an external agent, which is deleted at the end.

    Raises:
        SandboxError: The folder for temporary files cannot hold a socket.
    """
    with TemporaryDirectory(prefix="harness-agent-") as name:
        relay = AgentRelay(Path(name).resolve())
        try:
            yield relay
        finally:
            relay.listening.close()
