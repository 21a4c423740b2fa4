"""One kept action: what a command printed and how it changed the workspace, as one self-contained value and as bytes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import zstandard

from harness.protocols import ExecResult

_DIGEST_BYTES = 32
MOST_BYTES = 512 * 2**20
"""Unpacked. More than any workspace holds, so it only stops a damaged length."""
_RESULT = ("exit_code", "stdout_bytes", "stderr_bytes", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file or directory that a command made or changed."""

    path: str
    mode: int
    content: bytes
    """Of a directory: empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """All that a later run of the same command in the same workspace needs."""

    result: ExecResult
    deleted: tuple[str, ...]
    changed: tuple[Change, ...]
    """Directories before what they hold."""
    orders: Mapping[str, tuple[str, ...]]
    """Of directories whose names or their order changed: the names, the oldest first."""
    state_id: str
    """Of the workspace afterwards; see `Mirror.state_id`."""


def packed(key: bytes, entry: Entry) -> bytes:
    """An entry as bytes that carry their own digest, bound to its key."""
    result = entry.result
    header = {
        **{name: getattr(result, name) for name in _RESULT},
        "sizes": [len(result.stdout), len(result.stderr), *(len(change.content) for change in entry.changed)],
        "deleted": entry.deleted,
        "changed": [(change.path, change.mode) for change in entry.changed],
        "orders": entry.orders,
        "state_id": entry.state_id,
    }
    head = json.dumps(header).encode()
    parts = (len(head).to_bytes(4, "big"), head, result.stdout, result.stderr, *(change.content for change in entry.changed))
    body = zstandard.ZstdCompressor(level=3).compress(b"".join(parts))
    return _digest(key, body) + body


def unpacked(key: bytes, data: bytes) -> Entry | None:
    """The entry in some bytes; None if they are not exactly what was packed under this key."""
    body = data[_DIGEST_BYTES:]
    if data[:_DIGEST_BYTES] != _digest(key, body):
        return None
    try:
        whole = zstandard.ZstdDecompressor().decompress(body, max_output_size=MOST_BYTES)
        start = 4 + int.from_bytes(whole[:4], "big")
        return _entry(json.loads(whole[4:start]), whole, start)
    except (zstandard.ZstdError, ValueError, KeyError, TypeError):  # an earlier version of this package may have packed it
        return None


def _entry(header: Mapping[str, Any], whole: bytes, start: int) -> Entry:
    contents = []
    for size in header["sizes"]:
        contents.append(whole[start : start + size])
        start += size
    stdout, stderr, *files = contents
    return Entry(
        result=ExecResult(stdout=stdout, stderr=stderr, **{name: header[name] for name in _RESULT}),
        deleted=tuple(header["deleted"]),
        changed=tuple(
            Change(path=path, mode=mode, content=content) for (path, mode), content in zip(header["changed"], files, strict=True)
        ),
        orders={directory: tuple(names) for directory, names in header["orders"].items()},
        state_id=header["state_id"],
    )


def _digest(key: bytes, body: bytes) -> bytes:
    return hashlib.sha256(key + body).digest()
