"""The relay: a program in the sandbox that runs an external agent and passes its model requests to the harness.

A sandbox has no network, but it has a loopback interface of its own, which reaches nothing outside. The relay listens there, and
passes each connection, byte by byte, to a Unix socket of the harness, whose folder is visible in the sandbox. It then runs the
script of the agent beside it. It ends with the exit code of the script, or when the harness creates the file `stop`.

It is a single file because its source is written into the sandbox's folder, so it uses only the standard library (Python 3.8 or
later) and imports nothing from this project.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

BUFFER_BYTES = 1 << 16
POLL_SECONDS = 0.1
STOPPED_EXIT_CODE = 143
"""Exit code of the relay when the harness stopped the agent, as of a process that SIGTERM ended."""
LOOPBACK = "127.0.0.1"


def serve(listening: socket.socket, address: str) -> None:
    """Pass each connection of a listening socket to the Unix socket at an address, without an end."""
    while True:
        client, _ = listening.accept()
        threading.Thread(target=connect, args=(client, address), daemon=True).start()


def connect(client: socket.socket, address: str) -> None:
    """Pass the bytes of a connection to a Unix socket and back until both directions have ended."""
    with client, socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(address)
        except OSError:  # the harness has ended
            return
        back = threading.Thread(target=pump, args=(server, client), daemon=True)
        back.start()
        pump(client, server)
        back.join()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes from one socket to another until the source ends, then end the direction in the target, too."""
    with contextlib.suppress(OSError):  # either side may leave
        while True:
            data = source.recv(BUFFER_BYTES)
            if not data:
                break
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def run_script(folder: Path) -> int:
    """Run the agent's script and return its exit code; end it if the file `stop` appears."""
    script = subprocess.Popen(["/bin/sh", str(folder / "agent.sh")], stdin=subprocess.DEVNULL, start_new_session=True)
    while True:
        try:
            code = script.wait(POLL_SECONDS)
            return 128 - code if code < 0 else code
        except subprocess.TimeoutExpired:
            if (folder / "stop").exists():
                os.killpg(script.pid, signal.SIGKILL)
                script.wait()
                return STOPPED_EXIT_CODE


def main(folder: Path, port: int) -> int:
    """Serve the relay on a port of loopback while the agent's script in a folder runs, and return the exit code of the script."""
    listening = socket.create_server((LOOPBACK, port))
    threading.Thread(target=serve, args=(listening, str(folder / "socket")), daemon=True).start()
    return run_script(folder)


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), int(sys.argv[2]))
    os._exit(code)  # threads may wait for the agent's open connections
