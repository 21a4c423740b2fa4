"""Contract tests of the workers of this machine: processes and threads."""

import gc
import subprocess
import sys
import time
from typing import ClassVar

import pytest

from harness.experiment.workers import ProcessWorkers, ThreadWorkers
from harness.process import GARBAGE_THRESHOLD
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
    thresholds = []
    for kind in (ProcessWorkers, ThreadWorkers):
        workers = kind(1, raise_threshold, 60.0)
        thresholds.append(str(workers.submit(make_sample_job("finish", 1, tmp_path)).exception(60.0)))
        workers.close()
    assert thresholds == [str(GARBAGE_THRESHOLD), str(before)]


def wait_for_cancellation(job, cancellation):
    while not cancellation.is_requested:
        time.sleep(0.01)


def test_a_trial_that_its_time_limit_ended_is_no_result_whatever_the_clock_says(tmp_path, monkeypatch):
    """On a busy machine, a thread may look at the clock so late that it seems to have run for less than its limit."""
    workers = ThreadWorkers(1, wait_for_cancellation, 0.2)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    assert isinstance(workers.submit(make_sample_job("finish", 1, tmp_path)).exception(60.0), TimeoutError)
    workers.close()


@pytest.mark.slow
def test_a_script_that_runs_an_experiment_at_its_top_level_is_refused_once_with_advice(tmp_path):
    """Each worker imports the script. Workers that run it again would each end with a traceback of their own."""
    script = tmp_path / "grid.py"
    script.write_text(
        "from harness import Experiment, Trial\n"
        "axes = {'seed': list(range(20))}\n"
        "Experiment(name='unguarded', base=Trial(task='flashcards', policy='none'), axes=axes).run('out', workers=2)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "`if __name__ == '__main__':`" in done.stderr.splitlines()[-1]


def test_a_program_from_standard_input_is_refused_with_the_reason(tmp_path):
    program = f"""
from pathlib import Path
from harness.experiment.workers import ProcessWorkers
from harness.testing.sample_jobs import make_sample_job
if __name__ == "__main__":
    workers = ProcessWorkers(1, print, 60.0)
    workers.submit(make_sample_job("finish", 1, Path({str(tmp_path)!r})))
"""
    done = subprocess.run([sys.executable], input=program, capture_output=True, text=True, timeout=60, check=False)
    assert "UsageError: worker processes cannot import the main program '<stdin>', which is no file" in done.stderr
    assert "FileNotFoundError" not in done.stderr
