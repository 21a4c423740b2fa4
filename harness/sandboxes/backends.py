"""The sandbox backends, registered in `BACKENDS`, and the choice between them: the first that works, found by live probes.

To add a backend, write a launcher and enter it in `BACKENDS`. Names in plans, options and errors come from that table.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from harness.codec import StrictFields, refuse_mistyped_fields
from harness.errors import SandboxError, SandboxUnavailable, UnknownName, UsageError
from harness.protocols import Sandbox, SandboxLimits
from harness.sandboxes.bubblewrap import BubblewrapLauncher
from harness.sandboxes.client import Launcher, ServedSandbox, format_container_name
from harness.sandboxes.local import LocalLauncher

PROBE_SECONDS = 20.0
_NO_ROUTES_COMMAND = "test $(wc -l < /proc/net/route) -le 1"
"""Succeeds only where the table of routes holds nothing but its heading: sending something would depend on firewalls."""
_MISSING_PROGRAM_ADVICE = (
    "put {program} into /usr/local/bin of this machine for bubblewrap, or name an image of docker that has it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a live trial of a backend showed."""

    backend: str
    ok: bool
    reason: str
    """What was seen, good or bad."""
    advice: str
    """What a person can do; empty when it works."""
    seconds: float


def run_probe(backend: str, make_sandbox: Callable[[], Sandbox], program: str = "") -> Probe:
    """Start a sandbox, look at its user, try to write outside and to reach the network, and remove it.

    Args:
        backend: name of the backend.
        make_sandbox: returns an unstarted sandbox.
        program: what commands must find in it besides python; empty = nothing more.
    """
    started = time.monotonic()
    advice = ""
    try:
        reason = _attack(make_sandbox(), program)
    except SandboxUnavailable as error:
        reason, advice = error.reason, error.advice
    except SandboxError as error:
        reason, advice = str(error), "see the reason"
    return Probe(backend=backend, ok=not advice, reason=reason, advice=advice, seconds=time.monotonic() - started)


def _attack(sandbox: Sandbox, program: str) -> str:
    """Return the versions of what runs in a sandbox. Raises SandboxUnavailable where its isolation does not hold."""
    try:
        sandbox.start()

        def refuse(reason: str, advice: str = "do not use this backend here: its isolation does not hold") -> NoReturn:
            raise SandboxUnavailable(sandbox.info.backend, reason, advice)

        def succeeds(command: str) -> bool:
            return sandbox.run(command, timeout_seconds=PROBE_SECONDS).exit_code == 0

        user = sandbox.run("id -u", timeout_seconds=PROBE_SECONDS)
        if user.exit_code != 0 or user.stdout.strip() in (b"", b"0"):
            refuse(f"commands run as user {user.stdout!r} {user.stderr[:200]!r}")
        if succeeds("echo x > /usr/probe || echo x > /etc/probe"):
            refuse("a command could write outside of /workspace")
        if not succeeds(_NO_ROUTES_COMMAND):
            refuse("a command could reach the network")
        if program and not succeeds(f"command -v {program}"):
            refuse(f"no program {program} in it", _MISSING_PROGRAM_ADVICE.format(program=program))
        return "works: " + " ".join(" ".join(pair) for pair in sandbox.info.versions)
    finally:
        sandbox.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to run a tool server, and the properties that callers depend on."""

    make_launcher: Callable[[str, str, SandboxLimits], Launcher]
    """Returns a launcher for a session id, an image and limits."""
    isolates: bool = True
    """Whether commands are confined; a backend without isolation is never chosen by `auto` and needs `unsafe_local`."""
    has_images: bool = False
    format_container_name: Callable[[str], str] | None = None
    """Returns the container's name for a session id; None = sandboxes have no name, so sessions can share one in turn."""


def _make_docker_launcher(session_id: str, image: str, limits: SandboxLimits) -> Launcher:
    from harness.sandboxes.docker import DockerLauncher  # noqa: PLC0415  slow to load

    return DockerLauncher(session_id, image, limits)


BACKENDS: Final[Mapping[str, Backend]] = {
    "docker": Backend(make_launcher=_make_docker_launcher, has_images=True, format_container_name=format_container_name),
    "bubblewrap": Backend(make_launcher=lambda _session_id, _image, limits: BubblewrapLauncher(limits)),
    "local": Backend(make_launcher=lambda _session_id, _image, limits: LocalLauncher(limits), isolates=False),
}
"""Every backend by name; `auto` tries them in this order."""
BACKEND_CHOICES = ("auto", *BACKENDS)
if TYPE_CHECKING:
    BackendName: TypeAlias = str
else:
    BackendName = Literal[BACKEND_CHOICES]  # checked wherever a configuration is read or made, by the names registered above

DEFAULT_IMAGES = {"python": "python:3.12-slim", "bun": "oven/bun:latest"}
"""The docker image for each runtime that a task can ask for."""


