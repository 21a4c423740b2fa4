"""Process of the gateway's proxy: its start, its end, and what it says if it cannot start."""

import json
import os
import re
import secrets
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeAlias

from harness.errors import GatewayFailed, UsageError
from harness.gateway.channel import Answer, serve_channel
from harness.gateway.environment import find_interpreter
from harness.gateway.proxy_hook import GEMINI_MODELS

Report: TypeAlias = Callable[[str], None]
"""Function that takes a line for a person."""
HOOK = Path(__file__).parent / "proxy_hook.py"
LOOPBACK = "127.0.0.1"
START_SECONDS = 300.0
"""Time in seconds that the proxy may take to start; it imports for ten, and compiles Python files first on a cold machine."""
WAIT_SECONDS = 15.0
"""Time in seconds between two reports that the proxy is still starting."""
END_SECONDS = 20.0
PASSED_VARIABLES = (
    "HOME",
    "LANG",
    "PATH",
    "TMPDIR",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
"""Environment variables that the proxy's process gets; keys of providers are not among them, since agents send their own."""


class Proxy:
    """Running proxy."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self._process, self.port = process, port

    @property
    def address(self) -> str:
        """Address that agents of OpenAI use as their base URL; those of Anthropic and Gemini omit `/v1`."""
        return f"http://{LOOPBACK}:{self.port}/v1"

    @property
    def process_id(self) -> int:
        """Id of the proxy's process."""
        return self._process.pid

    def check(self) -> None:
        """Do nothing while the proxy runs.

        Raises:
            GatewayFailed: The proxy ended.
        """
        if (code := self._process.poll()) is not None:
            raise GatewayFailed(f"the proxy of the gateway ended with exit code {code}; start the gateway again")


def describe_upstream(upstream: str, api_base: str = "") -> list[dict[str, Any]]:
    """Return litellm's list of models for an upstream.

    Args:
        upstream: Base URL of a server with the API of OpenAI, such as `http://127.0.0.1:8000/v1`, or the name of a model as
            litellm spells it, such as `anthropic/claude-sonnet-4-5`, which answers whatever model the agent names. With `*` in
            place of the model, such as `anthropic/*`, the model that the agent names answers.
        api_base: Address of the server that has the model, in the API of the model's provider. Empty is the provider's own one.
            Default: `''`.

    Raises:
        UsageError: A text is empty, has a scheme other than HTTP, or names a second address.
    """
    is_address = "://" in upstream
    if not upstream.strip() or (is_address and not _is_http_url(upstream)):
        raise UsageError(f"upstream: must be an http URL or the name of a model (got {upstream!r:.200})")
    if is_address and api_base:
        raise UsageError(f"api_base: the upstream {upstream!r:.200} is an address itself; name a model such as 'anthropic/*'")
    if api_base and not _is_http_url(api_base):
        raise UsageError(f"api_base: must be an http URL (got {api_base!r:.200})")
    if not is_address and "/" not in upstream and (api_base or "*" in upstream):
        raise UsageError(f"upstream: must begin with the name of a provider, as in 'anthropic/*' (got {upstream!r:.200})")
    if is_address:
        rows = {
            "*": {"model": "openai/*", "api_base": upstream.rstrip("/")},
            f"{GEMINI_MODELS}/*": {"model": "gemini/*", "api_base": locate_gemini(upstream)},
        }
    else:
        address = api_base.rstrip("/")
        if upstream.startswith("anthropic/"):  # litellm adds the path /v1/messages
            address = address.removesuffix("/v1")
        rows = {"*": {"model": upstream} | ({"api_base": address} if address else {})}
    fixed = {"api_key": "no-key-given", "max_retries": 0}
    return [{"model_name": name, "litellm_params": {**parameters, **fixed}} for name, parameters in rows.items()]


def _is_http_url(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    return scheme in {"http", "https"} and bool(rest)


def locate_gemini(upstream: str) -> str:
    """Return the base URL of Gemini's API on the server of an upstream, which serves it under `/v1beta` instead of `/v1`."""
    return re.sub(r"(/v1|/v1beta|/v1beta/openai)?/*$", "/v1beta", upstream, count=1)


@contextmanager
def serve_proxy(
    upstream: str,
    answer: Answer,
    *,
    api_base: str = "",
    port: int = 0,
    is_hooked: bool = True,
    report: Report = lambda _: None,
) -> Iterator[Proxy]:
    """Run the proxy while the context is open.

    Args:
        upstream: Base URL or model, as for `describe_upstream`.
        answer: Function that answers the hook's questions.
        api_base: Address of the server that has the model, as for `describe_upstream`.
        port: Port on loopback; 0 chooses a free one.
        is_hooked: Whether the hook is used; False serves litellm's proxy as it is, for comparisons.
        report: Function that is called with a line while the proxy takes long to start. Default: none.

    Raises:
        UsageError: The proxy is not installed, the port cannot be used, or the upstream is invalid.
        GatewayFailed: The proxy does not start.
    """
    models, interpreter = describe_upstream(upstream, api_base), find_interpreter()
    with TemporaryDirectory(prefix="harness-gateway-") as name, _listen(port) as listening:
        folder = Path(name)
        settings = {
            "folder": name,
            "address": str(folder / "hook"),
            "models": models,
            "upstream": upstream,
            "api_base": api_base,
            "master_key": f"sk-{secrets.token_hex(24)}",
            "listening": listening.fileno(),
            "hooked": is_hooked,
        }
        with serve_channel(folder / "hook", answer), _start(interpreter, folder, settings, listening, report) as process:
            yield Proxy(process, listening.getsockname()[1])


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listening.close()
        advice = "choose another port, or 0 for a free one, and give the printed address to the agent"
        raise UsageError(f"port {port} cannot be used: {error}; {advice}") from None
    listening.listen(128)
    return listening


def _wait_for_output(stream: IO[bytes], report: Report) -> bool:
    """Return whether a process has written or ended within the time that the proxy may take to start."""
    begun_seconds = time.monotonic()
    while (waited_seconds := time.monotonic() - begun_seconds) < START_SECONDS:
        ready, _, _ = select.select([stream], [], [], min(WAIT_SECONDS, START_SECONDS - waited_seconds))
        if ready:
            return True
        report(f"the proxy has been starting for {time.monotonic() - begun_seconds:.0f} s; it may take {START_SECONDS:g} s")
    return False


@contextmanager
def _start(
    interpreter: Path, folder: Path, settings: Mapping[str, Any], listening: socket.socket, report: Report
) -> Iterator["subprocess.Popen[bytes]"]:
    variables = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    variables |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR", "NO_DOCS": "True"}
    errors = folder / "errors"
    with errors.open("wb") as error_file:
        process = subprocess.Popen(
            [str(interpreter), str(HOOK)],
            cwd=folder, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error_file,
            pass_fds=(listening.fileno(),), start_new_session=True,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
        if not _wait_for_output(process.stdout, report) or process.stdout.readline() != b"ready\n":
            process.kill()
            lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
            raise GatewayFailed(f"the proxy of the gateway did not start within {START_SECONDS:g} s: {' / '.join(lines)}")
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
