"""Environment of the gateway's proxy: litellm's proxy with all its packages, pinned by `proxy.lock` and apart from all others.

It lies in the user's cache folder, named by the digest of the lock file, so a new lock makes a new environment. Only `install`
uses a package index, the one that the machine is configured for. The lock was made by
`uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate LIST -o harness/gateway/proxy.lock`
from `REQUIREMENTS`.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from harness.errors import GatewayFailed, UsageError

REQUIREMENTS = (
    "litellm==1.105.7",
    "fastapi", "uvicorn", "orjson", "apscheduler", "python-multipart", "pyyaml", "backoff", "pyjwt", "cryptography",
    "websockets", "redis", "httpx2", "expression", "email-validator", "fastapi-sso", "soundfile", "mcp",
)  # fmt: skip
"""Packages that importing litellm's proxy needs; its extra `proxy` has thirty more, for databases and clouds."""
LOCK = Path(__file__).parent / "proxy.lock"
FOLDER_VARIABLE = "HARNESS_GATEWAY"
INSTALL_COMMAND = "harness gateway --install"
TIMEOUT_SECONDS = 900.0
_SIZE = "0.4 GB"


def locate_folder() -> Path:
    """Return the folder of environments: `$HARNESS_GATEWAY`, or else one in the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("harness") / "gateway"


def find_environment() -> Path:
    """Return the folder of the environment for the present lock, whether or not it exists."""
    return locate_folder() / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]


def is_installed() -> bool:
    """Return whether the environment is complete."""
    return (find_environment() / ".made").is_file()


def find_interpreter() -> Path:
    """Return the interpreter of the environment.

    Raises:
        UsageError: The environment is not installed.
    """
    if not is_installed():
        raise UsageError(
            f"the gateway's proxy is not installed in {str(find_environment())!r}; run `{INSTALL_COMMAND}` once, which fetches "
            f"{_SIZE} of pinned packages into that folder"
        )
    return find_environment() / "bin" / "python"


def install() -> Path:
    """Create the environment if it does not exist, and return its folder; a second process waits for the first.

    Raises:
        GatewayFailed: A package cannot be installed, or the proxy cannot be imported.
    """
    path = find_environment()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if is_installed():
            return path
        shutil.rmtree(path, ignore_errors=True)
        python = str(path / "bin" / "python")
        hashed = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(LOCK))
        if (uv := _find_uv()) is not None:
            _run([uv, "venv", "--quiet", "--python", sys.executable, str(path)])
            _run([uv, "pip", "install", "--quiet", "--python", python, *hashed])
        else:
            _run([sys.executable, "-m", "venv", str(path)])
            _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *hashed])
        # the import proves that the environment works, and compiles the modules that the proxy loads, which takes half a minute
        _run([python, "-c", "import litellm.proxy.proxy_server"], LITELLM_LOCAL_MODEL_COST_MAP="True")
        (path / ".made").touch()
    return path


def _find_uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _run(command: Sequence[str], **variables: str) -> None:
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=environment, cwd=LOCK.parent
    )
    if ran.returncode:
        lines = ran.stderr.strip().splitlines()[-5:]
        raise GatewayFailed(f"{' '.join(command)} ended with {ran.returncode}: {' / '.join(lines)}")