def open_sandbox(
    backend: str = "auto",
    *,
    session_id: str,
    image: str | None = None,
    runtime: str = "python",
    limits: SandboxLimits | None = None,
    unsafe_local: bool = False,
) -> ServedSandbox:
    """A sandbox for one session, not yet started; the caller closes it.

    Its snapshots keep contents in memory; `use_blobs` before the start names another place.

    Args:
        backend: a name of `BACKENDS`, or `auto`: docker, else bubblewrap, by a live probe. To spare each worker the
            probe, call `choose_backend` once and hand its answer on.
        session_id: names the container, `coding-agent-{session_id}`.
        image: of docker, and then no other backend will do; None = the default of the runtime.
        runtime: what commands need: `python`, or `bun` (with bubblewrap the system must have it, below /usr).
        limits: None = the defaults.
        unsafe_local: must be true for `local`, which isolates nothing.

    Raises:
        SandboxUnavailable: nothing works here; says what was tried and what to install.
        UsageError: an unknown backend or runtime; `local` without the flag; an image for a backend that has none.
    """
    if runtime not in DEFAULT_IMAGES:
        raise UnknownName("runtime", runtime, DEFAULT_IMAGES)
    check_image(backend, image)
    limits = SandboxLimits() if limits is None else limits
    if backend == "auto":
        backend = choose_backend(image, runtime)
    launcher = _find_backend(backend, unsafe_local).make_launcher(session_id, image or DEFAULT_IMAGES[runtime], limits)
    return ServedSandbox(launcher, limits)


def is_isolated(backend: str) -> bool:
    """Whether commands are confined in every sandbox of a backend, or of `auto`; False for an unknown backend."""
    return backend == "auto" or (backend in BACKENDS and BACKENDS[backend].isolates)


def check_image(backend: str, image: str | None) -> None:
    """Refuse a named image where it would be passed over. Raises UsageError."""
    if image and backend in BACKENDS and not BACKENDS[backend].has_images:
        raise UsageError(f"image {image!r}: the sandbox {backend!r} has no images; leave it out, or take 'docker' or 'auto'")


def choose_backend(
    image: str | None = None, runtime: str = "python", backend: str = "auto", *, unsafe_local: bool = False
) -> str:
    """Return the first backend that works here with that image and has that runtime.

    Args:
        image: an image, which excludes backends without images; None = the default of the runtime.
        runtime: what commands need.
        backend: the only backend allowed; `auto` = every backend that isolates commands.
        unsafe_local: must be true for `local`, which is then returned without a probe.

    Raises:
        SandboxUnavailable: no backend works.
        UsageError: an image for a backend that has none; `local` without the flag.
    """
    check_image(backend, image)
    if backend != "auto" and not _find_backend(backend, unsafe_local).isolates:
        return backend
    usable = [name for name, one in BACKENDS.items() if one.isolates and (one.has_images or not image)]
    names = usable if backend == "auto" else [backend]
    failed_probes = []
    for name in names:
        result = probe_backend(name, image or DEFAULT_IMAGES[runtime], runtime)
        if result.ok:
            return name
        failed_probes.append(result)
    if len(failed_probes) == 1:
        image_advice = f"; nothing else will do for the image {image!r}" if image else ""
        raise SandboxUnavailable(failed_probes[0].backend, failed_probes[0].reason, failed_probes[0].advice + image_advice)
    reasons = "; ".join(f"{found.backend}: {found.reason}" for found in failed_probes)
    raise SandboxUnavailable("auto", reasons, "; or ".join(found.advice for found in failed_probes))


@functools.cache
def probe_backend(backend: str, image: str | None = None, runtime: str = "python") -> Probe:
    """Try a backend out for real; once in a process for each image and runtime."""
    limits = SandboxLimits()
    make_launcher = _find_backend(backend, unsafe_local=False).make_launcher

    def make_sandbox() -> Sandbox:
        return ServedSandbox(make_launcher(f"probe-{os.getpid()}", image or DEFAULT_IMAGES["python"], limits), limits)

    return run_probe(backend, make_sandbox, "" if runtime == "python" else runtime)  # the tool server itself is python


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
    """Where the commands of a trial run.

    Attributes:
        backend: `auto` = docker, else bubblewrap; `local` has no walls and needs the runner's leave. Default: `'auto'`.
        image: Docker image, and then `auto` is docker alone; None = the default of the task's runtime. Default: `None`.
        limits: Default: `SandboxLimits()`.
    """

    backend: BackendName = "auto"
    image: str | None = None
    limits: SandboxLimits = field(default_factory=SandboxLimits)

    def __post_init__(self) -> None:
        """Refuse values of another type, and an image for a backend that has none."""
        refuse_mistyped_fields(self)
        check_image(self.backend, self.image)

    def open(self, session_id: str, runtime: str, *, unsafe_local: bool = False) -> ServedSandbox:
        """Open the sandbox of a session; see `open_sandbox`."""
        return open_sandbox(
            self.backend, session_id=session_id, image=self.image, runtime=runtime, limits=self.limits, unsafe_local=unsafe_local
        )
