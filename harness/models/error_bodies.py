"""Limit on the length of error responses from providers, so that a server with an endless response cannot fill the memory.

Without the limit, litellm and the providers' packages read the whole body of an error response before harness gets it.
"""

from collections.abc import Iterator
from typing import Any

MAX_ERROR_BYTES = 2**20
"""Maximum number of bytes that are read of the body of an error response; the rest is dropped."""
MAX_COMPRESSED_BYTES = 2**16
"""Maximum number of bytes that are read of a compressed body of an error response, before decompression."""
FIRST_ERROR_STATUS = 400
ENCODING_LIMITS = {"identity": MAX_ERROR_BYTES, "gzip": MAX_COMPRESSED_BYTES, "deflate": MAX_COMPRESSED_BYTES}
"""Maximum number of bytes to read from a body, by its encoding. In other encodings, a few bytes can expand without limit."""


class _CutBytes:
    """Stream of the bytes of a response that ends after a maximum number of bytes."""

    def __init__(self, source: Any, max_bytes: int) -> None:
        self._source, self._left_bytes = source, max_bytes

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._source if self._left_bytes else ():
            yield piece[: self._left_bytes]
            self._left_bytes -= len(piece)
            if self._left_bytes <= 0:
                return

    def close(self) -> None:
        """Close the connection to the provider."""
        self._source.close()


def limit_error_bodies(httpx: Any) -> None:
    """Make the package httpx, in this process, read the bodies of error responses only up to a limit and drop the rest.

    The response keeps its status. A body with an encoding that is not in `ENCODING_LIMITS` is dropped as a whole.
    """
    send = httpx.HTTPTransport.handle_request
    if getattr(send, "limits_error_bodies", False):
        return
    cut_class = type("_CutStream", (_CutBytes, httpx.SyncByteStream), {})

    def send_and_limit(transport: Any, request: Any) -> Any:
        response = send(transport, request)
        if response.status_code >= FIRST_ERROR_STATUS:
            encoding = response.headers.get("content-encoding", "identity").strip().lower()
            response.stream = cut_class(response.stream, ENCODING_LIMITS.get(encoding, 0))
            if encoding not in ENCODING_LIMITS:
                del response.headers["content-encoding"]
        return response

    send_and_limit.limits_error_bodies = True  # type: ignore[attr-defined]
    httpx.HTTPTransport.handle_request = send_and_limit
