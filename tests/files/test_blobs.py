"""The store of file contents in memory and on disk, and the memory that rewriting a large file takes in a real sandbox."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import SandboxError
from harness.files.blobs import MAX_MEMORY_BYTES, TemporaryBlobStore

_REWRITE = """
import resource, sys
from contextlib import closing
from pathlib import Path
from harness.sandboxes.backends import open_sandbox
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces

def measure():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

stores = {"none": lambda: None, "memory": MemoryWorkspaces, "journal": lambda: JournalWorkspaces(Path("journal.sqlite"))}
kept = stores[sys.argv[1]]()
with closing(open_sandbox("bubblewrap", session_id="blobs")) as sandbox:
    if kept is not None:
        sandbox.use_blobs(kept)
    sandbox.start()
    peaks = []
    for _ in range(6):
        assert sandbox.run("head -c 60000000 /dev/urandom > large").exit_code == 0
        sandbox.snapshot()
        peaks.append(measure())
print(peaks[-1] - peaks[0])
"""


def store(blobs: TemporaryBlobStore, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    blobs.put(sha256, content)
    return sha256


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
def test_contents_come_back_from_memory_and_from_the_disk():
    blobs = TemporaryBlobStore()
    contents = [os.urandom(1_000), os.urandom(MAX_MEMORY_BYTES), b"", os.urandom(MAX_MEMORY_BYTES - 5), b"last"]
    names = [store(blobs, content) for content in contents * 2]
    assert [blobs.get(name) for name in names] == contents * 2


def test_an_unknown_content_is_an_error():
    with pytest.raises(SandboxError, match="no file content with hash"):
        TemporaryBlobStore().get("0" * 64)


def test_the_temporary_file_has_no_name_and_is_closed_with_the_store(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = count_descriptors()
    blobs = TemporaryBlobStore()
    store(blobs, bytes(MAX_MEMORY_BYTES + 1))
    assert count_descriptors() == before + 1
    assert list(tmp_path.iterdir()) == []
    del blobs
    assert count_descriptors() == before


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("kept", ["none", "memory", "journal"])
def test_rewriting_a_large_file_does_not_fill_the_memory_of_the_host(tmp_path, kept):
    done = subprocess.run(
        [sys.executable, "-c", _REWRITE, kept], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150 * 10**6
