"""The direction of imports: packages in the order of pyproject.toml, no cycles, no import of the root package from inside."""

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("harness", cache_dir=None)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_rooms_import_only_from_the_rooms_above_them(checkout):
    run = lint(checkout)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_room_that_imports_the_wrong_way_is_seen(checkout, tmp_path):
    package = tmp_path / "harness"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "errors.py").write_text("import harness.conversation.messages\n")
    (package / "conversation").mkdir()
    (package / "conversation" / "__init__.py").touch()
    (package / "conversation" / "messages.py").touch()
    (tmp_path / "pyproject.toml").write_text((checkout / "pyproject.toml").read_text())
    run = lint(tmp_path)
    assert run.returncode == 1
    assert "harness.errors is not allowed to import harness.conversation" in run.stdout


def test_no_module_takes_part_in_an_import_cycle(graph):
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError with the cycle


def test_no_module_imports_the_root_of_the_package(graph):
    assert graph.find_modules_that_directly_import("harness") == set()
