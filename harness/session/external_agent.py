"""External agent: a program that works on the task of a trial in place of this project's own loop.

This module describes the program and checks the description. `harness.experiment.external_agent` runs it.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from harness.conversation.codec import StrictFields, refuse_mistyped_fields
from harness.errors import UsageError
from harness.sandboxes.agent_relay import ADDRESS, INSIDE
from harness.sandboxes.bubblewrap import BoundFolder
from harness.sandboxes.client import SCRATCH, WORKSPACE

PROMPT: Final = "{prompt}"
MODEL: Final = "harness"
"""Name under which the agent asks for its model; any other name is answered as well."""
DUMMY_KEY: Final = "no-key-needed"
VARIABLES: Final = {
    "ANTHROPIC_API_KEY": DUMMY_KEY,
    "ANTHROPIC_BASE_URL": ADDRESS,
    "GEMINI_API_KEY": DUMMY_KEY,
    "GOOGLE_GEMINI_BASE_URL": ADDRESS,
    "OPENAI_API_BASE": f"{ADDRESS}/v1",
    "OPENAI_API_KEY": DUMMY_KEY,
    "OPENAI_BASE_URL": f"{ADDRESS}/v1",
}
"""Environment variables by which agents find their model; keys of providers never enter the sandbox."""
MAX_PROMPT_BYTES = 120_000
"""Maximum length of a task's prompt in bytes, since Linux passes a program no longer argument than 128 KiB."""
_TAKEN = (
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    INSIDE,
    SCRATCH,
    WORKSPACE,
)
"""Folders that every sandbox has already, so that no other folder can stand in their place."""
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAgent(StrictFields):
    """Program that works on a task in the sandbox of a trial, with the trial's model and compaction policy behind a relay.

    Attributes:
        command: Shell command that runs the agent in the workspace. `{prompt}` in it becomes the prompt of the task, quoted for
            the shell. Empty uses this project's own agent. Default: `''`.
        paths: Folders and files of this machine that the agent's software needs besides /usr, such as a virtual environment and
            the Python that it was made from; `~` is the home folder. They have the same paths in the sandbox, and are read-only
            there, and `command` may use them with `~`. Default: `()`.

    Raises:
        UsageError: The command lacks `{prompt}`, or a path is not absolute.

    Example:
        >>> from harness.session.external_agent import ExternalAgent
        >>> ExternalAgent(command="mini -m openai/harness -t {prompt} -y --exit-immediately").render("Fix the test.")
        "mini -m openai/harness -t 'Fix the test.' -y --exit-immediately"
    """

    command: str = ""
    paths: tuple[str, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Refuse values of the wrong type, a command without the prompt, and paths that are not absolute."""
        refuse_mistyped_fields(self)
        if self.paths and not self.command.strip():
            raise UsageError("paths: there is no agent; set command, too")
        if self.command and PROMPT not in self.command:
            raise UsageError(f"command: must contain {PROMPT}, where the prompt of the task goes (got {self.command!r:.200})")
        if "\0" in self.command:
            raise UsageError(f"command: must contain no NUL character (got {self.command!r:.200})")
        for path in self.paths:
            if not path.startswith(("/", "~/")) or ".." in Path(path).parts:
                raise UsageError(f"paths: must be absolute, or begin with ~/, without '..' (got {path!r:.200})")

    def render(self, prompt: str) -> str:
        """Return the shell command with the prompt of a task.

        A path that begins with `~/` and is named in `paths` is written out, since the home folder of the sandbox is another one.
        """
        command = self.command
        for path in self.paths:
            if path.startswith("~/"):
                place = str(Path(path).expanduser()).replace("\\", r"\\")
                command = re.sub(rf"(?<![^\s='\"(:]){re.escape(path)}(?![\w.-])", place, command)
        return command.replace(PROMPT, shlex.quote(prompt))

    def find_folders(self) -> tuple[BoundFolder, ...]:
        """Return the folders and files that the agent needs in the sandbox, as they are on this machine.

        Raises:
            UsageError: A path does not exist here, would hide a folder of the sandbox, or would show the home folder or the
                checks of the tasks; or a virtual environment needs a Python that is not named.
        """
        given = [(path, Path(path).expanduser()) for path in self.paths]
        for path, place in given:
            _refuse_place(path, place)
        folders = tuple(BoundFolder(place.resolve(), str(place)) for _, place in given)
        for _, place in given:
            _refuse_missing_python(place, folders)
        return folders


@cache
def describe_software(paths: tuple[str, ...]) -> Mapping[str, str]:
    """Return a digest of the names and sizes of all files at each path of an agent, which tells its versions apart.

    Compiled Python files are left out, because programs write them as they run.
    """
    return {path: _digest_names(Path(path).expanduser()) for path in paths}


def _digest_names(place: Path) -> str:
    names = []
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for file in (Path(folder, name) for name in files):
            with suppress(OSError):
                names.append(f"{file.relative_to(place)}\0{file.stat().st_size}")
    if place.is_file():
        names.append(str(place.stat().st_size))
    return hashlib.sha256("\n".join(sorted(names)).encode(errors="surrogateescape")).hexdigest()[:20]


def _refuse_place(path: str, place: Path) -> None:
    if not place.exists():
        raise UsageError(
            f"agent.paths: {path!r:.200} does not exist on this machine; install the agent there, or correct the path"
        )
    real = place.resolve()
    for one in (place, real):
        for taken in map(Path, _TAKEN):
            if one.is_relative_to(taken) or taken.is_relative_to(one):
                if one.is_relative_to("/usr") and not one.samefile("/usr"):
                    raise UsageError(f"agent.paths: {path!r:.200} is visible in every sandbox; leave it out")
                raise UsageError(f"agent.paths: {path!r:.200} would hide {str(taken)!r} of the sandbox; move the agent elsewhere")
    if Path.home().resolve().is_relative_to(real):
        raise UsageError(f"agent.paths: {path!r:.200} contains your home folder with its keys; name the folder of the agent only")
    if real.is_relative_to(_PACKAGE):
        raise UsageError(
            f"agent.paths: {path!r:.200} is part of this package, which holds the hidden checks; name another folder"
        )


def _refuse_missing_python(place: Path, folders: tuple[BoundFolder, ...]) -> None:
    """Refuse a virtual environment whose Python the sandbox would lack."""
    python = place / "bin" / "python"
    if not (place / "pyvenv.cfg").is_file() or not python.exists():
        return
    real = python.resolve()
    seen = (Path("/usr"), *(folder.source for folder in folders))
    if not any(real.is_relative_to(folder) for folder in seen):
        needed = str(real.parent.parent)
        raise UsageError(f"agent.paths: the virtual environment {str(place)!r} needs the Python in {needed!r}; add this path")
