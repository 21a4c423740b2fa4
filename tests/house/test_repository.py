"""The repository holds one lock file without addresses, and no path of a machine, registry host or key."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

LOCKS_WITH_ADDRESSES = {"uv.lock", "pylock.toml", "poetry.lock", "Pipfile.lock"}
TOP_LEVEL = {"harness", "docs", "notebooks", "experiments", "tests", "pyproject.toml", "README.md"}
BESIDE = {"LICENSE", "Makefile", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "requirements.lock"}

HOSTS = re.compile(r"pypi[.]org|pythonhosted[.]org|registry[.]npmjs[.]org|deb[.]debian[.]org|registry-1[.]docker[.]io")
MACHINE_PATHS = re.compile(r"(?<![\w.-])/(?:work|root|farm|Users/\w+|home/(?!agent\b)\w+)/")
KEYS = re.compile(
    r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_]{24,}|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}|\bhf_[A-Za-z0-9]{30,}"
    r"|\bAIza[\w-]{35}|\bxox[abpr]-[\w-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)

ALLOWED: dict[tuple[str, re.Pattern[str]], str] = {}
"""Reason why a file may match a pattern, by the file and the pattern."""


@pytest.fixture(scope="module")
def tracked(checkout: Path) -> list[str]:
    if not (checkout / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (checkout / name).is_file()]


def findings(checkout: Path, names: list[str], pattern: re.Pattern[str]) -> list[str]:
    texts = ((name, (checkout / name).read_bytes().decode(errors="replace")) for name in names)
    return [
        f"{name}: {match.group()!r}" for name, text in texts if (name, pattern) not in ALLOWED for match in pattern.finditer(text)
    ]


def test_no_lock_with_addresses_is_committed(tracked):
    assert [name for name in tracked if Path(name).name in LOCKS_WITH_ADDRESSES] == []


def test_the_lock_names_versions_and_no_address(checkout):
    lock = (checkout / "requirements.lock").read_text()
    assert "://" not in lock
    assert [line for line in lock.splitlines() if line and "==" not in line] == []


def test_the_lock_pins_everything_that_is_asked_for(checkout):
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    pinned = {line.split("==")[0] for line in (checkout / "requirements.lock").read_text().splitlines()}
    names = {match.group().lower().replace("_", "-") for one in asked if (match := re.match(r"[\w.-]+", one))}
    assert names - pinned == set(), "run `make lock`"


def test_no_registry_host_is_committed(checkout, tracked):
    assert findings(checkout, tracked, HOSTS) == []


def test_no_path_of_a_machine_is_committed(checkout, tracked):
    assert findings(checkout, tracked, MACHINE_PATHS) == []


def test_no_key_is_committed(checkout, tracked):
    assert findings(checkout, tracked, KEYS) == []


def test_the_top_level_holds_only_what_it_should(tracked):
    top = {name.split("/")[0] for name in tracked}
    assert {name for name in top - TOP_LEVEL - BESIDE if not name.startswith(".")} == set()


def test_the_guards_see_what_they_guard_against(tmp_path):
    (tmp_path / "a.txt").write_text(f"from files.{'pythonhosted'}.org to /{'work'}/here with {'AKIA'}{'A' * 16}\n")
    for pattern in (HOSTS, MACHINE_PATHS, KEYS):
        assert len(findings(tmp_path, ["a.txt"], pattern)) == 1


@pytest.mark.parametrize("harmless", ["/workspace/x", "tests/work/x", "https://x.example/work/", "/home/agent/x", "sk-key"])
def test_the_guards_leave_harmless_text_alone(harmless, tmp_path):
    (tmp_path / "a.txt").write_text(harmless)
    for pattern in (HOSTS, MACHINE_PATHS, KEYS):
        assert findings(tmp_path, ["a.txt"], pattern) == []
