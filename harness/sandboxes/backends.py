"""The kinds of sandboxes (backends), such as docker and bubblewrap, and the choice of the first one that passes a live test.

To add a backend, write a launcher, which starts and removes one sandbox, and enter it in `BACKENDS`. Plans, options and error
messages take the name of the backend from this table.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from harness.conversation.codec import StrictFields, refuse_mistyped_fields
from harness.errors import SandboxDied, SandboxError, SandboxUnavailable, UnknownName, UsageError
from harness.protocols import Sandbox, SandboxInfo, SandboxLimits
from harness.sandboxes.bubblewrap import BACKEND as BUBBLEWRAP
from harness.sandboxes.bubblewrap import BoundFolder, BubblewrapLauncher
from harness.sandboxes.client import FILES, Launcher, ServedSandbox, format_container_name
from harness.sandboxes.local import LocalLauncher

PROBE_SECONDS = 20.0
_NO_ROUTES_COMMAND = "test $(wc -l < /proc/net/route) -le 1"
"""Shell command that succeeds only if the routing table is empty, so that there is no network.

A test packet would prove less, because a firewall may drop it.
"""
_MISSING_PROGRAM_ADVICE = "install {program} in /usr/local/bin for bubblewrap, or choose a Docker image that has it in /usr/bin"
_CONTROL_GROUP_ADVICE = "to limit all processes together, control groups are needed, which bubblewrap can create only as root"
_LIMIT_ADVICE: Final[Mapping[str, tuple[str, str]]] = {
    "memory_bytes": ("memory of all processes together", _CONTROL_GROUP_ADVICE),
    "pids": ("number of processes", _CONTROL_GROUP_ADVICE),
    FILES: ("number of files", "to limit files, install util-linux (unshare, mount) and allow mounts in user namespaces"),
}
"""Limits that some machines cannot enforce, by name, each with a description and advice for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Result of a test that shows whether a sandbox backend, such as docker, works on this machine."""

    backend: str
    ok: bool
    reason: str
    """Reason for the result of the test.

    If the backend works, the reason lists the versions of the programs used and the limits that cannot be enforced. Otherwise it
    states the problem.
    """
    advice: str
    """Advice to the user on how to make the backend work or enforce all limits; empty if there is nothing to do."""
    seconds: float
    is_lost: bool = False
    """Whether the sandbox was killed during the test, which says nothing about the backend."""


def run_probe(backend: str, make_sandbox: Callable[[], Sandbox], program: str = "") -> Probe:
    """Test whether a sandbox backend works and isolates commands on this machine.

    The test starts a sandbox and removes it again. It checks under which user commands run, and that commands can neither write
    outside the workspace nor reach the network.

    Args:
        backend: Name of the backend to test, e.g. `docker`.
        make_sandbox: Function that returns a sandbox of the backend, not yet started.
        program: Name of a program that commands need besides Python; empty if there is none.
    """
    started_at = time.monotonic()
    ok, advice, is_lost = False, "", False
    try:
        info = _attack(make_sandbox(), program)
        ok, reason, advice = True, *_describe_working(info)
    except SandboxUnavailable as error:
        reason, advice = error.reason, error.advice
    except SandboxDied as error:
        reason, advice, is_lost = str(error), "try again; something on this machine ended the sandbox of the test", True
    except SandboxError as error:
        reason, advice = str(error), "the reason says what went wrong"
    seconds = time.monotonic() - started_at
    return Probe(backend=backend, ok=ok, reason=reason, advice=advice, seconds=seconds, is_lost=is_lost)


def _describe_working(info: SandboxInfo) -> tuple[str, str]:
    """Return two texts on a sandbox that works.

    The first has the versions of its programs and the limits that it cannot enforce, the second advice on these limits.
    """
    missing = {limit: advice for name, (limit, advice) in _LIMIT_ADVICE.items() if name not in info.enforced}
    reason = "works: " + " ".join(" ".join(pair) for pair in info.versions)
    if missing:
        reason += f"; not limited: {', '.join(missing)}"
    return reason, "; ".join(dict.fromkeys(missing.values()))


def _attack(sandbox: Sandbox, program: str) -> SandboxInfo:
    """Try to break the isolation of a sandbox, and return its properties if every attempt fails.

    Raises:
        SandboxUnavailable: An attempt succeeded, or the sandbox cannot be used; the message says why.
    """
    try:
        sandbox.start()

        def refuse(
            reason: str, advice: str = "do not use this backend on this machine, because its isolation does not hold"
        ) -> NoReturn:
            raise SandboxUnavailable(sandbox.info.backend, reason, advice)

        def succeeds(command: str) -> bool:
            return sandbox.run(command, timeout_seconds=PROBE_SECONDS).exit_code == 0

        user = sandbox.run("id -u", timeout_seconds=PROBE_SECONDS)
        if user.exit_code != 0 or user.stdout.strip() in (b"", b"0"):
            refuse(f"commands do not run as an ordinary user: `id -u` printed {user.stdout!r} {user.stderr[:200]!r}")
        if succeeds("echo x > /usr/probe || echo x > /etc/probe"):
            refuse("a command was able to write outside of /workspace")
        if not succeeds(_NO_ROUTES_COMMAND):
            refuse("a command was able to reach the network")
        for name in filter(None, ("python3", program)):  # the grader runs python3 as commands do, unlike the tool server
            if not succeeds(f"command -v {name}"):
                path = sandbox.run("echo $PATH", timeout_seconds=PROBE_SECONDS).stdout.decode(errors="replace").strip()
                refuse(f"the sandbox has no program {name} in {path}", _MISSING_PROGRAM_ADVICE.format(program=name))
        return sandbox.info
    finally:
        sandbox.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A way to run sandboxes, such as docker or bubblewrap, with the properties that callers depend on."""

    make_launcher: Callable[[str, str, SandboxLimits], Launcher]
    """Function that returns the launcher (starts and removes one sandbox) for a session id, an image and limits."""
    isolates: bool = True
    """Whether the backend isolates commands from the machine.

    A backend without isolation is never chosen by `auto`, and must be allowed with `unsafe_local`.
    """
    has_images: bool = False
    format_container_name: Callable[[str], str] | None = None
    """Function that takes a session id and returns the name of the container; None if sandboxes have no names."""


