"""One kept action: what a command printed and how it changed the workspace, as one self-contained value and as bytes."""

import functools
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from harness import codec
from harness.protocols import ExecResult, SandboxInfo
from harness.sandboxes.bubblewrap import find_python
from harness.sandboxes.client import ENVIRONMENT

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


VERSION = "1"
"""Of the meaning of a key; a change of the tool server that commands can notice takes the next one."""
CACHEABLE = frozenset({"docker", "bubblewrap"})
"""Backends in which nothing but the workspace and known places can be written."""
_PROGRAMS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin", "/usr/local/lib", "/var/lib/dpkg/status")
_RELEASE = Path("/etc/os-release")


def environment_id(info: SandboxInfo) -> bytes:
    """Digest of what surrounds every command of such a sandbox."""
    own = machine() if info.backend == "bubblewrap" else ()
    parts = {
        "version": VERSION,
        "info": codec.to_plain(info),
        "environment": ENVIRONMENT,
        "kernel": [os.uname().release, os.uname().machine],
        "machine": own,
    }
    return hashlib.sha256(codec.canonical_json(parts, dict).encode()).digest()


@functools.cache
def machine() -> tuple[str, ...]:
    """Signs of the programs of this machine, which bubblewrap shows to commands: installing one changes them."""
    found = [_RELEASE.read_text(errors="replace") if _RELEASE.is_file() else ""]
    for path in (*_PROGRAMS, find_python(), *_python_folders()):
        try:
            status = Path(path).stat()
        except OSError:
            continue
        size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
        found.append(f"{path} {status.st_ino} {status.st_mtime_ns} {size}")
    return tuple(found)


def _python_folders() -> list[str]:
    places = [Path(place) for place in ("/usr/lib", "/usr/local/lib")]
    folders = [folder for place in places if place.is_dir() for folder in sorted(place.glob("python3*"))]
    return [str(path) for folder in folders for path in (folder, folder / "dist-packages", folder / "site-packages")]


def action_key(environment: bytes, state_id: str, command: str, timeout_seconds: float) -> bytes:
    """The key of an action: SHA-256 over all that decides its outcome."""
    digest = hashlib.sha256(environment)
    digest.update(f"{state_id} {timeout_seconds!r} ".encode() + command.encode("utf-8", "surrogatepass"))
    return digest.digest()
