"""JavaScript: committed bundles are those that the modules give, the package is built without Node, and lines are short."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.source import PACKAGE

MAX_LINE_CHARACTERS = 130
BUNDLES = ("harness/widgets/bundles", "harness/reporting/page/bundles", "tests/widgets/bundles")
WIDGETS = {"agent", "explorer", "grid", "grid_form", "inspector"}


def read_folder(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.node
def test_building_the_bundles_again_gives_the_committed_bytes(checkout, tmp_path):
    subprocess.run(["node", "bundle.js", tmp_path], cwd=checkout, check=True, timeout=100)
    for folder in BUNDLES:
        assert read_folder(tmp_path / folder) == read_folder(checkout / folder), f"{folder}: run make js, and commit the bundles"
    assert {path.suffix for path in tmp_path.rglob("*.*")} == {".js", ".css"}


def test_every_widget_and_the_pages_have_a_bundle():
    files = {f"{name}{suffix}" for name in WIDGETS for suffix in (".js", ".css")}
    assert set(read_folder(PACKAGE / "widgets" / "bundles")) == files
    assert set(read_folder(PACKAGE / "reporting" / "page" / "bundles")) == {"bill.js", "bill.css", "page.js", "page.css"}


def test_a_bundle_imports_nothing():
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("bundles/*.js")}
    assert [str(path) for path, text in texts.items() if re.search(r"^import\b|\bimport\(|\brequire\(", text, re.MULTILINE)] == []


def test_no_line_of_javascript_is_long(checkout):
    scripts = [checkout / "bundle.js", *(path for part in ("harness", "tests") for path in (checkout / part).rglob("*.js"))]
    assert len(scripts) > 20
    lines = [(path, line) for path in scripts for line in path.read_text(encoding="utf-8").splitlines()]
    assert [str(path) for path, line in lines if len(line) > MAX_LINE_CHARACTERS] == []


def test_the_lock_of_the_tools_has_hashes_and_no_address_of_a_registry(checkout):
    packages = json.loads((checkout / "package-lock.json").read_text())["packages"]
    own = packages.pop("")
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in own["devDependencies"].values())
    assert [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


@pytest.mark.slow
def test_the_package_is_built_without_node_and_contains_only_the_bundles(checkout, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=checkout, env={"PATH": str(tmp_path)}, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".js", ".css", ".ts"))]
    expected = [path for path in PACKAGE.rglob("bundles/*") if path.suffix in {".js", ".css"}]
    assert sorted(names) == sorted(str(path.relative_to(checkout)) for path in expected)
