"""Where a result comes from: versions, commit, machine kind, prices, and how close to reality the run was."""

import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

from harness.codec import VERSION_TAG
from harness.experiment.trial import Trial
from harness.models.scripted.profiles import is_scripted

Level: TypeAlias = Literal["L0", "L1", "L2-open", "L2-fork", "L3"]
"""How real a trial is (RESEARCH 5.2): L0 all scripted, L1 a real summarizer under a scripted agent, L3 a real agent."""

RECORDED_PACKAGES = ("harness", "pydantic", "tiktoken", "litellm", "docker", "zstandard", "pebble", "xllamacpp")
"""Those whose version can change a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What all trials of one run have in common."""

    git_commit: str | None
    """Of the checkout that the code runs from, `+changes` where files differ from it; None = not run from a checkout."""
    python: str
    platform: str
    packages: tuple[tuple[str, str], ...]
    price_table: str
    configuration_version: str = VERSION_TAG
    """The version of the meaning of configurations, part of every trial id."""


def collect_provenance(price_table: str) -> Provenance:
    """Look at this process; once a run."""
    return Provenance(
        git_commit=_find_commit(Path(__file__).parent),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=tuple((name, found) for name in RECORDED_PACKAGES if (found := _find_version(name))),
        price_table=price_table,
    )


def classify_level(trial: Trial) -> Level:
    """How close to reality a trial is."""
    if not is_scripted(trial.model):
        return "L3"
    return "L0" if trial.summarizer is None or is_scripted(trial.summarizer) else "L1"


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _find_commit(folder: Path) -> str | None:
    if _run_git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    commit = _run_git(folder, "rev-parse", "HEAD")
    changed_files = _run_git(folder, "status", "--porcelain", "--untracked-files=no", ".")
    return commit and commit + ("+changes" if changed_files else "")


def _run_git(folder: Path, *arguments: str) -> str | None:
    """What git says; None when it fails or is not there."""
    try:
        process = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()
