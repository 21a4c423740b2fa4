"""Server of models as its users see it: what it serves, where it listens, and which requests it has answered."""

import socket
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from harness.models.endpoint.faults import Fault
from harness.protocols import Model

LOOPBACK = "127.0.0.1"

FindModel = Callable[[str], Model]
"""Type of a function that returns the model with a given name, or raises UnknownName or UsageError if there is none."""


class AnsweredRequest(NamedTuple):
    """Record of an answered request for an answer: its number, the HTTP status and the injected fault."""

    number: int
    """Number of the request in the order of arrival at the server, from 1; retries count as requests."""
    status: int
    fault: Fault | None


class ModelEndpoint:
    """Server that answers requests for models; `serve_endpoint` creates and closes the server."""

    def __init__(
        self,
        find: FindModel,
        names: Sequence[str],
        faults: Sequence[Fault],
        *,
        key: str | None,
        port: int,
        listening: socket.socket | None = None,
    ) -> None:
        """Bind the port of the server, unless a socket listens already; requests are answered only inside `serve_endpoint`."""
        self.find, self.names, self.faults, self.key = find, tuple(names), tuple(faults), key
        self.served: list[AnsweredRequest] = []
        """Records of the requests that the server has answered so far, in the order of the answers."""
        self.request_numbers = count(1)
        self.listening = _listen(port) if listening is None else listening
        name = self.listening.getsockname()
        self.server_address: tuple[str, int] = name if isinstance(name, tuple) else (name, 0)
        """Host and port of the server; of a Unix socket, its path and 0."""

    @property
    def address(self) -> str:
        """Address for clients of OpenAI, in the form `http://127.0.0.1:PORT/v1`; Anthropic's and Gemini's omit `/v1`."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/v1"


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(128)
    except (OSError, OverflowError):
        listening.close()
        raise
    return listening
