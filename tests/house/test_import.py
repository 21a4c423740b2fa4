"""`import harness` and `harness --help` are fast: slow packages are imported only where they are used."""

import importlib.util
import json
import subprocess
import sys

import pytest

SLOW = ("docker", "duckdb", "litellm", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "statsmodels")
LIGHT = [module for module in ("harness", "harness.cli", "harness.protocols") if importlib.util.find_spec(module)]


def loaded_by(statement: str) -> set[str]:
    """Return the slow packages that a new interpreter has imported after a statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted({set(SLOW)!r} & set(sys.modules))))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", LIGHT)
def test_importing_loads_nothing_slow(module):
    assert loaded_by(f"import {module}") == set()


def test_a_slow_import_is_seen():
    assert loaded_by("import numpy") == {"numpy"}
