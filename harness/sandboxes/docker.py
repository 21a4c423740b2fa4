"""Docker as a sandbox: a tool server as PID 1 of a hardened container, spoken to over the attach socket.

The connection is the lease: the container's stdin closes when the harness dies, the server then ends, and the engine removes
the container. A second net are labels that name the owner, by which leftovers are found and removed.
"""

import contextlib
import functools
import os
import re
import socket
import struct
import time
from typing import Any, Final

from harness.errors import SandboxUnavailable, UsageError
from harness.protocols import SandboxInfo, SandboxLimits
from harness.sandboxes.client import SCRATCH, WORKSPACE, Launched
from harness.sandboxes.leftovers import owner_is_dead, owner_text
from harness.sandboxes.processes import python_command
from harness.sandboxes.wire import SocketStream

BACKEND: Final = "docker"
OWNER_LABEL, EXPIRES_LABEL = "harness.owner", "harness.expires"
LIFE_SECONDS = 24 * 3600
"""After this a container may be reaped even when nothing is known of its owner."""
SCRATCH_BYTES = 64 * 2**20
CALL_SECONDS = 120
USER = "1000:1000"
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Docker:
    """Launches a tool server in a container named `coding-agent-{session_id}`."""

    def __init__(self, session_id: str, image: str, limits: SandboxLimits) -> None:
        if not _SESSION_ID.fullmatch(session_id):
            raise UsageError(f"session id {session_id!r} cannot name a container; use letters, digits, '.', '_' and '-'")
        self.name = f"coding-agent-{session_id}"
        self._image, self._limits = image, limits
        self._api: Any = None
        self._container: str | None = None
        self._stream: AttachStream | None = None

    def launch(self) -> Launched:
        """Create, attach, start."""
        from docker.errors import DockerException  # slow to import

        self._api = connect()
        reap_once(os.environ.get("DOCKER_HOST", ""))
        try:
            digest = self._find_image()
            created = self._create()
            self._container = created["Id"]
            raw = self._api.attach_socket(self._container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            self._stream = AttachStream(raw)
            self._api.start(self._container)
            info = self._info(digest)
        except (DockerException, OSError) as error:
            self.remove()
            advice = "the image needs python3 (3.8 or later) and /bin/sh, the engine must be reachable by a socket"
            raise SandboxUnavailable(BACKEND, _reason(error), advice) from error
        except BaseException:
            self.remove()
            raise
        return Launched(
            stream=self._stream,
            info=info,
            workspace=WORKSPACE,
            scratch=SCRATCH,
            rlimits=(("CORE", 0), ("FSIZE", self._limits.disk_bytes), ("NOFILE", 1024)),
        )

    def remove(self) -> None:
        """Remove the container, running or not, and wait until it is gone."""
        from docker.errors import DockerException

        if self._stream is not None:
            self._stream.close()
        if self._container is not None:
            with contextlib.suppress(OSError, DockerException):  # an engine that is gone: the label names the owner
                _remove(self._api, self._container)
            self._container = None
        if self._api is not None:
            self._api.close()

    def last_words(self) -> str:
        """What the server printed in despair."""
        return self._stream.errors.decode("utf-8", "replace") if self._stream is not None else ""

    def _find_image(self) -> str:
        from docker.errors import APIError, ImageNotFound

        try:
            return str(self._api.inspect_image(self._image)["Id"])
        except ImageNotFound:
            pass
        repository, tag = _split_image(self._image)
        try:
            self._api.pull(repository, tag=tag)
            return str(self._api.inspect_image(self._image)["Id"])
        except APIError as error:
            reason = f"image {self._image!r} is not here and cannot be pulled ({_reason(error)})"
            raise SandboxUnavailable(BACKEND, reason, "name an image that is here or can be pulled") from error

    def _create(self) -> Any:
        from docker.errors import APIError

        for attempt in (1, 2):
            try:
                return self._create_once()
            except APIError as error:
                if error.status_code != 409:
                    raise
                if attempt == 2 or not self._remove_dead_namesake():
                    reason = f"a container {self.name!r} is there and its owner lives"
                    raise SandboxUnavailable(BACKEND, reason, f"end that run or `docker rm -f {self.name}`") from error
        raise AssertionError

    def _create_once(self) -> Any:
        program, *arguments = python_command("python3")
        return self._api.create_container(
            self._image,
            name=self.name,
            entrypoint=[program],
            command=arguments,
            user=USER,
            working_dir=WORKSPACE,
            hostname="sandbox",
            stdin_open=True,
            detach=False,
            healthcheck={"test": ["NONE"]},
            labels={OWNER_LABEL: owner_text(), EXPIRES_LABEL: str(int(time.time()) + LIFE_SECONDS)},
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
        if not _is_leftover(labels):
            return False
        _remove(self._api, self.name)
        return True

    def _info(self, digest: str) -> SandboxInfo:
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
        self._left, self._channel = 0, 0
        self.errors = bytearray()

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
            if self._left == 0:
                if len(self._buffer) < 8:
                    break
                self._channel, self._left = struct.unpack(">BxxxI", self._buffer[:8])
                self._buffer = self._buffer[8:]
            piece, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
            self._left -= len(piece)
            if self._channel == 1:
                output.append(piece)
            elif len(self.errors) < 4096:
                self.errors += piece
        return b"".join(output)


def connect() -> Any:
    """A client of the engine that the environment names.

    Raises:
        SandboxUnavailable: it does not answer; says why and what to do.
    """
    import docker

    settings = docker.utils.kwargs_from_env()
    try:
        _knock(settings.get("base_url", docker.constants.DEFAULT_UNIX_SOCKET))
        api = docker.APIClient(**settings, timeout=CALL_SECONDS)
        api.ping()
        return api
    except (docker.errors.DockerException, OSError) as error:
        reason = _reason(error)
        advice = "install Docker Engine and start it"
        if "Permission denied" in reason:
            advice = "add this user to the group docker and log in again"
        raise SandboxUnavailable(BACKEND, reason, advice) from error


def _knock(address: str) -> None:
    """Try a unix socket first: the library's words for one that is not there are of no help."""
    scheme, _, path = address.partition("://")
    if "unix" not in scheme:
        return
    path = "/" + path.lstrip("/")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(CALL_SECONDS)
        try:
            connection.connect(path)
        except OSError as error:
            raise OSError(f"cannot connect to {path}: {error.strerror or error}") from error


def reap_leftovers() -> tuple[str, ...]:
    """Remove containers of ours whose owners are dead or whose time has passed; the names of those removed."""
    api = connect()
    try:
        reaped = []
        for container in api.containers(all=True, filters={"label": OWNER_LABEL}):
            if _is_leftover(container["Labels"]):
                _remove(api, container["Id"])
                reaped.append(str(container["Names"][0]).lstrip("/"))
        return tuple(reaped)
    finally:
        api.close()


@functools.cache
def reap_once(engine: str) -> tuple[str, ...]:
    """As `reap_leftovers`, once in a process for each engine (its address, empty = the default)."""
    del engine
    return reap_leftovers()


def _is_leftover(labels: Any) -> bool:
    expires = str(labels.get(EXPIRES_LABEL, ""))
    return owner_is_dead(str(labels.get(OWNER_LABEL, ""))) or (expires.isdigit() and int(expires) < time.time())


def _remove(api: Any, container: str) -> None:
    """Remove a container; one that is being removed already is waited for."""
    from docker.errors import APIError, NotFound

    give_up = time.monotonic() + 15
    while time.monotonic() < give_up:
        try:
            api.remove_container(container, force=True, v=True)
            return
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:
                raise
            time.sleep(0.02)


def _split_image(image: str) -> tuple[str, str | None]:
    """Repository and tag, as pull wants them; the default tag is `latest`, never all tags."""
    if "@" in image:
        return image, None
    repository, colon, tag = image.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (image, "latest")


def _reason(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    text = str(explanation or error).strip()
    return " ".join(text.split())[:400] or type(error).__name__
