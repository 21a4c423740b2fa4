"""Contract tests of the workers of this machine: processes and threads."""

from typing import ClassVar

import pytest

from harness.experiment.workers import ProcessWorkers, ThreadWorkers
from harness.testing import WorkersContract

pytestmark = pytest.mark.slow


class TestProcesses(WorkersContract):
    @pytest.fixture
    def open_workers(self):
        return lambda run_job, timeout_seconds: ProcessWorkers(2, run_job, timeout_seconds)


class TestThreads(WorkersContract):
    missing_abilities: ClassVar = {"survive": "a thread that kills its process ends the whole run"}

    @pytest.fixture
    def open_workers(self):
        return lambda run_job, timeout_seconds: ThreadWorkers(2, run_job, timeout_seconds)
