"""Whether a backend works here, found out by using it: a start, and attacks that must fail.

A program that is installed proves nothing (bubblewrap inside of a container, user namespaces switched off), so nothing is
believed that has not been seen.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.errors import SandboxError, SandboxUnavailable
from harness.protocols import Sandbox

PROBE_SECONDS = 20.0
_UNROUTED = "test $(wc -l < /proc/net/route) -le 1"
"""Succeeds only where the table of routes holds nothing but its heading: sending something would depend on firewalls."""
_LACKING = "put {program} into /usr/local/bin of this machine for bubblewrap, or name an image of docker that has it"


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


def probe(backend: str, make: Callable[[], Sandbox], program: str = "") -> Probe:
    """Start a sandbox, look at its user, try to write outside and to reach the network, and remove it.

    Args:
        backend: its name.
        make: an unstarted sandbox.
        program: what commands must find in it besides python; empty = nothing more.
    """
    started = time.monotonic()
    try:
        reason, advice = _attack(make(), program), ""
    except SandboxUnavailable as error:
        reason, advice = error.reason, error.advice
    except SandboxError as error:
        reason, advice = str(error), "see the reason"
    ok = not advice and reason.startswith("works")
    if not ok and not advice:
        advice = "do not use this backend here: its isolation does not hold"
    return Probe(backend=backend, ok=ok, reason=reason, advice=advice, seconds=time.monotonic() - started)


def _attack(sandbox: Sandbox, program: str) -> str:
    try:
        sandbox.start()
        user = sandbox.run("id -u", timeout_seconds=PROBE_SECONDS)
        if user.exit_code != 0 or user.stdout.strip() in (b"", b"0"):
            return f"commands run as user {user.stdout!r} {user.stderr[:200]!r}"
        if sandbox.run("echo x > /usr/probe || echo x > /etc/probe", timeout_seconds=PROBE_SECONDS).exit_code == 0:
            return "a command could write outside of /workspace"
        if sandbox.run(_UNROUTED, timeout_seconds=PROBE_SECONDS).exit_code != 0:
            return "a command could reach the network"
        if program and sandbox.run(f"command -v {program}", timeout_seconds=PROBE_SECONDS).exit_code != 0:
            raise SandboxUnavailable(sandbox.info.backend, f"no program {program} in it", _LACKING.format(program=program))
        versions = " ".join(" ".join(pair) for pair in sandbox.info.versions)
        return f"works: {versions}"
    finally:
        sandbox.close()
