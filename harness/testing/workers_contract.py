"""Contract tests of workers, which run jobs (trials) in parallel: behavior that every `harness.Workers` must show."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar

import pytest

from harness.errors import WorkerDied
from harness.experiment.job import FinishedTrial, Job
from harness.experiment.output import read_finished_trial
from harness.experiment.workers import TrialRunner, Workers
from harness.store.journal import Journal
from harness.testing.sample_jobs import Behavior, make_sample_job, run_sample_job

HANG_SECONDS = 300.0
"""Time in seconds after which a test fails because the workers hang; much longer than any test takes."""
LONG_SECONDS = 3_600.0
"""Time limit of a job in seconds that is longer than any test."""


class WorkersContract:
    """Suite of contract tests for workers, which run jobs in parallel. Inherit it and define `open_workers`.

    The fixture `open_workers` returns a function that opens the workers. Name missing abilities in `missing_abilities` with the
    reason; tests that need such an ability are skipped.

    Example::

        class TestMyWorkers(WorkersContract):
            @pytest.fixture
            def open_workers(self):
                return lambda run_job, timeout_seconds: MyWorkers(run_job, timeout_seconds)
    """

    missing_abilities: ClassVar[Mapping[str, str]] = {}
    """Abilities that the workers under test lack, each with the reason; tests of a missing ability are skipped.

    Abilities: `survive` (the death of a worker process costs one job only).
    """

    @pytest.fixture
    def open_workers(self) -> Callable[[TrialRunner, float], Workers]:
        """Return a function that opens the workers under test.

        The function takes a function that runs a job, and a time limit in seconds.
        """
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return a folder for the journals of the jobs, which does not exist yet."""
        return tmp_path / "journals"

    def require(self, ability: str) -> None:
        """Skip the running test, with the stated reason, if the workers lack an ability."""
        if ability in self.missing_abilities:
            pytest.skip(f"cannot {ability}: {self.missing_abilities[ability]}")

    def test_results_and_journals_come_back(self, open_workers: Callable[[TrialRunner, float], Workers], folder: Path) -> None:
        """A future returns the result of its job, and the journal is then complete at the path in the job."""
        workers = open_workers(run_sample_job, LONG_SECONDS)
        assert workers.count >= 1
        submitted = submit_all(workers, [make_sample_job("finish", number, folder) for number in range(5)])
        for job, future in submitted:
            finished = future.result(HANG_SECONDS)
            assert finished.record.trial_id == job.trial_id
            assert read_finished_trial(job.journal) == finished
        workers.close()
        assert {path.name for path in folder.iterdir()} == {job.journal.name for job, _ in submitted}, "files were left behind"

    def test_an_error_of_a_job_is_the_error_of_its_future(
        self, open_workers: Callable[[TrialRunner, float], Workers], folder: Path
    ) -> None:
        """A job that raises an error fails alone, with that error and with the log of its session."""
        workers = open_workers(run_sample_job, LONG_SECONDS)
        outcomes = self._run_in_turn(workers, folder, ["raise", "finish"])
        assert isinstance(outcomes[0], ValueError)
        assert str(outcomes[0]) == "sample job 0 was refused"
        assert outcomes[1] is None

    def test_a_death_costs_one_job(self, open_workers: Callable[[TrialRunner, float], Workers], folder: Path) -> None:
        """The future of a job that kills its process fails with `WorkerDied`, and the next job runs.

        The journal has the log of the failed job.
        """
        self.require("survive")
        workers = open_workers(run_sample_job, LONG_SECONDS)
        outcomes = self._run_in_turn(workers, folder, ["die", "finish"])
        assert isinstance(outcomes[0], WorkerDied)
        assert outcomes[0].has_begun
        assert outcomes[1] is None

    def test_a_recorded_result_outlives_its_worker(
        self, open_workers: Callable[[TrialRunner, float], Workers], folder: Path
    ) -> None:
        """A result that a worker process has recorded stays in the journal if the process then dies."""
        self.require("survive")
        workers = open_workers(run_sample_job, LONG_SECONDS)
        job = make_sample_job("die after recording", 0, folder)
        error = workers.submit(job).exception(HANG_SECONDS)
        assert error is None or isinstance(error, WorkerDied)
        assert read_finished_trial(job.journal) is not None
        workers.close()

    def test_a_job_that_takes_too_long_is_ended(
        self, open_workers: Callable[[TrialRunner, float], Workers], folder: Path
    ) -> None:
        """The future of a job that exceeds the time limit fails with `TimeoutError`, and the next job runs."""
        workers = open_workers(run_sample_job, 4.0)  # enough for a process to begin the job on a busy machine
        outcomes = self._run_in_turn(workers, folder, ["never end", "raise"])
        assert isinstance(outcomes[0], TimeoutError)
        assert isinstance(outcomes[1], ValueError)

    def test_closing_waits_for_submitted_jobs(self, open_workers: Callable[[TrialRunner, float], Workers], folder: Path) -> None:
        """When `close` returns, all submitted jobs have finished."""
        workers = open_workers(run_sample_job, LONG_SECONDS)
        jobs = [make_sample_job("finish", number, folder) for number in range(workers.count)]
        futures = [workers.submit(job) for job in jobs]
        workers.close()
        assert [future.result(HANG_SECONDS).record.trial_id for future in futures] == [job.trial_id for job in jobs]

    def test_stopping_ends_running_jobs(self, open_workers: Callable[[TrialRunner, float], Workers], folder: Path) -> None:
        """`stop` returns although a job would never end, and no such job is recorded as finished."""
        workers = open_workers(run_sample_job, LONG_SECONDS)
        job = make_sample_job("never end", 0, folder)
        future = workers.submit(job)
        wait_until(lambda: future.running() or job.journal.exists())
        workers.stop()
        assert read_finished_trial(job.journal) is None

    def _run_in_turn(self, workers: Workers, folder: Path, behaviors: list[Behavior]) -> list[BaseException | None]:
        jobs = [make_sample_job(behavior, number, folder) for number, behavior in enumerate(behaviors)]
        errors = [workers.submit(job).exception(HANG_SECONDS) for job in jobs]
        workers.close()
        for job in jobs:
            with Journal.open(job.journal, read_only=True) as journal:
                assert journal.list_session_ids() == (job.trial_id,)
        return errors


def submit_all(workers: Workers, jobs: list[Job]) -> "list[tuple[Job, Future[FinishedTrial]]]":
    """Submit jobs to workers, never more at a time than `workers.count`, and return each job with its future."""
    futures: list[Future[FinishedTrial]] = []
    for job in jobs:
        wait_until(lambda: sum(not future.done() for future in futures) < workers.count)
        futures.append(workers.submit(job))
    return list(zip(jobs, futures, strict=True))


def wait_until(is_reached: Callable[[], bool]) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: The condition was not reached within `HANG_SECONDS`.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while not is_reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the workers did not do what the test waits for within {HANG_SECONDS:g} seconds")
        time.sleep(0.01)
