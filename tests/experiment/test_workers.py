"""Contract tests of the workers of this machine: processes and threads."""

import gc
from typing import ClassVar

import pytest

from harness.experiment.workers import GARBAGE_THRESHOLD, ProcessWorkers, ThreadWorkers
from harness.testing import WorkersContract
from harness.testing.sample_jobs import make_sample_job

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


def raise_threshold(job, cancellation=None):
    raise ValueError(gc.get_threshold()[0])


def test_worker_processes_seldom_look_for_garbage_and_threads_leave_the_setting_alone(tmp_path):
    before = gc.get_threshold()[0]
    found = []
    for kind in (ProcessWorkers, ThreadWorkers):
        workers = kind(1, raise_threshold, 60.0)
        found.append(str(workers.submit(make_sample_job("finish", 1, tmp_path)).exception(60.0)))
        workers.close()
    assert found == [str(GARBAGE_THRESHOLD), str(before)]
