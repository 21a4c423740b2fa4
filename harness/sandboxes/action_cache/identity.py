"""What a command's outcome depends on besides the workspace: the image, the limits, the machine's own programs."""

import functools
import hashlib
import os
import stat
from pathlib import Path

from harness import codec
from harness.protocols import SandboxInfo
from harness.sandboxes.bubblewrap import find_python
from harness.sandboxes.client import ENVIRONMENT

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
