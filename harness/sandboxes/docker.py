"""Docker as a sandbox backend: the tool server is process 1 of a hardened container and is reached over the attach socket.

When the harness ends, the stdin of the container closes, the tool server ends, and the engine removes the container. If a
container remains nevertheless, later runs find and remove it by labels that identify the process that created it. The Docker
library is slow to load, so `backends` imports this module only when a container is needed.

The tool server needs `python3`. If an image has none, such as the image of Bun, the image's package manager installs `python3`
once in a new image, which is tagged `harness-served:<content id>` and kept for later runs.
"""

import contextlib
import io
import os
import re
import signal
import socket
import struct
import time
from typing import Any, Final

import docker  # noqa: TID253
from docker.errors import APIError, DockerException, ImageNotFound, NotFound  # noqa: TID253

from harness.errors import SandboxDied, SandboxUnavailable, UsageError
from harness.protocols import SandboxInfo, SandboxLimits
from harness.sandboxes.client import (
    FILES,
    SCRATCH,
    SCRATCH_BYTES,
    SCRATCH_FILES,
    SHARED_MEMORY,
    WORKSPACE,
    WORKSPACE_FILES,
    LaunchedServer,
    format_container_name,
)
from harness.sandboxes.deaths import ServerEnd
from harness.sandboxes.framing import SocketStream
from harness.sandboxes.leftovers import format_owner, is_owner_alive, is_owner_dead
from harness.sandboxes.seccomp import SECCOMP
from harness.sandboxes.server_process import build_python_command

BACKEND: Final = "docker"
OWNER_LABEL, EXPIRES_LABEL = "harness.owner", "harness.expires"
CALL_SECONDS = 120
MAX_LIFETIME_SECONDS = 24 * 3600
"""Age in seconds above which a container is removed if it is unknown whether the process that created it still runs."""
USER = "1000:1000"
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
SERVED_REPOSITORY = "harness-served"
BUILD_SECONDS = 600
EVENT_SECONDS = 5.0
"""Seconds to wait for the engine's event that reports the end of a container."""
MAX_OOM_AGE_NS = 10 * 10**9
"""Maximum time in nanoseconds between a lack of memory and the end of a container for which the lack counts as the cause."""
_RECIPE = """FROM {image}
USER root
RUN if command -v apt-get; then apt-get update && apt-get install -y --no-install-recommends python3; else apk add python3; fi
"""
_reaped_engines: set[str] = set()
"""Addresses of the Docker engines from which this process has already removed leftover containers."""
_ADVICE = "choose an image that is present or can be pulled and that contains python3 (3.8 or later) and /bin/sh"


