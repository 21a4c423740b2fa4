"""The repository holds lock files with hashes and without addresses, and no path of a machine, registry host or key."""

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

LOCKS_WITH_ADDRESSES = {"uv.lock", "pylock.toml", "poetry.lock", "Pipfile.lock"}
TOP_LEVEL = {"harness", "docs", "notebooks", "experiments", "tests", "pyproject.toml", "README.md"}
BESIDE = {"LICENSE", "Makefile", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "requirements.lock"}
JAVASCRIPT_TOOLS = {"package.json", "package-lock.json", "tsconfig.json", "biome.json", "bundle.js"}

HOSTS = re.compile(
    r"pypi[.]org|pythonhosted[.]org|conda[.]anaconda[.]org|registry[.](?:npmjs|yarnpkg)[.](?:org|com)|(?:deb|security)[.]debian[.]org"
    r"|archive[.]ubuntu[.]com|(?:registry-1|index)[.]docker[.]io|\b(?:ghcr|quay)[.]io|crates[.]io|proxy[.]golang[.]org"
)
INDEXES = re.compile(
    r"--(?:(?:default-|extra-)?index(?:-url)?|find-links|trusted-host)\b|\b(?:PIP|UV|NPM_CONFIG)_\w*(?:INDEX|LINKS|REGISTRY)\w*="
    r"|\bindex-url\s*=|\bregistry\s*=\s*[\"']?\w+://"
)
MACHINE_PATHS = re.compile(r"(?<![\w.-])/(?:work|root|farm|Users/\w+|home/(?!agent\b)\w+)/")
KEYS = re.compile(
    r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_]{24,}|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}|\bhf_[A-Za-z0-9]{30,}"
    r"|\bAIza[\w-]{35}|\bxox[abpr]-[\w-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)

WORDS = {
    HOSTS: (
        "pypi.",
        "pythonhosted",
        "conda.",
        "registry",
        "debian.",
        "archive.ubuntu",
        "index.docker",
        "ghcr.",
        "quay.",
        "crates.",
        "golang.",
    ),
    INDEXES: ("index", "INDEX", "find-links", "trusted-host", "LINKS", "registry", "REGISTRY"),
    KEYS: ("sk-", "AKIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hf_", "AIza", "xox", "PRIVATE KEY-----"),
}
"""Words of which every match of a pattern has one. Texts without them are not searched, which takes a tenth of the time."""

ADAPTED = ("inspect", "langchain", "openai-agents", "openhands", "pydantic-ai")
"""Extras with programs in which policies run; they are installed beside this project in `tests/peers` only."""

ALLOWED: dict[tuple[str, re.Pattern[str]], str] = {}
"""Reason why a file may match a pattern, by the file and the pattern."""


@pytest.fixture(scope="module")
def tracked(checkout: Path) -> list[str]:
    if not (checkout / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (checkout / name).is_file()]


@cache
def read_text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def findings(checkout: Path, names: list[str], pattern: re.Pattern[str]) -> list[str]:
    texts = ((name, read_text(checkout / name)) for name in names if (name, pattern) not in ALLOWED)
    words = WORDS.get(pattern, ("",))
    searched = ((name, text) for name, text in texts if any(word in text for word in words))
    return [f"{name}: {match.group()!r}" for name, text in searched for match in pattern.finditer(text)]


def test_no_lock_file_with_addresses_of_downloads_is_committed(tracked):
    assert [name for name in tracked if Path(name).name in LOCKS_WITH_ADDRESSES] == []


def read_locks(checkout: Path) -> dict[Path, dict[str, str]]:
    """Return the entries of every lock file by the name of the package: version, markers and hashes in one text."""
    locks = [checkout / "requirements.lock", *sorted((checkout / "tests" / "peers" / "locks").glob("*.txt"))]
    return {lock: dict(read_entries(lock)) for lock in locks}


def read_entries(lock: Path) -> Iterator[tuple[str, str]]:
    for entry in lock.read_text().replace("\\\n", " ").splitlines():
        if entry.strip() and not entry.startswith("#"):
            yield re.split(r"[=<>!~ ]", entry, maxsplit=1)[0], entry


def test_locks_name_versions_and_hashes_and_no_address(checkout):
    for lock, entries in read_locks(checkout).items():
        assert "://" not in lock.read_text(), lock
        exact = re.compile(r"[\w.-]+==[\w.!+-]+( ;[^\\]*?)?( +--hash=sha256:[0-9a-f]{64})+ *")
        assert [entry for entry in entries.values() if not exact.fullmatch(entry)] == [], lock


def read_names(requirements: Iterable[str]) -> set[str]:
    return {match.group().lower().replace("_", "-") for one in requirements if (match := re.match(r"[\w.-]+", one))}


def test_the_locks_pin_everything_that_is_asked_for(checkout):
    settings = tomllib.loads((checkout / "pyproject.toml").read_text())
    project = settings["project"]
    locks = read_locks(checkout)
    asked = [*project["dependencies"], *settings["build-system"]["requires"], "uv"]
    for extra, requirements in project["optional-dependencies"].items():
        if extra in ADAPTED:  # these packages do not go together with those of the extra `dev`
            assert read_names(requirements) - locks[checkout / "tests/peers/locks/adapters.txt"].keys() == set()
        else:
            asked += requirements
    assert read_names(asked) - locks[checkout / "requirements.lock"].keys() == set(), "run `make lock`"


