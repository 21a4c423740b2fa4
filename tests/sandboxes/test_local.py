"""The unsafe backend asks twice, warns, and cleans up."""

import tempfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.sandboxes.backends import open_sandbox
from harness.sandboxes.local import DIRECTORY_PREFIX


def test_without_the_flag_it_is_refused():
    with pytest.raises(UsageError, match="unsafe"):
        open_sandbox("local", session_id="x")


def test_with_the_flag_it_warns_isolates_nothing_and_removes_its_directory(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sandbox = open_sandbox("local", session_id="x", unsafe_local=True)
    sandbox.start()
    assert "NO sandbox" in capfd.readouterr().err
    (directory,) = tmp_path.glob(DIRECTORY_PREFIX + "*")
    assert sandbox.run("pwd").stdout == f"{directory}/workspace\n".encode()
    assert sandbox.info.isolation == ()
    sandbox.close()
    assert list(Path(tmp_path).iterdir()) == []
