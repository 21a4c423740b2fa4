"""`import harness` and `harness --help` are fast: slow packages are imported only where they are used."""

import importlib.util
import json
import subprocess
import sys

import pytest

SLOW = ("docker", "duckdb", "litellm", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "statsmodels")
LIGHT = [module for module in ("harness", "harness.cli", "harness.protocols") if importlib.util.find_spec(module)]


def loaded_by(statement: str, packages: tuple[str, ...] = SLOW) -> set[str]:
    """Return the slow packages that a new interpreter has imported after a statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted({set(packages)!r} & set(sys.modules))))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", LIGHT)
def test_importing_loads_nothing_slow(module):
    assert loaded_by(f"import {module}") == set()


@pytest.mark.slow
def test_a_form_loads_only_what_a_person_needs_to_fill_it_in():
    """Data frames, the tokenizer and terminal output are loaded once the grid runs, or once a value makes them necessary."""
    statement = "import harness\nharness.GridForm(tasks=['flashcards', 'rename-sweep'], values={'threshold': [0.5, 0.8]})"
    assert loaded_by(statement, (*SLOW, "tiktoken", "rich")) == set()


def test_a_slow_import_is_seen():
    assert loaded_by("import numpy") == {"numpy"}
