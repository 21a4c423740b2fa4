"""The unsafe backend needs a flag, warns, and removes its directory."""

import tempfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.sandboxes.backends import open_sandbox
from harness.sandboxes.leftovers import format_owner
from harness.sandboxes.local import DIRECTORY_PREFIX, OWNER_FILE, reap_directories
from tests.sandboxes.test_leftovers import dead_owner


def test_the_local_backend_is_refused_without_its_flag():
    with pytest.raises(UsageError, match="unsafe"):
        open_sandbox("local", session_id="x")


def test_the_local_backend_warns_that_nothing_is_isolated_and_removes_its_directory(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sandbox = open_sandbox("local", session_id="x", unsafe_local=True)
    sandbox.start()
    assert "isolates nothing" in capfd.readouterr().err
    (directory,) = tmp_path.glob(DIRECTORY_PREFIX + "*")
    assert sandbox.run("pwd").stdout == f"{directory}/workspace\n".encode()
    assert sandbox.info.isolation == ()
    sandbox.close()
    assert list(Path(tmp_path).iterdir()) == []


@pytest.mark.slow
def test_only_directories_of_dead_owners_are_reaped(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, alive, strange, other = (
        f"{DIRECTORY_PREFIX}dead",
        f"{DIRECTORY_PREFIX}alive",
        f"{DIRECTORY_PREFIX}strange",
        "other-dead",
    )
    for name, owner in ((dead, dead_owner()), (alive, format_owner()), (other, dead_owner())):
        Path(tmp_path, name).mkdir()
        Path(tmp_path, name, OWNER_FILE).write_text(owner)
    Path(tmp_path, strange).mkdir()
    assert reap_directories() == (dead,)
    assert sorted(path.name for path in tmp_path.iterdir()) == [alive, strange, other]
