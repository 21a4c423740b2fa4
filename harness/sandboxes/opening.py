"""Choosing a backend: docker if it works, else bubblewrap, never none; decided by live probes, once in a process."""

import functools
import os

from harness.errors import SandboxUnavailable, UnknownName
from harness.protocols import Sandbox, SandboxLimits
from harness.sandboxes.bubblewrap import Bubblewrap
from harness.sandboxes.client import Launcher, ServedSandbox
from harness.sandboxes.docker.launcher import Docker
from harness.sandboxes.leftovers import reap_directories
from harness.sandboxes.local import PREFIX, Local
from harness.sandboxes.probe import Probe, probe

BACKENDS = ("docker", "bubblewrap", "local")
IMAGES = {"python": "python:3.12-slim", "bun": "oven/bun:latest"}
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

    Its snapshots keep contents in memory; `keep_in` before the start names another place.

    Args:
        backend: `docker`, `bubblewrap`, `local`, or `auto`: docker, else bubblewrap, by a live probe. To spare each worker the
            probe, call `choose_backend` once and hand its answer on.
        session_id: names the container, `coding-agent-{session_id}`.
        image: of docker; None = the default of the runtime.
        runtime: what commands need: `python`, or `bun` (with bubblewrap the system must have it, below /usr).
        limits: None = the defaults.
        unsafe_local: must be true for `local`, which isolates nothing.

    Raises:
        SandboxUnavailable: nothing works here; says what was tried and what to install.
        UsageError: an unknown backend or runtime; `local` without the flag.
    """
    if runtime not in IMAGES:
        raise UnknownName("runtime", runtime, IMAGES)
    limits = SandboxLimits() if limits is None else limits
    image = image or IMAGES[runtime]
    if backend == "auto":
        backend = choose_backend(image, runtime)
    return ServedSandbox(_launcher(backend, session_id, image, limits, unsafe_local), limits)


def choose_backend(image: str, runtime: str = "python", backend: str = "auto") -> str:
    """The best backend that works here with that docker image and has that runtime.

    Args:
        image: of docker.
        runtime: what commands need.
        backend: `docker` or `bubblewrap` allows no other one.

    Raises:
        SandboxUnavailable: none does; unsafe `local` is never chosen.
    """
    seen = []
    for name in ("docker", "bubblewrap") if backend == "auto" else (backend,):
        found = probe_backend(name, image, runtime)
        if found.ok:
            return name
        seen.append(found)
    if backend != "auto":
        raise SandboxUnavailable(backend, seen[0].reason, seen[0].advice)
    reasons = "; ".join(f"{found.backend}: {found.reason}" for found in seen)
    raise SandboxUnavailable("auto", reasons, "; or ".join(found.advice for found in seen))


@functools.cache
def probe_backend(backend: str, image: str | None = None, runtime: str = "python") -> Probe:
    """Try a backend out for real; once in a process for each image and runtime."""
    limits = SandboxLimits()

    def make() -> Sandbox:
        return ServedSandbox(_launcher(backend, f"probe-{os.getpid()}", image or IMAGES["python"], limits, False), limits)

    return probe(backend, make, "" if runtime == "python" else runtime)  # the tool server itself is python


def _launcher(backend: str, session_id: str, image: str, limits: SandboxLimits, unsafe_local: bool) -> Launcher:
    match backend:
        case "docker":
            return Docker(session_id, image, limits)
        case "bubblewrap":
            return Bubblewrap(limits)
        case "local":
            launcher = Local(limits, unsafe=unsafe_local)
            reap_directories(PREFIX)
            return launcher
        case _:
            raise UnknownName("sandbox backend", backend, (*BACKENDS, "auto"))