class DockerLauncher:
    """Launcher that starts and removes one sandbox: a container with the name `coding-agent-{session_id}`."""

    def __init__(self, session_id: str, image: str, limits: SandboxLimits) -> None:
        if not _SESSION_ID.fullmatch(session_id):
            characters = "at most 100 letters, digits, '.', '_' and '-', beginning with a letter or digit"
            raise UsageError(f"session id {session_id!r} cannot be part of a container name; use {characters}")
        self.name = format_container_name(session_id)
        self._image, self._limits = image, limits
        self._api: Any = None
        self._container: str | None = None
        self._stream: AttachStream | None = None

    def launch(self) -> LaunchedServer:
        """Create the container of the sandbox, attach to it and start it."""
        self._api = connect()
        try:
            self._reap_once()
            digest = find_image(self._api, self._image)
            stream = self._start_with_python(digest)
            info = self._build_info(digest)
        except BaseException as error:
            self.remove()
            if isinstance(error, NotFound) and not isinstance(error, ImageNotFound):
                raise SandboxDied(f"the container was removed while it started ({describe_error(error)}); try again") from error
            if not isinstance(error, DockerException | OSError):
                raise
            advice = "the image must contain python3 (3.8 or later) and /bin/sh, and the engine must be reachable over a socket"
            raise SandboxUnavailable(BACKEND, describe_error(error), advice) from error
        return LaunchedServer(
            stream=stream,
            info=info,
            rlimits=(("CORE", 0), ("FSIZE", self._limits.disk_bytes), ("NOFILE", 1024)),
        )

    def remove(self) -> None:
        """Remove the container of the sandbox, running or not, and wait until it is gone."""
        self._remove_container()
        if self._api is not None:
            self._api.close()

    def _remove_container(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._container is not None:
            with contextlib.suppress(
                OSError, DockerException
            ):  # if the engine is gone, a later run finds the container by its labels
                remove_container(self._api, self._container)
            self._container = None

    def find_end(self, oom_kills: int) -> ServerEnd:
        """Return how the container's first process (tool server) ended.

        The answer comes from the events of the Docker engine, which are still known after the container was removed.
        """
        last_oom_ns = 0
        try:
            for event in self._api.events(
                since=1, until=time.time() + EVENT_SECONDS, filters={"container": self._container}, decode=True
            ):
                if event["Action"] == "oom":
                    last_oom_ns = event["timeNano"]
                elif event["Action"] == "die":
                    code = int(event["Actor"]["Attributes"]["exitCode"])
                    is_killed = code == 128 + signal.SIGKILL
                    ran_out_of_memory = is_killed and event["timeNano"] - last_oom_ns < MAX_OOM_AGE_NS
                    return ServerEnd(code - 128 if code > 128 else None, ran_out_of_memory)
        except (DockerException, OSError):
            pass  # the engine itself may be gone
        return ServerEnd()

    def read_stderr(self) -> str:
        """Return the beginning of what the container's first process (tool server) wrote to stderr."""
        return self._stream.stderr.decode("utf-8", "replace") if self._stream is not None else ""

    def _reap_once(self) -> None:
        engine = os.environ.get("DOCKER_HOST", "")
        if engine not in _reaped_engines:
            _reaped_engines.add(engine)
            reap_leftovers(self._api)

    def _start_with_python(self, digest: str) -> "AttachStream":
        """Start a container; if its image has no `python3`, use an image built from it that does."""
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
        try:
            return self._create_once(image)
        except APIError as error:
            if error.status_code != 409:
                raise
            if not self._remove_dead_namesake():
                reason = f"a container {self.name!r} exists and its owner is still running"
                advice = f"stop that run, or remove the container with `docker rm -f {self.name}`"
                raise SandboxUnavailable(BACKEND, reason, advice) from error
        return self._create_once(image)

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
                    SCRATCH: f"rw,exec,nosuid,nodev,size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES},mode=1777",
                    SHARED_MEMORY: f"rw,noexec,nosuid,nodev,size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES},mode=1777",
                    WORKSPACE: (
                        f"rw,exec,nosuid,nodev,size={self._limits.disk_bytes},nr_inodes={WORKSPACE_FILES},"
                        "uid=1000,gid=1000,mode=755"
                    ),
                },
            ),
        )

    def _remove_dead_namesake(self) -> bool:
        try:
            labels = self._api.inspect_container(self.name)["Config"]["Labels"] or {}
        except NotFound:
            return True
        if not is_leftover(labels):
            return False
        remove_container(self._api, self.name)
        return True

    def _build_info(self, digest: str) -> SandboxInfo:
        engine, image_id = self._api.info(), str(self._api.inspect_container(self._container)["Image"])
        served = [(SERVED_REPOSITORY, image_id)] if image_id != digest else []
        counted = [("memory_bytes", "MemoryLimit"), ("pids", "PidsLimit")]
        enforced = [limit for limit, flag in counted if engine.get(flag)]
        return SandboxInfo(
            backend=BACKEND,
            image=f"{self._image}@{digest}",
            isolation=("container", "no-new-privileges", "no-capabilities", "seccomp", "read-only-root", "private-tmpfs"),
            limits=self._limits,
            enforced=(*enforced, "disk_bytes", FILES, "output_bytes", "file_bytes", "network", SECCOMP),
            versions=(("docker", str(engine.get("ServerVersion"))), *served),
        )


class AttachStream(SocketStream):
    """Byte stream to the stdin and from the stdout of a container's first process.

    The stream uses the socket of Docker's attach request. Received bytes arrive in frames, each with a header of 8 bytes.
    """

    def __init__(self, raw: Any) -> None:
        super().__init__(getattr(raw, "_sock", raw))
        self._raw = raw  # the response owns the socket
        self._buffer = b""
        self._remaining_bytes, self._channel = 0, 0
        self.stderr = bytearray()

    def receive(self) -> bytes:
        """Wait for bytes from the stdout of the container and return them.

        The beginning of the container's stderr is kept in `stderr`.
        """
        while True:
            output = self._unwrap()
            if output:
                return output
            chunk = super().receive()
            if not chunk:
                return b""
            self._buffer += chunk

    def close(self) -> None:
        """Close the attach socket of the container."""
        super().close()
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


