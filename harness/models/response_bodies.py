"""Limits on the memory that a provider's HTTP response may occupy.

Without these limits, litellm and the providers' packages read the whole body of an error response, and httpx expands a few
megabytes to gigabytes before they can be counted.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

MAX_ERROR_BYTES = 2**16
"""Maximum number of bytes that are read from an error response, after decompression; the rest is dropped.

Real errors are much shorter. litellm searches the text of an error with many patterns, which takes 4 s of CPU time per megabyte.
"""
PIECE_BYTES = 2**16
"""Maximum number of bytes that are decompressed at a time."""
FIRST_ERROR_STATUS = 400
GZIP_FORMAT = zlib.MAX_WBITS | 16
"""Argument that makes zlib expect the gzip format, the only encoding that requests accept."""


class _Body:
    """Stream of the bytes of a response, decompressed if needed, with an optional maximum length.

    Args:
        source: Stream of the bytes as they were sent.
        refuse: Function that returns the error of a body that cannot be decompressed.
        is_compressed: Whether the bytes are in the gzip format.
        max_bytes: Maximum length of the body of an error; the rest, and what is damaged, is dropped. None for an answer.
    """

    def __init__(self, source: Any, refuse: Callable[[str], Exception], *, is_compressed: bool, max_bytes: int | None) -> None:
        self._source, self._refuse, self._is_compressed, self._max_bytes = source, refuse, is_compressed, max_bytes

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._decompress() if self._is_compressed else iter(self._source)
        return pieces if self._max_bytes is None else _cut(pieces, self._max_bytes)

    def _decompress(self) -> Iterator[bytes]:
        try:
            yield from _decompress(self._source)
        except (zlib.error, EOFError) as error:
            if self._max_bytes is None:
                raise self._refuse(f"the answer cannot be decompressed: {error}") from None

    def close(self) -> None:
        self._source.close()


def limit_response_bodies(httpx: Any) -> None:
    """Change the package httpx, for this process, so that it limits the memory that responses occupy.

    The body of an error response is read up to `MAX_ERROR_BYTES`. Compressed bodies are decompressed piece by piece. Requests
    accept only gzip. A successful response in another encoding is refused; the body of an error in another encoding is dropped.
    """
    send = httpx.HTTPTransport.handle_request
    if getattr(send, "limits_bodies", False):
        return
    body_class = type("_BodyStream", (_Body, httpx.SyncByteStream), {})

    def send_and_limit(transport: Any, request: Any) -> Any:
        refuse = partial(httpx.DecodingError, request=request)
        request.headers["accept-encoding"] = "gzip"
        response = send(transport, request)
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        is_error = response.status_code >= FIRST_ERROR_STATUS
        is_known = encoding in ("identity", "gzip", "")
        if not is_known and not is_error:
            response.stream.close()
            raise refuse(f"the answer is encoded as {encoding[:40]!r}, which was not requested")
        max_bytes = (MAX_ERROR_BYTES if is_known else 0) if is_error else None
        response.stream = body_class(response.stream, refuse, is_compressed=encoding == "gzip", max_bytes=max_bytes)
        return response

    send_and_limit.limits_bodies = True  # type: ignore[attr-defined]
    httpx.HTTPTransport.handle_request = send_and_limit


def _decompress(pieces: Iterable[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(GZIP_FORMAT)
    for piece in pieces:
        rest = piece
        while rest:
            yield decoder.decompress(rest, PIECE_BYTES)
            if decoder.eof:
                return
            rest = decoder.unconsumed_tail
    raise EOFError("it ends early")


def _cut(pieces: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    left_bytes = max_bytes
    for piece in pieces if max_bytes else ():
        yield piece[:left_bytes]
        left_bytes -= len(piece)
        if left_bytes <= 0:
            return