def _make_docker_launcher(session_id: str, image: str, limits: SandboxLimits) -> Launcher:
    from harness.sandboxes.docker import DockerLauncher  # noqa: PLC0415  loads the Docker library, which is slow

    return DockerLauncher(session_id, image, limits)


BACKENDS: Final[Mapping[str, Backend]] = {
    "docker": Backend(make_launcher=_make_docker_launcher, has_images=True, format_container_name=format_container_name),
    "bubblewrap": Backend(make_launcher=lambda _session_id, _image, limits: BubblewrapLauncher(limits)),
    "local": Backend(make_launcher=lambda _session_id, _image, limits: LocalLauncher(limits), isolates=False),
}
"""Every sandbox backend by name; `auto` tries the backends in this order."""
BACKEND_CHOICES = ("auto", *BACKENDS)
if TYPE_CHECKING:
    BackendName: TypeAlias = str
else:
    BackendName = Literal[BACKEND_CHOICES]  # the names registered above are valid in every configuration

DEFAULT_IMAGES = {"python": "python:3.12-slim", "bun": "oven/bun:latest"}
"""Default Docker image of each runtime that a task can require."""


def open_sandbox(
    backend: str = "auto",
    *,
    session_id: str,
    image: str | None = None,
    runtime: str = "python",
    limits: SandboxLimits | None = None,
    unsafe_local: bool = False,
    folders: Sequence[BoundFolder] = (),
) -> ServedSandbox:
    """Return a sandbox for one session, not yet started; the caller starts and closes it.

    File contents of snapshots are kept as long as the sandbox; call `use_blobs` before the start to keep them in another store.

    Args:
        backend: A name in `BACKENDS`, or `auto` for the first of docker and bubblewrap that passes a live test. To test once for
            many sandboxes, call `choose_backend` and pass its result. Default: `'auto'`.
        session_id: Identifier of the session; the container of a backend with containers is named `coding-agent-{session_id}`.
        image: Docker image; with an image, only backends that use images are tried. None uses the default image of the runtime.
            Default: `None`.
        runtime: Runtime that commands need, `python` or `bun`; bubblewrap uses the one installed below /usr. Default: `'python'`.
        limits: Limits on memory, processes, disk, output and network; None uses `SandboxLimits()`. Default: `None`.
        unsafe_local: Must be true for the backend `local`, which does not isolate commands. Default: `False`.
        folders: Folders of this machine that commands in the sandbox can read, which needs the backend `bubblewrap`. Commands of
            such a sandbox are never repeated to learn why it died. Default: `()`.

    Raises:
        SandboxUnavailable: No backend works on this machine; the message states what was tried and what to install.
        UsageError: The backend or runtime is unknown, `local` is used without `unsafe_local`, an image is given for a backend
            without images, or folders for another backend than `bubblewrap`.

    Example::

        with open_sandbox(session_id="demo") as sandbox:
            result = sandbox.run("python3 --version")
    """
    if runtime not in DEFAULT_IMAGES:
        raise UnknownName("runtime", runtime, DEFAULT_IMAGES)
    check_image(backend, image)
    limits = SandboxLimits() if limits is None else limits
    if folders:
        backend = BUBBLEWRAP if backend == "auto" else backend
        if backend != BUBBLEWRAP:
            raise UsageError(f"sandbox backend {backend!r} cannot show folders of this machine; use {BUBBLEWRAP!r}")
        return ServedSandbox(BubblewrapLauncher(limits, folders), limits)
    if backend == "auto":
        backend = choose_backend(image, runtime)
    make_launcher = functools.partial(
        _find_backend(backend, unsafe_local).make_launcher, session_id, image or DEFAULT_IMAGES[runtime], limits
    )
    return ServedSandbox(make_launcher(), limits, make_launcher=make_launcher)