def connect() -> Any:
    """Return a client of the Docker engine, which environment variables such as `DOCKER_HOST` select.

    Raises:
        SandboxUnavailable: The Docker engine does not answer; the message states the reason and what to do.
    """
    settings = docker.utils.kwargs_from_env()
    try:
        _check_socket(settings.get("base_url", docker.constants.DEFAULT_UNIX_SOCKET))
        api = docker.APIClient(**settings, timeout=CALL_SECONDS)
        api.ping()
        return api
    except (docker.errors.DockerException, OSError) as error:
        reason = describe_error(error)
        advice = "install Docker Engine and start it"
        if "Permission denied" in reason:
            advice = "add this user to the group docker and log in again"
        raise SandboxUnavailable(BACKEND, reason, advice) from error


def _check_socket(address: str) -> None:
    """Raise an error with the path of the Docker engine's Unix socket if the socket cannot be reached.

    The Docker library would raise an error without the path.
    """
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


def reap_leftovers(api: Any) -> tuple[str, ...]:
    """Remove containers that processes of the harness have left behind, and return their names."""
    containers = api.containers(all=True, filters={"label": OWNER_LABEL})
    leftovers = [container for container in containers if is_leftover(container["Labels"])]
    for container in leftovers:
        remove_container(api, container["Id"])
    return tuple(str(container["Names"][0]).lstrip("/") for container in leftovers)


def is_leftover(labels: Any) -> bool:
    """Return whether, by its labels, a container was created by a process that has ended.

    If it is unknown whether the process still runs, the result is True for a container that is too old.
    """
    owner, expires = str(labels.get(OWNER_LABEL, "")), str(labels.get(EXPIRES_LABEL, ""))
    is_expired = expires.isdigit() and int(expires) < time.time()
    return is_owner_dead(owner) or (is_expired and not is_owner_alive(owner))


def remove_container(api: Any, container: str) -> None:
    """Remove a container, or wait until a removal already in progress is done."""
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


def describe_error(error: Exception) -> str:
    """Return the explanation that an error of the Docker engine or library contains, as one line."""
    explanation = getattr(error, "explanation", None)
    text = str(explanation or error).strip()
    return " ".join(text.split())[:400] or type(error).__name__


def find_image(api: Any, image: str) -> str:
    """Return the content id of a Docker image; the image is pulled if it is missing.

    Raises:
        SandboxUnavailable: The Docker image is missing and cannot be pulled.
    """
    with contextlib.suppress(ImageNotFound):
        return str(api.inspect_image(image)["Id"])
    repository, tag = split_image(image)
    try:
        api.pull(repository, tag=tag)
        return str(api.inspect_image(image)["Id"])
    except APIError as error:
        reason = f"image {image!r} is missing and cannot be pulled ({describe_error(error)})"
        raise SandboxUnavailable(BACKEND, reason, _ADVICE) from error


def is_missing_python(error: Exception) -> bool:
    """Return whether an error means that a container did not start because its image has no `python3`."""
    reason = describe_error(error)
    return "python3" in reason and ("not found" in reason or "no such file" in reason)


def find_served_image(api: Any, digest: str) -> str | None:
    """Return the name of the image with `python3` that was built from the image with this content id, if any."""
    with contextlib.suppress(ImageNotFound):
        api.inspect_image(_format_served_name(digest))
        return _format_served_name(digest)
    return None


def add_python(api: Any, image: str, digest: str) -> str:
    """Build an image with `python3` from an image without, and return the name of the new image.

    Raises:
        SandboxUnavailable: The package manager of the image failed; the message contains the end of its output.
    """
    recipe, name = io.BytesIO(_RECIPE.format(image=image).encode()), _format_served_name(digest)
    build_output = ""
    try:
        for line in api.build(fileobj=recipe, tag=name, rm=True, forcerm=True, decode=True, timeout=BUILD_SECONDS):
            build_output = (build_output + str(line.get("stream", "")))[-1000:]
            if "error" in line:
                raise DockerException(f"{build_output} {line['error']}")
    except (DockerException, OSError) as error:
        reason = f"image {image!r} has no python3, and python3 could not be installed ({describe_error(error)[-300:]})"
        raise SandboxUnavailable(BACKEND, reason, _ADVICE) from error
    return name


def split_image(image: str) -> tuple[str, str | None]:
    """Return the repository and the tag of an image name.

    The tag defaults to `latest`, so that not all tags are pulled.
    """
    if "@" in image:
        return image, None
    repository, colon, tag = image.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (image, "latest")


def _format_served_name(digest: str) -> str:
    return f"{SERVED_REPOSITORY}:{digest.rpartition(':')[2][:16]}"
