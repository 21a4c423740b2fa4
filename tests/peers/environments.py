"""Environments of the original programs, each created once per machine with pinned packages.

`ENVIRONMENTS` are those of the differential tests, `BENCHMARKED` those of `make bench-peers`.

The environments lie in the user's cache folder, named by the digest of their lock file, so a new lock creates a new environment.
Creating an environment needs the package index; running the originals does not. The list of an original's packages, as
`uv pip freeze` prints it, becomes a lock by
`uv pip compile --no-deps --universal --generate-hashes --no-header --no-annotate LIST -o tests/peers/locks/NAME.txt`.
For an environment with `requires`, the list holds only those packages, and `--no-deps` is left out. In `adapters` and
`loops`, this project runs beside the others, so `pyproject.toml` is compiled with the list, with `--python-version 3.12` or 3.11.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from harness.gateway import environment as gateway

FOLDER_VARIABLE = "HARNESS_PEERS"
CHECKOUT = Path(__file__).parents[2]
LOCKS = Path(__file__).parent / "locks"
TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Pinned packages of one original, and the oldest interpreter on which they run."""

    name: str
    python: tuple[int, int] = (3, 11)
    requires: tuple[str, ...] = ()
    """Packages from which the lock was made, where the lock does not list the packages of a program as they were installed."""

    @property
    def lock(self) -> Path:
        return LOCKS / f"{self.name}.txt"

    @property
    def path(self) -> Path:
        return folder() / f"{self.name}-{hashlib.sha256(self.lock.read_bytes()).hexdigest()[:12]}"

    @property
    def interpreter(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        return (self.path / ".made").is_file()

    def make(self) -> None:
        """Create the environment if it does not exist; a second process waits for the first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if self.is_installed:
                return
            shutil.rmtree(self.path, ignore_errors=True)
            _uv("venv", "--python", interpreter(self.python), str(self.path))
            hashed = ("--no-deps", "--require-hashes", "--only-binary", ":all:")
            _uv("pip", "install", "--python", str(self.interpreter), *hashed, "-r", str(self.lock))
            (self.path / ".made").touch()


ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment(
            name="adapters",
            requires=("inspect-ai", "langchain", "langgraph", "openai-agents", "openhands-sdk", "pydantic-ai-harness"),
            python=(3, 12),
        ),
        Environment(name="agents", python=(3, 12)),
        Environment(name="harbor", python=(3, 12)),
        Environment(name="inspect"),
        Environment(name="langchain"),
        Environment(name="loops", requires=("mini-swe-agent", "smolagents")),
        Environment(name="openai_agents"),
        Environment(name="openhands", python=(3, 12)),
        Environment(name="pydantic_ai"),
        Environment(name="strands"),
    )
}

BENCHMARKED = {
    environment.name: environment
    for environment in (
        Environment(name="bench_inspect", requires=("inspect-ai", "pandas", "pyarrow")),
        Environment(name="bench_langgraph", requires=("langchain", "langgraph", "langgraph-checkpoint-sqlite", "pandas")),
        Environment(name="bench_mini_swe_agent", requires=("mini-swe-agent", "pandas")),
        Environment(name="bench_openhands", requires=("openhands-sdk", "pandas"), python=(3, 12)),
    )
}


def read_version(environment: Environment) -> str:
    """Return the locked version of the package that gives an environment its name."""
    match = re.search(rf"^{environment.name}(?:-ai)?==([^ ;\\]+)", environment.lock.read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def folder() -> Path:
    """Return the folder of the environments: `$HARNESS_PEERS`, or a folder in the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("harness") / "peers"


def missing() -> str | None:
    """Return a message that names the missing environments and the command that creates them."""
    absent = [name for name, environment in ENVIRONMENTS.items() if not environment.is_installed]
    absent += [] if gateway.is_installed() else ["the gateway"]
    return f"no environment for {', '.join(absent)}: make peers" if absent else None


def interpreter(least: tuple[int, int]) -> str:
    """Return a Python of at least a version: the running one, one on the path, or one that pyenv provides.

    Raises:
        RuntimeError: there is no such interpreter.
    """
    python = next((path for path in _interpreters() if _version(path) >= least), None)
    if python is None:
        raise RuntimeError(f"no Python {least[0]}.{least[1]} or newer: install one and put it on the PATH")
    return python


def _interpreters() -> Iterator[str]:
    yield sys.executable
    names = [f"python3.{minor}" for minor in range(11, 15)]
    yield from (path for name in names if (path := shutil.which(name)))
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from sorted(map(str, pyenv.glob("versions/3.*/bin/python")))


def _version(path: str) -> tuple[int, int]:
    """Return the version of an interpreter; 0.0 if it does not run, because pyenv puts empty names on the path."""
    code = "import sys; print(*sys.version_info[:2])"
    asked = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    major, minor = map(int, asked.stdout.split()) if asked.returncode == 0 else (0, 0)
    return major, minor


def _uv(*arguments: str) -> None:
    beside = Path(sys.executable).with_name("uv")
    command = [str(beside if beside.exists() else "uv"), *arguments, "--quiet"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {ran.returncode}: {ran.stderr.strip()}")
