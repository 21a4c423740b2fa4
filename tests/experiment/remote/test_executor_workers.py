"""Contract tests of workers on top of executors of the standard library."""

import multiprocessing
import tempfile
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from harness.errors import WorkersUnavailable
from harness.experiment.output import read_finished_trial
from harness.experiment.remote.executor_workers import ExecutorWorkers
from harness.experiment.workers import ThreadWorkers
from harness.testing import WorkersContract
from harness.testing.sample_jobs import make_sample_job, run_sample_job
from tests.experiment.remote.clusters import find_processes
from tests.experiment.remote.comparison import check_equal
from tests.experiment.run_grid import SMALL


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Give the test a folder for temporary files of its own, and check that nothing is left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield
    assert list(folder.iterdir()) == []
    assert find_processes(folder) == []


@pytest.mark.slow
class TestThreadExecutor(WorkersContract):
    @pytest.fixture
    def open_workers(self):
        with ThreadPoolExecutor(2) as executor:
            yield lambda run_job, timeout_seconds: ExecutorWorkers(executor, None, run_job, timeout_seconds)


@pytest.mark.slow
class TestProcessExecutor(WorkersContract):
    @pytest.fixture
    def open_workers(self):
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
            yield lambda run_job, timeout_seconds: ExecutorWorkers(executor, None, run_job, timeout_seconds)


@pytest.mark.slow
def test_a_trial_runs_in_a_child_process_and_its_journal_comes_back(tmp_path):
    with ThreadPoolExecutor(1) as executor:
        workers = ExecutorWorkers(executor, None, run_sample_job, 60.0)
        job = make_sample_job("finish", 0, tmp_path / "journals")
        assert workers.submit(job).result() == read_finished_trial(job.journal)
        workers.close()


def test_an_executor_that_is_shut_down_ends_the_run(tmp_path):
    executor = ThreadPoolExecutor(1)
    workers = ExecutorWorkers(executor, 1, run_sample_job, 60.0)
    executor.shutdown()
    with pytest.raises(WorkersUnavailable, match="no longer runs jobs"):
        workers.submit(make_sample_job("finish", 0, tmp_path))
    workers.stop()


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_run_through_an_executor_gives_the_results_of_a_local_run(tmp_path, small_results):
    with ThreadPoolExecutor(2) as executor:
        results = SMALL.run(tmp_path / "output", progress="off", executor=executor)
    check_equal(results, small_results)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_workers_of_your_own_are_opened_with_the_function_that_runs_trials_and_their_time_limit(tmp_path):
    opened = []

    def open_workers(run_job, timeout_seconds):
        opened.append(timeout_seconds)
        return ThreadWorkers(2, run_job, timeout_seconds)

    results = SMALL.run(tmp_path / "output", progress="off", executor=open_workers)
    assert opened == [SMALL.settings.trial_timeout_seconds]
    assert len(results.trials) == len(SMALL.grid)


class Waiting(Executor):
    """Executor whose jobs wait until a test decides what becomes of them."""

    def __init__(self):
        self.jobs = []

    def submit(self, run, /, *arguments, **options):
        self.jobs.append((Future(), run, arguments))
        return self.jobs[-1][0]


def test_a_job_that_the_executor_cancels_ends_the_run(tmp_path):
    executor = Waiting()
    workers = ExecutorWorkers(executor, 1, run_sample_job, 60.0)
    future = workers.submit(make_sample_job("finish", 0, tmp_path))
    executor.jobs[0][0].cancel()
    assert isinstance(future.exception(timeout=5), WorkersUnavailable)
    workers.stop()


def test_an_interrupted_process_of_an_executor_reports_its_interruption(tmp_path):
    executor = Waiting()
    workers = ExecutorWorkers(executor, 1, run_sample_job, 60.0)
    future = workers.submit(make_sample_job("finish", 0, tmp_path))
    executor.jobs[0][0].set_exception(KeyboardInterrupt())
    assert isinstance(future.exception(timeout=5), KeyboardInterrupt)
    workers.stop()


@pytest.mark.slow
def test_a_result_that_arrives_after_the_run_was_stopped_writes_nothing(tmp_path):
    executor = Waiting()
    workers = ExecutorWorkers(executor, 1, run_sample_job, 60.0)
    job = make_sample_job("finish", 0, tmp_path / "journals")
    future = workers.submit(job)
    inner, run, arguments = executor.jobs[0]
    assert inner.set_running_or_notify_cancel()
    outcome = run(*arguments)
    workers.stop()
    inner.set_result(outcome)
    assert future.cancelled()
    assert not job.journal.exists()
