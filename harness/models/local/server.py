"""Servers of local models: started once for each run and shared by all its workers.

Each server has an OpenAI-compatible API on a free loopback port. A random key keeps out web pages in a browser and other users of
the machine.
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
"""Maximum time in seconds for loading the weights of a model; on an idle machine, loading takes one or two seconds."""
STOP_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.2
MAX_THREADS = 8
MAX_LINE_BYTES = 100_000
"""Maximum length of a line that is read from the server, and of the end of its log that is searched for a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address and key of the server of a running local model."""

    address: str
    """Address of the server without a path, e.g. `http://127.0.0.1:40123`."""
    key: str = field(repr=False)
    """Random key that requests to this server must have."""


Endpoints = Mapping[str, Endpoint]
"""Addresses and keys of the servers of running local models, by model name."""


@contextmanager
def serve_models(names: Iterable[str], on_poll: Callable[[], None] = ignore) -> Iterator[Endpoints]:
    """Run a server for each local model while the context is open, and yield the servers' addresses.

    Args:
        names: Names of models; names of models that are not local are ignored.
        on_poll: Function that is called repeatedly while a server loads its weights; an error that it raises ends the start.

    Raises:
        UsageError: The package or the weights of a model are missing; no server was started.
        ProviderFailed: A server did not start.
    """
    local_weights = [look_up_weights(name) for name in sorted(set(names)) if is_local(name)]
    for weights in local_weights:
        check(weights)
    with ExitStack() as stack:
        yield {weights.name: stack.enter_context(serve_model(weights, on_poll)) for weights in local_weights}


@contextmanager
def serve_model(
    weights: LocalWeights, on_poll: Callable[[], None] = ignore, *, slots: int = 1, threads: int | None = None
) -> Iterator[Endpoint]:
    """Run a server for one local model while the context is open, and yield the server's address.

    Args:
        weights: Catalogue entry of the model.
        on_poll: Function that is called repeatedly while the server loads the weights of the model.
        slots: Number of requests that the server answers at the same time, each with the full window of the model in memory. Only
            with one slot do equal requests always get equal answers.
        threads: Number of threads that compute; None means one for each core, at most `MAX_THREADS`. On a busy machine one thread
            is much faster, because each step of the computation waits for the slowest thread.

    Raises:
        UsageError: The package or the weights are missing, or the digest of the weights is wrong.
        ProviderFailed: The server did not start.
    """
    path, key = verify(weights), f"sk-{secrets.token_hex(16)}"
    with tempfile.TemporaryFile() as errors:
        process = _start(errors)
        try:
            _send_configuration(process, weights, path, key, slots, threads or count_threads())
            yield Endpoint(address=_wait_for_address(process, weights, errors, on_poll), key=key)
        finally:
            _stop(process)


def _start(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("host.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},  # waiting threads would otherwise use all cores
        start_new_session=True,  # Ctrl-C must not reach the server, which running sessions still need
    )


def count_threads() -> int:
    """Return the number of cores that this process may use, at most `MAX_THREADS`."""
    return min(MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _send_configuration(
    process: subprocess.Popen[bytes], weights: LocalWeights, path: Path, key: str, slots: int, threads: int
) -> None:
    configuration = {
        "path": str(path),
        "alias": weights.alias,
        "key": key,
        "window_tokens": weights.window_tokens,
        "slots": slots,
        "threads": threads,
    }
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # the process ended already; reported when waiting for the address
        process.stdin.write(json.dumps(configuration).encode() + b"\n")
        process.stdin.flush()


def _wait_for_address(
    process: subprocess.Popen[bytes], weights: LocalWeights, errors: IO[bytes], on_poll: Callable[[], None]
) -> str:
    """Wait until the new process serves the model, and return the address of its server.

    Raises:
        ProviderFailed: The process ended or took too long.
    """
    assert process.stdout is not None
    ready, end = list[IO[bytes]](), time.monotonic() + START_TIMEOUT_SECONDS
    while not ready and time.monotonic() < end:
        on_poll()
        ready, _, _ = select.select([process.stdout], [], [], POLL_SECONDS)
    line = process.stdout.readline(MAX_LINE_BYTES) if ready else b""
    if not line:
        raise ProviderFailed(weights.name, None, _explain_failure(process, errors, bool(ready)))
    return str(json.loads(line)["address"])


def _explain_failure(process: subprocess.Popen[bytes], errors: IO[bytes], has_ended: bool) -> str:
    if not has_ended:
        return f"its server did not start within {START_TIMEOUT_SECONDS:g} s"
    errors.seek(-min(errors.seek(0, os.SEEK_END), MAX_LINE_BYTES), os.SEEK_END)
    last = errors.read(MAX_LINE_BYTES).decode(errors="replace").strip().rsplit("\n", 1)[-1]
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
