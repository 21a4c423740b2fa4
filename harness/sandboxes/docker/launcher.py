"""Docker as a sandbox: a tool server as PID 1 of a hardened container, spoken to over the attach socket.

The connection is the lease: the container's stdin closes when the harness dies, the server then ends, and the engine removes
the container. A second net are labels that name the owner, by which leftovers are found and removed.
"""

import contextlib
import os
import re
import struct
import time
from typing import Any

from harness.errors import SandboxUnavailable, UsageError
from harness.protocols import SandboxInfo, SandboxLimits
from harness.sandboxes.client import SCRATCH, SCRATCH_BYTES, WORKSPACE, LaunchedServer
from harness.sandboxes.docker.engine import (
    BACKEND,
    EXPIRES_LABEL,
    OWNER_LABEL,
    connect,
    describe_error,
    is_leftover,
    reap_once,
    remove_container,
)
from harness.sandboxes.docker.images import add_python, find_image, find_served_image, is_missing_python
from harness.sandboxes.framing import SocketStream
from harness.sandboxes.leftovers import format_owner
from harness.sandboxes.server_process import build_python_command

MAX_LIFETIME_SECONDS = 24 * 3600
"""After this a container may be reaped even when nothing is known of its owner."""
USER = "1000:1000"
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def format_container_name(session_id: str) -> str:
    """The name of a session's container (S0.2)."""
    return f"coding-agent-{session_id}"


