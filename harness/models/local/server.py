"""Servers of local models: started once by whoever runs sessions, shared by all its workers, gone when it goes.

Each speaks OpenAI's format on a loopback port that the system chooses, behind a key drawn for this one run, so that neither
a page in a browser nor another user of the machine can ask it.
"""

import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness.errors import ProviderFailed
from harness.models.local.catalogue import LocalWeights, is_local, look_up_weights
from harness.models.local.weights import check, verify
from harness.protocols import ignore

START_TIMEOUT_SECONDS = 300.0
"""Time that a server has to load its weights; it takes a second or two on an idle machine."""
STOP_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.2
MAX_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a local model answers."""

    address: str
    """Up to the port, e.g. `http://127.0.0.1:40123`."""
    key: str = field(repr=False)
    """Good for this server only."""


Endpoints = Mapping[str, Endpoint]
"""By the name of the model."""


@contextmanager
def serve_models(names: Iterable[str], on_poll: Callable[[], None] = ignore) -> Iterator[Endpoints]:
    """Serve the local ones among some models while the context is open; the others are left alone.

    Args:
        names: of the models.
        on_poll: is called again and again while a server loads its weights; what it raises ends that.

    Raises:
        UsageError: the package or the weights of one are not here; nothing was started.
        ProviderFailed: a server did not start.
    """
    local_weights = [look_up_weights(name) for name in sorted(set(names)) if is_local(name)]
    for weights in local_weights:
        check(weights)
    with ExitStack() as stack:
        yield {weights.name: stack.enter_context(serve_model(weights, on_poll)) for weights in local_weights}


@contextmanager
def serve_model(weights: LocalWeights, on_poll: Callable[[], None] = ignore) -> Iterator[Endpoint]:
    """Serve one model while the context is open; `on_poll` as in `serve_models`.

    Raises:
        UsageError: the package or the weights are not here, or not the pinned ones.
        ProviderFailed: the server did not start.
    """
    path, key = verify(weights), f"sk-{secrets.token_hex(16)}"
    with tempfile.TemporaryFile() as errors:
        process = _start(errors)
        try:
            _send_configuration(process, weights, path, key)
            yield Endpoint(address=_wait_for_address(process, weights, errors, on_poll), key=key)
        finally:
            _stop(process)


def _start(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("host.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},  # waiting threads that spin starve everything else
        start_new_session=True,  # Ctrl-C is for the runner, which still needs the server to end what is running
    )


def _send_configuration(process: subprocess.Popen[bytes], weights: LocalWeights, path: Path, key: str) -> None:
    """Tell a new process what to serve."""
    configuration = {
        "path": str(path),
        "alias": weights.alias,
        "key": key,
        "window_tokens": weights.window_tokens,
        "threads": min(MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1),
    }
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it ended already, which shows below
        process.stdin.write(json.dumps(configuration).encode() + b"\n")
        process.stdin.flush()


def _wait_for_address(
    process: subprocess.Popen[bytes], weights: LocalWeights, errors: IO[bytes], on_poll: Callable[[], None]
) -> str:
    """Wait until a process serves.

    Raises:
        ProviderFailed: it ended, or took too long.
    """
    assert process.stdout is not None
    ready, end = list[IO[bytes]](), time.monotonic() + START_TIMEOUT_SECONDS
    while not ready and time.monotonic() < end:
        on_poll()
        ready, _, _ = select.select([process.stdout], [], [], POLL_SECONDS)
    line = process.stdout.readline() if ready else b""
    if not line:
        raise ProviderFailed(weights.name, None, _explain_failure(process, errors, bool(ready)))
    return str(json.loads(line)["address"])


def _explain_failure(process: subprocess.Popen[bytes], errors: IO[bytes], ended: bool) -> str:
    if not ended:
        return f"its server did not start within {START_TIMEOUT_SECONDS:g} s"
    errors.seek(0)
    last = errors.read().decode(errors="replace").strip().rsplit("\n", 1)[-1]
    return f"its server ended with exit code {process.wait(STOP_TIMEOUT_SECONDS)}: {last[:300]}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
