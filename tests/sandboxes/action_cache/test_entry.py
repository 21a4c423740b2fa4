"""The key of a cached command changes with the programs of the machine."""

import os
from pathlib import Path

import pytest

from harness.sandboxes.action_cache import entry


def describe_machine():
    return entry.describe_machine.__wrapped__()


@pytest.fixture
def local_programs(monkeypatch, tmp_path):
    monkeypatch.setattr(entry, "_LOCAL_PROGRAMS", tmp_path)
    return tmp_path


@pytest.fixture
def python_library(monkeypatch, tmp_path):
    """Return the library of a Python outside /usr, which is mounted in each sandbox."""
    monkeypatch.setattr(entry, "find_python", lambda: str(tmp_path / "bin" / "python3.12"))
    library = tmp_path / "lib" / "python3.12"
    (library / "site-packages").mkdir(parents=True)
    return library


def test_a_machine_is_the_same_as_long_as_nothing_is_installed():
    assert describe_machine() == describe_machine()


def test_a_program_that_was_copied_over_another_is_noticed(local_programs):
    program = local_programs / "tool"
    program.write_text("echo 1")
    before, folder = describe_machine(), local_programs.stat()
    program.write_text("echo 22")
    assert local_programs.stat().st_mtime_ns == folder.st_mtime_ns
    assert describe_machine() != before


def test_a_package_of_a_python_outside_usr_is_noticed(python_library):
    before = describe_machine()
    os.utime(python_library / "site-packages", ns=(1, 1))
    assert describe_machine() != before


@pytest.mark.skipif(not Path("/etc/alternatives").is_dir(), reason="only Debian has alternatives")
def test_the_alternatives_of_programs_are_part_of_a_machine():
    assert any(text.startswith("/etc/alternatives ") for text in describe_machine())
