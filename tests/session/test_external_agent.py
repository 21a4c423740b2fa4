"""Descriptions of external agents: the command for the shell, and the folders that the sandbox may show."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.sandboxes.bubblewrap import BoundFolder
from harness.session import external_agent
from harness.session.external_agent import ExternalAgent, describe_software


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(dir="/var/tmp") as name:  # sandboxes have a /tmp of their own
        yield Path(name)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60))
def test_any_prompt_arrives_as_one_argument(prompt: str) -> None:
    command = ExternalAgent(command="printf '%s|' \"a $((1 + 1))\" {prompt} '{other}'").render(prompt)
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)
    assert ran.stdout.decode() == f"a 2|{prompt}|{{other}}|"


def test_a_path_in_the_home_folder_is_written_out_in_the_command_and_not_in_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/agent")
    agent = ExternalAgent(command="A=1 ~/venv/bin/x ~/venv2 -c ~/.x {prompt} '~/venv/y'", paths=("~/venv",))
    assert agent.render("in ~/venv/bin") == "A=1 /home/agent/venv/bin/x ~/venv2 -c ~/.x 'in ~/venv/bin' '/home/agent/venv/y'"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": "mini -t task"}, r"command: must contain \{prompt\}"),
        ({"command": "mini {prompt}\0"}, "command: must contain no NUL"),
        ({"paths": ("/opt/x",)}, "paths: there is no agent; set command, too"),
        ({"command": "x {prompt}", "paths": ("venv",)}, "paths: must be absolute, or begin with ~/"),
        ({"command": "x {prompt}", "paths": ("/opt/../root",)}, "paths: must be absolute"),
        ({"command": 3}, "command: must be a"),
        ({"command": "x {prompt}", "paths": "/opt/x"}, "paths: must be a tuple"),
    ],
)
def test_descriptions_that_no_agent_fits_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ExternalAgent(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/no/such/folder", "'/no/such/folder' does not exist on this machine"),
        ("/", "would hide '/bin' of the sandbox"),
        ("/usr", "would hide '/usr' of the sandbox"),
        ("/usr/bin", "'/usr/bin' is visible in every sandbox; leave it out"),
        ("/etc", "would hide '/etc' of the sandbox"),
        ("/tmp", "would hide '/tmp' of the sandbox"),
        ("/run", "would hide '/run/harness' of the sandbox"),
        (str(Path(external_agent.__file__).parent), "part of this package, which holds the hidden checks"),
        (str(Path(external_agent.__file__).parents[1] / "tasks"), "part of this package, which holds the hidden checks"),
    ],
)
def test_places_that_must_not_be_shown_are_refused(path: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ExternalAgent(command="x {prompt}", paths=(path,)).find_folders()


def test_the_home_folder_as_a_whole_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = place / "home" / "me"
    (home / "venv").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for path in ("~/", str(home), str(home.parent)):
        with pytest.raises(UsageError, match="contains your home folder with its keys"):
            ExternalAgent(command="x {prompt}", paths=(path,)).find_folders()
    (folder,) = ExternalAgent(command="x {prompt}", paths=("~/venv",)).find_folders()
    assert folder == BoundFolder(home / "venv", str(home / "venv"))


def test_a_link_is_followed_and_keeps_its_path(place: Path) -> None:
    (place / "real").mkdir()
    (place / "link").symlink_to("real")
    (place / "bad").symlink_to("/etc")
    (folder,) = ExternalAgent(command="x {prompt}", paths=(str(place / "link"),)).find_folders()
    assert folder == BoundFolder((place / "real").resolve(), str(place / "link"))
    with pytest.raises(UsageError, match="would hide '/etc'"):
        ExternalAgent(command="x {prompt}", paths=(str(place / "bad"),)).find_folders()


def test_a_virtual_environment_needs_its_python(place: Path) -> None:
    python = Path(os.path.realpath(sys.executable))
    venv = place / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", shlex.quote(str(venv))], check=True)
    agent = ExternalAgent(command="x {prompt}", paths=(str(venv),))
    if python.is_relative_to("/usr"):
        assert len(agent.find_folders()) == 1
        return
    with pytest.raises(UsageError, match=f"needs the Python in '{python.parent.parent}'; add this path"):
        agent.find_folders()
    both = ExternalAgent(command="x {prompt}", paths=(str(venv), str(python.parent.parent)))
    assert [folder.source for folder in both.find_folders()] == [venv, python.parent.parent]


def test_another_version_of_the_software_has_another_digest(place: Path) -> None:
    (place / "bin").mkdir()
    (place / "bin" / "tool").write_text("1.0")
    (place / "bin" / "gone").symlink_to("nowhere")
    paths = (str(place), str(place / "bin" / "tool"), str(place / "absent"))
    first = describe_software(paths)
    (place / "bin" / "__pycache__").mkdir()
    (place / "bin" / "__pycache__" / "tool.pyc").write_text("compiled")
    describe_software.cache_clear()
    assert describe_software(paths) == first
    (place / "bin" / "tool").write_text("1.10")
    describe_software.cache_clear()
    second = describe_software(paths)
    assert [second[path] == first[path] for path in paths] == [False, False, True]