def is_isolated(backend: str) -> bool:
    """Return whether a backend isolates commands from the machine.

    The result is True for `auto` if all backends that it may choose do, and False for an unknown backend.
    """
    return backend == "auto" or (backend in BACKENDS and BACKENDS[backend].isolates)


def check_image(backend: str, image: str | None) -> None:
    """Check that a Docker image is given only for a backend that uses images.

    Raises:
        UsageError: The backend would ignore the image.
    """
    if image and backend in BACKENDS and not BACKENDS[backend].has_images:
        raise UsageError(f"image {image!r}: the sandbox {backend!r} has no images; omit the image, or use 'docker' or 'auto'")


def choose_backend(
    image: str | None = None, runtime: str = "python", backend: str = "auto", *, unsafe_local: bool = False
) -> str:
    """Return the name of the first backend that works on this machine with an image and a runtime.

    Args:
        image: Docker image; with an image, only backends that use images are tried. None uses the default image of the runtime.
        runtime: Runtime that commands need, `python` or `bun`.
        backend: Name of the only backend allowed; `auto` allows every backend that isolates commands.
        unsafe_local: Must be true for the backend `local`, which is then returned without a test.

    Raises:
        SandboxUnavailable: No allowed backend works on this machine.
        UsageError: An image is given for a backend without images, or `local` is used without `unsafe_local`.
    """
    check_image(backend, image)
    if backend != "auto" and not _find_backend(backend, unsafe_local).isolates:
        return backend
    usable = [name for name, kind in BACKENDS.items() if kind.isolates and (kind.has_images or not image)]
    names = usable if backend == "auto" else [backend]
    failed_probes = []
    for name in names:
        result = probe_backend(name, image or DEFAULT_IMAGES[runtime], runtime)
        if result.ok:
            return name
        failed_probes.append(result)
    if len(failed_probes) == 1:
        image_advice = f"; no other backend can use the image {image!r}" if image else ""
        raise SandboxUnavailable(failed_probes[0].backend, failed_probes[0].reason, failed_probes[0].advice + image_advice)
    reasons = "; ".join(f"{probe.backend}: {probe.reason}" for probe in failed_probes)
    raise SandboxUnavailable("auto", reasons, "; or ".join(probe.advice for probe in failed_probes))


def probe_backend(backend: str, image: str | None = None, runtime: str = "python") -> Probe:
    """Test whether a backend works with an image and a runtime on this machine, and return the result.

    The test starts a sandbox. It runs once in this process; if the sandbox was killed during the test, the next call tests again.
    """
    probe = run_cached_probe(backend, image, runtime)
    if probe.is_lost:
        run_cached_probe.cache_clear()
    return probe


@functools.cache
def run_cached_probe(backend: str, image: str | None, runtime: str) -> Probe:
    """Test a backend with an image and a runtime, and return the result; each test runs once in this process."""
    limits = SandboxLimits()
    make_launcher = _find_backend(backend, unsafe_local=False).make_launcher

    def make_sandbox() -> Sandbox:
        return ServedSandbox(make_launcher(f"probe-{os.getpid()}", image or DEFAULT_IMAGES["python"], limits), limits)

    return run_probe(backend, make_sandbox, "" if runtime == "python" else runtime)  # the tool server needs Python anyway


def _find_backend(name: str, unsafe_local: bool) -> Backend:
    if name not in BACKENDS:
        raise UnknownName("sandbox backend", name, (*BACKENDS, "auto"))
    if not BACKENDS[name].isolates and not unsafe_local:
        raise UsageError(
            f"sandbox backend {name!r} isolates nothing; run with --unsafe-local (unsafe_local=True) if you mean it, "
            "or pick 'auto', which takes docker or bubblewrap"
        )
    return BACKENDS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxChoice(StrictFields):
    """Choice of the kind of sandbox (backend, image and limits) in which the commands of a trial run.

    Attributes:
        backend: Name of the backend; `auto` is the first of docker and bubblewrap that works. `local` does not isolate commands
            and must be allowed by the runner. Default: `'auto'`.
        image: Docker image; with an image, `auto` means docker. None uses the default image of the task's runtime.
            Default: `None`.
        limits: Limits on memory, processes, disk, output and network. Default: `SandboxLimits()`.

    Example:
        >>> from harness import SandboxChoice
        >>> SandboxChoice(backend="docker", image="python:3.12-slim").limits.network
        False
    """

    backend: BackendName = "auto"
    image: str | None = None
    limits: SandboxLimits = field(default_factory=SandboxLimits)

    def __post_init__(self) -> None:
        refuse_mistyped_fields(self)
        check_image(self.backend, self.image)

    def open(
        self, session_id: str, runtime: str, *, unsafe_local: bool = False, folders: Sequence[BoundFolder] = ()
    ) -> ServedSandbox:
        """Return a sandbox of this choice for one session, not yet started; the caller starts and closes it."""
        return open_sandbox(
            self.backend,
            session_id=session_id,
            image=self.image,
            runtime=runtime,
            limits=self.limits,
            unsafe_local=unsafe_local,
            folders=folders,
        )
