"""Entries of the action cache: the output and file changes of a command, their conversion to bytes, and their keys."""

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

from harness.conversation import codec
from harness.protocols import ExecResult, SandboxInfo
from harness.sandboxes.bubblewrap import find_python
from harness.sandboxes.client import ENVIRONMENT

_DIGEST_BYTES = 32
MAX_UNPACKED_BYTES = 512 * 2**20
"""Maximum size in bytes of an unpacked cache entry; it exceeds the size of any workspace, so only damaged entries are larger."""
_RESULT_FIELDS = ("exit_code", "stdout_bytes", "stderr_bytes", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPath:
    """A file or directory that a command created or changed."""

    path: str
    mode: int
    content: bytes
    """Content of the changed file; empty for a directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """Output and file changes of a command, which repeat its effect in an equal workspace without running it."""

    result: ExecResult
    deleted_paths: tuple[str, ...]
    changed_paths: tuple[ChangedPath, ...]
    """Files and directories that the command created or changed, each directory before its contents."""
    name_orders: Mapping[str, tuple[str, ...]]
    """Names in a directory in order of creation, by path of the directory.

    Only directories are included whose names, or the order of these, were changed by the command.
    """
    state_id: str
    """Hash that identifies the exact state of the workspace after the command, as computed by `Mirror.state_id`."""


def pack_entry(key: bytes, entry: CacheEntry) -> bytes:
    """Return a cache entry as compressed bytes, preceded by a digest over the bytes and the key."""
    result = entry.result
    header = {
        **{name: getattr(result, name) for name in _RESULT_FIELDS},
        "sizes": [len(result.stdout), len(result.stderr), *(len(change.content) for change in entry.changed_paths)],
        "deleted": entry.deleted_paths,
        "changed": [(change.path, change.mode) for change in entry.changed_paths],
        "orders": entry.name_orders,
        "state_id": entry.state_id,
    }
    head = json.dumps(header).encode()
    contents = [change.content for change in entry.changed_paths]
    parts = [len(head).to_bytes(4, "big"), head, result.stdout, result.stderr, *contents]
    return pack_bytes(key, b"".join(parts))


def unpack_entry(key: bytes, data: bytes) -> CacheEntry | None:
    """Return the cache entry that `pack_entry` packed; None if the bytes are damaged or have another key."""
    whole = unpack_bytes(key, data)
    if whole is None:
        return None
    try:
        start = 4 + int.from_bytes(whole[:4], "big")
        return _parse_entry(json.loads(whole[4:start]), whole, start)
    except (ValueError, KeyError, TypeError):  # packed by another version of this package
        return None


def pack_bytes(key: bytes, content: bytes) -> bytes:
    """Return the bytes to store as a cache entry: the compressed content, preceded by a digest.

    The digest is computed from the key and the compressed content.
    """
    body = zstandard.ZstdCompressor(level=3).compress(content)
    return _compute_digest(key, body) + body


def unpack_bytes(key: bytes, data: bytes) -> bytes | None:
    """Return the content that `pack_bytes` packed; None if the bytes are damaged or have another key."""
    body = data[_DIGEST_BYTES:]
    if data[:_DIGEST_BYTES] != _compute_digest(key, body):
        return None
    try:
        if not 0 <= zstandard.frame_content_size(body) <= MAX_UNPACKED_BYTES:
            return None
        return zstandard.ZstdDecompressor().decompress(body)
    except zstandard.ZstdError:
        return None


def _parse_entry(header: Mapping[str, Any], whole: bytes, start: int) -> CacheEntry:
    contents = []
    for size in header["sizes"]:
        contents.append(whole[start : start + size])
        start += size
    stdout, stderr, *files = contents
    changes = zip(header["changed"], files, strict=True)
    return CacheEntry(
        result=ExecResult(stdout=stdout, stderr=stderr, **{name: header[name] for name in _RESULT_FIELDS}),
        deleted_paths=tuple(header["deleted"]),
        changed_paths=tuple(ChangedPath(path=path, mode=mode, content=content) for (path, mode), content in changes),
        name_orders={directory: tuple(names) for directory, names in header["orders"].items()},
        state_id=header["state_id"],
    )


def _compute_digest(key: bytes, body: bytes) -> bytes:
    return hashlib.sha256(key + body).digest()


KEY_VERSION = "3"
"""Version of cache keys. Increment it when a change of the tool server can alter results of commands, to ignore old entries."""
_PROGRAM_FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin", "/usr/local/lib", "/etc/alternatives")
_LOCAL_PROGRAMS = Path("/usr/local/bin")
"""Folder with programs that are often updated by copying over them, which does not change the folder."""
MAX_LOCAL_PROGRAMS = 1_000
"""Maximum number of local programs that identify a machine; of further programs, only the names count."""
_RELEASE_FILE = Path("/etc/os-release")


def compute_environment_id(info: SandboxInfo) -> bytes:
    """Return a digest of the environment that can affect a command's result, such as image, kernel and limits."""
    parts = {
        "version": KEY_VERSION,
        "info": codec.to_plain(info),
        "environment": ENVIRONMENT,
        "kernel": [os.uname().release, os.uname().machine],
        "machine": describe_machine() if info.image is None else (),
    }
    return hashlib.sha256(codec.to_canonical_json(parts, dict).encode()).digest()


@functools.cache
def describe_machine() -> tuple[str, ...]:
    """Return texts that identify this machine's programs; they change when a program is installed or updated."""
    signatures = [_RELEASE_FILE.read_text(errors="replace") if _RELEASE_FILE.is_file() else ""]
    paths = (*_PROGRAM_FOLDERS, "/var/lib/dpkg/status", find_python(), *_list_python_folders(), *_list_local_programs())
    for path in dict.fromkeys(paths):
        try:
            status = Path(path).stat()
        except OSError:
            continue
        size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
        signatures.append(f"{path} {status.st_ino} {status.st_mtime_ns} {size}")
    return tuple(signatures)


def _list_python_folders() -> list[str]:
    places = [Path("/usr/lib"), Path("/usr/local/lib"), Path(find_python()).parent.parent / "lib"]
    folders = [folder for place in places if place.is_dir() for folder in sorted(place.glob("python3*"))]
    return [str(path) for folder in folders for path in (folder, folder / "dist-packages", folder / "site-packages")]


def _list_local_programs() -> list[str]:
    return [str(path) for path in sorted(_LOCAL_PROGRAMS.glob("*"))[:MAX_LOCAL_PROGRAMS]]


def compute_action_key(environment: bytes, state_id: str, command: str, timeout_seconds: float) -> bytes:
    """Return the cache key of a command, a SHA-256 over everything that determines the command's result."""
    digest = hashlib.sha256(environment)
    digest.update(f"{state_id} {timeout_seconds!r} ".encode() + command.encode("utf-8", "surrogatepass"))
    return digest.digest()
