"""Fixtures of the tests of experiments."""

import fcntl
import os

import pytest

from harness.inspection.loading import load
from harness.store.results import Results
from tests.experiment.run_grid import SMALL


@pytest.fixture(scope="session")
def small_results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Results of the small grid after a run without trouble, which all test processes share."""
    top = tmp_path_factory.getbasetemp()
    folder = (top.parent if "PYTEST_XDIST_WORKER" in os.environ else top) / "small-grid"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return load(folder) if folder.exists() else SMALL.run(folder, workers=2, progress="off")