class DockerLauncher:
    """Launches a tool server in a container named `coding-agent-{session_id}`."""

    def __init__(self, session_id: str, image: str, limits: SandboxLimits) -> None:
        if not _SESSION_ID.fullmatch(session_id):
            raise UsageError(f"session id {session_id!r} cannot name a container; use letters, digits, '.', '_' and '-'")
        self.name = format_container_name(session_id)
        self._image, self._limits = image, limits
        self._api: Any = None
        self._container: str | None = None
        self._stream: AttachStream | None = None

    def launch(self) -> LaunchedServer:
        """Create, attach, start."""
        from docker.errors import DockerException  # slow to import

        self._api = connect()
        reap_once(os.environ.get("DOCKER_HOST", ""))
        try:
            digest = find_image(self._api, self._image)
            stream = self._start_with_python(digest)
            info = self._build_info(digest)
        except (DockerException, OSError) as error:
            self.remove()
            advice = "the image needs python3 (3.8 or later) and /bin/sh, the engine must be reachable by a socket"
            raise SandboxUnavailable(BACKEND, describe_error(error), advice) from error
        except BaseException:
            self.remove()
            raise
        return LaunchedServer(
            stream=stream,
            info=info,
            workspace=WORKSPACE,
            scratch=SCRATCH,
            rlimits=(("CORE", 0), ("FSIZE", self._limits.disk_bytes), ("NOFILE", 1024)),
        )

    def remove(self) -> None:
        """Remove the container, running or not, and wait until it is gone."""
        self._remove_container()
        if self._api is not None:
            self._api.close()

    def _remove_container(self) -> None:
        from docker.errors import DockerException

        if self._stream is not None:
            self._stream.close()
        if self._container is not None:
            with contextlib.suppress(OSError, DockerException):  # an engine that is gone: the label names the owner
                remove_container(self._api, self._container)
            self._container = None

    def read_stderr(self) -> str:
        """What the server printed in despair."""
        return self._stream.stderr.decode("utf-8", "replace") if self._stream is not None else ""

    def _start_with_python(self, digest: str) -> "AttachStream":
        """Start a container of the image, or, if that lacks python3, of one made from it that has it."""
        from docker.errors import APIError

        image = find_served_image(self._api, digest) or self._image
        try:
            return self._start(image)
        except APIError as error:
            if image != self._image or not is_missing_python(error):
                raise
        self._remove_container()
        return self._start(add_python(self._api, self._image, digest))

    def _start(self, image: str) -> "AttachStream":
        self._container = self._create(image)["Id"]
        raw = self._api.attach_socket(self._container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        self._stream = AttachStream(raw)
        self._api.start(self._container)
        return self._stream

    def _create(self, image: str) -> Any:
        from docker.errors import APIError

        for attempt in (1, 2):
            try:
                return self._create_once(image)
            except APIError as error:
                if error.status_code != 409:
                    raise
                if attempt == 2 or not self._remove_dead_namesake():
                    reason = f"a container {self.name!r} is there and its owner lives"
                    raise SandboxUnavailable(BACKEND, reason, f"end that run or `docker rm -f {self.name}`") from error
        raise AssertionError

    def _create_once(self, image: str) -> Any:
        program, *arguments = build_python_command("python3")
        return self._api.create_container(
            image,
            name=self.name,
            entrypoint=[program],
            command=arguments,
            user=USER,
            working_dir=WORKSPACE,
            hostname="sandbox",
            stdin_open=True,
            detach=False,
            healthcheck={"test": ["NONE"]},
            labels={OWNER_LABEL: format_owner(), EXPIRES_LABEL: str(int(time.time()) + MAX_LIFETIME_SECONDS)},
            host_config=self._api.create_host_config(
                network_mode="bridge" if self._limits.network else "none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mem_limit=self._limits.memory_bytes,
                memswap_limit=self._limits.memory_bytes,
                pids_limit=self._limits.pids,
                nano_cpus=10**9,
                oom_score_adj=500,
                read_only=True,
                auto_remove=True,
                log_config={"Type": "none"},
                tmpfs={
                    SCRATCH: f"rw,exec,nosuid,nodev,size={SCRATCH_BYTES},nr_inodes=20k,mode=1777",
                    WORKSPACE: f"rw,exec,nosuid,nodev,size={self._limits.disk_bytes},nr_inodes=50k,uid=1000,gid=1000,mode=755",
                },
            ),
        )

    def _remove_dead_namesake(self) -> bool:
        from docker.errors import NotFound

        try:
            labels = self._api.inspect_container(self.name)["Config"]["Labels"] or {}
        except NotFound:
            return True
        if not is_leftover(labels):
            return False
        remove_container(self._api, self.name)
        return True

    def _build_info(self, digest: str) -> SandboxInfo:
        engine = self._api.info()
        counted = [("memory_bytes", "MemoryLimit"), ("pids", "PidsLimit")]
        enforced = [limit for limit, flag in counted if engine.get(flag)]
        return SandboxInfo(
            backend=BACKEND,
            image=f"{self._image}@{digest}",
            isolation=("container", "no-new-privileges", "no-capabilities", "seccomp", "read-only-root", "private-tmpfs"),
            limits=self._limits,
            enforced=(*enforced, "disk_bytes", "output_bytes", "file_bytes", "network"),
            versions=(("docker", str(engine.get("ServerVersion"))),),
        )


class AttachStream:
    """The attach socket: what is sent goes raw, what comes is cut into the engine's frames of 8 bytes and a payload."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw  # the response owns the socket
        self._socket = SocketStream(getattr(raw, "_sock", raw))
        self._buffer = b""
        self._remaining_bytes, self._channel = 0, 0
        self.stderr = bytearray()

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send to the server's stdin."""
        self._socket.send(data, timeout_seconds)

    def receive(self, timeout_seconds: float) -> bytes:
        """Some bytes of its stdout; its stderr is kept aside, the beginning only."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            output = self._unwrap()
            if output:
                return output
            chunk = self._socket.receive(deadline - time.monotonic())
            if not chunk:
                return b""
            self._buffer += chunk

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        self._raw.close()

    def _unwrap(self) -> bytes:
        output = []
        while self._buffer:
            if self._remaining_bytes == 0:
                if len(self._buffer) < 8:
                    break
                self._channel, self._remaining_bytes = struct.unpack(">BxxxI", self._buffer[:8])
                self._buffer = self._buffer[8:]
            piece, self._buffer = self._buffer[: self._remaining_bytes], self._buffer[self._remaining_bytes :]
            self._remaining_bytes -= len(piece)
            if self._channel == 1:
                output.append(piece)
            elif len(self.stderr) < 4096:
                self.stderr += piece
        return b"".join(output)