def read_install_commands(text: str) -> list[str]:
    """Return the commands of a text that install Python packages, one for each alternative."""
    parts = re.split(r"\|\||&&|[;\n`]", text.replace("\\\n", " "))
    return [part.strip() for part in parts if re.search(r"\bpip\b.* install ", part)]


def test_set_up_installs_nothing_without_a_hash(checkout):
    printed = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup"], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    installing = read_install_commands(printed)
    building = [command for command in installing if command.endswith(" -e .")]
    locked = [command for command in installing if command not in building]
    assert len(locked) == 3, "uv itself, then the lock by uv or by pip"
    assert len(building) == 2
    assert [command for command in locked if "--require-hashes --only-binary :all: -r " not in command] == []
    assert [command for command in building if "--no-deps --no-build-isolation -e ." not in command] == []


def test_every_other_install_command_requires_hashes(checkout, tracked):
    scripts = [name for name in tracked if name.startswith(".ci/") or name in {"README.md", "CONTRIBUTING.md"}]
    commands = [command for name in scripts for command in read_install_commands((checkout / name).read_text())]
    assert commands, "README.md says how to install the package"
    loose = [c for c in commands if "--require-hashes" not in c and "--no-deps --no-build-isolation" not in c]
    assert loose == []


def test_no_registry_host_is_committed(checkout, tracked):
    assert findings(checkout, tracked, HOSTS) == []


def test_no_setting_of_a_package_index_is_committed(checkout, tracked):
    assert findings(checkout, tracked, INDEXES) == []
    settings = {".npmrc", "pip.conf", "uv.toml", "bunfig.toml", ".yarnrc"}
    assert [name for name in tracked if Path(name).name in settings] == [".npmrc"]
    assert (checkout / ".npmrc").read_text() == "omit-lockfile-registry-resolved=true\n"


def test_no_path_of_a_machine_is_committed(checkout, tracked):
    assert findings(checkout, tracked, MACHINE_PATHS) == []


def test_no_key_is_committed(checkout, tracked):
    assert findings(checkout, tracked, KEYS) == []


def test_the_top_level_contains_only_the_listed_files_and_folders(tracked):
    top = {name.split("/")[0] for name in tracked}
    assert {name for name in top - TOP_LEVEL - BESIDE - JAVASCRIPT_TOOLS if not name.startswith(".")} == set()


def test_each_pattern_of_the_guards_finds_a_planted_text(tmp_path):
    (tmp_path / "a.txt").write_text(
        f"from files.{'pythonhosted'}.org to /{'work'}/here with {'AKIA'}{'A' * 16} --{'index'}-url x\n"
    )
    for pattern in (HOSTS, INDEXES, MACHINE_PATHS, KEYS):
        assert len(findings(tmp_path, ["a.txt"], pattern)) == 1


PLANTED = (
    *((HOSTS, f"{name}{'.'}org") for name in ("pypi", "pythonhosted", "conda.anaconda", "registry.npmjs", "deb.debian")),
    *((HOSTS, f"{name}{'.'}com") for name in ("registry.yarnpkg", "archive.ubuntu")),
    *((HOSTS, f"{name}{'.'}io") for name in ("index.docker", "ghcr", "quay", "crates")),
    (HOSTS, f"proxy.golang{'.'}org"),
    *((INDEXES, f"--{name}{'-'}{end}") for name, end in (("index", "url"), ("find", "links"), ("trusted", "host"))),
    *((INDEXES, f"{name}{'='}x") for name in ("PIP_INDEX_URL", "UV_FIND_LINKS", "NPM_CONFIG_REGISTRY", "index-url")),
    (INDEXES, f"registry{'='}https://x.example"),
    *((KEYS, f"{start}{'0' * 40}") for start in ("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hf_", "xoxb-")),
    *(
        (KEYS, f"{start}{end}")
        for start, end in (("AKIA", "A" * 16), ("AIza", "0" * 35), ("-----BEGIN RSA PRIVATE KEY", "-----"))
    ),
)


@pytest.mark.parametrize(("pattern", "text"), PLANTED)
def test_the_words_of_a_pattern_miss_none_of_its_alternatives(pattern, text, tmp_path):
    (tmp_path / "a.txt").write_text(text)
    assert len(findings(tmp_path, ["a.txt"], pattern)) == 1


@pytest.mark.parametrize("harmless", ["/workspace/x", "tests/work/x", "https://x.example/work/", "/home/agent/x", "sk-key"])
def test_the_guards_leave_harmless_text_alone(harmless, tmp_path):
    (tmp_path / "a.txt").write_text(harmless)
    for pattern in (HOSTS, INDEXES, MACHINE_PATHS, KEYS):
        assert findings(tmp_path, ["a.txt"], pattern) == []
